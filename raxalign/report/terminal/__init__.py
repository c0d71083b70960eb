"""What commands print of results: tables fitted to a width, one key, and two sides compared."""
