"""Short tables for papers, and the figure of every method in every language."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from raxalign.cli import app
from raxalign.plan.values.results import rows
from raxalign.report.cells.results import Results
from raxalign.report.compose import write_report
from raxalign.report.figures.drawing import opened_canvas
from raxalign.report.figures.panels import Dots, Panel
from raxalign.report.paper.short_tables import short_tables
from raxalign.report.render import short_latex, short_markdown
from tests.report.material import judge_of, share


def printed(made: Any, *options: str) -> str:
    opened, _ = made
    asked = ["results", str(opened.grid.path), "--storage", opened.root, *options]
    found = CliRunner().invoke(app, asked)
    assert found.exit_code == 0, found.output
    return found.stdout


def test_the_report_writes_what_results_prints(made: Any, tmp_path: Path, undrawn: None) -> None:
    opened, ledger = made
    write_report(rows(opened.plan, ledger), opened.plan, tmp_path, ledger=ledger)
    for name, suffix in (("latex", "tex"), ("markdown", "md")):
        written = (tmp_path / "tables" / f"xnli.{suffix}").read_text(encoding="utf-8")
        assert printed(made, "--format", name, "--task", "xnli") == written


def test_a_short_table_has_values_half_widths_and_marks_in_the_order_of_the_grid(made: Any) -> None:
    opened, ledger = made
    results = Results.of(rows(opened.plan, ledger), opened.plan)
    judge = judge_of(results, ledger)
    (_, retrieval), (entry, xnli) = short_tables(results, judge)
    assert retrieval.columns == ("de-en", "fr-en", "es-en", "mean")
    assert xnli.columns == ("en", "de", "fr", "es", "mean", "mean, zero-shot")
    labels = [line.label for line in xnli.lines]
    assert labels[:3] == ["none", "rotation, 100 pairs", "rotation, 200 pairs"]
    marks = {found.mark for line in retrieval.lines for found in line.entries}
    assert "better" in marks
    for cell, line in zip(results.cells, xnli.lines, strict=True):
        name = (entry[0], "fr", *entry[1:])
        low, high = judge.interval(cell, name) or (0.0, 0.0)
        assert line.entries[2].text == f"{100 * cell.values[name].mean:.1f}"
        assert line.entries[2].spread == f"±{50 * (high - low):.1f}"
    assert "±: half the width of the 95 % interval over runs and examples" in xnli.caption
    assert "▲ (and bold): significantly better than the baseline (none)" in xnli.caption
    text = short_latex(retrieval)
    assert r"\label{tab:small-retrieval-contextual_accuracy}" in text
    assert re.search(r"\\textbf\{[\d.]+\} \{\\scriptsize \$\\pm\$[\d.]+\}\$\^\\uparrow\$", text)
    head = "| method | de-en | fr-en | es-en | mean |\n|---|---:|---:|---:|---:|"
    assert head in short_markdown(retrieval)


def test_a_selection_holds_for_short_tables_too(made: Any) -> None:
    text = printed(made, "--format", "markdown", "--task", "xnli", "--lang", "fr", "--split", "dev")
    assert "| method | fr |" in text
    assert "On the" not in text
    assert "on the development set" in text
    asked = ("--metric", "noncontextual_accuracy", "--compare", "rotation")
    other = printed(made, "--format", "markdown", *asked)
    assert other.startswith("### retrieval: noncontextual accuracy\n")
    assert "better than the baseline (rotation)" in other


@pytest.mark.parametrize("option", ["--per-seed", "--transpose"])
def test_short_tables_have_one_form(made: Any, option: str) -> None:
    opened, _ = made
    asked = ["results", str(opened.grid.path), "--format", "latex", option]
    assert CliRunner().invoke(app, asked).exit_code == 2


def test_every_task_has_a_figure_of_its_methods_in_every_language(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, ledger = made
    results = Results.of(rows(opened.plan, ledger), opened.plan)
    judge, drawings = judge_of(results, ledger), dict[str, Any]()
    monkeypatch.setattr(
        "raxalign.report.figures.drawing.draw",
        lambda panels, _, name: drawings.update({name: panels}) or "<svg></svg>",
    )
    (part,) = share("languages", results, judge=judge, ledger=ledger, figures=tmp_path).parts
    assert [figure.name for figure in part.figures] == ["languages-retrieval", "languages-xnli"]
    assert all("95 % intervals over runs and examples" in f.caption for f in part.figures)
    (panel,) = drawings["languages-xnli"]
    assert list(panel.names) == ["en", "de", "fr", "es", "mean", "mean,\nzero-shot"]
    assert len(panel.dots) == len(results.cells)
    low, high = judge.interval(results.cells[0], ("xnli", "de", "accuracy", "test")) or (0, 0)
    assert panel.dots[0].ends[1] == (100 * low, 100 * high)


def test_axes_hold_the_values_and_their_intervals_unless_these_leave_the_values_no_room() -> None:
    near = Dots("a", [70.0, 72.0], ends=[(68.5, 71.5), (70.0, 74.0)])
    far = Dots("b", [71.0, 71.5], ends=[(5.0, 100.0), None])
    for dots, low, high in (([near], 68.5, 74.0), ([near, far], 66.0, 76.0)):
        with opened_canvas([Panel("", "", "accuracy (%)", dots=dots, names=["x", "y"])]) as figure:
            bottom, top = figure.axes[0].get_ylim()
            assert low - 1.5 < bottom < low
            assert high < top < high + 1.5
    nothing = Panel("", "", "accuracy (%)", dots=[Dots("a", [math.nan])], names=["x"])
    with opened_canvas([nothing]) as figure:
        assert figure.axes[0].get_ylim()[0] < 0 < figure.axes[0].get_ylim()[1]
