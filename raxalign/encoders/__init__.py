"""Encoders: one file a kind. `base` is the contract, `_aligned` what methods return."""
