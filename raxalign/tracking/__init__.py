"""Bringing the runs of a grid to MLflow; the only folder that imports it."""
