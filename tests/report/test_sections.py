"""Sections of the report: their order, those from outside, and how the results were made."""

import re
from html import unescape
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import raxalign as rx
from raxalign import catalog as catalog_module
from raxalign.catalog import PluginFile, catalog
from raxalign.grid.load import open_grid
from raxalign.grid.plan import Plan
from raxalign.report.compose import compose, section_kinds
from raxalign.report.document import Document, Part, Share, Table
from raxalign.report.sections.base import Section
from raxalign.values.scoreboard import Scoreboard
from tests.grids import SPLIT, write_grid
from tests.ledgers import made_up
from tests.report.material import leave_undrawn, results_of, share, write

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "report.md"
EMPTY = Plan("p", "en", 1, (), {}, {})
VERSIONS = {"raxalign": "0.1.0", "torch": "2.13.0", "commit": "abc123", "dirty": "true"}
MADE = {"versions": VERSIONS, "device": "cuda", "machine": "NVIDIA H100", "seconds": 7200.0}
NASTY = '# <b> & "quotes" `code`\n\n\n# after two empty lines\n'
PLUGINS = "plugins: [best_method.py]\n"


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A grid with the section of docs/how-to/report.md, and its report."""
    folder = tmp_path_factory.mktemp("own")
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    (folder / "best_method.py").write_text(code, encoding="utf-8")
    parts = {"sentences": "100", "more": f"{PLUGINS}{NASTY}"}
    methods = ("none: {}", "rotation: {}", "finetune: {lambda: [0.1, 1.0], batch_size: 16}")
    made = made_up(folder, methods=methods, **parts)
    with pytest.MonkeyPatch.context() as patch:
        leave_undrawn(patch)
        paths = write(made, folder / "out", published=[], sources=made[0].sources)
    assert folder / "out" / "best.csv" in paths
    return made[0], folder / "out"


def test_the_package_s_sections_have_places_of_their_own():
    places = [section.place for section in section_kinds(EMPTY)]
    assert places == sorted(set(places))
    assert len(places) == len(catalog("sections"))


def test_the_section_of_the_docs_is_shown_after_the_package_s_own_and_changes_no_key(own, tmp_path):
    opened, out = own
    page = (out / "report.html").read_text(encoding="utf-8")
    first = ["Methods by language", "Ranks of methods", "The grid&#39;s own tables", "Figures"]
    headings = [*first, "Chosen on dev", "Best methods", "How it was made"]
    assert re.findall(r"<h2>(.*?)</h2>", page) == headings
    best = (out / "best.csv").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[0] for line in best] == ["retrieval", "xnli"]
    assert "finetune" in best[1]
    bare = tmp_path / "grid.yaml"
    bare.write_text(opened.grid.text_of_file.replace(PLUGINS, ""), encoding="utf-8")
    assert set(open_grid(bare).plan.stages) == set(opened.plan.stages)


def test_figures_of_several_sections_share_a_part_in_the_order_of_the_sections(written):
    page = (written / "report.html").read_text(encoding="utf-8")
    names = re.findall(r'aria-labelledby="caption-([^"]+)"', page.partition('id="figures"')[2])
    order = ["data-size", "curve-finetune-lambda", "gain-over-baseline", "pivot-transfer"]
    assert names[:5] == [*order, "retrieval-transfer"]


def test_the_grid_text_on_the_page_is_planned_with_the_same_keys(own, tmp_path):
    opened, out = own
    page = (out / "report.html").read_text(encoding="utf-8")
    (shown,) = re.findall(r"<b>grid.yaml</b></summary>\s*<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    text = unescape(shown).removeprefix("\n")
    assert text == opened.grid.text_of_file
    sent = out.parent / "sent.yaml"
    sent.write_text(text, encoding="utf-8")
    assert rx.plan(sent, storage=str(tmp_path / "other")).plan == opened.plan
    assert "`code`" in (out / "report.md").read_text(encoding="utf-8")


class Late(Section):
    """A section that an installed package adds."""

    VERSION = 1
    place = -5

    def share(self) -> Share:
        """Two tables without anchors."""
        tables = tuple(Table("", title, (), ()) for title in ("a", "b"))
        return Share((Part("late", "Late", tables=tables),), facts=(("late", "yes"),))


def test_a_section_of_an_entry_point_is_last_whatever_its_place(monkeypatch, tmp_path):
    entry = EntryPoint("late", f"{__name__}:Late", "raxalign.sections")
    found = {"sections": {"late": entry}}
    monkeypatch.setattr(catalog_module, "_entry_points", lambda folder: found.get(folder, {}))
    assert section_kinds(EMPTY)[-1] is Late
    document = compose([], EMPTY, tmp_path).document
    assert [part.anchor for part in document.parts] == ["late"]
    assert [table.anchor for table in document.parts[0].tables] == ["analysis-1", "analysis-2"]
    assert document.facts[-1] == ("late", "yes")


@pytest.mark.parametrize("kind", catalog("sections"))
def test_a_grid_without_results_has_no_section(kind, tmp_path):
    found = share(kind, Scoreboard.of([], EMPTY), figures=tmp_path)
    assert (found.parts, found.files) == ((), {})
    assert list(tmp_path.iterdir()) == []


def how(opened):
    ledger = opened.storage.ledger
    found = results_of((opened, ledger))
    return share("how_made", found, ledger=ledger, sources=opened.sources)


def test_the_page_says_when_with_what_and_on_what_results_were_made(tmp_path):
    opened = rx.plan(write_grid(tmp_path, sentences="100"), storage=str(tmp_path / "storage"))
    ledger = opened.storage.ledger
    keys = [key for trial in opened.plan.trials for key in trial.evaluations.values()]
    for place, key in enumerate(dict.fromkeys(keys)):
        other = {"torch": "2.12.0"} if place else {}
        later = {"created": 1_800_000_000.0 + 86_400 * bool(place)}
        made = {**MADE, **later, "versions": VERSIONS | other}
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
    shown = Document("", "", found.facts, ()).latex()
    assert "machine: cuda (NVIDIA H100)" in shown


def test_the_options_in_effect_are_those_of_the_plan_with_defaults(made):
    text = dict(how(made[0]).listings)["Options in effect"]
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
    tmp_path, monkeypatch
):
    monkeypatch.setenv("RAXALIGN_TRUST", "1")
    for lang in ("de", "en"):
        (tmp_path / f"t.{lang}").write_text("".join(f"{lang} {n}\n" for n in range(300)))
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "import raxalign as rx\nfrom typing import final\n\n\n@final\nclass Mine(rx.Section):\n"
        '    """Nothing."""\n    VERSION = 1\n    def share(self): return None\n'
    )
    parts = {"languages": "{each: [de]}", "corpus": f"source: moses\n  path: t\n  {SPLIT}"}
    file = write_grid(tmp_path, more="plugins: [mine.py]\n", **parts)
    opened = rx.plan(file, storage=str(tmp_path / "storage"))
    assert isinstance(opened.plan.plugins[0], PluginFile)
    texts = dict(how(opened).listings)
    assert texts["mine.py"] == plugin.read_text()
    lines = texts["SHA-256 of the data"].splitlines()
    assert {line.split("  ")[1] for line in lines} == {"t.de", "t.en"}
    plugin.write_text("changed since")
    assert "mine.py" not in opened.sources
