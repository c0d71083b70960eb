"""Encoders: one file per kind. `base` is the contract; `models.aligned` is what methods return."""
