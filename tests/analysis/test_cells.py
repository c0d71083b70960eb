"""Cells: means over seeds and languages, by hand."""

import pytest

from raxalign.analysis.cells import Cell, Value
from raxalign.measured import count, share


def declared(task, metric):
    return count(metric, "Pairs.") if metric == "accuracy_pairs" else share(metric, "A share.")


def row(**given):
    """A result row; its evaluation is named by its trial and seed unless that is given."""
    plain = {"trial": "t", "method": "m", "params": {}, "encoder": "e", "sentences": None}
    plain |= {"seed": 0, "task": "xnli", "lang": "de", "metric": "accuracy", "split": "test"}
    found = {**plain, "value": 0.5, **given}
    return {"evaluation": f"{found['trial']}/{found['seed']}", **found}


def test_the_spread_over_runs_is_their_standard_deviation_and_one_run_has_none():
    """1, 2 and 6 deviate from 3 by -2, -1 and 3: their variance is 14 / 2, its root 2.645751."""
    value = Value.of([1.0, 2.0, 6.0])
    assert (value.mean, value.n) == (3.0, 3)
    assert value.sd == pytest.approx(2.645751, abs=1e-6)
    assert Value.of([1.0]).sd is None


def test_seeds_are_averaged_and_methods_kept_apart():
    rows = [row(seed=0, value=0.4), row(seed=1, value=0.6), row(method="n", value=0.9)]
    found = Cell.grouped(rows, "en", declared)
    means = [(cell.method, cell.values["xnli", "de", "accuracy", "test"].mean) for cell in found]
    assert means == [("m", 0.5), ("n", 0.9)]


def test_means_over_languages_are_formed_over_the_trials_of_an_each_grid():
    values = {"a": {"de": 0.2, "en": 0.8, "avg": 0.5}, "b": {"fr": 0.5, "en": 0.6, "avg": 0.55}}
    rows = [
        row(lang=lang, value=value, trial=trial)
        for trial, by_lang in values.items()
        for lang, value in by_lang.items()
    ]
    (cell,) = Cell.grouped(rows, "en", declared)
    means = {lang: value.mean for (_, lang, _, _), value in cell.values.items()}
    assert means["en"] == pytest.approx(0.7), "the pivot is scored by the model of each language"
    assert cell.values["xnli", "en", "accuracy", "test"].n == 1
    assert cell.evaluations["xnli", "en", "accuracy", "test"] == {0: ("a/0", "b/0")}
    assert means["avg"] == pytest.approx((0.7 + 0.2 + 0.5) / 3)
    assert means["avg_zero_shot"] == pytest.approx(0.35)


def test_counts_have_no_mean_over_languages():
    rows = [row(metric="accuracy_pairs", lang=lang, value=10) for lang in ("de", "fr")]
    (cell,) = Cell.grouped(rows, "en", declared)
    assert not any(lang == "avg" for _, lang, _, _ in cell.values)


def test_an_evaluation_that_all_seeds_share_counts_once():
    rows = [row(seed=seed, value=0.4, evaluation="same") for seed in (0, 1, 2)]
    (cell,) = Cell.grouped(rows, "en", declared)
    assert cell.values["xnli", "de", "accuracy", "test"].n == 1
    assert cell.values["xnli", "de", "accuracy", "test"].sd is None
