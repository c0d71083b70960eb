"""Encoders as they are read: vectors, pieces, pooling, transforms, loading."""
