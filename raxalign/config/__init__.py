"""What to run: a grid file, its sections, and what it is kept beside (lock, trust)."""
