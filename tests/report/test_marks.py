"""Intervals, differences and marks in the report's own tables, and the notes on them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raxalign.analysis.cells import Cell, Value
from raxalign.analysis.significance import ONE_RUN, Comparison, Interval
from raxalign.measured import share
from raxalign.plan.values.comparisons import ONE_BY_ONE, Compared
from raxalign.plan.values.results import rows
from raxalign.report.cells.judge import difference_text, remarks
from raxalign.report.cells.results import Results
from raxalign.report.predictions.read import PERCENT
from tests.ledgers import made_up
from tests.report.material import judge_of, own_table, part


def test_a_cell_has_its_interval_its_difference_to_the_baseline_and_a_mark_where_a_test_tells(
    tmp_path: Path,
) -> None:
    made = made_up(tmp_path, seeds="[0, 1, 2, 3, 4]")
    ledger = made[1]
    table = own_table(made, ledger, "grid-retrieval-contextual_accuracy-test")
    base, *others = table.lines
    assert base.label == "none"
    assert {(entry.delta, entry.mark) for entry in base.entries} == {("", "")}
    assert table.columns[-1] == "mean"
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
    assert others[-1].entries[-1].mark == "better"


def test_without_predictions_nothing_is_marked_and_the_words_say_so(made: Any) -> None:
    table = own_table(made, None, "grid-xnli-accuracy-test")
    entries = [entry for line in table.lines[1:] for entry in line.entries]
    assert {(entry.mark, entry.spread) for entry in entries} == {("", "")}
    assert all(entry.delta.endswith(", cannot tell") for entry in entries)
    assert table.notes == (
        "No interval and no test: no predictions are stored from which the value could be"
        " computed.",
    )


def test_one_run_has_neither_interval_nor_mark(tmp_path: Path) -> None:
    made = made_up(tmp_path, seeds="[0]", sentences="100")
    table = own_table(made, made[1], "grid-xnli-accuracy-test")
    assert {(entry.mark, entry.spread) for line in table.lines for entry in line.entries} == {
        ("", "")
    }
    deltas = {entry.delta for line in table.lines[1:] for entry in line.entries}
    assert {delta.partition(", ")[2] for delta in deltas} == {"cannot tell"}
    why = "No interval and no test: one run of something that depends on its seed."
    assert why in table.caption


def test_a_grid_without_a_baseline_says_that_nothing_is_compared(tmp_path: Path) -> None:
    opened, ledger = made_up(tmp_path, methods=("rotation: {}",))
    results = Results.of(rows(opened.plan, ledger), opened.plan)
    section = part("own_tables", results, judge_of(results, ledger))
    assert "no baseline" in section.lead
    lines = [line for table in section.tables for line in table.lines]
    assert not any(entry.delta or entry.mark for line in lines for entry in line.entries)


def test_notes_say_what_is_at_chance_and_what_falls_far_below() -> None:
    cells_ = [
        Cell(name, {}, "e", None, (), {("xnli", "sw", "accuracy", "test"): Value(value, 0.0, 3)})
        for name, value in (("none", 0.7), ("x", 0.34))
    ]
    name = ("xnli", "sw", "accuracy", "test")
    comparison = Comparison(-0.36, -0.4, -0.3, 0.001, 3, 3, 5010)
    found = Compared(
        *(cells_[1], name, cells_[1].values[name], Interval(0.32, 0.36, 3, 5010)),
        *(cells_[0], comparison, 0.002, "worse", ""),
        at_chance=True,
        guessing=1 / 3,
        measured=share("accuracy", "Share of what is right."),
    )
    assert list(remarks(found, PERCENT)) == [
        "At chance: its interval contains 33.3, the value of guessing.",
        "Falls far below the baseline none: to less than half of its value.",
    ]
    assert difference_text(found, PERCENT) == "−36.0 [−40.0, −30.0]"
    unmarked = replace(found, verdict="not after correction", at_chance=False)
    assert list(remarks(unmarked, PERCENT)) == [f"Not after correction. {ONE_BY_ONE}"]
    untested = replace(found, comparison=None, p_adjusted=None, at_chance=False)
    alone = replace(untested, verdict="cannot tell", untested=ONE_RUN)
    assert list(remarks(alone, PERCENT)) == [
        "No test: for the baseline, one run of something that depends on its seed.",
        "Falls far below the baseline none: to less than half of its value, untested.",
    ]
    assert difference_text(alone, PERCENT) == "−36.0, cannot tell"
    outdated = replace(alone, baseline=None, outdated="`readout: keep`")
    assert list(remarks(outdated, PERCENT))[-1] == (
        "Under readouts that were fitted before the task's training, which changes the encoder:"
        " `readout: keep`."
    )
