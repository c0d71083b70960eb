"""Classification of sentence pairs: rows, data, model, training, evaluation."""
