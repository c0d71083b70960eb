"""Analyses beside the tasks: part of speech, frequency, correlation, projection."""
