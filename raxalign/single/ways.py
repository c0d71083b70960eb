"""The ways of loading an export, as its card names them."""

RAXALIGN, SENTENCES, WEIGHTS = "raxalign", "sentence-transformers", "AutoModel"
