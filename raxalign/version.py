"""The version of raxalign, which artifacts and results record."""

VERSION = "0.2.0"
