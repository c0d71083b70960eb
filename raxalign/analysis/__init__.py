"""Statistics of results: cells, intervals, tests, power and correlation."""
