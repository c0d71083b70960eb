"""What to run (`grid`), where and how (`run`), and shapes of options (`params`, `sources`)."""
