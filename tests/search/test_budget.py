"""Budgets: the same for every method, in trials or in time."""

import pytest

from tests.searches import TWO, finished, open_search, record_of, run, search_grid, source_of


def test_two_methods_have_the_same_number_of_trials_at_any_moment(tmp_path):
    opened = open_search(search_grid(tmp_path, "budget: 3 trials, confirm: 0", methods=TWO))
    source = source_of(opened)
    assert len(opened.plan.studies) == 2
    for most in (2, 3, 100):
        run(source, most=most)
        counts = [len(study.record(opened.storage).tried) for study in opened.plan.studies]
        assert max(counts) - min(counts) <= 1
        source = source_of(opened)
    assert counts == [3, 3]


def test_a_budget_of_time_counts_the_work_of_the_trials(tmp_path):
    record = record_of(finished(tmp_path, "budget: 35 s, confirm: 0"))
    assert [entry.seconds for entry in record.tried] == [10.0] * 4
    assert record.finished


def test_a_larger_budget_goes_on_with_the_same_study(tmp_path):
    small = finished(tmp_path, "trials: 3, confirm: 0")
    large = open_search(search_grid(tmp_path, "trials: 5, confirm: 0", name="large.yaml"))
    assert [s.name for s in large.plan.studies] == [s.name for s in small.plan.studies]
    assert len(run(source_of(large))) == 2


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_every_sampler_spends_its_budget_on_different_points(tmp_path, sampler):
    tried = record_of(finished(tmp_path, f"trials: 8, confirm: 0, sampler: {sampler}")).tried
    assert len({str(entry.values) for entry in tried}) == len(tried) == 8


def test_a_space_whose_points_were_all_tried_ends_the_study(tmp_path):
    spaces = "lambda: 1, layers: {choice: [last, 1]}, epochs: {int: [1, 2]}"
    opened = open_search(search_grid(tmp_path, "trials: 40, confirm: 0", spaces=spaces))
    assert len(run(source_of(opened))) == 4
    assert record_of(opened).finished


def test_a_failed_trial_counts_and_is_not_chosen(tmp_path):
    opened = open_search(search_grid(tmp_path, "trials: 2, confirm: 0"))
    source = source_of(opened)
    plan = source.more({}, 1)
    failed = {plan.trials[0].key: "training diverged"}
    while not source.exhausted:
        plan = source.more(failed, 1)
        failed = {trial.key: "again" for trial in plan.trials} if plan is not None else {}
    record = record_of(opened)
    states = [(entry.state, entry.reason) for entry in record.tried]
    assert states == [("failed", "training diverged"), ("failed", "again")]
    assert record.best is None
