"""Analyses in addition to the tasks: part of speech, frequency, correlation, projection."""
