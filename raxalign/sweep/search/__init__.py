"""Searches: Optuna suggests, the sweep runs, the ledger is the truth. The only folder that imports
Optuna.
"""
