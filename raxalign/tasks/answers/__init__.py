"""Answers as spans of a context: rows, windows, model, metrics, training, evaluation."""
