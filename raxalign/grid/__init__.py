"""A grid file becomes a plan: its sections, its lock, and all trials, stages and evaluations as a
pure value.
"""
