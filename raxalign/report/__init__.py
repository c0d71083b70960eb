"""Results in words, tables and figures: the answer, comparisons and the report."""
