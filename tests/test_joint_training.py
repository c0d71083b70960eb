"""A method and a task in one training: what it leaves is what both trainings leave, and each part
of it is as it would be alone.
"""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

from raxalign.analysis.cells import Cell
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.trained_weights import Lora
from raxalign.grid.expansion.expand import expand
from raxalign.grid.file import load
from raxalign.methods.families.trained import WithTask
from raxalign.stages import Workshop
from raxalign.stages.makers import JointTraining
from raxalign.store.storage import Storage
from raxalign.tasks.base import TaskInputs
from raxalign.train.objective import Joint
from raxalign.train.runtime import Runtime
from raxalign.values.results import remarks, rows
from tests.grids import write_grid
from tests.methods import contract, toy
from tests.tasks import word_ner, word_nli, word_qa
from tests.tiny import tiny_bert
from tests.train.workers import run_workers

TOYS = {"nli": word_nli, "ner": word_ner, "qa": word_qa}
SHORT = {"epochs": 2, "learning_rate": 1e-3, "max_train": 72}  # two epochs of three steps
CHOSEN = {"nli": {}, "qa": {}, "ner": {"selection": "pivot-dev"}}


def prepare(folder):
    """The toy's data, an encoder that knows the words of all tasks, and their files."""
    words = [*toy.WORDS, *toy.WORDS.values(), *(word for t in TOYS.values() for word in t.WORDS)]
    tiny_bert(folder / "encoder", words, positions=64)
    toy.toy_inputs(folder, contract.SIZE, contract.LANGUAGES)
    files = {name: module.write_all(folder / name) for name, module in TOYS.items()}
    (folder / "files.json").write_text(json.dumps(files))
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    torch.set_num_threads(1)
    return prepare(tmp_path_factory.mktemp("joint"))


def task_of(root, name, **options):
    files = json.loads((root / "files.json").read_text())[name]
    return TOYS[name].task(files, **{**SHORT, **CHOSEN[name], **options})


def joint(root, folder, kind="finetune", task="nli", runtime=None, how=None, **options):
    """Train a method with a task, whose model is written into a folder; return the encoder."""
    given = WithTask(**{"task": task, **(how or {})})
    method = contract.make(kind, root, with_task=given, **options)
    encoder = toy.toy_encoder(root / "encoder")
    companion = JointTraining(method, encoder, contract.asked_for(method, root))
    notes = tune(root, folder, encoder, task, runtime, companion=companion.trained)
    return companion.aligned(notes)


def tune(root, folder, encoder, task, runtime=None, **more):
    """Train a task from an encoder; return the notes."""
    folder.mkdir(exist_ok=True)
    where, inputs = runtime or Runtime(seed=5), TaskInputs("en")
    plain = AlignedEncoder(encoder)
    return task_of(root, task).train(plain, ("en",), inputs, where, folder, **more)


def task_weights(folder):
    (file,) = folder.glob("*.*.safetensors")
    return load_file(file)


@pytest.fixture(scope="module")
def alone(root, tmp_path_factory):
    """The weights of the task's own training, which are those of a joint one of weight 0."""
    folder = tmp_path_factory.mktemp("alone")
    tune(root, folder, toy.toy_encoder(root / "encoder"), "nli")
    return task_weights(folder)


def same(found, expected):
    equal = (torch.equal(found[name], expected[name]) for name in found)
    return found.keys() == expected.keys() and all(equal)


def of_encoder(aligned):
    return {f"model.{name}": p.detach() for name, p in aligned.encoder.model.named_parameters()}


@pytest.mark.parametrize("task", TOYS)
def test_with_a_weight_of_0_it_is_the_tasks_own_training_bit_for_bit(root, tmp_path, task):
    encoder = toy.toy_encoder(root / "encoder")
    alone = tune(root, tmp_path / "alone", encoder, task)
    aligned = joint(root, tmp_path / "joint", task=task, how={"weight": 0})
    expected, found = task_weights(tmp_path / "alone"), task_weights(tmp_path / "joint")
    trained = {name: p for name, p in of_encoder(aligned).items() if name in expected}
    assert trained
    assert same({**trained, **found}, expected)
    assert aligned.notes["with_task"] == alone
    record, expected = ((tmp_path / name / "training.json") for name in ("joint", "alone"))
    assert record.read_bytes() == expected.read_bytes()


@pytest.mark.parametrize("kind", contract.trained())
def test_every_method_that_trains_leaves_one_encoder_for_itself_and_for_a_task(
    root, alone, tmp_path, kind
):
    folder, start = tmp_path / "joint", toy.toy_encoder(root / "encoder")
    aligned = joint(root, folder, kind, learning_rate=1.0)  # the rate is the task's
    expected, found = of_encoder(aligned), task_weights(folder)
    assert found.keys() == {"head.weight", "head.bias"}, "the encoder is beside it"
    assert aligned.weights_changed
    assert (aligned.notes["steps"], aligned.notes["steps_of_method"]) == (6, 6)
    trained = {name: p for name, p in expected.items() if name in alone}
    assert {**trained, **found}.keys() == alone.keys()
    for part in (trained, found):
        assert not same(part, {name: alone[name] for name in part}), "the method has a part in it"
    before = of_encoder(AlignedEncoder(start))
    head = {n for n, p in expected.items() if ".cls." in n and not torch.equal(p, before[n])}
    assert bool(head) == contract.make(kind, root).needs().head
    assert all(p.requires_grad for p in start.model.parameters())


@pytest.mark.parametrize("schedule", ["joint", "alternate"])
@pytest.mark.parametrize("task", ["ner", "qa"])
def test_taggers_and_answers_keep_the_weights_that_their_rule_chooses(
    root, tmp_path, task, schedule
):
    scores, chosen = [], {"ner": "ner/selection", "qa": "mlqa/selection"}[task]
    runtime = Runtime(seed=5, report=lambda values, step: scores.append((step, values)))
    aligned = joint(root, tmp_path, task=task, runtime=runtime, how={"schedule": schedule})
    made = [(step, values[chosen]) for step, values in scores if chosen in values]
    (file,) = tmp_path.glob("*.*.safetensors")
    best, score = max(made, key=lambda pair: pair[1])
    at = best if task == "ner" else [step for step, _ in made].index(best) + 1
    assert int(file.name.split(".")[-2]) == at
    assert len(made) == 2  # after each epoch
    again = task_of(root, task).evaluate(aligned, ("en",), TaskInputs("en"), Runtime(), tmp_path)
    (dev,) = (s for s in again.scores if (s.lang, s.split, s.metric) == ("en", "dev", "f1"))
    assert dev.value == score, "the head is loaded onto the encoder that it was trained with"


def test_adapters_and_frozen_blocks_hold_for_both(root, tmp_path):
    start = of_encoder(AlignedEncoder(toy.toy_encoder(root / "encoder")))
    adapted = joint(root, tmp_path / "lora", lora=Lora(rank=2), task="ner")
    moved = {name for name, p in of_encoder(adapted).items() if not torch.equal(p, start[name])}
    attention = [f"model.bert.encoder.layer.{i}.attention.self" for i in range(2)]
    assert moved == {f"{own}.{name}.weight" for own in attention for name in ("query", "value")}
    assert task_weights(tmp_path / "lora")["head.weight"].any()
    half = joint(root, tmp_path / "half", freeze="lower")
    moved = {name for name, p in of_encoder(half).items() if not torch.equal(p, start[name])}
    assert moved
    assert all("layer.1." in name for name in moved)


@pytest.mark.parametrize(
    ("task", "how", "options"),
    [
        ("nli", {}, {}),
        ("ner", {"schedule": "alternate"}, {}),
        ("nli", {}, {"lora": Lora(rank=2)}),
    ],
)
def test_one_that_was_killed_and_went_on_equals_one_that_was_not(
    root, tmp_path, monkeypatch, task, how, options
):
    given = {"task": task, "how": how, **options}
    whole = joint(root, tmp_path / "whole", **given)
    runtime = Runtime(seed=5, checkpoints=tmp_path / "checkpoints", checkpoint_every=2)
    numbers, own = [], Joint.end

    def end(self, step):
        own(self, step)
        numbers.append(step.number)
        if len(numbers) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Joint, "end", end)
    with pytest.raises(KeyboardInterrupt):
        joint(root, tmp_path / "killed", runtime=runtime, **given)
    resumed = joint(root, tmp_path / "resumed", runtime=runtime, **given)
    assert numbers[4:6] == [4, 4], "the last checkpoint was after step 3"
    assert same(task_weights(tmp_path / "resumed"), task_weights(tmp_path / "whole"))
    assert same(of_encoder(resumed), of_encoder(whole))
    assert resumed.notes == whole.notes


def shared(root, folder, **place):
    """The encoder of a training whose batches three shares draw dropout for."""
    runtime = Runtime(seed=5, shares=3, **place)
    return of_encoder(joint(root, folder, "weak_contrastive", runtime=runtime))


def work(rank, folder):
    """One of two workers."""
    found = shared(folder, folder / f"task-{rank}", rank=rank, world_size=2)
    torch.save(found, folder / f"{rank}.pt")


@pytest.mark.slow
def test_two_workers_give_the_encoder_of_one(tmp_path):
    prepare(tmp_path)
    run_workers(work, 2, tmp_path)
    one = shared(tmp_path, tmp_path / "one")
    for rank in (0, 1):
        found = torch.load(tmp_path / f"{rank}.pt")
        for name, weight in one.items():
            assert torch.allclose(found[name], weight, atol=1e-4), name
    assert not list((tmp_path / "task-1").iterdir()), "the first worker writes"


@pytest.mark.slow
def test_a_grid_evaluates_the_model_of_both_and_says_which_rows_are_its(tmp_path):
    sizes = "data: phrasebook, phrasebook: {train: 60, dev: 12, test: 24}, learning_rate: 1.0e-3"
    path = write_grid(
        tmp_path,
        encoder="phrasebook",
        methods=("finetune: {batch_size: 16, with_task: {task: xnli, schedule: alternate}}",),
        tasks=(f"xnli: {{{sizes}, epochs: 1}}", "space: {kind: representation, layers: last}"),
        languages="{each: [de]}",
        sentences="60",
        size=150,
    )
    plan, made = expand(load(path)), []
    workshop = Workshop(plan, Storage(str(tmp_path / "storage")), Runtime())
    workshop.announce = lambda stage, seconds: made.append(stage.kind)
    (trial,) = plan.trials
    xnli, _ = workshop.run_trial(trial.key)
    assert "tuned" not in made
    folder = workshop.ensure(trial.aligned)
    loaded = AlignedEncoder.load(folder, lambda: pytest.fail("it has weights of its own"))
    assert task_weights(folder / "task").keys() == {"head.weight", "head.bias"}
    task = plan.stages[xnli["key"]].plugin()
    inputs = workshop.task_inputs(plan.stages[xnli["key"]])
    alone = task.evaluate(loaded, ("en", "de"), inputs, Runtime(), folder / "task")
    assert [vars(score) for score in alone.scores] == xnli["scores"]
    found = rows(plan, workshop.ledger)
    shown = {(row["task"], row.get("joint")) for row in found}
    assert shown == {("xnli", "alternate"), ("space", None)}
    (cell,) = Cell.grouped(found, plan.pivot, plan.measured)
    assert plan.cell_name(cell) == "finetune (joint with xnli)"
    records = {key: workshop.ledger.read(key) for key in trial.evaluations.values()}
    assert any(line.startswith("xnli: trained together with") for line in remarks(plan, records))
