"""Sentence-parallel text: one file a source. `base` is the contract."""
