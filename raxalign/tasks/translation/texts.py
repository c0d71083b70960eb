"""The first translations as text, for people to read: what was translated, the output, and the
reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.languages import language
from raxalign.tasks.translation.counts import Ints
from raxalign.tasks.translation.sides import Side, Way

COLUMNS = ("source_text", "output_text", "reference_text")
FIELDS = tuple(pa.field(name, pa.string()) for name in COLUMNS)
"""The columns of the predictions that hold text; sentences that are not kept have none."""


def kept_texts(
    encoder: TransformerEncoder, way: Way, output: Sequence[Ints], most: int
) -> Mapping[str, list[str | None]]:
    """Return the texts of the first sentences by column, and None for all others.

    Args:
        encoder: the encoder whose tokenizer has the pieces.
        way: the side that is translated, and the one that is its reference.
        output: the translated pieces of each sentence.
        most: the number of sentences whose texts are kept.
    """
    rest: list[str | None] = [None] * max(len(output) - most, 0)
    made = [encoder.tokenizer.decode(ids.tolist()) for ids in output[:most]]
    return {
        "source_text": [*_texts(way.source, most), *rest],
        "output_text": [*made, *rest],
        "reference_text": [*_texts(way.target, most), *rest],
    }


def _texts(side: Side, most: int) -> list[str]:
    """Join the words of the first sentences, by nothing in scripts without spaces."""
    space = " " if language(side.lang).spaced else ""
    return [space.join(words) for words in side.words[:most]]
