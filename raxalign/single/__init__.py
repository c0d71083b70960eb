"""Single runs without a grid: word pairs, an alignment, an evaluation, an export; without Ray."""
