"""Sections of the report: their order, and those that come from outside the package."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from raxalign import catalog as catalog_module
from raxalign.catalog import PluginFile, catalog
from raxalign.plan.plan import Plan
from raxalign.plan.values.results import rows
from raxalign.plugin_files import open_file
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.results import Results
from raxalign.report.compose import compose, section_kinds, write_report
from raxalign.report.document import Part, Share, Table
from raxalign.report.sections.base import Material, Section
from tests.ledgers import made_up
from tests.report.material import share

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "report.md"
EMPTY = Plan("p", "en", 1, (), {}, {})


def example(folder: Path) -> Path:
    """The section of docs/how-to/report.md in a file."""
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    path = folder / "best_method.py"
    path.write_text(code, encoding="utf-8")
    return path


def test_the_package_s_sections_have_places_of_their_own() -> None:
    places = [section.place for section in section_kinds(EMPTY)]
    assert places == sorted(set(places))
    assert len(places) == len(catalog("sections"))


@pytest.mark.usefixtures("undrawn")
def test_the_section_of_the_docs_is_shown_after_the_package_s_own(tmp_path: Path) -> None:
    example(tmp_path)
    opened, ledger = made_up(tmp_path, more="plugins: [best_method.py]\n")
    found = rows(opened.plan, ledger)
    paths = write_report(found, opened.plan, tmp_path / "out", ledger=ledger)
    assert tmp_path / "out" / "best.csv" in paths
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    own = ["Methods by language", "The grid&#39;s own tables", "Figures", "Chosen on dev"]
    assert headings == [*own, "Best methods", "How it was made"]
    best = (tmp_path / "out" / "best.csv").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[0] for line in best] == ["retrieval", "xnli"]
    assert "finetune" in best[1]


def test_a_section_s_file_changes_no_key(tmp_path: Path) -> None:
    plain, _ = made_up(tmp_path)
    example(tmp_path)
    other, _ = made_up(tmp_path, more="plugins: [best_method.py]\n")
    assert [trial.key for trial in plain.plan.trials] == [trial.key for trial in other.plan.trials]
    assert set(plain.plan.stages) == set(other.plan.stages)


class Late(Section):
    """A section that an installed package adds."""

    VERSION = 1
    place = -5

    def share(self) -> Share:
        """Two tables without anchors."""
        tables = tuple(Table("", title, (), ()) for title in ("a", "b"))
        return Share((Part("late", "Late", tables=tables),), facts=(("late", "yes"),))


def test_a_section_of_an_entry_point_is_last_whatever_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entry = EntryPoint("late", f"{__name__}:Late", "raxalign.sections")
    found = {"sections": {"late": entry}}
    monkeypatch.setattr(catalog_module, "_entry_points", lambda folder: found.get(folder, {}))
    assert section_kinds(EMPTY)[-1] is Late
    document = compose([], EMPTY, tmp_path).document
    assert [part.anchor for part in document.parts] == ["late"]
    assert [table.anchor for table in document.parts[0].tables] == ["analysis-1", "analysis-2"]
    assert document.facts[-1] == ("late", "yes")


def test_a_broken_section_is_warned_of_and_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entry = EntryPoint("broken", "no_such_package:Broken", "raxalign.sections")
    monkeypatch.setattr(catalog_module, "_entry_points", lambda folder: {"broken": entry})
    with pytest.warns(UserWarning, match=r"entry point broken.*No module named 'no_such_package'"):
        assert compose([], EMPTY, tmp_path).document.parts == ()


def test_a_file_with_a_section_belongs_to_the_sections(tmp_path: Path) -> None:
    file = open_file(example(tmp_path))
    assert isinstance(file, PluginFile)
    assert file.folder == "sections"


@pytest.mark.usefixtures("undrawn")
def test_parts_of_one_anchor_are_joined_in_the_order_of_their_sections(
    tmp_path: Path,
) -> None:
    opened, ledger = made_up(tmp_path)
    document = compose(rows(opened.plan, ledger), opened.plan, tmp_path, ledger=ledger).document
    figures = next(part for part in document.parts if part.anchor == "figures")
    names = [figure.name for figure in figures.figures]
    assert names[:3] == ["data-size", "curve-finetune-lambda", "gain-over-baseline"]
    assert names[3:] == ["pivot-transfer", "retrieval-transfer"]
    assert [table.anchor for table in figures.tables] == ["retrieval-transfer"]


@pytest.mark.parametrize("kind", catalog("sections"))
def test_a_grid_without_results_has_no_section(kind: str, tmp_path: Path) -> None:
    found = share(kind, Results.of([], EMPTY), figures=tmp_path)
    assert (found.parts, found.files) == ((), {})
    assert list(tmp_path.iterdir()) == []


def test_material_reads_each_prediction_once(tmp_path: Path) -> None:
    opened, ledger = made_up(tmp_path)
    asked: list[str] = []

    class Counting:
        root = ledger.root

        def predictions(self, key: str) -> Any:
            asked.append(key)
            return ledger.predictions(key)

    results = Results.of(rows(opened.plan, ledger), opened.plan)
    material = Material(results, Judge(), tmp_path, Counting())  # type: ignore[arg-type]
    for kind in ("parts_of_speech", "rank_differences"):
        catalog("sections")[kind](material).share()
    assert asked
    assert len(asked) == len(set(asked))
