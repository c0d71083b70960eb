"""What papers say, asked again of a published encoder: grids with claims, whose locks say whether
each was written down before its results, and the page that is made of these (README.md).
"""
