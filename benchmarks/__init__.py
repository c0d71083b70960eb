"""Measurements against the budgets of the design; each prints ratios within one run, since absolute
times mean nothing on shared machines.
"""
