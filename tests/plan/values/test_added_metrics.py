"""Metrics that a grid adds to its tasks: read from stored predictions, and part of no key."""

import pickle
import re

import numpy as np
import pytest

from raxalign.analysis.cells import Cell
from raxalign.errors import GridError, RaxalignError
from raxalign.grid.file import load
from raxalign.grid.load import open_grid
from raxalign.grid.plan import Plan
from raxalign.sweep.tracker import TrackedGrid
from raxalign.tracking.runs import PlanRuns
from raxalign.values.comparisons import comparisons
from raxalign.values.results import read_records, rows
from tests.grids import write_grid
from tests.ledgers import made_up

NLI = "{setting: zero-shot, data: phrasebook%s}"
METHODS = ("none: {}", "rotation: {}")
SMALL = {"sentences": "100", "methods": METHODS}


def with_metrics(folder, metrics, **parts):
    """A finished grid, opened again after metrics were added to XNLI."""
    _, ledger = made_up(folder, **{**SMALL, "tasks": ("xnli: " + NLI % "",), **parts})
    file = folder / "grid.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("phrasebook}", f"phrasebook, metrics: {metrics}}}"))
    return open_grid(file, storage=str(folder / "storage")), ledger


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    """A grid to which the mean over labels was added."""
    return with_metrics(tmp_path_factory.mktemp("added"), "[macro_f1]")


def compared(opened, ledger):
    """The comparisons of a grid, by method, language and metric."""
    found = Cell.grouped(rows(opened.plan, ledger), opened.plan.pivot, opened.plan.measured)
    entries = comparisons(found, opened.plan, ledger)
    return {(entry.cell.method, *entry.name[1:3]): entry for entry in entries}


def test_a_metric_added_to_a_finished_grid_leaves_nothing_to_run(tmp_path):
    before, ledger = made_up(tmp_path, **SMALL, tasks=("xnli: " + NLI % "",))
    after, _ = with_metrics(tmp_path, "[macro_f1]")
    assert after.plan.stages == before.plan.stages
    assert after.plan.trials == before.plan.trials
    assert after.plan.cached(ledger.keys()) == len(after.plan.trials)
    assert Plan.from_json(after.plan.to_json()) == after.plan


def test_it_is_in_results_for_every_language_and_split_and_as_means(added):
    opened, ledger = added
    found = [row for row in rows(opened.plan, ledger) if row["metric"] == "macro_f1"]
    trials = len(opened.plan.trials)
    assert len(found) == trials * 2 * (4 + 2)  # dev and test of en, de, fr, es and two means
    (key, *_) = opened.plan.trials[0].evaluations.values()
    of_test = [row for row in found if (row["evaluation"], row["split"]) == (key, "test")]
    own = {row["lang"]: row["value"] for row in of_test}
    assert own["avg"] == pytest.approx(np.mean([own[lang] for lang in ("en", "de", "fr", "es")]))
    zero_shot = np.mean([own[lang] for lang in ("de", "fr", "es")])
    assert own["avg_zero_shot"] == pytest.approx(zero_shot)
    table = ledger.predictions(key)
    german = [row for row in table.to_pylist() if (row["lang"], row["split"]) == ("de", "test")]
    assert own["de"] == pytest.approx(by_hand(german))


def by_hand(examples):
    labels = {row["label"] for row in examples} | {row["predicted"] for row in examples}
    scores = []
    for label in labels:
        right = sum(row["label"] == row["predicted"] == label for row in examples)
        named = sum((row["label"] == label) + (row["predicted"] == label) for row in examples)
        scores.append(2 * right / named)
    return sum(scores) / len(scores)


def test_it_is_compared_with_intervals_and_p_values(added):
    found = compared(*added)
    for lang in ("de", "avg", "avg_zero_shot"):
        own, other = (found["rotation", lang, name] for name in ("accuracy", "macro_f1"))
        for entry in (own, other):
            assert entry.interval.holds(entry.value.mean)
            assert entry.comparison is not None
            assert entry.p_adjusted is not None
        assert other.comparison.difference == pytest.approx(own.comparison.difference, abs=0.1)
        assert other.comparison.p == pytest.approx(own.comparison.p, abs=0.2)


def test_tracking_gets_it_for_trials_and_looks_again_where_it_was_added(added):
    opened, ledger = added
    without = open_grid(bare(opened.grid.path.parent), storage=opened.root).plan
    plan = opened.plan
    assert "xnli/de/macro_f1" in PlanRuns(plan).trial_metrics(
        plan.trials[0], read_records(plan, ledger)
    )
    keys = list(plan.trials[0].evaluations.values())
    assert PlanRuns(plan).results_mark(keys) != PlanRuns(without).results_mark(keys)


def test_a_finished_grid_is_copied_again_where_a_metric_was_added_or_has_other_options(added):
    opened, _ = added
    text = opened.grid.path.read_text(encoding="utf-8")
    copied, told = TrackedGrid(opened), []
    for metrics in ("[]", "[macro_f1]", "{macro_f1: {leave_out: neutral}}", "[macro_f1]"):
        path = opened.grid.path.with_name("metrics.yaml")
        path.write_text(text.replace("[macro_f1]", metrics), encoding="utf-8")
        plan = open_grid(path, storage=opened.root).plan
        told.append(copied._marker(plan).exists())
        copied.mark_copied(plan)
    assert told == [False, False, False, True]


def bare(folder):
    """The grid file without added metrics."""
    text = (folder / "grid.yaml").read_text(encoding="utf-8")
    path = folder / "bare.yaml"
    path.write_text(re.sub(r", metrics: [^\n]*", "}", text), encoding="utf-8")
    return path


RETURN = "        return"
LOSS = '''
import numpy as np
import raxalign as rx
from raxalign.metrics.base import PerExample


class Wrong(PerExample):
    """The share of wrong labels."""

    VERSION = 1
    reads = frozenset({"label", "predicted"})
    better = "lower"

    def values(self, predictions):
        return np.array(predictions["label"]) != np.array(predictions["predicted"])
'''


def test_where_less_is_better_the_verdict_is_that_of_the_opposite_metric(tmp_path):
    (tmp_path / "wrong.py").write_text(LOSS, encoding="utf-8")
    parts = {"methods": ("none: {}", "finetune: {batch_size: 16}"), "seeds": "[0, 1, 2, 3, 4]"}
    opened, ledger = with_metrics(tmp_path, "[wrong]", more="plugins: [wrong.py]\n", **parts)
    found = compared(opened, ledger)
    own, wrong = (found["finetune", "avg", name] for name in ("accuracy", "wrong"))
    assert wrong.value.mean == pytest.approx(1 - own.value.mean)
    assert wrong.comparison.p == pytest.approx(own.comparison.p)
    assert (own.verdict, wrong.verdict) == ("better", "better")
    assert pickle.loads(pickle.dumps(opened.plan)) == opened.plan  # as it is sent to workers
    assert opened.plan.metrics[0].kind == opened.plan.plugins[0].kind


def test_one_kind_may_be_added_several_times_with_its_options(tmp_path):
    opened, ledger = with_metrics(
        tmp_path, "{macro_f1: {}, without_neutral: {kind: macro_f1, leave_out: neutral}}"
    )
    found = {row["metric"] for row in rows(opened.plan, ledger)}
    assert found == {"accuracy", "macro_f1", "without_neutral"}


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ("[macro_f]", "unknown metric 'macro_f' .did you mean macro_f1"),
        ("[macro_f1, macro_f1]", "'macro_f1' is given twice"),
        ("[3]", "3 is not the name of a metric"),
        ("{macro_f1: {leave: neutral}}", "unknown key .did you mean leave_out"),
        ("{p: {kind: precision_at, k: 0}}", r"metrics\.p\.k: 0 is"),
        ("{accuracy: {kind: macro_f1}}", "accuracy is the name of the task's main metric"),
        ("{dev_accuracy: {kind: macro_f1}}", "dev_accuracy is a value of accuracy in MLflow"),
        ("{f: {kind: macro_f1}, f_low: {kind: macro_f1}}", "f_low is a value of f in MLflow"),
        ("[precision_at]", "precision_at reads rank, but the task's predictions have .*label"),
    ],
)
def test_what_is_wrong_with_it_is_told_before_anything_runs(metrics, message, tmp_path):
    with pytest.raises(GridError, match=message) as told:
        open_grid(write_grid(tmp_path, **SMALL, tasks=("xnli: " + NLI % f", metrics: {metrics}",)))
    assert "line 17: tasks.xnli.metrics" in str(told.value)


def test_a_name_of_one_of_the_task_s_other_metrics_is_refused(tmp_path):
    made_up(tmp_path, **SMALL, tasks=("retrieval: {}",))
    (tmp_path / "wrong.py").write_text(LOSS.replace('"label", "predicted"', '"correct"'))
    file = tmp_path / "grid.yaml"
    added = "retrieval: {metrics: {noncontextual_accuracy: {kind: wrong}}}"
    text = file.read_text(encoding="utf-8").replace("retrieval: {}", added)
    file.write_text(text + "plugins: [wrong.py]\n", encoding="utf-8")
    told = r"noncontextual_accuracy is the name of a metric of the task's own"
    with pytest.raises(GridError, match=told):
        open_grid(file)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"predicted"})', '"gold"})', "reads gold, but the predictions have"),
        (RETURN, f"{RETURN} [np.nan] * len(predictions)  #", r"is nan for en \(dev\)"),
        (RETURN, f"{RETURN} 1 /", r"TypeError: unsupported operand.* for en \(dev\)"),
    ],
)
def test_a_metric_that_cannot_be_computed_names_its_line_of_the_grid(
    old, new, message, tmp_path, monkeypatch
):
    from raxalign.tasks.xnli import Xnli

    monkeypatch.setattr(Xnli, "predicts", None)
    (tmp_path / "wrong.py").write_text(LOSS.replace(old, new), encoding="utf-8")
    opened, ledger = with_metrics(tmp_path, "[wrong]", more="plugins: [wrong.py]\n")
    with pytest.raises(RaxalignError, match=r"tasks\.xnli\.metrics\.wrong: " + message):
        rows(opened.plan, ledger)


def test_an_evaluation_whose_predictions_are_damaged_counts_as_not_done(tmp_path):
    opened, ledger = with_metrics(tmp_path, "[macro_f1]")
    key = next(iter(opened.plan.trials[0].evaluations.values()))
    (tmp_path / "storage" / "ledger" / key / "predictions.parquet").write_bytes(b"x")
    with pytest.warns(UserWarning, match=key):
        found = rows(opened.plan, ledger)
    assert key not in {row["evaluation"] for row in found}
    assert found
    assert not ledger.has(key)


def test_the_grid_keeps_what_a_task_is_given(tmp_path):
    with_metrics(tmp_path, "{macro_f1: {}, p: {kind: macro_f1, leave_out: neutral}}")
    (task,) = load(tmp_path / "grid.yaml").tasks
    kinds = [(spec.name, spec.kind) for spec in task.metrics]
    assert kinds == [("macro_f1", "macro_f1"), ("p", "macro_f1")]
