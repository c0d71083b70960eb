"""How translated tokens are counted against a reference, and samples of a shift."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from raxalign import measured
from raxalign.arrays import Ints
from raxalign.lazy import pa, pc
from raxalign.sample import Sample

COUNTS = ("tokens", "reference", "matches", "converted", "shared")
_SHIFT = re.compile(
    r"layer(?P<layer>\d+)_alpha(?P<alpha>-?[0-9.]+(?:e[-+]?[0-9]+)?)_(?P<stem>[A-Za-z].*)"
)


@dataclass(frozen=True)
class TokenCounts:
    """What an output is scored by, for each sentence (S,): its `tokens`, those of the `reference`,
    `matches` (each piece at most as often as the reference has it), how many tokens only the target
    language has (`converted`), and how many both languages have (`shared`).
    """

    tokens: Ints
    reference: Ints
    matches: Ints
    converted: Ints
    shared: Ints

    @staticmethod
    def schema() -> pa.Schema:
        """Return the columns of all predictions."""
        whole = dict.fromkeys(("id", "unit", *COUNTS), pa.int64())
        text = dict.fromkeys(("lang", "split"), pa.string())
        return pa.schema({**text, "layer": pa.int64(), "alpha": pa.float64(), **whole})

    @classmethod
    def of(
        cls,
        output: Sequence[Ints],
        references: Sequence[Ints],
        source: AbstractSet[int],
        target: AbstractSet[int],
    ) -> TokenCounts:
        """Count an output: the translated pieces of each sentence, against those of the references.
        `source` and `target` are the pieces that the two languages have.
        """
        both, only = source & target, target - source
        rows = []
        for made, wanted in zip(output, references, strict=True):
            pieces = made.tolist()
            matches = sum((Counter(pieces) & Counter(wanted.tolist())).values())
            converted, shared = (sum(piece in some for piece in pieces) for some in (only, both))
            rows.append((len(pieces), len(wanted), matches, converted, shared))
        return cls(*np.array(rows, dtype=np.int64).reshape(-1, len(COUNTS)).T)

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


def _of_shift(rows: pa.Table, metric: str) -> Sample | None:
    """Return convert rate or BLEU-1 of a direction over its sentences, or None where there are
    none. The metric may name a shift's layer and weight; else the dev rows choose the shift. With
    rows of both splits those of test are asked for.
    """
    asked = shift_point(metric)
    stem = metric if asked is None else asked[2]
    shift = asked[:2] if asked is not None else _chosen(rows)
    if shift is None:
        return None
    part = _rows(rows, layer=shift[0], alpha=shift[1])
    tested = _rows(part, split="test")
    part = tested if len(_rows(rows, split="test")) else part
    return _sample(part, stem) if len(part) else None


def _rows(table: pa.Table, **values: object) -> pa.Table:
    """The rows whose columns have these values."""
    for name, value in values.items():
        table = table.filter(pc.equal(table[name], value))
    return table


def _sample(part: pa.Table, stem: str) -> Sample:
    """The sums over each sentence, or over those of each premise, which are not independent."""
    unit = "premise" if "premise" in part.column_names else "id"
    units, place = np.unique(part[unit].to_numpy(), return_inverse=True)
    tokens, reference, matches, converted, shared = (
        np.bincount(place, part[name].to_numpy(), len(units)).astype(np.float64)[None]
        for name in COUNTS
    )
    if stem == "bleu1":
        return Sample(units, matches, tokens, reference)
    return Sample(units, converted, tokens - shared)


def _chosen(table: pa.Table) -> tuple[int, float] | None:
    """Return the shift (layer, weight) with the best BLEU-1 on dev, the first of equals, as the
    task chooses it; without dev rows the only one.
    """
    columns = (table[name].to_pylist() for name in ("layer", "alpha"))
    shifts, dev = list(dict.fromkeys(zip(*columns, strict=True))), _rows(table, split="dev")
    if not len(dev):
        return shifts[0] if len(shifts) == 1 else None
    found = [_sample(_rows(dev, layer=shift[0], alpha=shift[1]), "bleu1") for shift in shifts]
    return shifts[int(np.argmax([sample.value for sample in found]))]


def shift_point(metric: str) -> tuple[int, float, str] | None:
    """Return (layer, weight, metric) of a score of one shift, or None for another score.

    >>> shift_point("layer10_alpha2.5_convert_rate"), shift_point("accuracy")
    ((10, 2.5, 'convert_rate'), None)
    """
    found = _SHIFT.fullmatch(metric)
    return (int(found["layer"]), float(found["alpha"]), found["stem"]) if found else None


_REPORTED = (
    measured.share(
        "bleu1",
        "Clipped unigram precision on subword tokens with the brevity penalty, of the shift that"
        " has the best value on dev in the same direction.",
        sample=_of_shift,
    ),
    measured.share(
        "convert_rate",
        "Of the subword tokens that not both languages have, the share that the target language"
        " has; of the same shift.",
        sample=_of_shift,
    ),
    measured.share(
        "bleu1_sacrebleu",
        "The same precision by sacrebleu, on words that are put together from subword tokens; of"
        " the same shift.",
    ),
    measured.share(
        "layer{l}_alpha{a}_{convert_rate|bleu1}",
        "Convert rate or precision of one shift, by its layer and weight.",
        role="part",
        sample=_of_shift,
    ),
    measured.count(
        "vocabulary_count",
        "Of a language, the distinct subword tokens in its sentences without special ones; not for"
        " `data: corpus`.",
    ),
    measured.count(
        "shared_count", "Of these subword tokens, those that the pivot's sentences have too."
    ),
)
MEASURED = tuple(replace(entry, on_dev=True) for entry in _REPORTED)
"""What token translation reports."""
