"""The grid's results as cells: how each is named, chosen, judged and shown as a number."""
