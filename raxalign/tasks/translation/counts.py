"""How translated tokens are counted against a reference: convert rate, BLEU of unigrams, and the
table of counts.

How many pieces each language has in the sentences that are translated (Liu et al. 2020,
Table 3).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raxalign.measured import Measured, share
from raxalign.tasks.base import Score

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.tasks.translation.sides import Way


@dataclass(frozen=True)
class Vocabularies:
    """The pieces of every language by (language, split), special ones left out.

    Attributes:
        encoder: the encoder whose tokenizer has the pieces.
        found: the pieces; those of the pivot are of its sentences in all language pairs.
    """

    encoder: TransformerEncoder
    found: dict[tuple[str, str], frozenset[int]] = field(default_factory=dict)

    def add(self, ways: Mapping[str, Way]) -> None:
        """Add the sides of a direction, by split."""
        special = frozenset(self.encoder.tokenizer.all_special_ids)
        for split, way in ways.items():
            for side in (way.source, way.target):
                known = self.found.get((side.lang, split), frozenset())
                self.found[side.lang, split] = known | (side.vocabulary - special)

    def scores(self, pivot: str) -> Iterator[Score]:
        """Yield the number of pieces of each language, and of those that the pivot has too."""
        for (lang, split), pieces in self.found.items():
            yield Score(lang, "vocabulary_count", split, float(len(pieces)))
            shared = pieces & self.found[pivot, split]
            yield Score(lang, "shared_count", split, float(len(shared)))


Ints = npt.NDArray[np.int64]

COUNTS = ("tokens", "reference", "matches", "converted", "shared")

MEASURED = (
    share(
        "bleu1",
        "Clipped unigram precision on pieces with the brevity penalty, of the shift that has the"
        " best value on dev in the same direction.",
    ),
    share(
        "convert_rate",
        "Of the pieces that not both languages have, the share that the target language has; of"
        " the same shift.",
    ),
    share(
        "bleu1_sacrebleu",
        "The same precision by sacrebleu, on words that are put together from pieces; of the same"
        " shift.",
    ),
    share(
        "layer{l}_alpha{a}_{convert_rate|bleu1}",
        "Convert rate or precision of one shift, by its layer and weight.",
        role="part",
    ),
    Measured(
        "vocabulary_count",
        "Of a language, the distinct pieces in its sentences without special ones; not for `data:"
        " corpus`.",
        "neither",
        "count",
        "count",
    ),
    Measured(
        "shared_count",
        "Of these pieces, those that the pivot's sentences have too.",
        "neither",
        "count",
        "count",
    ),
)
"""What token translation reports."""

SCHEMA = pa.schema(
    [
        ("lang", pa.string()),
        ("split", pa.string()),
        ("layer", pa.int64()),
        ("alpha", pa.float64()),
        *((name, pa.int64()) for name in ("id", "unit", *COUNTS)),
    ]
)
"""The columns of all predictions."""

PREMISE = pa.field("premise", pa.int64())
"""The column of XNLI's sentences by which they are not independent."""


@dataclass(frozen=True)
class Counts:
    """What an output is scored by, for each sentence (S,): its `tokens`, those of the `reference`,
    `matches` (each piece at most as often as the reference has it), how many tokens only the target
    language has (`converted`), and how many both languages have (`shared`).
    """

    tokens: Ints
    reference: Ints
    matches: Ints
    converted: Ints
    shared: Ints

    def convert_rate(self) -> float | None:
        """Return the share of tokens of the target language, those of both left out; None where all
        tokens are in both (Liu et al. 2020, §5.2).
        """
        asked = int(self.tokens.sum() - self.shared.sum())
        return int(self.converted.sum()) / asked if asked else None

    def bleu1(self) -> float:
        """Return the clipped unigram precision with the brevity penalty, from 0 to 1, over the
        whole corpus (Papineni et al. 2002).
        """
        made, wanted = int(self.tokens.sum()), int(self.reference.sum())
        if not made:
            return 0.0
        penalty = 1.0 if made >= wanted else math.exp(1 - wanted / made)
        return penalty * int(self.matches.sum()) / made

    def scores(self) -> Iterator[tuple[str, float]]:
        """Yield the metrics by name."""
        rate = self.convert_rate()
        if rate is not None:
            yield "convert_rate", rate
        yield "bleu1", self.bleu1()

    def columns(self) -> Iterator[tuple[str, Ints]]:
        """Yield the counts by name."""
        for name in COUNTS:
            yield name, getattr(self, name)


def count(
    output: Sequence[Ints],
    references: Sequence[Ints],
    source: AbstractSet[int],
    target: AbstractSet[int],
) -> Counts:
    """Count an output.

    Args:
        output: the translated pieces of each sentence.
        references: the pieces of each sentence's translation.
        source: the pieces that the source language has.
        target: the pieces that the target language has.
    """
    both, only = source & target, target - source
    rows = []
    for made, wanted in zip(output, references, strict=True):
        pieces = made.tolist()
        matches = sum((Counter(pieces) & Counter(wanted.tolist())).values())
        rows.append(
            (
                len(pieces),
                len(wanted),
                matches,
                sum(piece in only for piece in pieces),
                sum(piece in both for piece in pieces),
            )
        )
    return Counts(*np.array(rows, dtype=np.int64).reshape(-1, len(COUNTS)).T)


def sacrebleu1(
    encoder: TransformerEncoder, output: Sequence[Ints], references: Sequence[Ints], lang: str
) -> float:
    """Return BLEU of unigrams by sacrebleu on words in place of pieces, from 0 to 1.

    Both sides are put together from pieces and tokenised for the language: 13a, or characters for
    scripts without spaces.

    Args:
        encoder: the encoder whose tokenizer has the pieces.
        output: the translated pieces of each sentence.
        references: the pieces of each sentence's translation.
        lang: the target language.
    """
    from sacrebleu.metrics.bleu import BLEU

    from raxalign.languages import language

    known = language(lang)
    tokenize = "13a" if known.spaced else "zh" if known.base == "zh" else "char"
    texts, wanted = (
        [encoder.tokenizer.decode(ids.tolist()) for ids in side] for side in (output, references)
    )
    score = (
        BLEU(max_ngram_order=1, tokenize=tokenize, smooth_method="none")
        .corpus_score(texts, [wanted])
        .score
    )
    return float(score) / 100
