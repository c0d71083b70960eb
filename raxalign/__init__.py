"""raxalign: grids of cross-lingual alignment experiments on multilingual encoders."""

__version__ = "0.1.0"
