"""Which weights may go: never what a pending evaluation needs, and in the end what `run.keep`
says.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raxalign.measured import share
from raxalign.plan.values.retention import Keeping, again, below, dev_score, made_again, weights_of
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.storage import Storage
from tests.grids import small_plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """`none` without chance and `finetune` with three seeds and two λ, on retrieval and XNLI."""
    methods = ("none: {}", "rotation: {}", "finetune: {lambda: [0.1, 1.0], batch_size: 16}")
    tasks = ("retrieval: {}", "xnli: {setting: zero-shot, data: phrasebook}")
    parts = {"languages": "{each: [de]}", "sentences": "[100]", "seeds": "[0, 1, 2]"}
    return small_plan(tmp_path_factory.mktemp("keeping"), methods=methods, tasks=tasks, **parts)


def record(value, task="xnli"):
    """A record with a value on dev, and a much better one on test that must not be looked at."""
    scores = [
        {"lang": "de", "metric": "accuracy", "split": split, "value": number}
        for split, number in (("test", 1.0 - (value or 0)), ("dev", value))
        if number is not None
    ]
    return {"scores": scores, "params": {}, "kind": task}


def records_of(trial, value):
    evaluations = trial.evaluations.items()
    return {key: record(value if task == "xnli" else None) for task, key in evaluations}


def weights_by_trial(plan):
    behind = below(plan, weights_of(plan))
    return {
        trial.key: frozenset().union(*(behind[key] for key in trial.evaluations.values()))
        for trial in plan.trials
    }


def test_weights_are_trainings_and_methods_that_change_weights(plan):
    kinds = {(plan.stages[key].kind, plan.stages[key].maker) for key in weights_of(plan)}
    assert kinds == {("tuned", "xnli"), ("aligned", "finetune")}


def test_all_keeps_everything(plan):
    keeping = Keeping(plan, "all", frozenset())
    for trial in plan.trials:
        assert list(keeping.finish(trial, records_of(trial, 0.5))) == []
    assert list(keeping.free()) == []


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
@pytest.mark.parametrize("keep", ["best", "none"])
def test_whatever_the_order_nothing_needed_goes_and_the_end_is_the_same(plan, keep, data):
    order = data.draw(st.permutations(plan.trials))
    values = {trial.key: data.draw(st.sampled_from([None, 0.25, 0.5])) for trial in plan.trials}
    uses, stored = weights_by_trial(plan), set(weights_of(plan))
    keeping, waiting = Keeping(plan, keep, frozenset()), list(order)
    while waiting:
        running, waiting = waiting[:2], waiting[2:]
        for trial in running:
            keeping.start(trial)
        for number, trial in enumerate(running):
            for key, _ in keeping.finish(trial, records_of(trial, values[trial.key])):
                stored.discard(key)
            alive = [*running[number + 1 :], *waiting]
            assert all(uses[other.key] <= stored for other in alive)
    assert [key for key, _ in keeping.free() if key in stored] == []
    if keep == "none":
        assert stored == set()
        return
    cells = {}
    for trial in plan.trials:  # in the order of the grid: the first of equals stays
        cells.setdefault((trial.method, str(trial.params)), []).append(trial)
    best = [max(cell, key=lambda t: values[t.key] or -1.0) for cell in cells.values()]
    assert stored == set().union(*(uses[trial.key] for trial in best))


def test_a_trial_that_lacks_a_task_keeps_its_weights(plan):
    keeping = Keeping(plan, "best", frozenset())
    cell = [t for t in plan.trials if t.params.get("lambda") == 0.1]
    half = {k: r for k, r in records_of(cell[0], 0.1).items() if k == cell[0].evaluations["xnli"]}
    keeping.start(cell[0])
    assert list(keeping.finish(cell[0], half)) == []
    assert list(keeping.finish(cell[1], records_of(cell[1], 0.5))) == []
    gone = [key for key, _ in keeping.finish(cell[0], records_of(cell[0], 0.1))]
    assert cell[0].aligned in gone
    assert cell[1].aligned not in gone


def test_the_dev_value_is_the_main_metric_without_the_pivot_and_counts_downwards_where_declared(
    plan, monkeypatch
):
    trial = next(t for t in plan.trials if t.method == "finetune")
    scores = [
        {"lang": lang, "metric": "accuracy", "split": "dev", "value": value}
        for lang, value in (("en", 0.9), ("de", 0.4), ("fr", 0.6), ("avg", 0.63))
    ]
    records = {trial.evaluations["xnli"]: {"scores": scores, "params": {}}}
    assert dev_score(plan, trial, records) == pytest.approx(0.5)
    scores[:] = [{"lang": "de", "metric": "x_error_rate", "split": "dev", "value": 0.2}]
    assert dev_score(plan, trial, records) is None, "a name says nothing"
    declared = share("x_error_rate", "Share of errors.", "lower")
    monkeypatch.setitem(plan._measured, ("xnli", "x_error_rate"), declared)
    assert dev_score(plan, trial, records) == -0.2
    scores[:] = [{"lang": "de", "metric": "accuracy", "split": "test", "value": 0.2}]
    assert dev_score(plan, trial, records) is None


def test_what_was_not_kept_is_named_with_its_time_and_only_where_it_is_needed(plan, tmp_path):
    root = str(tmp_path)
    store, tombstones = ArtifactStore(root), Storage(root).tombstones
    trial = next(t for t in plan.trials if t.method == "finetune")
    store.make("aligned", trial.aligned, lambda folder: {"n": (folder / "w").write_bytes(b"w")})
    assert again([]) is None
    Storage(store.root).drop("aligned", trial.aligned, "run.keep: none")
    told = "the weights of this trial were not kept (run.keep: none); they are made again, about"
    assert str(made_again(plan, frozenset(), frozenset(), tombstones.all())).startswith(told)
    done = {key for t in plan.trials for key in t.evaluations.values()}
    assert made_again(plan, done, frozenset(), tombstones.all()) is None
