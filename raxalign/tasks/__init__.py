"""Evaluations: one file each. `base` is the contract."""
