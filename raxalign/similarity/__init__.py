"""Measures of similarity between vectors, and exact nearest neighbours by them."""

from raxalign.similarity.measures import (
    MEASURES,
    TEMPERATURE,
    Measure,
    Terms,
    hubness,
    idle_options,
    mutual_nearest,
    scaled,
    scored,
)
from raxalign.similarity.neighbors import nearest_neighbors
from raxalign.similarity.scaled_vectors import Tiling

__all__ = [
    "MEASURES",
    "TEMPERATURE",
    "Measure",
    "Terms",
    "Tiling",
    "hubness",
    "idle_options",
    "mutual_nearest",
    "nearest_neighbors",
    "scaled",
    "scored",
]
