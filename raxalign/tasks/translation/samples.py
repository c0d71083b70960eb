"""Samples of token translation: of a named shift, or of the shift that the dev side chooses in the
same direction.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from raxalign.sample import Sample

if TYPE_CHECKING:
    import pyarrow as pa

_SHIFT = re.compile(
    r"layer(?P<layer>\d+)_alpha(?P<alpha>-?[0-9.]+(?:e[-+]?[0-9]+)?)_(?P<stem>[A-Za-z].*)"
)


def shift_sample(table: pa.Table, lang: str, metric: str, split: str) -> Sample | None:
    """Return convert rate or BLEU-1 of a direction over its sentences, or None where the table has
    none.

    Args:
        table: the predictions of all directions and splits, whose dev rows choose the shift.
        lang: the direction.
        metric: the metric, with or without a shift's layer and weight.
        split: the split.
    """
    import pyarrow.compute as pc

    asked = shift_point(metric)
    stem = metric if asked is None else asked[2]
    if stem not in ("convert_rate", "bleu1"):
        return None
    table = table.filter(pc.equal(table["lang"], lang))
    shift = asked[:2] if asked is not None else _chosen(table)
    if shift is None:
        return None
    here = pc.and_(pc.equal(table["layer"], shift[0]), pc.equal(table["alpha"], shift[1]))
    part = table.filter(pc.and_(here, pc.equal(table["split"], split)))
    return _sample(part, stem) if len(part) else None


def _sample(part: pa.Table, stem: str) -> Sample:
    if "premise" in part.column_names:
        return _sample_by_premise(part, stem)
    units, order = np.unique(part["id"].to_numpy(), return_index=True)
    tokens, reference, matches, converted, shared = (
        part[name].to_numpy()[order].astype(np.float64)[None]
        for name in ("tokens", "reference", "matches", "converted", "shared")
    )
    return (
        Sample(units, matches, tokens, reference)
        if stem == "bleu1"
        else Sample(units, converted, tokens - shared)
    )


def _sample_by_premise(part: pa.Table, stem: str) -> Sample:
    """Sum over the sentences of each premise, which are not independent."""
    units, place = np.unique(part["premise"].to_numpy(), return_inverse=True)
    tokens, reference, matches, converted, shared = (
        np.bincount(place, part[name].to_numpy(), len(units)).astype(np.float64)[None]
        for name in ("tokens", "reference", "matches", "converted", "shared")
    )
    return (
        Sample(units, matches, tokens, reference)
        if stem == "bleu1"
        else Sample(units, converted, tokens - shared)
    )


def _chosen(table: pa.Table) -> tuple[int, float] | None:
    """Return the shift (layer, weight) with the best BLEU-1 on dev, the first of equals, as the
    task chooses it; without dev rows the only one.
    """
    import pyarrow.compute as pc

    shifts = list(
        dict.fromkeys(zip(table["layer"].to_pylist(), table["alpha"].to_pylist(), strict=True))
    )
    dev = table.filter(pc.equal(table["split"], "dev"))
    if not len(dev):
        return shifts[0] if len(shifts) == 1 else None
    values = [
        _sample(
            dev.filter(pc.and_(pc.equal(dev["layer"], layer), pc.equal(dev["alpha"], alpha))),
            "bleu1",
        ).value
        for layer, alpha in shifts
    ]
    return shifts[int(np.argmax(values))]


def shift_point(metric: str) -> tuple[int, float, str] | None:
    """Return (layer, weight, metric) of a score of one shift, or None for another score.

    >>> shift_point("layer10_alpha2.5_convert_rate"), shift_point("accuracy")
    ((10, 2.5, 'convert_rate'), None)
    """
    found = _SHIFT.fullmatch(metric)
    return (int(found["layer"]), float(found["alpha"]), found["stem"]) if found else None
