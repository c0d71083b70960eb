"""What figures and tables say that they are of: the task, the set and the training runs; and the
best method per language and size.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from raxalign.report.document import Table
from raxalign.values.scoreboard import Scoreboard
from tests.ledgers import made_up
from tests.report.material import own_table, results_of, section, share, with_tests, write
from tests.report.test_figures import PLAN, of_axis


@pytest.fixture
def drawings(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The name of each figure that is drawn -> its heading and the titles of its panels."""
    found = dict[str, str]()

    def draw(panels: Any, folder: Any, name: str, heading: str) -> str:
        found[name] = " | ".join([heading, *(panel.title for panel in panels)])
        return "<svg></svg>"

    monkeypatch.setattr("raxalign.report.drawing.draw", draw)
    return found


def test_every_figure_says_by_itself_its_task_its_set_and_its_runs(made, tmp_path, drawings):
    write(made, tmp_path)
    assert len(drawings) > 6
    for name, text in drawings.items():
        assert re.search(r"(retrieval|xnli, phrasebook)( |, )test set, (2 training|one)", text), (
            name
        )
    assert drawings["languages-xnli"].startswith("xnli, phrasebook test set, 2 training runs")


def test_a_value_of_one_seed_says_so_wherever_it_stands(tmp_path, drawings):
    made = made_up(tmp_path, seeds="[0]")
    write(made, tmp_path / "report")
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    one = re.compile(r"one seed|1 seed|one run", re.IGNORECASE)
    tables = re.findall(r"<article.*?</article>", page, re.DOTALL)
    assert len(tables) > 6
    silent = [t for t in tables if re.search(r"\d\d\.\d", t) and not one.search(t)]
    assert [re.sub(r"<[^>]+>", "", table)[:80] for table in silent] == []
    assert [name for name, text in drawings.items() if not one.search(text)] == []
    assert "cannot tell (one seed)" in page


def test_what_is_the_same_for_every_seed_is_not_said_to_be_of_one(tmp_path):
    made = made_up(tmp_path, tasks=("retrieval: {}",), more="", sentences="100")
    found = results_of(made)
    subs = {line.label: line.sub for line in own_table(found, SCORES).lines}
    assert (subs["none"], subs["rotation"]) == (f"{EVERY}", f"100 pairs, {EVERY}")
    assert subs["finetune λ=1"] == "100 pairs, 2 seeds"
    assert found.basis("retrieval", found.cells) == "retrieval, test set, 2 training runs"


SCORES, EVERY = "grid-retrieval-contextual_accuracy-test", "the same for every seed"


def best(results: Scoreboard) -> Table:
    """The table of the best methods in XNLI."""
    tables = share("languages", results).parts[0].tables
    return next(table for table in tables if table.anchor == "best-xnli")


def test_the_best_method_per_language_and_size_is_devs_and_has_the_verdict_of_the_table(
    tmp_path, drawings
):
    parts = {"tasks": ("xnli: {data: phrasebook}",), "seeds": "[0, 1, 2, 3, 4]", "more": ""}
    made = made_up(tmp_path, **parts)
    tested = with_tests(results_of(made), made[1])
    table, split = best(tested), dict[tuple[str, str], Any]()
    assert table.columns == ("100 pairs", "200 pairs")
    assert [line.label for line in table.lines] == [
        "mean",
        "mean, zero-shot",
        "en",
        "de",
        "fr",
        "es",
    ]
    for cell in tested.cells:
        for size in (100, 200):
            for name in cell.names_of(("xnli", "accuracy", "dev")):
                if cell.sentences in (None, size):
                    key = (tested.column(name[1]), f"{size} pairs")
                    split.setdefault(key, []).append((cell.values[name].mean, cell))
    own = own_table(tested, "grid-xnli-accuracy-test")
    marks = set()
    for line in table.lines:
        for column, entry in zip(table.columns, line.entries, strict=True):
            cell = max(split[line.label, column], key=lambda found: found[0])[1]
            size = "" if cell.sentences is None else column
            (row,) = [
                other
                for other in own.lines
                if other.label == tested.named(cell) and other.sub.startswith(size)
            ]
            same = row.entries[own.columns.index(line.label)]
            assert entry.text == f"{tested.named(cell)} {same.text}"
            shown = [(e.spread, e.delta, e.mark, e.worse) for e in (entry, same)]
            assert shown[0] == shown[1]
            marks.add(entry.mark)
    assert "better" in marks
    assert "on its development set" in table.caption


def test_no_method_is_best_by_a_mean_that_others_have_over_other_languages():
    values = {"none": ("de", "fr"), "rotation": ("de", "fr"), "finetune": ("de", "es")}
    rows = [
        of_axis(method, 0.5, "test") | {"lang": lang, "evaluation": method}
        for method, langs in values.items()
        for lang in langs
    ]
    languages = section("languages", Scoreboard.of(rows, PLAN))
    (table,) = languages._best(("xnli", "accuracy", "test"))
    assert [line.label for line in table.lines] == ["de", "es", "fr"]
    assert "on the test set itself, which is optimistic" in table.caption
    assert (
        "Means that are not over the same languages for all methods are left out" in table.caption
    )


def test_scores_by_size_have_a_panel_per_language_with_a_curve_per_method(tested, drawings):
    curves = section("curves", tested)
    sketch = {s.name: s for s in curves._of_languages()}["sizes-xnli"]
    assert [panel.title for panel in sketch.panels] == ["de", "fr", "es"]
    for panel in sketch.panels:
        assert panel.log
        assert {tuple(s.x) for s in panel.series if s.look == "line"} == {(100, 200)}
        (line,) = [s for s in panel.series if s.label == "finetune λ=1"]
        name = ("xnli", panel.title, "accuracy", "test")
        cells = [c for c in tested.cells if tested.named(c) == line.label]
        cells.sort(key=lambda cell: cell.sentences or 0)
        assert list(line.y) == [100 * cell.values[name].mean for cell in cells]
        assert list(line.ends) == [tested.ends(cell, name, 100) for cell in cells]
