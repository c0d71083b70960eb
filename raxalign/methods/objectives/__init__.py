"""The losses of trained methods, one file per method or idea."""
