"""Sentence pairs whose word links were made by hand, and samples of the links that were found in
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from raxalign.corpora.readers.lines import read_lines
from raxalign.corpora.text.words import divide_at_blanks
from raxalign.errors import DataError
from raxalign.pairing.gold import GoldFormat, GoldLinks, read_gold
from raxalign.sample import Ratios, Sample, of_influence, of_ratio

_DIVIDER = "|||"


@dataclass(frozen=True)
class GoldPairs:
    """The annotated sentence pairs and their links."""

    src: Sequence[Sequence[str]]
    tgt: Sequence[Sequence[str]]
    links: GoldLinks

    @classmethod
    def read(
        cls, text: Path, links: Path, written: GoldFormat, first: Literal[0, 1] = 0, *, swap: bool
    ) -> GoldPairs:
        """Read a text and its links. Raises `DataError` where they do not fit together.

        Args:
            text: the file of the words.
            links: the file of the links.
            written: the format of the links.
            first: the number of the first word.
            swap: whether the pivot's side comes first in text and links.
        """
        gold = read_gold(links, written, first=first, swap=swap)
        sides = list(_sides(text))
        needed = int(gold.rows[-1]) + 1
        if len(sides) < needed or (written == "pharaoh" and len(sides) != needed):
            raise DataError(
                text,
                f"has {len(sides)} lines, but {links} is about {needed} sentence pairs",
                remedy="Write one line per sentence pair",
            )
        chosen = [sides[row][::-1] if swap else sides[row] for row in gold.rows.tolist()]
        src, tgt = [pair[0] for pair in chosen], [pair[1] for pair in chosen]
        gold.require_inside(*(np.array([len(words) for words in side]) for side in (src, tgt)))
        return cls(src, tgt, gold)


def _sides(path: Path) -> Iterator[list[tuple[str, ...]]]:
    """Yield the words of both sides of every line, divided as their links count them."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(read_lines(file, path), 1):
                sides = [divide_at_blanks(side) for side in line.split(_DIVIDER)]
                if len(sides) != 2 or not all(sides):
                    problem = f"a line must be words, {_DIVIDER} and words, both divided by blanks"
                    raise DataError(path, problem, line=number)
                yield sides
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})") from error


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
