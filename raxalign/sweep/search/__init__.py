"""Searches: Optuna, imported here alone, suggests; the sweep runs, the ledger is the truth."""
