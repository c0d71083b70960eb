"""Grids that are killed again and again: ``python -m tests.soak --kills 200``.

Every round is one grid on a storage of its own. It is killed at random moments (its driver, a
worker, the raylet, the whole machine) and run again until it ends by itself. What it then holds is
compared with an undisturbed run of the same grid.
"""
