"""Measures of similarity between vectors, and exact nearest neighbours by them."""
