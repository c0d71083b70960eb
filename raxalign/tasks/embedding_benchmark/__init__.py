"""What `mteb` has behind it: mteb's tasks by name, an encoder as mteb asks for it, and scores."""
