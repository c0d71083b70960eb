"""Metrics that a grid adds to its tasks, computed from stored predictions: one metric per file."""
