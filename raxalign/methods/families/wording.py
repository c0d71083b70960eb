"""Descriptions of options that several methods have, for the fields of their `Params`."""

from __future__ import annotations

PROFILE = (
    "Set of values for the options that are not given; the method's description says what each set"
    " stands for."
)

LAYERS_MAPPED = (
    "Layers whose vectors are mapped: `last`, one number or a range such as `9-12` (0: the"
    " embeddings), or fractions of the depth such as `0.5` and `0.5-1.0`."
)
LAYER_TRAINED = (
    "Layer whose vectors are trained: `last`, one number (0: the embeddings) or a fraction of the"
    " depth such as `0.5`."
)
WORD_POOLING = (
    "How the vectors of a word's subword tokens become one: the `first`, the `last`, their `mean`"
    " or their `sum`."
)
SENTENCE_POOLING = (
    "What the vector of a sentence is: that of [CLS] (`cls`), of the `last` subword token that is"
    " not special, or the `mean` over all its subword tokens, special ones included, in which with"
    " `weighted` token i weighs i + 1."
)

DIRECTION = (
    "Which vectors move: the other language's towards the pivot (`to-pivot`), or the pivot's"
    " towards the other language (`to-other`)."
)
SWAP = (
    "Whether the pivot's word comes first in the dictionary, as MUSE publishes dictionaries from"
    " English."
)

BATCH_OF_PAIRS = "Sentence pairs per training step, counted over all languages together."

SENTENCE_LENGTH = (
    "Largest number of subword tokens per sentence, special ones included; the end of a longer one"
    " is cut off."
)
PAIR_LENGTH = (
    "Largest number of subword tokens per sentence pair, special ones included; of a longer pair"
    " the longer sentence is cut first."
)
MIN_PIECES = (
    "Smallest number of subword tokens, without special ones, of a sentence that is trained on;"
    " shorter ones are left out."
)
MIN_PIECES_OF_PAIR = (
    "Smallest number of subword tokens on each side of a sentence pair, without special ones;"
    " shorter pairs are left out."
)
MAX_PIECES_OF_PAIR = (
    "Largest number of subword tokens on both sides of a sentence pair together, without special"
    " ones; longer pairs are left out (0: no limit)."
)
