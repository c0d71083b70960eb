"""What commands print on one grid, storage, encoder or key: look at it, compare it, clean it up."""
