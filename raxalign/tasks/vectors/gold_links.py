"""Sentence pairs whose word links were made by hand, and the table of links that were found in
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from raxalign.corpora.text.words import divide_at_blanks
from raxalign.errors import DataError
from raxalign.measured import share
from raxalign.pairing.aligners.base import Links
from raxalign.pairing.error_rate import LinkCounts
from raxalign.pairing.gold import GoldFormat, GoldLinks, read_gold
from raxalign.sample import Ratios, Sample, of_influence, of_ratio
from raxalign.tasks.vectors.linked_words import Ints

Sentence = Sequence[str]

_DIVIDER = "|||"


@dataclass(frozen=True)
class GoldReading:
    """How a file of links is read: its format, the number of the first word, and whether the
    pivot's side comes first in text and links.
    """

    format: GoldFormat
    first: Literal[0, 1]
    swap: bool


@dataclass(frozen=True)
class GoldPairs:
    """The annotated sentence pairs and their links."""

    src: Sequence[Sentence]
    tgt: Sequence[Sentence]
    links: GoldLinks

    @classmethod
    def read(cls, text: Path, links: Path, reading: GoldReading) -> GoldPairs:
        """Read a text and its links. Raises `DataError` where they do not fit together."""
        gold = read_gold(links, reading.format, first=reading.first, swap=reading.swap)
        sides = list(_sides(text))
        needed = int(gold.rows[-1]) + 1
        if len(sides) < needed or (reading.format == "pharaoh" and len(sides) != needed):
            raise DataError(
                text,
                f"has {len(sides)} lines, but {links} is about {needed} sentence pairs",
                remedy="Write one line per sentence pair",
            )
        chosen = [sides[row][::-1] if reading.swap else sides[row] for row in gold.rows.tolist()]
        src, tgt = [pair[0] for pair in chosen], [pair[1] for pair in chosen]
        gold.require_inside(
            *(np.array([len(sentence) for sentence in side]) for side in (src, tgt))
        )
        return cls(src, tgt, gold)

    def facts(self) -> dict[str, object]:
        """Return how many different sure and possible links there are."""
        named = {"sure": self.links.sure, "possible": self.links.possible}
        return {name: len(np.unique(part.codes())) for name, part in named.items()}


def _sides(path: Path) -> Iterator[tuple[Sentence, Sentence]]:
    """Yield the words of both sides of every line, divided as their links count them."""
    from raxalign.corpora.readers.lines import read_lines

    try:
        with path.open("rb") as file:
            for number, line in enumerate(read_lines(file, path), 1):
                sides = [divide_at_blanks(side) for side in line.split(_DIVIDER)]
                if len(sides) != 2 or not all(sides):
                    raise DataError(
                        path,
                        f"a line must be words, {_DIVIDER} and words, both divided by blanks",
                        line=number,
                    )
                yield sides[0], sides[1]
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})") from error


MEASURED = (
    share("f1", "Harmonic mean of precision and recall."),
    share("precision", "Share of the links found that are possible links, |A & P| / |A|."),
    share("recall", "Share of the sure links that are found, |A & S| / |S|."),
    share(
        "alignment_error_rate",
        "Error rate of the links found, 1 - (|A & S| + |A & P|) / (|A| + |S|).",
        "lower",
    ),
)
"""What word alignment reports."""
_RATIOS: Ratios = {
    "precision": (("n_right",), ("n_predicted",)),
    "recall": (("n_right_sure",), ("n_gold",)),
    "alignment_error_rate": (("n_wrong",), ("n_gold", "n_predicted")),
}
"""Metrics as ratios of sums of columns of the predictions."""


def link_sample(rows: pa.Table, metric: str) -> Sample | None:
    """Return the sample of a metric.

    `f1` is not a ratio of sums where gold has possible links: with precision P and recall R, whose
    influences are known, its derivative is 2 (R² dP + P² dR) / (P + R)².
    """
    if metric != "f1":
        # of no links, precision and recall are 1, and the error rate is 0
        nothing = float(metric in ("precision", "recall"))
        return of_ratio(rows, metric, _RATIOS, of_nothing=nothing)
    precision, recall = (link_sample(rows, name) for name in ("precision", "recall"))
    if precision is None or recall is None:
        return None
    p, r = precision.value, recall.value
    total = p + r or 1.0
    slopes = 2 * (r**2 * precision.influence() + p**2 * recall.influence()) / total**2
    return of_influence(precision.units, 2 * p * r / total, slopes)


def link_metrics(counts: LinkCounts) -> dict[str, float]:
    """Return values by metric over all sentence pairs."""
    scores = counts.scores()
    return {
        "f1": scores.f1,
        "precision": scores.precision,
        "recall": scores.recall,
        "alignment_error_rate": scores.error_rate,
    }


_COUNTS = ("id", "n_right", "n_right_sure", "n_gold", "n_predicted", "n_wrong")


def predictions_schema() -> pa.Schema:
    """Return the columns of the predictions."""
    return pa.schema(
        [
            ("lang", pa.string()),
            ("split", pa.string()),
            *((name, pa.int64()) for name in _COUNTS),
            ("links", pa.string()),
        ]
    )


def link_table(label: str, split: str, rows: Ints, links: Links, counts: LinkCounts) -> pa.Table:
    """Make one row per sentence pair.

    Args:
        label: the language pair.
        split: ``dev`` or ``test``.
        rows: the line of each pair in the text (pairs,).
        links: the links that were found, written as ``i-j``.
        counts: how many of them are right; `n_right` counts possible links.
    """
    shown = [" ".join(f"{i}-{j}" for i, j in sorted(links.pair(k))) for k in range(len(links))]
    numbers = (rows, counts.right, counts.right_sure, counts.sure, counts.found, counts.wrong)
    fixed = {"lang": [label] * len(rows), "split": [split] * len(rows)}
    return pa.table(
        {**fixed, **dict(zip(_COUNTS, numbers, strict=True)), "links": shown},
        schema=predictions_schema(),
    )
