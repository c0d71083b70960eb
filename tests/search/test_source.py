"""The trials of a search, without Ray: what it runs, what it sees, what it leaves."""

import time

from raxalign.grid.stored import StoredPlans
from raxalign.single.model_card import CardScore
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from raxalign.values.results import dev_scores, rows
from tests import searches
from tests.searches import METRIC, measure, open_search, planted, run, search_grid, source_of


def test_a_search_finds_what_is_best_on_dev_though_test_contradicts_it(tmp_path):
    opened = open_search(search_grid(tmp_path, "trials: 16, confirm: 1"))
    ran = run(source_of(opened))
    record = searches.record_of(opened)
    best = record.chosen
    assert len(ran) == 16 + 1
    assert record.finished
    assert 0.3 < best.values["lambda"] < 3
    assert best.values["layers"] == "last"
    assert best.score == max(entry.score for entry in record.tried)


def test_no_test_value_reaches_the_sampler(tmp_path, monkeypatch):
    records = []
    for name, test in (("one", 0.0), ("other", 1.0)):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(searches, "planted", lambda trial, test=test: (planted(trial)[0], test))
        opened = searches.finished(tmp_path / name, "trials: 12, confirm: 0")
        records.append(searches.record_of(opened))
    assert records[0] == records[1]


def test_the_scores_of_a_search_are_those_of_development_sets(tmp_path):
    opened = searches.finished(tmp_path, "trials: 1, confirm: 1")
    plan = opened.again().plan
    for trial in plan.trials:
        scores = dev_scores(plan, opened.storage.ledger, trial)
        assert scores[METRIC] == planted(trial)[0]
        assert planted(trial)[1] not in scores.values()


def test_after_its_time_a_search_suggests_nothing_more_and_confirms_nothing(tmp_path):
    opened = open_search(search_grid(tmp_path, "trials: 8, confirm: 2, timeout: 1 h"))
    run(source_of(opened), most=3)
    late = source_of(opened)
    late.deadline = time.monotonic()
    assert len(run(late)) <= 1  # the point that was left
    record = searches.record_of(opened)
    assert len(record.tried) == 3
    assert not record.finished


def test_test_values_are_shown_of_confirmed_trials_alone(tmp_path):
    opened = searches.finished(tmp_path, "trials: 4, confirm: 2")
    plan = opened.again().plan
    found = rows(plan, opened.storage.ledger)
    splits = {(row["searched"], row["split"]) for row in found}
    assert splits == {("suggested", "dev"), ("confirmed", "dev"), ("confirmed", "test")}
    seeds = {row["seed"] for row in found if row["searched"] == "confirmed"}
    assert seeds == {1, 2}
    assert {row["seed"] for row in found if row["searched"] == "suggested"} == {0}


def test_the_card_of_a_suggested_trial_has_its_values_on_dev_alone(tmp_path):
    opened = searches.finished(tmp_path, "trials: 2, confirm: 1")
    plan = opened.again().plan
    trial = next(trial for trial in plan.trials if not trial.searched.confirmed)
    found = CardScore.of_trial(plan, opened.storage.ledger, trial)
    assert {(score.split, score.base) for score in found} == {("dev", None)}
    assert planted(trial)[0] in [score.value for score in found]


def test_a_grid_that_names_the_values_finds_the_trials_done(tmp_path):
    first = searches.record_of(searches.finished(tmp_path, "trials: 3, confirm: 0")).tried[0].values
    named = f"finetune: {{lambda: {first['lambda']}, layers: {first['layers']}, batch_size: 16}}"
    later = open_search(search_grid(tmp_path, "", methods=(named,), more="", name="later.yaml"))
    assert later.plan.cached(Ledger(later.root).keys()) == len(later.plan.trials) == 1


def test_a_metric_without_a_dev_score_fails_its_trials_and_names_those_there_are(tmp_path):
    more = "search: {metric: xnli/avg_zero_shot/f1, trials: 1, confirm: 0}\n"
    tasks = ("xnli: {setting: zero-shot, data: phrasebook, metrics: {f1: {kind: macro_f1}}}",)
    opened = open_search(search_grid(tmp_path, "", tasks=tasks, more=more))
    source = source_of(opened)
    plan = source.more({}, 1)
    source.more({plan.trials[0].key: None}, 1)
    (entry,) = searches.record_of(opened).tried
    assert entry.state == "failed"
    assert "search.metric: no development score xnli/avg_zero_shot/f1" in entry.reason


def test_a_point_that_the_grid_excludes_is_not_run(tmp_path):
    exclude = "exclude: [{method: finetune, layers: 1}]\n"
    more = f"{exclude}search: {{metric: {METRIC}, trials: 8, confirm: 0}}\n"
    opened = open_search(search_grid(tmp_path, "", more=more))
    ran = run(source_of(opened))
    record = searches.record_of(opened)
    excluded = [entry for entry in record.tried if entry.values["layers"] == 1]
    assert excluded
    assert {entry.state for entry in excluded} == {"impossible"}
    assert len(ran) == 8 - len(excluded)


def test_a_search_on_a_finished_grid_starts_from_its_results(tmp_path):
    named = "finetune: {lambda: [0.1, 1, 100], layers: [last, 1], batch_size: 16}"
    grid = open_search(search_grid(tmp_path, "", methods=(named,), more="", name="grid.yaml"))
    StoredPlans(Storage(grid.root)).write(grid.plan)
    for trial in grid.plan.trials:
        measure(Ledger(grid.root), grid.plan, trial)
    opened = open_search(search_grid(tmp_path, "trials: 10, confirm: 0", name="search.yaml"))
    ran = run(source_of(opened))
    tried = searches.record_of(opened).tried
    measured = [entry.values for entry in tried if entry.measured]
    points = sorted((values["lambda"], str(values["layers"])) for values in measured)
    assert points == [(0.1, "1"), (0.1, "last"), (1.0, "1"), (1.0, "last")]
    assert len(ran) == 10 - 4
    by_key = opened.again().plan.by_key
    assert all(by_key[key].searched is not None for key in ran)
    first = [entry.score for entry in tried if entry.values == {"lambda": 0.1, "layers": "last"}]
    assert set(first) == {planted(grid.plan.trials[0])[0]}
