"""Translated sentences as stored predictions keep them (Liu et al. 2020, Table 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from raxalign.analysis.cells import Cell
from raxalign.languages import pair_of
from raxalign.report.document import Entry, Line, Table
from raxalign.tasks.translation.samples import shift_point

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
    the layer that dev chooses, and their references.

    Args:
        cell: the cell that was evaluated.
        task: the grid's name of the task.
        ledger: where the predictions are.
        languages: those that a direction is between.
    """
    names = [
        name
        for name in cell.evaluations
        if name[0] == task and name[2:] == ("bleu1", "test") and pair_of(name[1], languages)
    ]
    for name in sorted(names)[:_MOST_DIRECTIONS]:
        seeds = cell.evaluations[name]
        table = ledger.predictions(seeds[min(seeds, key=str)][0])
        chosen = _chosen(cell, task, name[1])
        if table is not None and chosen is not None and set(table.column_names) >= _COLUMNS:
            yield from _table(table, name[1], chosen, pair_of(name[1], languages) or ("", ""))


def _chosen(cell: Cell, task: str, lang: str) -> tuple[int, float] | None:
    """The (layer, weight) with the best BLEU-1 on dev, the first of equals; without dev values the
    only one.
    """
    points: dict[str, dict[tuple[int, float], float]] = {"dev": {}, "test": {}}
    for (t, direction, metric, split), value in cell.values.items():
        point = shift_point(metric)
        if (t, direction) == (task, lang) and point is not None and point[2] == "bleu1":
            points[split][point[:2]] = value.mean
    if points["dev"]:
        return max(points["dev"], key=lambda point: points["dev"][point])
    return next(iter(points["test"])) if len(points["test"]) == 1 else None


def _table(
    table: pa.Table, lang: str, chosen: tuple[int, float], sides: tuple[str, str]
) -> Iterator[Table]:
    """The table of a direction, where it has kept texts."""
    import pyarrow.compute as pc

    layer, weight = chosen
    here = pc.and_(pc.equal(table["lang"], lang), pc.equal(table["layer"], layer))
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
                "chosen on dev" if row["alpha"] == weight else "",
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
            f"The first test sentences, shifted after layer {layer}, which dev chooses with"
            f" α={weight:g} (as in Liu et al. 2020, Table 1).",
            corner="sentence",
        )
