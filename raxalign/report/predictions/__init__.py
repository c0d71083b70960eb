"""Stored predictions: reading them, and what they are grouped by."""
