"""What training reads, as flat rows."""
