"""What methods of a family share."""
