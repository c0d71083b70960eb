"""Intervals, differences and marks in the report's own tables and in short ones, with notes."""

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from raxalign.analysis.cells import Cell, Value
from raxalign.analysis.significance import Comparison, Interval, Runs
from raxalign.cli import app
from raxalign.measured import share as share_of
from raxalign.report.drawing import Panel, Series, opened_canvas
from raxalign.report.sections.base import difference_text
from raxalign.report.tables import short_tables
from raxalign.values.comparisons import ONE_BY_ONE, Compared
from raxalign.values.numbers import NumberFormat
from tests.ledgers import made_up
from tests.report.material import own_table, results_of, share, with_tests


def of(folder, **parts):
    """The results of a grid in XNLI, and their tests."""
    made = made_up(folder, tasks=("xnli: {data: phrasebook}",), more="", **parts)
    return with_tests(results_of(made), made[1])


def test_a_cell_has_its_interval_its_difference_to_the_baseline_and_a_mark_where_a_test_tells(
    tmp_path,
):
    found = of(tmp_path, seeds="[0, 1, 2, 3, 4]", sentences="100")
    table = own_table(found, "grid-xnli-accuracy-test")
    base, *others = table.lines
    assert base.label == "none"
    assert {(entry.delta, entry.mark) for entry in base.entries} == {("", "")}
    assert table.columns[-1] == "mean, zero-shot"
    for line in others:
        for entry, against in zip(line.entries, base.entries, strict=True):
            low, high = map(float, entry.spread.strip("[]").split(", "))
            assert 0 <= low < float(entry.text) < high <= 100
            difference, below, above = (
                float(part.replace("−", "-")) for part in re.findall(r"[+−]?[0-9.]+", entry.delta)
            )
            assert below < difference < above
            assert difference == pytest.approx(float(entry.text) - float(against.text), abs=0.11)
            if entry.mark:
                assert (entry.mark == "better") == (difference > 0) == (below > 0)
                assert entry.worse == (entry.mark == "worse")
    marks = [entry.mark for line in others for entry in line.entries]
    assert {"", "better"} <= set(marks), "some of the planted differences are found, others not"


def test_without_predictions_nothing_is_marked_and_the_words_say_so(results):
    table = own_table(with_tests(results, None), "grid-xnli-accuracy-test")
    entries = [entry for line in table.lines[1:] for entry in line.entries]
    assert {(entry.mark, entry.spread) for entry in entries} == {("", "")}
    assert all(entry.delta.endswith(", cannot tell") for entry in entries)
    why = "no predictions are stored from which the value could be computed"
    assert table.notes == (f"No interval and no test: {why}.",)


def test_one_run_has_neither_interval_nor_mark(tmp_path):
    table = own_table(of(tmp_path, seeds="[0]", sentences="100"), "grid-xnli-accuracy-test")
    entries = [entry for line in table.lines for entry in line.entries]
    assert {(entry.mark, entry.spread) for entry in entries} == {("", "")}
    deltas = {entry.delta for line in table.lines[1:] for entry in line.entries}
    assert {delta.partition(", ")[2] for delta in deltas} == {"cannot tell"}
    why = "No interval and no test: one run; a result that depends on the seed needs at least two."
    assert why in table.caption


def test_notes_say_what_is_at_chance_and_what_falls_far_below():
    name = ("xnli", "sw", "accuracy", "test")
    cells_ = [
        Cell(method, {}, "e", None, (), {name: Value(value, 0.0, 3)})
        for method, value in (("none", 0.7), ("x", 0.34))
    ]
    comparison = Comparison(-0.36, -0.4, -0.3, 0.001, 3, 3, 5010)
    found = Compared(
        *(cells_[1], name, cells_[1].values[name], Interval(0.32, 0.36, 3, 5010)),
        *(cells_[0], comparison, 0.002, "worse", ""),
        at_chance=True,
        guessing=1 / 3,
        measured=share_of("accuracy", "Share of what is right."),
    )
    assert list(found.remarks(NumberFormat(100, 1, "%"))) == [
        "At chance: its interval contains 33.3, the value of guessing.",
        "Falls far below the baseline none: to less than half of its value.",
    ]
    assert difference_text(found, NumberFormat(100, 1, "%")) == "−36.0 [−40.0, −30.0]"
    unmarked = replace(found, verdict="not after correction", at_chance=False)
    assert list(unmarked.remarks(NumberFormat(100, 1, "%"))) == [
        f"Not after correction. {ONE_BY_ONE}"
    ]
    untested = replace(found, comparison=None, p_adjusted=None, at_chance=False)
    alone = replace(untested, verdict="cannot tell", untested=Runs.ONE_RUN)
    assert list(alone.remarks(NumberFormat(100, 1, "%"))) == [
        "No test: for the baseline, one run; a result that depends on the seed needs at least two.",
        "Falls far below the baseline none: to less than half of its value, untested.",
    ]
    assert difference_text(alone, NumberFormat(100, 1, "%")) == "−36.0, cannot tell"
    low = [
        replace(cell, values={name: Value(value, 0.0, 3)})
        for cell, value in zip(cells_, (0.01, 0.0), strict=True)
    ]
    assert not replace(alone, value=low[1].values[name], baseline=low[0]).falls_far, (
        "near the floor"
    )
    outdated = replace(alone, baseline=None, outdated="`readout: keep`")
    assert list(outdated.remarks(NumberFormat(100, 1, "%")))[-1] == (
        "Under stale post-hoc maps, fitted before the task's training run, which changes the"
        " encoder: `readout: keep`."
    )


def printed(made, *options):
    opened, _ = made
    asked = ["results", str(opened.grid.path), "--storage", opened.root, *options]
    found = CliRunner().invoke(app, asked)
    assert found.exit_code == 0, found.output
    return found.stdout


def test_the_report_writes_what_results_prints(made, written):
    for name, suffix in (("latex", "tex"), ("markdown", "md")):
        text = (written / "tables" / f"xnli.{suffix}").read_text(encoding="utf-8")
        assert printed(made, "--format", name, "--task", "xnli") == text


def test_a_short_table_has_values_half_widths_and_marks_in_the_order_of_the_grid(tested):
    (_, retrieval), (entry, xnli) = short_tables(tested)
    assert retrieval.columns == ("de-en", "fr-en", "es-en", "mean")
    assert xnli.columns == ("en", "de", "fr", "es", "mean", "mean, zero-shot")
    labels = [line.label for line in xnli.lines]
    assert labels[:3] == ["none", "rotation, 100 pairs", "rotation, 200 pairs"]
    marks = {found.mark for line in retrieval.lines for found in line.entries}
    assert "better" in marks
    for cell, line in zip(tested.cells, xnli.lines, strict=True):
        name = (entry[0], "fr", *entry[1:])
        low, high = tested.interval(cell, name) or (0.0, 0.0)
        assert line.entries[2].text == f"{100 * cell.values[name].mean:.1f}"
        assert line.entries[2].spread == f"±{50 * (high - low):.1f}"
    assert (
        "±: half the width of the 95 % confidence interval over training runs and examples"
        in xnli.caption
    )
    assert "▲ (and bold): significantly better than the baseline (none)" in xnli.caption
    text = retrieval.latex()
    assert r"\label{tab:small-retrieval-contextual_accuracy}" in text
    assert re.search(r"\\textbf\{[\d.]+\} \{\\scriptsize \$\\pm\$[\d.]+\}\$\^\\uparrow\$", text)
    head = "| method | de-en | fr-en | es-en | mean |\n|---|---:|---:|---:|---:|"
    assert head in retrieval.markdown()


def test_a_selection_holds_for_short_tables_too(made):
    text = printed(made, "--format", "markdown", "--task", "xnli", "--lang", "fr", "--split", "dev")
    assert "| method | fr |" in text
    assert "On the" not in text
    assert "on the development set" in text
    asked = ("--metric", "noncontextual_accuracy", "--compare", "rotation")
    other = printed(made, "--format", "markdown", *asked)
    assert other.startswith("### retrieval: noncontextual accuracy\n")
    assert "better than the baseline (rotation)" in other


@pytest.mark.parametrize("option", ["--per-seed", "--transpose"])
def test_short_tables_have_one_form(made, option):
    opened, _ = made
    asked = ["results", str(opened.grid.path), "--format", "latex", option]
    assert CliRunner().invoke(app, asked).exit_code == 2


def test_every_task_has_a_figure_of_its_methods_in_every_language(
    made, tested, tmp_path, monkeypatch
):
    drawings = dict[str, Any]()
    monkeypatch.setattr(
        "raxalign.report.drawing.draw",
        lambda panels, _, name, mark: drawings.update({name: panels}) or "<svg></svg>",
    )
    part, _ = share("languages", tested, ledger=made[1], figures=tmp_path).parts
    assert [figure.name for figure in part.figures] == ["languages-retrieval", "languages-xnli"]
    assert all(
        "95 % confidence intervals over training runs and examples" in f.caption
        for f in part.figures
    )
    (panel,) = drawings["languages-xnli"]
    assert list(panel.groups) == ["en", "de", "fr", "es", "mean", "mean,\nzero-shot"]
    assert len(panel.series) == len(tested.cells)
    low, high = tested.interval(tested.cells[0], ("xnli", "de", "accuracy", "test")) or (0, 0)
    assert panel.series[0].ends[1] == (100 * low, 100 * high)


def test_axes_hold_the_values_and_their_intervals_unless_these_leave_the_values_no_room():
    near = Series("a", (), [70.0, 72.0], look="dots", ends=[(68.5, 71.5), (70.0, 74.0)])
    far = Series("b", (), [71.0, 71.5], look="dots", ends=[(5.0, 100.0), None])
    for dots, low, high in (([near], 68.5, 74.0), ([near, far], 66.0, 76.0)):
        with opened_canvas([Panel("", "", "accuracy (%)", dots, ["x", "y"])]) as figure:
            bottom, top = figure.axes[0].get_ylim()
            assert low - 1.5 < bottom < low
            assert high < top < high + 1.5
    none = Series("a", (), [math.nan], look="dots")
    nothing = Panel("", "", "accuracy (%)", [none], ["x"])
    with opened_canvas([nothing]) as figure:
        assert figure.axes[0].get_ylim()[0] < 0 < figure.axes[0].get_ylim()[1]
