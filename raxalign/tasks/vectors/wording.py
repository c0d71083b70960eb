"""What the options are that several tasks on vectors have: one sentence each, for the fields of
their `Params`.
"""

from __future__ import annotations

from raxalign.similarity import NEIGHBORS_ABOUT, measure_about

LAYERS = (
    "Layers whose vectors are read and added up: `last`, one number or a range such as `9-12` (0:"
    " the embeddings), or fractions of the depth such as `0.5` and `0.5-1.0`."
)
WORD_POOLING = (
    "How the vectors of a word's pieces become one: the `first`, the `last`, their `mean` or their"
    " `sum`."
)
WORD_MEASURE = measure_about("Measure by which the nearest words are found")
SENTENCE_MEASURE = measure_about("Measure by which the nearest sentences are found")
NEIGHBORS = NEIGHBORS_ABOUT
