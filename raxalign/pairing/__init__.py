"""Word pairs: from bitext by a word aligner, symmetrisation and filters to an Arrow dataset."""
