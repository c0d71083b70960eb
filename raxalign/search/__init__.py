"""Searches: the journal of a study, in which Optuna suggests and prunes, the trials that a sweep is
given, the watch of a training that may end early, and what all of it is in words. What a study is,
and the record of what it has tried, is in `grid.study`. The sweep runs; the ledger is the truth.
"""
