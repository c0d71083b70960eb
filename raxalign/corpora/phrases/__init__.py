"""The rows of the built-in phrasebook, and what reads them."""
