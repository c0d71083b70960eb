"""Word aligners: one file each. `base` is the contract."""
