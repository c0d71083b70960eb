"""Sections of the report: one file each. `base` is the contract."""
