"""Methods that are trained with a task, in the plan: what is one stage, what it depends on, and
what is refused.
"""

import pytest

from raxalign.errors import DataError, GridError
from raxalign.grid.plan import Plan
from tests.grids import small_plan

TASKS = ("xnli: {data: phrasebook}", "pos: {data: phrasebook, tagger: linear}", "retrieval: {}")
JOINT = "finetune: {with_task: {task: xnli}}"


def plan_of(folder, *methods, tasks=TASKS, **parts):
    """The plan of a grid of one language and size."""
    given = {"sentences": "50", "languages": "{each: [de]}", **parts}
    return small_plan(folder, methods=methods, tasks=tasks, **given)


def test_the_task_has_no_training_of_its_own_and_others_start_from_the_encoder_of_both(tmp_path):
    plan = plan_of(tmp_path, JOINT, run="workers: 3")
    (trial,) = plan.trials
    xnli, pos, retrieval = (plan.stages[key] for key in trial.evaluations.values())
    assert xnli.inputs["trained"] == xnli.inputs["aligned"] == trial.aligned
    assert [stage.maker for stage in plan.stages.values() if stage.kind == "tuned"] == ["pos"]
    assert plan.stages[pos.inputs["trained"]].inputs == {"aligned": trial.aligned}
    assert retrieval.inputs["aligned"] == trial.aligned
    assert trial.joint == {"xnli": "joint"}
    stage = plan.stages[trial.aligned]
    assert (stage.kind, stage.maker, stage.shares) == ("aligned", "finetune", 3)
    assert stage.task.maker == "xnli"
    assert stage.task.key not in plan.stages
    assert plan.trains(trial)


def test_a_plan_that_was_written_down_has_the_same_keys(tmp_path):
    plan = plan_of(tmp_path, JOINT)
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert [stage.key for stage in again.stages.values()] == list(plan.stages)


def aligned(folder, options, method="", tasks=TASKS, **parts):
    methods = (f"finetune: {{with_task: {{{options}}}{method}}}",)
    (trial,) = plan_of(folder, *methods, tasks=tasks, **parts).trials
    return trial.aligned


def test_the_key_is_that_of_the_task_and_its_options_and_not_of_names(tmp_path):
    plain = aligned(tmp_path, "task: xnli")
    renamed = ("nli: {kind: xnli, data: phrasebook}",)
    assert aligned(tmp_path, "task: nli", tasks=renamed) == plain
    # what the task's training decides, and what only its evaluation reads
    assert aligned(tmp_path, "task: xnli", ", learning_rate: 1.0e-2, epochs: 7") == plain
    kept = ("xnli: {data: phrasebook, readout: keep}",)
    assert aligned(tmp_path, "task: xnli", tasks=kept) == plain
    other = {
        aligned(tmp_path, "task: xnli, weight: 0.5"),
        aligned(tmp_path, "task: xnli, schedule: alternate"),
        aligned(tmp_path, "task: pos"),
        aligned(tmp_path, "task: xnli", ", batch_size: 7"),
        aligned(tmp_path, "task: xnli", tasks=("xnli: {data: phrasebook, epochs: 5}",)),
        aligned(tmp_path, "task: xnli", seeds="[1]"),
    }
    assert len(other - {plain}) == 6


def test_before_is_what_a_grid_does_without_it(tmp_path):
    before = "finetune: {with_task: {task: xnli, schedule: before}}"
    (one,), (other,) = (plan_of(tmp_path, m).trials for m in (before, "finetune: {}"))
    assert (one.aligned, one.evaluations) == (other.aligned, other.evaluations)
    assert one.joint == {}
    assert one.params["with_task"]["schedule"] == "before"


def test_points_are_named_by_what_was_given(tmp_path):
    weights = "finetune: {with_task: {task: xnli, weight: [0.5, 1]}}"
    trials = plan_of(tmp_path, weights).trials
    shown = [trial.params["with_task"] for trial in trials]
    assert shown == [{"task": "xnli", "weight": 0.5}, {"task": "xnli", "weight": 1.0}]
    assert trials[1].aligned == aligned(tmp_path, "task: xnli")


def test_the_plan_says_which_trainings_are_one(tmp_path):
    methods = (JOINT, "other: {kind: tlm, with_task: {task: xnli}}", "none: {}")
    told = [line for line in plan_of(tmp_path, *methods).remarks() if "together" in line]
    assert told == [
        "xnli: trained together with finetune, other (`schedule: joint`), whose rows are those of"
        " the joint model; other tasks read its encoder"
    ]


OF_TASK = {
    "xnly": "the grid has no task 'xnly' (did you mean xnli?)",
    "slots": "the grid has no task 'slots' (it has xnli, pos, retrieval, crf, mean, each)",
    "retrieval": "retrieval cannot be trained with a method: it is not trained (name a task that"
    " is: a classifier, a tagger, answers)",
    "crf": "crf cannot be trained with a method: its training run leaves the encoder as it is"
    " (choose a task that fine-tunes it)",
    "mean": "mean cannot be trained with a method: `selection: mean-dev` chooses among the weights"
    " of several epochs (write `selection: pivot-dev` or `last`)",
    "each": "each cannot be trained with a method: `models: each` trains one encoder per language"
    " (write `models: together`)",
    "[xnli, pos]": "several tasks: xnli, pos; a training run can have only one (write a method for"
    " each, such as `finetune-pos: {kind: finetune, ...}`)",
}
WRONG = [
    *(
        (f"finetune: {{with_task: {{task: {task}}}}}", f"finetune.with_task.task: {told}")
        for task, told in OF_TASK.items()
    ),
    (
        "finetune: {with_task: {task: xnli}, freeze: {blocks: 1-2, embeddings: true}}",
        "finetune.layers: layers 'last': freeze leaves layer 2 as it is; it holds every block, so"
        " that nothing is left to train: free some of them",
    ),
    (
        "rotation: {with_task: {task: xnli}}",
        "rotation.with_task: rotation trains no encoder, so that no task can be trained with it"
        " (leave it out: the task is trained on what the method leaves)",
    ),
    (
        "finetune: {with_task: {task: xnli}, selection: dev}",
        "finetune: selection: dev: with `with_task` the task's own `selection` chooses the weights"
        " (leave `selection` out here)",
    ),
]
REFUSED = (
    *TASKS,
    "crf: {kind: pos, data: phrasebook, tagger: bilstm_crf}",
    "mean: {kind: xnli, data: phrasebook, selection: mean-dev}",
    "each: {kind: xnli, data: phrasebook, setting: translate-train, models: each}",
)


@pytest.mark.parametrize(("method", "told"), WRONG, ids=[told[:40] for _, told in WRONG])
def test_what_cannot_be_trained_together_is_one_fault_with_its_line_and_remedy(
    tmp_path, method, told
):
    with pytest.raises(GridError) as caught:
        plan_of(tmp_path, "none: {}", method, tasks=REFUSED)
    assert len(caught.value.faults) == 1
    assert f"  line 15: methods.{told}" in str(caught.value)


def test_a_task_whose_files_are_missing_is_refused(tmp_path):
    files = "{train: 'no-{pivot}.tsv', dev: 'no-{lang}.tsv', test: 'no-{lang}.tsv'}"
    with pytest.raises(DataError, match=r"no-en\.tsv: No such file"):
        plan_of(tmp_path, JOINT, tasks=(f"xnli: {{data: {files}}}",))
