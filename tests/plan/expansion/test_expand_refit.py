"""Readouts that are fitted again on the encoder that a task's training left, in the plan."""

import json

import pytest

from raxalign.errors import RaxalignError
from tests.grids import kinds, of_kind, small_plan

TUNED, EPOCHS = ("xnli", "mlqa", "pos"), "leaves the weights of several epochs"
ALL = ("none: {}", "rotation: {}", "centering: {}", "finetune: {}", "mean_shift: {}")
READOUTS = (
    "rotation: {pooling: [first, last, mean]}",
    "linear: {pooling: [first, last]}",
    "sentence_rotation: {pooling: [first, last]}",
)


def plan_of(folder, **parts):
    """The plan of a grid of one language and size."""
    parts = {"sentences": "50", "languages": "{each: [de]}", **parts}
    return small_plan(folder, **parts)


def test_a_training_on_the_pivot_alone_is_shared_by_what_moves_others_inside(tmp_path):
    """All languages and weights of a shift after one block share a training, which that block alone
    tells from the one of `none`.
    """

    def tuned(shift, task="xnli: {data: phrasebook}"):
        methods = ("none: {}", f"mean_shift: {{{shift}}}")
        parts = {"seeds": "[0, 1]", "languages": "{each: [de, fr]}"}
        plan = plan_of(tmp_path, methods=methods, tasks=(task,), **parts)
        stages = of_kind(plan, "tuned")
        keys = [key for trial in plan.trials for key in trial.evaluations.values()]
        assert all(plan.stages[key].inputs["trained"] in plan.stages for key in keys)
        shared = [stage.params.get("frozen") for stage in stages if "encoder" in stage.inputs]
        return shared, len(stages)

    usual, two = [None, None, "1", "1"], "layers: 1, alpha: [0.5, 1.0]"
    assert tuned("layers: 1, alpha: [0.5, 1.0, 2.0]") == (usual, 4)
    assert tuned("layers: ['1', last], alpha: [0.5, 1.0]") == ([*usual, "last", "last"], 6)
    assert tuned(f"{two}, direction: to-other") == ([None, None], 2 + 2 * 2 * 2)
    translated = "xnli: {data: phrasebook, setting: translate-train}"
    assert tuned(two, translated) == ([], 4 + 2 * 2 * 2)


def test_readouts_are_fitted_again_on_what_a_tasks_training_left(tmp_path):
    tasks = (
        "kept: {kind: xnli, data: phrasebook, readout: keep}",
        "xnli: {data: phrasebook, readout: refit}",
        "retrieval: {}",
    )
    methods = ("none: {}", "rotation: {}", "finetune: {}")
    plan = plan_of(tmp_path, methods=methods, tasks=tasks)
    assert kinds(plan)["tuned"] == 2, "fitting readouts again trains no task again"
    for trial in plan.trials:
        kept, xnli, retrieval = (plan.stages[key] for key in trial.evaluations.values())
        assert kept.inputs["aligned"] == retrieval.inputs["aligned"] == trial.aligned
        assert xnli.inputs["trained"] == kept.inputs["trained"]
        if trial.method != "rotation":
            assert xnli.inputs["aligned"] == trial.aligned, "there is no readout to fit"
            continue
        again, once = plan.stages[xnli.inputs["aligned"]], plan.stages[trial.aligned]
        assert again.inputs == {**once.inputs, "encoder": xnli.inputs["trained"]}
        assert (again.maker, again.params) == (once.maker, once.params)


def test_readouts_are_fitted_again_on_the_piece_that_a_tagger_reads(tmp_path):
    plan = plan_of(tmp_path, methods=READOUTS, tasks=asked("pos"))
    again = {}
    for trial in plan.trials:
        evaluation, once = plan.stages[trial.evaluations["again"]], plan.stages[trial.aligned]
        stage = plan.stages[evaluation.inputs["aligned"]]
        again.setdefault(trial.method, set()).add(stage.key)
        method = {**once.params["method"], "pooling": "first"}
        assert stage.params == {**once.params, "method": method}
        assert json.loads(stage.options) == {**json.loads(once.options), "pooling": "first"}
        given = trial.params["pooling"]
        assert once.params["method"]["pooling"] == given, "before the training it stays as asked"
    assert len(plan.trials) == 3 + 2 + 2
    assert {method: len(keys) for method, keys in again.items()} == dict.fromkeys(
        ("rotation", "linear", "sentence_rotation"), 1
    )


@pytest.mark.parametrize("kind", ["xnli", "mlqa"])
def test_readouts_are_fitted_again_as_the_method_says_where_a_task_reads_no_words(tmp_path, kind):
    tasks = ("retrieval: {}", f"{kind}: {{data: phrasebook, readout: refit}}")
    plan = plan_of(tmp_path, methods=READOUTS, tasks=tasks)
    for trial in plan.trials:
        again = plan.stages[plan.stages[trial.evaluations[kind]].inputs["aligned"]]
        assert again.params == plan.stages[trial.aligned].params


def asked(kind):
    """A task of a kind: as usual, with readouts that are fitted again, and with kept ones."""
    hows = {"usual": "", "again": ", readout: refit", "kept": ", readout: keep"}
    return tuple(f"{name}: {{kind: {kind}, data: phrasebook{how}}}" for name, how in hows.items())


@pytest.mark.parametrize("kind", ["xnli", "mlqa", "pos"])
def test_without_a_readout_to_fit_again_a_result_has_one_key(tmp_path, kind):
    """What a trained method or an inside shift gives is the same under `refit` as under `keep`, and
    its record says what was done.
    """
    methods = ("none: {}", "finetune: {}", "mean_shift: {}")
    plan = plan_of(tmp_path, methods=methods, tasks=asked(kind))
    for trial in plan.trials:
        assert len({*trial.evaluations.values()}) == 1
        stage = plan.stages[trial.evaluations["again"]]
        assert stage.params["task"].get("readout", "keep") == "keep"
        assert "refit" not in stage.options


def test_readouts_that_a_task_trains_through_are_not_fitted_again(tmp_path):
    told = r"tasks\.xnli\.readout: refit: rotation moves the pivot"
    tasks = ("xnli: {data: phrasebook, readout: refit}",)
    with pytest.raises(RaxalignError, match=told):
        plan_of(tmp_path, methods=("rotation: {direction: to-other}",), tasks=tasks)


def outdated(folder, task, **parts):
    """Method -> why its readouts are kept though the training of a task outdates them."""
    options = {"methods": ALL, **parts}
    plan = plan_of(folder, tasks=(f"x: {{{task}}}",), **options)
    return {trial.method: trial.outdated["x"] for trial in plan.trials if trial.outdated}


@pytest.mark.parametrize("kind", ["xnli", "mlqa", "pos"])
def test_readouts_are_fitted_again_unless_the_file_asks_to_keep_them(tmp_path, kind):
    (trial,) = plan_of(tmp_path, methods=("rotation: {}",), tasks=asked(kind)).trials
    assert trial.evaluations["usual"] == trial.evaluations["again"] != trial.evaluations["kept"]
    assert trial.outdated == {"kept": "`readout: keep`"}


@pytest.mark.parametrize(
    ("task", "why"),
    [
        *((f"kind: {kind}, data: phrasebook, readout: keep", "`readout: keep`") for kind in TUNED),
        *(
            (f"kind: {kind}, data: phrasebook, selection: {how}", f"`selection: {how}` {EPOCHS}")
            for kind, how in (("xnli", "mean-dev"), ("pos", "target-dev"))
        ),
    ],
)
def test_readouts_that_a_training_outdates_have_a_reason_where_they_are_kept(tmp_path, task, why):
    assert outdated(tmp_path, task) == {"rotation": why, "centering": why}


def test_a_map_that_moves_the_pivot_is_kept_since_the_task_trains_through_it(tmp_path):
    assert outdated(tmp_path, "kind: xnli, data: phrasebook") == {
        "centering": "centering moves the pivot, so that the task trains through its maps"
    }


@pytest.mark.parametrize(
    "task",
    [
        "kind: xnli, data: phrasebook, setting: translate-train, readout: keep",
        "kind: ner, data: phrasebook, tagger: bilstm_crf",
        "kind: ner, data: phrasebook, profile: paper",
        "kind: retrieval",
    ],
)
def test_without_a_training_that_changes_the_encoder_alone_no_map_is_outdated(tmp_path, task):
    assert outdated(tmp_path, task) == {}


def test_vectors_that_no_training_changes_are_not_fitted_again(tmp_path):
    parts = {"methods": ("rotation: {}",), "encoder": "{kind: static, dimension: 16}"}
    (trial,) = plan_of(tmp_path, tasks=asked("xnli"), **parts).trials
    assert len({*trial.evaluations.values()}) == 1
    assert trial.outdated == {}


def test_a_plan_names_stale_maps_before_anything_runs(tmp_path):
    methods = ("none: {}", "rotation: {}", "linear: {}", "finetune: {}")
    tasks = ("xnli: {data: phrasebook, selection: mean-dev}", "pos: {data: phrasebook}")
    plan = plan_of(tmp_path, methods=methods, tasks=tasks)
    assert [line for line in plan.remarks() if "post-hoc maps" in line] == [
        "xnli: the post-hoc maps of rotation, linear (`readout`) were fitted before the task's"
        " training run, which changes the encoder, and are kept: `selection: mean-dev` leaves the"
        " weights of several epochs"
    ]
    assert type(plan).from_json(plan.to_json()) == plan
