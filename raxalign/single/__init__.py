"""Single runs without a grid: word pairs, one alignment, one evaluation, one export. In this
process, without Ray.
"""
