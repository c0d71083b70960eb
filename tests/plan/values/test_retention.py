"""Which weights may go: never what a pending evaluation needs, and in the end what `run.keep`
says.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raxalign.store.artifacts import ArtifactStore
from raxalign.store.storage import Storage
from raxalign.values.retention import Keeping, again, below, made_again, weights_of
from tests.grids import small_plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """`none` without chance and `finetune` with three seeds and two λ, on retrieval and XNLI."""
    methods = ("none: {}", "rotation: {}", "finetune: {lambda: [0.1, 1.0], batch_size: 16}")
    tasks = ("retrieval: {}", "xnli: {setting: zero-shot, data: phrasebook}")
    parts = {"languages": "{each: [de]}", "sentences": "[100]", "seeds": "[0, 1, 2]"}
    return small_plan(tmp_path_factory.mktemp("keeping"), methods=methods, tasks=tasks, **parts)


def weights_by_trial(plan):
    behind = below(plan, weights_of(plan))
    return {
        trial.key: frozenset().union(*(behind[key] for key in trial.evaluations.values()))
        for trial in plan.trials
    }


def test_weights_are_trainings_and_methods_that_change_weights(plan):
    kinds = {(plan.stages[key].kind, plan.stages[key].maker) for key in weights_of(plan)}
    assert kinds == {("tuned", "xnli"), ("aligned", "finetune")}


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_whatever_the_order_nothing_needed_goes_and_nothing_stays_in_the_end(plan, data):
    order = data.draw(st.permutations(plan.trials))
    uses, stored = weights_by_trial(plan), set(weights_of(plan))
    keeping, waiting = Keeping(plan, frozenset()), list(order)
    while waiting:
        running, waiting = waiting[:2], waiting[2:]
        for trial in running:
            keeping.start(trial)
        for number, trial in enumerate(running):
            stored -= {*keeping.finish(trial, {*trial.evaluations.values()})}
            alive = [*running[number + 1 :], *waiting]
            assert all(uses[other.key] <= stored for other in alive)
    assert stored == set()


def test_a_trial_that_lacks_a_task_keeps_its_weights(plan):
    keeping = Keeping(plan, frozenset())
    trial = next(t for t in plan.trials if t.params.get("lambda") == 0.1)
    keeping.start(trial)
    assert list(keeping.finish(trial, {trial.evaluations["xnli"]})) == [
        key for key in weights_by_trial(plan)[trial.key] if plan.stages[key].kind == "tuned"
    ]
    assert trial.aligned in set(keeping.finish(trial, {*trial.evaluations.values()}))


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
