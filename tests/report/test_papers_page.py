"""The page on the papers names every published table, and only grids and sections that exist."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from raxalign.catalog import catalog
from raxalign.config.grid import load
from raxalign.config.published import PublishedTable, names, read

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "papers.md"
CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Item:
    """One row of the page: a table or figure of a paper."""

    name: str
    grids: tuple[str, ...]
    sections: tuple[str, ...]
    told: str


def items(short: str) -> dict[str, Item]:
    """The rows under the heading of a paper."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {short}\n")[2]
    found = {}
    for line in text.partition("\n## ")[0].splitlines():
        if line.startswith("|"):
            name, _, grid, section, told = (cell.strip() for cell in line.strip("|").split("|"))
            found[name] = Item(name, tuple(CODE.findall(grid)), tuple(CODE.findall(section)), told)
    return {name: item for name, item in found.items() if re.fullmatch(r"[TFA][.]?\d+", name)}


def measured(table: PublishedTable) -> bool:
    return any(
        table.rule(row, column) is not None
        for row in table.rows
        for column in table.columns
        if column not in table.means
    )


@pytest.mark.parametrize("name", names())
def test_every_published_table_is_named_and_what_is_measured_has_a_grid_of_its_paper(
    name: str,
) -> None:
    paper = read(name)
    there = items(paper.short)
    for label, table in paper.tables.items():
        item = there[table.source.replace("Table ", "T")]
        assert "published" in item.sections, f"{label}: the section that shows it"
        if measured(table):
            assert item.grids, f"{label} has rules, so that some grid measures it"
        for grid in item.grids:
            assert name in load(ROOT / grid).published, f"{grid} does not name {name}"


@pytest.mark.parametrize("name", names())
def test_grids_and_sections_on_the_page_exist_and_what_has_none_says_why(name: str) -> None:
    for item in items(read(name).short).values():
        assert all((ROOT / grid).is_file() for grid in item.grids), item.name
        assert {*item.sections} <= {*catalog("sections")}, item.name
        assert item.grids or item.told, f"{item.name}: the page does not say why"


def test_every_paper_s_grid_is_on_the_page() -> None:
    named = {
        grid for name in names() for item in items(read(name).short).values() for grid in item.grids
    }
    papers = {f"grids/{path.name}" for path in (ROOT / "grids").glob("*20[0-9][0-9]*.yaml")}
    assert named == papers
