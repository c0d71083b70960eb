"""What leaves the report for a paper: text for LaTeX, short tables, and references."""
