"""Bringing a grid's runs to MLflow; the only folder that imports it."""
