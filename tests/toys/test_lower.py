"""A task from outside of which lower values are better, and whose main metric is a number: every
place that calls a value better, chooses one, or shows one asks the declaration.
"""

import json
import re
from dataclasses import replace

import pytest

from raxalign.grid.plan import Plan
from raxalign.report.answer import answer
from raxalign.report.compared import ComparisonTables
from raxalign.report.drawing import Series
from raxalign.report.sections.curves import _front
from raxalign.report.tables import as_text as tables_text
from raxalign.report.tables import blocks
from raxalign.single.model_card import CardScore
from raxalign.values.comparisons import comparisons
from raxalign.values.results import DevMean, read_records, rows
from raxalign.values.scoreboard import Lacking, Scoreboard
from tests.report.material import leave_undrawn, part, write
from tests.toys.lower import lower_grid

MAIN, OTHER = ("ranks", "mean_rank", "test"), ("ranks", "orphans", "test")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return lower_grid(tmp_path_factory.mktemp("lower"))


@pytest.fixture(scope="module")
def plan(made):
    return made[0].plan


@pytest.fixture(scope="module")
def ledger(made):
    return made[1]


@pytest.fixture(scope="module")
def results(plan, ledger):
    return Scoreboard.of(rows(plan, ledger), plan)


@pytest.fixture(scope="module")
def compared(plan, ledger, results):
    return comparisons(results.cells, plan, ledger)


@pytest.mark.parametrize("entry", [MAIN, OTHER])
def test_the_smaller_value_is_called_better(results, compared, entry):
    by_method = {
        (found.cell.method, found.cell.params.get("lambda")): found
        for found in compared
        if (found.name[0], *found.name[2:]) == entry and found.name[1] == "avg"
    }
    better, worse = by_method["rotation", None], by_method["finetune", 0.1]
    assert (better.difference < 0, better.verdict) == (True, "better")
    assert (worse.difference > 0, worse.verdict) == (True, "worse")


def test_the_comparisons_of_a_terminal_say_so(plan, compared):
    text = ComparisonTables(compared, plan).text()
    assert "ranks: mean_rank (test), lower is better, against none" in text
    assert "ranks: orphans (test), %, lower is better, against none" in text
    line = next(line for line in text.splitlines() if line.startswith("rotation") and "avg" in line)
    assert re.search(r"0\.\d{3} \[0\.\d{3}, 0\.\d{3}\] .* −0\.\d{3} .*better$", line), line


def test_the_answer_is_about_the_smallest_value_on_dev(results, compared):
    (best, *others), by, tied = results.tested(compared).leader(MAIN)
    assert (best.method, len(others), by, tied) == ("rotation", 3, "dev", False)
    said = answer(results.tested(compared))
    start = "rotation, the best of four configurations on dev, beats the unaligned encoder at ranks"
    number = r"0\.\d{3}"
    assert re.match(
        rf"{start} \(mean rank, lower is better\) by {number} on average"
        rf" \(95 % CI {number}–{number}\), significantly in de and fr\.",
        said,
    ), said


def test_without_dev_the_answer_is_about_the_largest_gain(compared):
    # several comparisons are of one cell, and stay so
    cells = {id(found.cell): found.cell for found in compared}
    for key, cell in cells.items():
        values = {name: value for name, value in cell.values.items() if name[3] == "test"}
        cells[key] = replace(cell, values=values)
    alone = [replace(found, cell=cells[id(found.cell)]) for found in compared]
    plan = Plan("p", "en", 1, (), {}, {})
    results = Scoreboard(plan, list(cells.values()), {}, {}, {}, Lacking(plan))
    (best, *_), by, _ = results.tested(alone).leader(MAIN)
    assert (best.method, by) == ("rotation", "test itself")


def test_figures_and_tables_take_the_point_with_the_smallest_value_on_dev(results):
    shown = {cell.method: cell for cell in results.representatives("ranks", "mean_rank")}
    assert shown["finetune"].params["lambda"] == 1.0
    (table,) = part("chosen_on_dev", results).tables
    line = next(line for line in table.lines if line.label == "finetune")
    chosen, _, test, best, points = (entry.text for entry in line.entries)
    assert (chosen, points) == ("λ=1", "3")
    assert float(best) <= float(test)
    assert "Lower values are better." in table.caption


def test_progress_says_the_mean_rank_as_it_is(plan, ledger):
    (found,) = DevMean.of(plan, plan.trials[0], read_records(plan, ledger))
    shown = (found.name, found.measured.unit, found.measured.sign)
    assert shown == ("ranks mean rank", "number", -1)


def test_the_report_marks_the_smaller_values(made, tmp_path, monkeypatch):
    leave_undrawn(monkeypatch)
    write(made, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    matrix, _, _ = page.partition("answer-ranks-mean_rank-test")[2].partition("</table>")
    row, _, _ = matrix.partition("rotation")[2].partition("</tr>")
    assert "better" in row
    assert "worse" not in row
    said = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "Mean rank on the test set. Lower values are better." in said
    assert "Orphans in percent on the test set. Lower values are better." in said
    written = json.loads((tmp_path / "comparisons.json").read_text(encoding="utf-8"))
    found = [row for row in written if row["method"] == "rotation" and row["lang"] == "avg"]
    verdicts = {row["metric"]: row["verdict"] for row in found}
    assert verdicts == {"mean_rank": "better", "orphans": "better"}


def test_a_front_is_of_the_smaller_values():
    points = [Series(name, [x], [y]) for name, x, y in (("a", 1, 3), ("b", 2, 1), ("c", 3, 4))]
    assert list(_front(points, -1)) == [(1, 3, 2, 1)]
    assert list(_front(points, 1)) == []


def test_the_model_card_says_better_of_the_smaller_value(plan, ledger):
    trial = next(trial for trial in plan.trials if trial.method == "rotation")
    found = {score.lang: score for score in CardScore.of_trial(plan, ledger, trial)}["avg"]
    assert (found.metric, found.verdict) == ("mean_rank", "better")
    assert found.lower


def test_results_whose_plug_in_is_not_here_are_neutral_and_say_so(made, ledger):
    opened, _ = made
    read = json.loads(opened.plan.to_json().replace("ranks@", "gone@"))
    for trial in read["trials"]:  # another plug-in has other keys
        trial["evaluations"] = {}
    plan = Plan.from_json(json.dumps(read))
    found = rows(opened.plan, ledger)
    assert plan.task("ranks") is None
    measured = plan.measured("ranks", "mean_rank")
    assert (measured.sign, measured.unit, measured.declared) == (0, "number", False)
    results = Scoreboard.of(found, plan)
    compared = comparisons(results.cells, plan, ledger)
    assert all(entry.verdict is None for entry in compared)
    for text in (ComparisonTables(compared, plan).text(), tables_text(blocks(found, plan))):
        assert "nothing declares this metric (the task's plug-in is not here" in text
    assert "%" not in tables_text(blocks(found, plan)).partition("±")[0]
    assert part("own_tables", results).tables[0].caption.count("othing declares") == 1
