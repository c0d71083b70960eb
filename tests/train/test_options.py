"""The options of the training loop, in every method and every task that trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from raxalign.catalog import catalog
from raxalign.errors import RaxalignError
from raxalign.methods.families.trained import TrainedMethod
from raxalign.tasks.answers.task import SpanTask
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classifiers.task import ClassificationTask
from raxalign.tasks.taggers.task import TaggingTask
from raxalign.tasks.transfer.task import TransferTask
from raxalign.train.options import TrainSettings
from raxalign.train.runtime import Runtime
from tests.methods.contract import LANGUAGES, asked_for, make, trained, vectors
from tests.methods.toy import toy_encoder, toy_inputs

LOOP: dict[str, Any] = {"learning_rate": 2e-3, "batch_size": 7, "warmup": 2, "schedule": "cosine"}
OF_TASKS: dict[str, Any] = {"weight_decay": 0.2, "betas": "0.8 0.95", "eps": 1e-7, "clip": 0.5}
OF_METHODS: dict[str, Any] = {"steps": 6, "dropout": False, "freeze": "upper", "selection": "dev"}
BERT = ("linear", 0.01, (0.9, 0.999), 1e-8, None, 0.1)
PLAIN = ("linear", 0.0, (0.9, 0.999), 1e-8, None, 0.1)
CAO = ("constant", 0.0, (0.9, 0.98), 1e-9, None, 0.1)
XTREME = ("linear", 0.0, (0.9, 0.999), 1e-8, 1.0, 0.0)
METHODS = {
    **dict.fromkeys(("code_switching", "mlm", "ppa", "tlm", "weam"), BERT),
    **dict.fromkeys(("sentence_margin", "strong_contrastive", "weak_contrastive"), PLAIN),
    "awesome_align": XTREME,
    "distillation": ("linear", 0.0, (0.9, 0.999), 1e-6, None, 0.1),
    "finetune": CAO,
}
SPANS = ("linear", 1e-4, (0.9, 0.999), 1e-8, 1.0, 0.1)
KINDS = {ClassificationTask: CAO, SpanTask: SPANS, TaggingTask: XTREME}
TASKS = {
    f"{kind} linear" if base is TaggingTask else kind: own
    for kind, task in catalog("tasks").items()
    for base, own in KINDS.items()
    if issubclass(task, base)
}
TASKS["ner bilstm_crf"] = ("constant", 0.0, (0.9, 0.999), 1e-8, None, 0.0)
"""Schedule, decay, betas, epsilon, clipping and warm-up by default; a tagger has its own."""
BEFORE = METHODS | TASKS


def made(name, **options):
    if name in METHODS:
        return make(name, Path("inputs"), **options)
    kind, _, tagger = name.partition(" ")
    task = catalog("tasks")[kind]
    given = {"tagger": tagger} if tagger else {}
    return task(task.Params(**{"data": "phrasebook", **given, **options}))


def asked_of(name):
    """The options of the optimiser that a task has, with other values than its own."""
    fields = catalog("tasks")[name.split()[0]].Params.model_fields
    return {option: value for option, value in OF_TASKS.items() if option in fields}


def settings(plugin):
    if isinstance(plugin, TransferTask):
        return plugin.head(TaskInputs("en")).options.settings()
    return plugin.settings()


def test_all_that_trains_is_covered_by_this_file():
    tasks = [kind for kind, task in catalog("tasks").items() if issubclass(task, TransferTask)]
    assert sorted({name.split()[0] for name in TASKS}) == sorted(tasks)
    assert sorted(METHODS) == sorted(trained())
    of_weights = {"lora", "with_task"}
    assert {*LOOP, *OF_METHODS, "epochs"} == set(TrainedMethod.Params.model_fields) - of_weights


@pytest.mark.parametrize("name", BEFORE)
def test_every_option_reaches_the_loop_and_without_them_it_is_what_it_was(name):
    given = OF_METHODS if name in METHODS else asked_of(name)
    found = settings(made(name, **LOOP, **given, epochs=4))
    own = dict(zip(("weight_decay", "betas", "eps", "clip"), BEFORE[name][1:5], strict=True))
    own |= {option: value for option, value in given.items() if option in own}
    own["betas"] = (0.8, 0.95) if "betas" in given else own["betas"]
    assert found == TrainSettings(
        *(2e-3, 7, 4, given.get("steps"), 2, "cosine"), **own, dropout=name in TASKS
    )
    plain = settings(made(name))
    own = (plain.schedule, plain.weight_decay, plain.betas, plain.eps, plain.clip, plain.warmup)
    assert own == BEFORE[name]


@pytest.mark.parametrize("name", BEFORE)
def test_each_option_changes_the_key_unless_it_is_what_was_always_done(name):
    plain = made(name)
    schedule, _, betas, eps, *_ = BEFORE[name]
    same: dict[str, Any] = {"schedule": schedule}
    if name in METHODS:
        same |= {"selection": "none"}
        changes = LOOP | OF_METHODS
    else:
        adam = {"eps": eps, "clip": BEFORE[name][4] or 0, "betas": f"{betas[0]} {betas[1]:.4f}"}
        same |= {option: adam[option] for option in adam.keys() & asked_of(name)}
        changes = LOOP | asked_of(name) | {"epochs": 4}
    assert made(name, **same).canonical() == plain.canonical()
    assert not same.keys() & plain.canonical().keys()
    for option, value in changes.items():
        changed = made(name, **{option: value})
        assert changed.canonical() != plain.canonical(), option
        if name in TASKS:
            assert changed.training().options != plain.training().options, option


@pytest.mark.parametrize("kind", METHODS)
def test_steps_have_no_epochs_and_methods_act_above_what_is_frozen(kind):
    two, three = (made(kind, steps=4, epochs=epochs).canonical() for epochs in (2, 3))
    assert two == three
    assert "epochs" not in two
    assert made(kind).acts(4).stream_from == 0
    assert made(kind, freeze="lower").acts(4).stream_from == 3
    with pytest.raises(RaxalignError, match=r"leaves layer [12] as it is; it holds every block"):
        made(kind, freeze={"blocks": "1-2", "embeddings": True}).acts(2)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("options")
    toy_encoder(folder / "encoder")
    toy_inputs(folder, 12, LANGUAGES)
    return folder


@pytest.mark.parametrize("kind", METHODS)
def test_with_all_options_at_once_it_trains_and_keeps_what_the_dev_part_says(kind, root):
    method = make(kind, root, **LOOP, **OF_METHODS)
    assert method.needs().dev
    assert not make(kind, root).needs().dev
    curve: dict[int, float] = {}

    def report(metrics, step):
        curve.update((step, metrics[name]) for name in metrics if name.endswith("/dev_loss"))

    start, runtime = toy_encoder(root / "encoder"), Runtime(seed=1, report=report)
    aligned = method.align(toy_encoder(root / "encoder"), asked_for(method, root), runtime)
    assert max(curve) == 6
    assert aligned.notes["steps"] == 6
    assert aligned.notes["dev_loss"] == min(curve.values())
    assert curve[aligned.notes["selected_step"]] == min(curve.values())
    before, after = (model.state_dict() for model in (start.model, aligned.encoder.model))
    upper = [name for name in before if name.startswith("bert.encoder.layer.1")]
    assert upper
    assert all(torch.equal(before[name], after[name]) for name in upper)
    assert all(weight.isfinite().all() for weight in after.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", METHODS)
def test_the_weights_kept_are_those_of_a_training_that_stops_there(kind, root):
    options: dict[str, Any] = {"schedule": "constant", "warmup": 0}
    method = make(kind, root, **options, steps=6, selection="dev")
    kept = method.align(toy_encoder(root / "encoder"), asked_for(method, root), Runtime(seed=1))
    stopped = make(kind, root, **options, steps=kept.notes["selected_step"])
    again = stopped.align(toy_encoder(root / "encoder"), asked_for(stopped, root), Runtime(seed=1))
    assert torch.equal(vectors(kept), vectors(again))


@pytest.mark.parametrize("betas", ["0.9", "0.9 1", "-0.1 0.9", "a b", "0.9 0.98 0.99"])
def test_betas_that_are_not_two_shares_are_refused(betas):
    with pytest.raises(ValidationError, match="write two numbers from 0 to below 1"):
        made("xnli", betas=betas)
