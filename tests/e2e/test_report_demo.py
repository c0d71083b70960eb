"""`make report-demo` in small: the same grid file with fewer steps, sizes and seeds, from nothing to the page."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from raxalign.config.grid import load
from raxalign.config.published import read
from tests.e2e.runs import Site

pytestmark = pytest.mark.slow

GRID = Path(__file__).resolve().parents[2] / "grids" / "report-demo.yaml"
SMALLER = {
    r"together: \[.*\]": "together: [de, es]",
    r"steps: \d+": "steps: 30",
    r"seeds: \[.*\]": "seeds: [0]",
    r"sentences: \[50, 200, 800\]": "sentences: [30, 50, 60]",
    r"(?m)^  size: [\d_]+": "  size: 300",
    r"split: \{.*\}": "split: {test: 40, dev: 40}",
    r"phrasebook: \{train.*?\}": "phrasebook: {train: 64, dev: 24, test: 24}",
    r"epochs: \d+": "epochs: 1",
    r"sentences: \[50, 200\]\}": "sentences: [30, 50]}",
}


def test_the_demonstration_fills_a_miniature_of_its_tables(tmp_path: Path) -> None:
    text = GRID.read_text(encoding="utf-8")
    for pattern, small in SMALLER.items():
        text = re.sub(pattern, small, text)
    (tmp_path / "grid.yaml").write_text(text, encoding="utf-8")
    site = Site(tmp_path / "grid.yaml", tmp_path / "storage")
    done = site.run()
    assert done.returncode == 0, done.stderr
    done = site.run("--out", str(tmp_path / "out"), command="report")
    assert done.returncode == 0, done.stderr
    assert all(Path(line).is_file() for line in done.stdout.splitlines())
    with (tmp_path / "out" / "published.csv").open(encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    grid = load(site.grid)
    kinds = {spec.kind for spec in (*grid.methods, *grid.tasks)}
    measured = {(entry["publication"], entry["table"]) for entry in found if entry["measured"]}
    assert measured >= {(name, label) for name in grid.published for label in tables_of(name, kinds)}
    assert any(name == "cao2020" for name, _ in measured)


def tables_of(name: str, kinds: set[str]) -> list[str]:
    """The tables that can be measured at all: some row's rule names a method, and the table's a task, that the grid has."""
    found = []
    for label, table in read(name).tables.items():
        methods = {method for row in table.rows.values() if row.match is not None for method in row.match.method or ()}
        if table.match is not None and kinds & set(table.match.task or ()) and kinds & (methods | set(table.match.method or ())):
            found.append(label)
    return found
