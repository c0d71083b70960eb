"""Searches: what a study is and has tried (`study`, which plans and reports read), and Optuna,
which suggests, prunes and keeps it. The sweep runs; the ledger is the truth.
"""
