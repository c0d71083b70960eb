"""Searches whose trials end early: which ones, what is recorded, and how they are made whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from optuna.trial import TrialState, create_trial

from raxalign.grid.load import Opened
from raxalign.grid.plan import Plan
from raxalign.grid.stored import StoredPlans
from raxalign.grid.study import Suggestion
from raxalign.search.journal import Journal, prunes
from raxalign.search.watch import Watched
from raxalign.search.words import SearchReport
from raxalign.store.ledger import Ledger
from raxalign.store.spool import Spool
from raxalign.store.storage import Storage
from raxalign.sweep.job import Job
from raxalign.sweep.tracker import TrackedGrid
from raxalign.sweep.work import attempt
from raxalign.tracking.recorder import Recorder
from tests import searches
from tests.searches import METRIC, open_search, planted, run, search_grid, source_of

TRIALS = 10
ASHA = f"trials: {TRIALS}, confirm: 1, pruner: asha"
XNLI = "xnli: {setting: zero-shot, data: phrasebook}"
LAST = "xnli: {setting: zero-shot, data: phrasebook, selection: last}"
MEASURED = "pruned by asha: {} is measured at each dev selection"
NOTHING = "nothing can be pruned: the training run of {} makes no dev selections by {}"


@pytest.fixture(scope="module")
def pruned(tmp_path_factory) -> Opened:
    """Trials of planted values, of which the best quarter goes on at each rung."""
    return searches.finished(tmp_path_factory.mktemp("pruned"), ASHA).again()


def planted_dev(values: Mapping[str, object]) -> float:
    """The dev value of a point, with λ and the layers alone."""
    return planted(SimpleNamespace(params=values))[0]  # type: ignore[arg-type]


def stops_of(devs: Sequence[float]) -> list[str]:
    """Where trials end whose curves have the order of their dev values: at the first and the fourth
    of nine selections, the rungs, the best n // 4 of n values go on, and always the best one.
    """
    there: dict[int, list[float]] = {1: [], 4: []}

    def stop(dev: float) -> str:
        for rung, values in there.items():
            values.append(dev)
            if dev < sorted(values, reverse=True)[max(len(values) // 4, 1) - 1]:
                return f"pruned at step {10 * rung} of 90"
        return ""

    return [stop(dev) for dev in devs]


def test_trials_far_behind_are_pruned_at_a_rung(pruned):
    record = searches.record_of(pruned)
    stopped = stops_of([planted_dev(entry.values) for entry in record.tried])
    assert [entry.reason for entry in record.tried] == stopped
    assert "pruned at step 10 of 90" in stopped
    assert "" in stopped[2:]
    assert [entry.state for entry in record.tried] == ["pruned" if s else "done" for s in stopped]
    assert record.finished
    assert record.chosen.score == max(entry.score for entry in record.done)


@pytest.mark.parametrize(
    ("own", "others", "ends"),
    [
        ([0.4], [0.3, 0.5, 0.6, 0.7, 0.2], True),  # the median is 0.5
        ([0.5], [0.3, 0.5, 0.6, 0.7, 0.2], False),
        ([0.6, 0.1], [0.3, 0.5, 0.6, 0.7, 0.2], False),  # the best weights so far are kept
        ([0.1], [0.3, 0.5, 0.6, 0.7], False),  # Optuna waits for five that are done
    ],
)
def test_a_trial_below_the_median_of_those_that_are_done_ends(tmp_path, own, others, ends):
    (study,) = open_search(search_grid(tmp_path, "trials: 8, pruner: median")).plan.studies
    done = [
        create_trial(value=score, intermediate_values={10: score, 20: score}) for score in others
    ]
    assert prunes(study, own, done) is ends


def test_a_pruned_trial_is_no_result_and_is_not_wanted_again(pruned):
    there = Ledger(pruned.root).keys()
    plan = pruned.plan
    done = searches.record_of(pruned).done
    assert len(plan.trials) == len(done) + 1  # and the one that confirms
    assert {key for trial in plan.trials for key in trial.evaluations.values()} == there
    assert run(source_of(pruned)) == []


def test_the_study_has_the_state_the_last_value_and_the_curve(pruned):
    (study,) = pruned.plan.studies
    for trial in Journal(pruned.storage, study).trials():
        dev = planted_dev(trial.params)
        if trial.state == TrialState.PRUNED:
            last = max(trial.intermediate_values)
            assert trial.value == trial.intermediate_values[last]
            assert trial.value == pytest.approx(dev * (1 - 0.5 ** (last // 10)))
        else:
            assert trial.state == TrialState.COMPLETE
            assert list(trial.intermediate_values) == [10 * number for number in range(1, 10)]


def test_the_status_counts_what_was_pruned(pruned):
    ended = len(searches.record_of(pruned).pruned)
    (line,) = SearchReport(pruned.plan, Storage(pruned.root)).status_lines()
    assert f"{TRIALS} of at most {TRIALS} trials, {ended} pruned, finished; best " in line


def test_the_same_trials_are_pruned_another_time(pruned, tmp_path):
    both = (pruned, searches.finished(tmp_path, ASHA))
    once, again = (searches.record_of(opened).tried for opened in both)
    assert [(e.values, e.state) for e in once] == [(e.values, e.state) for e in again]


def test_a_search_with_a_pruner_is_another_study_and_one_without_keeps_its_name(tmp_path):
    def name(search: str) -> str:
        return open_search(search_grid(tmp_path, f"trials: 8, {search}")).plan.studies[0].name

    names = [name(f"confirm: {n}") for n in (1, 2)] + [name("pruner: none")]
    assert len({*names}) == 1
    assert len({*names, name("pruner: asha"), name("pruner: median")}) == 3


def test_a_pruner_that_cannot_act_makes_no_other_study(tmp_path):
    names = set()
    for pruner in ("none", "asha"):
        more = "search: {metric: retrieval/de-en/contextual_accuracy, trials: 2, pruner: %s}\n"
        path = search_grid(tmp_path, "", tasks=("retrieval: {}",), more=more % pruner)
        names.add(open_search(path).plan.studies[0].name)
    assert len(names) == 1


def test_a_plan_with_a_pruner_is_read_back_from_json(pruned):
    assert Plan.from_json(pruned.plan.to_json()) == pruned.plan


@pytest.mark.parametrize(
    ("tasks", "metric", "said"),
    [
        (XNLI, METRIC, MEASURED.format(METRIC)),
        (LAST, METRIC, NOTHING.format("xnli", "accuracy")),
        (
            "retrieval: {}",
            "retrieval/de-en/contextual_accuracy",
            "nothing can be pruned: retrieval is not trained, so contextual_accuracy is measured"
            " once, at the end",
        ),
        ("slots: {data: phrasebook}", "slots/de/f1", MEASURED.format("slots/de/f1")),
        ("mlqa: {setting: g-xlt, data: phrasebook}", "mlqa/avg/f1", NOTHING.format("mlqa", "f1")),
    ],
)
def test_the_plan_says_how_trials_are_pruned_or_why_they_cannot_be(tmp_path, tasks, metric, said):
    more = f"search: {{metric: {metric}, trials: 8, pruner: asha}}\n"
    opened = open_search(search_grid(tmp_path, "", tasks=(tasks,), more=more))
    assert SearchReport(opened.plan, opened.storage).plan_lines()[1] == f"  {said}"


def test_what_confirms_and_what_a_grid_or_several_studies_name_is_run_whole(tmp_path):
    opened = open_search(search_grid(tmp_path, ASHA))
    point = {"lambda": 0.5, "layers": "last"}
    suggestions = [Suggestion(0, point), Suggestion(0, point, confirmed=True)]
    plan = opened.again(lambda _: suggestions).plan
    suggested, fresh = plan.trials
    watched = Watched.of(plan, suggested.key)
    assert (watched.languages, watched.numbers) == (("de",), (0,))
    assert plan.stages[watched.training].kind == "tuned"
    assert Watched.of(plan, fresh.key) is None
    (study,), (asked, *_) = plan.studies, plan.asked
    both = replace(plan, studies=(study, replace(study, name="b")))
    both = replace(both, asked=(*plan.asked, replace(asked, study="b")))
    assert Watched.of(both, suggested.key) is None
    named = search_grid(tmp_path, "", more="", spaces="lambda: 0.5, layers: last", name="b.yaml")
    assert Watched.of(open_search(named).plan, suggested.key) is None


@pytest.mark.parametrize(
    ("metric", "languages"),
    [
        ("xnli/avg/accuracy", ("en", "de")),
        ("xnli/avg_zero_shot/accuracy", ("de",)),
        ("xnli/avg_unseen/accuracy", ("fr",)),
        ("xnli/{pivot}/accuracy", ("en",)),
    ],
)
def test_the_languages_of_the_metric_are_measured(tmp_path, metric, languages):
    more = f"search: {{metric: '{metric}', trials: 2, pruner: median}}\n"
    tasks = ("xnli: {data: phrasebook, languages: [de, fr]}",)  # of which de is aligned
    opened = open_search(search_grid(tmp_path, "", more=more, tasks=tasks))
    point = [Suggestion(0, {"lambda": 0.5, "layers": "last"})]
    plan = opened.again(lambda _: point).plan
    watched = Watched.of(plan, plan.trials[0].key)
    assert watched.languages == languages


def test_trainings_that_all_trials_share_are_not_pruned(tmp_path):
    methods = ("rotation: {center: {choice: [false, true]}}",)
    opened = open_search(search_grid(tmp_path, "trials: 2, pruner: asha", methods=methods))
    assert SearchReport(opened.plan, opened.storage).plan_lines()[1] == (
        "  nothing can be pruned: all trials share one training run of xnli"
    )


@pytest.mark.slow
def test_a_pruned_trial_made_whole_has_the_values_of_an_undisturbed_one(tmp_path):
    tasks = (
        "slots: {data: phrasebook, phrasebook: {train: 24, dev: 8, test: 8}, tagger: linear,"
        " epochs: 1}",
        "xnli: {setting: zero-shot, data: phrasebook, phrasebook: {train: 40, dev: 30, test: 30},"
        " epochs: 3, batch_size: 8}",
    )
    opened = open_search(search_grid(tmp_path, "trials: 2, pruner: median", tasks=tasks))
    (study,) = opened.plan.studies
    point = [Suggestion(0, {"lambda": 0.5, "layers": "last"})]
    plan = opened.again(lambda _: point).plan
    (trial,) = plan.trials
    journal = Journal(opened.storage, study)
    journal.add(point[0].values, {})
    for _ in range(5):  # five trials that know everything
        number = journal.add(point[0].values, {})
        journal.heard([number], 5, 1.0)
        journal.tell(number, TrialState.COMPLETE, 1.0)
    job = Job(opened.storage, StoredPlans(opened.storage).write(plan))
    assert attempt(job, trial.key) is None
    journal.look()
    assert journal.stopped(0)[0] == "pruned at step 5 of 15"
    assert list(journal.trials()[0].intermediate_values) == [5]
    reported = {
        (name, step) for name, _, step, _ in Spool(opened.storage, trial.key, trial.parts).read()
    }
    assert ("xnli/dev_de_accuracy", 5) in reported
    ledger = opened.storage.ledger
    assert ledger.keys() == set()  # the searched task runs first

    whole = search_grid(
        tmp_path, "", tasks=tasks, more="", spaces="lambda: 0.5, layers: last", name="whole.yaml"
    )
    named = open_search(whole).plan
    assert [entry.key for entry in named.trials] == [trial.key]
    assert attempt(Job(opened.storage, StoredPlans(opened.storage).write(named)), trial.key) is None
    other = str(tmp_path / "undisturbed")
    assert attempt(Job(Storage(other), StoredPlans(Storage(other)).write(named)), trial.key) is None
    keys = list(trial.evaluations.values())
    found, expected = (
        {key: record["scores"] for key, record in one.read_many(keys).items()}
        for one in (ledger, Ledger(other))
    )
    assert found == expected
    assert len(found) == 2


def test_each_pruned_trial_is_an_end_with_its_place(tmp_path, monkeypatch):
    first = open_search(search_grid(tmp_path, ASHA))
    assert TrackedGrid(first).pruned_trials() == []
    ran = run(source_of(first))
    opened = first.again()
    pruned, events = searches.record_of(opened).pruned, TrackedGrid(opened).pruned_trials()
    assert [event.pruned for event in events] == [entry.reason for entry in pruned]
    assert {event.trial.key for event in events} == set(ran) - set(opened.plan.by_key)
    assert len(events) == len(pruned) > 0
    assert all(event.trial.searched for event in events)

    brought = []
    monkeypatch.setattr(Recorder, "sync", lambda plan, target, found: brought.append(found))
    TrackedGrid(opened).copy_all()
    assert brought == [events]


def test_a_trial_that_was_made_whole_elsewhere_is_not_among_them(tmp_path):
    first = searches.finished(tmp_path, ASHA)
    one, *others = TrackedGrid(first.again()).pruned_trials()
    for key in one.trial.evaluations.values():
        first.storage.ledger.write(key, {"scores": [], "notes": {}}, None)
    assert TrackedGrid(first.again()).pruned_trials() == others


def test_before_a_search_begins_no_point_of_it_is_pruned(tmp_path):
    searched = search_grid(tmp_path, "trials: 8, confirm: 0")
    assert TrackedGrid(open_search(searched)).pruned_trials() == []
