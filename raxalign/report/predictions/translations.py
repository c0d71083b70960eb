"""Translated sentences as stored predictions keep them (Liu et al. 2020, Table 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign.analysis.cells import Cell
from raxalign.languages import pair_of
from raxalign.report.document import Entry, Line, Table
from raxalign.tasks.translation.counts import shift_point

if TYPE_CHECKING:
    import pyarrow as pa

    from raxalign.store.ledger import Ledger

_MOST_DIRECTIONS = 12
_MOST_SENTENCES = 3
_COLUMNS = {"layer", "alpha", "id", "source_text", "output_text", "reference_text"}


def sample_tables(
    cell: Cell, task: str, ledger: Ledger, languages: Sequence[str]
) -> Iterator[Table]:
    """Yield a table per direction: the first test sentences with their outputs at every weight of
    the layer that dev chooses, or of the last one without dev values, and their references.

    Args:
        cell: the cell that was evaluated.
        task: the grid's name of the task.
        ledger: where the predictions are.
        languages: those that a direction is between.
    """
    evaluations: dict[str, str] = {}
    for (name, lang, metric, split), seeds in cell.evaluations.items():
        shifted = (name, split) == (task, "test") and shift_point(metric) is not None
        if shifted and pair_of(lang, languages):
            evaluations[lang] = seeds[min(seeds, key=str)][0]
    for lang in sorted(evaluations)[:_MOST_DIRECTIONS]:
        table = ledger.predictions(evaluations[lang])
        if table is not None and set(table.column_names) >= _COLUMNS:
            between = pair_of(lang, languages) or ("", "")
            yield from _table(table, lang, _shown(cell, task, lang), between)


@dataclass(frozen=True)
class _Shown:
    """The layer whose outputs are shown, and the weight that dev chooses there (None: there are no
    dev values).
    """

    layer: int
    weight: float | None

    def caption(self) -> str:
        """Return what the sentences are."""
        why = (
            "the last layer of the sweep, since no development set chooses one"
            if self.weight is None
            else f"which dev chooses with α={self.weight:g}"
        )
        return (
            f"The first test sentences, shifted after layer {self.layer}, {why} (as in Liu et al."
            " 2020, Table 1)."
        )


def _shown(cell: Cell, task: str, lang: str) -> _Shown:
    """The shift with the best BLEU-1 on dev, the first of equals; without dev values the last
    layer.
    """
    points: dict[str, dict[tuple[int, float], float]] = {"dev": {}, "test": {}}
    for (t, direction, metric, split), value in cell.values.items():
        point = shift_point(metric)
        if (t, direction) == (task, lang) and point is not None and point[2] == "bleu1":
            points[split][point[:2]] = value.mean
    if points["dev"]:
        return _Shown(*max(points["dev"], key=lambda point: points["dev"][point]))
    return _Shown(max(layer for layer, _ in points["test"]), None)


def _table(table: pa.Table, lang: str, shown: _Shown, sides: tuple[str, str]) -> Iterator[Table]:
    """The table of a direction, where it has kept texts."""
    import pyarrow.compute as pc

    here = pc.and_(pc.equal(table["lang"], lang), pc.equal(table["layer"], shown.layer))
    rows = table.filter(pc.and_(here, pc.is_valid(table["source_text"]))).to_pylist()
    ids = list(dict.fromkeys(row["id"] for row in rows))[:_MOST_SENTENCES]
    lines: list[Line] = []
    for number, id_ in enumerate(ids, 1):
        own = [row for row in rows if row["id"] == id_]
        texts = [(f"input ({sides[0]})", own[0]["source_text"], "")]
        texts += [
            (
                f"{lang}, α={row['alpha']:g}",
                row["output_text"],
                "chosen on dev" if row["alpha"] == shown.weight else "",
            )
            for row in sorted(own, key=lambda row: row["alpha"])
        ]
        texts.append((f"reference ({sides[1]})", own[0]["reference_text"], ""))
        lines += [Line(label, (Entry(text),), sub, (), f"{number}") for label, text, sub in texts]
    if lines:
        yield Table(
            "",
            f"Token translation, {lang}",
            ("text",),
            tuple(lines),
            shown.caption(),
            corner="sentence",
        )
