"""Sections of the report, made of results for a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raxalign.catalog import catalog
from raxalign.report.compose import ReportOptions, write_report
from raxalign.report.document import Part, Share, Table
from raxalign.report.sections.base import Material, Measure
from raxalign.report.sections.published import paper_part
from raxalign.values.comparisons import comparisons
from raxalign.values.results import rows
from raxalign.values.scoreboard import Scoreboard

NOWHERE = Path("no such folder")


def leave_undrawn(patch: pytest.MonkeyPatch) -> None:
    """Have figures be files of their mark alone."""

    def draw(_: object, folder: Path, name: str, mark: str) -> str:
        for suffix in ("svg", "pdf", "png"):
            (folder / f"{name}.{suffix}").write_text(mark, encoding="utf-8")
        return f'<svg aria-labelledby="caption-{name}"></svg>'

    patch.setattr("raxalign.report.drawing.draw", draw)


def section(kind: str, results: Scoreboard, **parts: Any) -> Any:
    """A section of the package; `parts` are those of its material besides the results."""
    return catalog("sections")[kind](replace(Material(results, NOWHERE), **parts))


def share(kind: str, results: Scoreboard, **parts: Any) -> Share:
    """What a section returns; nothing is an empty share."""
    return section(kind, results, **parts).share() or Share()


def part(kind: str, results: Scoreboard) -> Part:
    """The only part of a section that draws nothing."""
    (found,) = share(kind, results).parts
    return found


def published(
    results: Scoreboard, names: Sequence[str], measures: Mapping[str, Measure] = {}
) -> tuple[list[Part], list[tuple[object, ...]]]:
    """The parts of papers, and the records of all of their figures."""
    made = [paper_part(results, name, measures.get) for name in names]
    return [found for found, _ in made], [record for _, records in made for record in records]


def results_of(made: Any) -> Scoreboard:
    """The results of a grid, opened with its ledger."""
    opened, ledger = made
    return Scoreboard.of(rows(opened.plan, ledger), opened.plan, ledger)


def with_tests(results: Scoreboard, ledger: Any) -> Scoreboard:
    """The results with the tests of all cells."""
    return results.tested(comparisons(results.cells, results.plan, ledger))


def write(made: Any, folder: Path, **asked: Any) -> list[Path]:
    """Write the report of a grid with the published tables that it names, unless `asked` has
    others.
    """
    opened, ledger = made
    options = ReportOptions(**{"published": opened.grid.published, **asked})
    found = rows(opened.plan, ledger)
    return write_report(found, opened.plan, folder, ledger=ledger, asked=options)


def own_table(results: Scoreboard, anchor: str) -> Table:
    """One of the grid's own tables."""
    tables = part("own_tables", results).tables
    return next(table for table in tables if table.anchor == anchor)
