"""Ways of aligning representations: one file each. `base` is the contract, `none` the smallest
example.
"""
