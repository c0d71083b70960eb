"""A tag per word: rows, data, models, metrics, training, evaluation."""
