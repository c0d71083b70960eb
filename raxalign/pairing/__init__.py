"""Word pairs: from bitext through a word aligner, symmetrisation and filters to an Arrow
dataset.
"""
