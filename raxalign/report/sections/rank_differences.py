"""Word retrieval by the difference of frequency ranks in the training text, as far as the storage
has it (Cao et al. 2020, Figure 3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, final

from raxalign.analysis.retrieval_bins import RANK_EDGES, Bin, by_rank_difference, ranks_of
from raxalign.report.cells.numbers import FEW
from raxalign.report.document import Part, Share, Table
from raxalign.report.figures.curves import axis_of
from raxalign.report.figures.drawing import drawn
from raxalign.report.figures.panels import Curve, Panel, Sketch
from raxalign.report.predictions.read import (
    CellPredictions,
    bin_line,
    languages,
    mean_bins,
    shown_cells,
)
from raxalign.report.sections.base import Section

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.store.storage import Storage


MOST_SENTENCES = 200_000  # of the training text, from its beginning
_TASK = "retrieval"
_COLUMNS = {"src", "tgt", "direction", "correct", "identical", "unseen"}
_TITLE = "Retrieval by difference of frequency ranks"
Ranks = Mapping[str, tuple[Mapping[str, int], Mapping[str, int]]]
"""Language pair -> the ranks of word forms on both sides."""


@final
class RankDifferences(Section):
    """Accuracy of word retrieval by how far apart the two words are in frequency: a table and a
    figure, from stored predictions and the training text in the storage.
    """

    VERSION = 1
    place = 80

    def share(self) -> Share | None:
        """Return the table and the figure; None without predictions or training text."""
        results, storage = self.material.results, self.material.storage
        task, cells = shown_cells(results, _TASK)
        asked = self.material.predictions.of_all(cells, task, _COLUMNS)
        ranks = _ranks(results.plan, storage, asked) if storage is not None else {}
        found = [
            (entry, place, mean_bins(bins))
            for place, entry in enumerate(asked)
            if (bins := _bins(entry, ranks))
        ]
        if not found:
            return None
        caption = (
            f"Contextual accuracy in percent over unseen pairs, mean over {languages(asked)}; ranks"
            " of word forms in the training text (as in Cao et al. 2020, Figure 3). One seed."
            " In small type: the number of queries. Error bars of the figure: 95 % intervals of a"
            " share, as if queries were independent."
        )
        lines = tuple(bin_line(results, entry.cell, bins) for entry, _, bins in found)
        table = Table("", _TITLE, tuple(part.name for part in found[0][2]), lines, caption)
        curves = [curve for each in found for curve in _curves(*each)]
        label = axis_of(results, task, "contextual_accuracy")
        panel = Panel("", "difference of ranks, from", label, curves, log=True)
        sketch = Sketch("rank-differences", _TITLE, caption, [panel] if curves else [])
        figures = drawn([sketch], self.material.figures)
        return Share((Part("analyses", "Analyses", tables=(table,), figures=figures),))


def training_counts(
    plan: Plan, storage: Storage, lang: str
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Return how often each word form stands in the largest training bitext of a language that the
    storage has (at most `MOST_SENTENCES` of it), on the language's side and on the pivot's; None
    where there is none.
    """
    import pyarrow.compute as pc

    from raxalign.corpora.text.dataset import read_table

    store = storage.artifacts
    found = [
        (int(str(stage.params.get("sentences", 0))), key)
        for key, stage in plan.stages.items()
        if stage.kind == "bitext"
        and stage.params.get("part") == "training"
        and stage.params.get("lang") == lang
        and store.has("bitext", key)
    ]
    if not found:
        return None
    table = read_table(store.open("bitext", max(found)[1]) / "data").slice(0, MOST_SENTENCES)
    found_counts = []
    for side in ("src", "tgt"):
        part = pc.value_counts(pc.list_flatten(table[side].combine_chunks()))
        words, numbers = (part.field(name).to_pylist() for name in ("values", "counts"))
        found_counts.append(dict(zip(words, numbers, strict=True)))
    return found_counts[0], found_counts[1]


def _ranks(plan: Plan, storage: Storage, asked: Sequence[CellPredictions]) -> Ranks:
    """The ranks of every language pair whose training text is stored."""
    ranks = {}
    for lang in dict.fromkeys(lang for entry in asked for lang in entry.tables):
        counts = training_counts(plan, storage, lang.removesuffix(f"-{plan.pivot}"))
        if counts is not None:
            ranks[lang] = (ranks_of(counts[0]), ranks_of(counts[1]))
    return ranks


def _bins(entry: CellPredictions, ranks: Ranks) -> list[list[Bin]]:
    """The bins of each language pair that has ranks."""
    return [
        by_rank_difference(table, *ranks[lang])
        for lang, table in entry.tables.items()
        if lang in ranks
    ]


def _curves(entry: CellPredictions, place: int, bins: Sequence[Bin]) -> list[Curve]:
    """The curve of a method over the bins with enough queries, where there are several."""
    points = [
        (max(edge, 1), 100 * part.accuracy, _wilson(part.accuracy, part.queries))
        for edge, part in zip(RANK_EDGES, bins, strict=False)
        if part.queries >= FEW and part.accuracy is not None
    ]
    if len(points) < 2:
        return []
    xs, ys, ends = zip(*points, strict=True)
    return [Curve(entry.cell.method, xs, ys, ends, colour=place)]


def _wilson(share: float, n: int) -> tuple[float, float]:
    """The ends of Wilson's 95 % interval of a share of n, in percent."""
    square = 1.96**2 / n
    middle = (share + square / 2) / (1 + square)
    half = math.sqrt(square * share * (1 - share) + square**2 / 4) / (1 + square)
    return 100 * (middle - half), 100 * (middle + half)
