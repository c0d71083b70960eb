"""What tasks with a training of their own share."""
