"""Sections of the report: their order, those from outside, and how the results were made."""

from __future__ import annotations

import re
from html import unescape
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import raxalign as rx
from raxalign import catalog as catalog_module
from raxalign.catalog import PluginFile, catalog
from raxalign.plan.plan import Plan
from raxalign.plan.values.results import rows
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.results import Results
from raxalign.report.compose import ReportOptions, compose, section_kinds, write_report
from raxalign.report.document import Document, Part, Share, Table
from raxalign.report.render import as_latex
from raxalign.report.sections.base import Material, Section
from tests.grids import write_grid
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
    own = ["Methods by language", "Ranks of methods", "The grid&#39;s own tables", "Figures"]
    own += ["Chosen on dev"]
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
    catalog("sections")["word_retrieval"](material).share()
    assert asked
    assert len(asked) == len(set(asked))


NASTY = '# <b> & "quotes" `code`\n\n\n# after two empty lines\n'
MADE = {
    "versions": {"raxalign": "0.1.0", "torch": "2.13.0", "commit": "abc123", "dirty": "true"},
    "device": "cuda",
    "machine": "NVIDIA H100",
    "created": 1_800_000_000.0,
    "seconds": 7200.0,
}


def how(opened: rx.Opened) -> Share:
    ledger = opened.storage.ledger
    results = Results.of(rows(opened.plan, ledger), opened.plan)
    return share("how_made", results, ledger=ledger, sources=opened.sources)


@pytest.mark.usefixtures("undrawn")
def test_the_grid_text_on_the_page_is_planned_with_the_same_keys(tmp_path: Path) -> None:
    opened, ledger = made_up(tmp_path, more=NASTY)
    found, out = rows(opened.plan, ledger), tmp_path / "out"
    write_report(
        found, opened.plan, out, ledger=ledger, asked=ReportOptions(sources=opened.sources)
    )
    page = (out / "report.html").read_text(encoding="utf-8")
    (shown,) = re.findall(r"<b>grid.yaml</b></summary>\s*<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    text = unescape(shown).removeprefix("\n")
    assert text == opened.grid.text_of_file
    again = tmp_path / "again"
    again.mkdir()
    (again / "sent.yaml").write_text(text, encoding="utf-8")
    sent = rx.plan(again / "sent.yaml", storage=str(tmp_path / "other"))
    assert sent.plan == opened.plan
    assert "`code`" in (out / "report.md").read_text(encoding="utf-8")


def test_the_page_says_when_with_what_and_on_what_results_were_made(tmp_path: Path) -> None:
    opened = rx.plan(write_grid(tmp_path, sentences="100"), storage=str(tmp_path / "storage"))
    ledger = opened.storage.ledger
    keys = [key for trial in opened.plan.trials for key in trial.evaluations.values()]
    for place, key in enumerate(dict.fromkeys(keys)):
        other = {"torch": "2.12.0"} if place else {}
        later = {"created": 1_800_000_000.0 + 86_400 * bool(place)}
        made = {**MADE, **later, "versions": {**MADE["versions"], **other}}  # type: ignore[dict-item]
        ledger.write(key, {"scores": [], "params": {}, **made}, None)
    found = how(opened)
    hours = 2.0 * len(set(keys))
    facts = dict(found.facts)
    made = ("evaluated", "made with", "commit of raxalign", "machine", "computing time")
    assert {name: facts[name] for name in made} == {
        "evaluated": "2027-01-15 to 2027-01-16 08:00 UTC",
        "made with": "raxalign 0.1.0, torch 2.12.0 and 2.13.0",
        "commit of raxalign": "abc123 with changes",
        "machine": "cuda (NVIDIA H100)",
        "computing time": f"{hours:.1f} h of worker time (evaluation {hours:.1f} h)",
    }
    shown = as_latex(Document("", "", found.facts, ()))
    assert "machine: cuda (NVIDIA H100)" in shown


def test_the_options_in_effect_are_those_of_the_plan_with_defaults(tmp_path: Path) -> None:
    opened, _ = made_up(tmp_path)
    text = next(entry.text for entry in how(opened).listings if entry.title == "Options in effect")
    options = YAML(typ="safe", pure=True).load(text)
    finetune = options["methods"]["finetune"]
    assert finetune["lambda"] == [0.1, 1.0, 10.0]
    assert (finetune["batch_size"], finetune["learning_rate"], finetune["steps"]) == (16, 5e-5, 0)
    assert options["corpora"]["phrasebook"]["split"] == {"test": 30, "dev": 30}
    assert options["corpora"]["phrasebook"]["sentences"] == [100, 200]
    assert options["aligners"]["fast_align"]["symmetrization"] == "intersection"
    assert options["tasks"]["xnli"]["epochs"]
    assert next(iter(options["encoders"].values()))["hidden_size"] == 32


def test_data_is_named_by_digest_and_file_and_plugins_are_shown_as_they_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAXALIGN_TRUST", "1")
    for lang in ("de", "en"):
        (tmp_path / f"t.{lang}").write_text("".join(f"{lang} {n}\n" for n in range(300)))
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "import raxalign as rx\nfrom typing import final\n\n\n@final\nclass Mine(rx.Section):\n"
        '    """Nothing."""\n    VERSION = 1\n    def share(self): return None\n'
    )
    file = write_grid(tmp_path, languages="{each: [de]}", more="plugins: [mine.py]\n")
    text = file.read_text().replace("source: phrasebook\n  size: 400", "source: moses\n  path: t")
    file.write_text(text)
    opened = rx.plan(file, storage=str(tmp_path / "storage"))
    assert isinstance(opened.plan.plugins[0], PluginFile)
    texts = {entry.title: entry.text for entry in how(opened).listings}
    assert texts["mine.py"] == plugin.read_text()
    lines = texts["SHA-256 of the data"].splitlines()
    assert {line.split("  ")[1] for line in lines} == {"t.de", "t.en"}
    plugin.write_text("changed since")
    assert "mine.py" not in opened.sources
