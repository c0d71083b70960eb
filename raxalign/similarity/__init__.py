"""Measures of similarity between vectors, and exact nearest neighbours by them."""

from raxalign.similarity.neighbors import nearest_neighbors

__all__ = ["nearest_neighbors"]
