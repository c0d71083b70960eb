"""Classification of sentences and sentence pairs: scheme, examples, model, training, evaluation."""
