"""Ways of aligning: one file each; `base` is the contract, `none` the smallest example."""
