"""What papers say, asked again of a published encoder: grids with claims that were written down
before they ran, and the page that is made from their results (README.md).
"""
