"""What holds for the options of the training in every task that trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raxalign.catalog import catalog
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.tasks.base import Task, TaskInputs
from raxalign.tasks.tagging.task import TaggingTask
from raxalign.tasks.transfer import training
from raxalign.tasks.transfer.params import settings_of
from raxalign.tasks.transfer.task import TransferTask
from raxalign.train.loop import TrainSettings
from raxalign.train.runtime import Runtime
from tests.tiny import tiny_bert

CHANGED: dict[str, Any] = {
    "learning_rate": 2e-3,
    "batch_size": 7,
    "epochs": 4,
    "warmup": 12,
    "schedule": "cosine",
    "weight_decay": 0.2,
    "betas": "0.8 0.95",
    "eps": 1e-7,
    "clip": 0.5,
}
LOOP = TrainSettings(2e-3, 7, 4, None, 12, "cosine", (0.8, 0.95), 1e-7, 0.2, 0.5)
CAO = ("constant", 0.0, (0.9, 0.98), 1e-9, None, 0.1)
XTREME = ("linear", 0.0, (0.9, 0.999), 1e-8, 1.0, 0.0)
BEFORE = {
    ("mlqa", ""): ("linear", 1e-4, (0.9, 0.999), 1e-8, 1.0, 0.1),
    ("ner", "bilstm_crf"): ("constant", 0.0, (0.9, 0.999), 1e-8, None, 0.0),
    ("ner", "linear"): XTREME,
    ("pawsx", ""): CAO,
    ("pos", "linear"): XTREME,
    ("slots", "linear"): XTREME,
    ("xnli", ""): CAO,
}
KINDS = sorted({kind for kind, _ in BEFORE})


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> AlignedEncoder:
    folder = tiny_bert(tmp_path_factory.mktemp("tiny"), ["the", "of"], positions=64)
    return AlignedEncoder(TransformerEncoder.from_folder(folder))


def made(kind: str, **options: Any) -> Task:
    task = catalog("tasks")[kind]
    task_made: Task = task(task.Params(**{"data": "phrasebook", **options}))
    return task_made


def settings(task: Task) -> TrainSettings:
    return settings_of(task.settings() if isinstance(task, TaggingTask) else task.params)


def test_every_task_that_trains_is_covered_by_this_file() -> None:
    trained = [kind for kind, task in catalog("tasks").items() if issubclass(task, TransferTask)]
    assert sorted(trained) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_reaches_the_loop(kind: str) -> None:
    assert settings(made(kind, **CHANGED)) == LOOP


@pytest.mark.parametrize(("kind", "tagger"), BEFORE)
def test_without_options_the_loop_is_what_it_was(kind: str, tagger: str) -> None:
    found = settings(made(kind, **({"tagger": tagger} if tagger else {})))
    assert (
        found.schedule,
        found.weight_decay,
        found.betas,
        found.eps,
        found.clip,
        found.warmup,
    ) == BEFORE[kind, tagger]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", CHANGED)
def test_each_option_is_part_of_the_identity_of_the_training(kind: str, option: str) -> None:
    changed = made(kind, **{option: CHANGED[option]})
    assert changed.training() != made(kind).training()
    assert changed.canonical() != made(kind).canonical()


@pytest.mark.parametrize(("kind", "tagger"), BEFORE)
def test_an_option_at_what_was_always_done_enters_no_key(kind: str, tagger: str) -> None:
    schedule, _, betas, eps, clip, _ = BEFORE[kind, tagger]
    of = {"tagger": tagger} if tagger else {}
    plain = made(kind, **of)
    same = made(
        kind,
        **of,
        schedule=schedule,
        betas=f"{betas[0]} {betas[1]:.4f}",
        eps=eps,
        clip=clip or 0,
    )
    assert same.canonical() == plain.canonical()
    assert not {"schedule", "betas", "eps", "clip"} & set(plain.canonical())


class Stopped(Exception):
    """Carries the settings of a training that is about to begin."""


@pytest.mark.parametrize(
    ("kind", "tagger"), [("mlqa", ""), ("ner", "linear"), ("ner", "bilstm_crf"), ("xnli", "")]
)
def test_the_training_begins_with_the_options(
    kind: str, tagger: str, encoder: AlignedEncoder, tmp_path: Path, monkeypatch: Any
) -> None:
    """One task of each room, each tagger."""

    def stop(objective: Any, n_rows: int, settings: TrainSettings, *_: Any, **__: Any) -> None:
        raise Stopped(settings)

    monkeypatch.setattr(training, "fit", stop)
    sizes = {"train": 12, "dev": 4, "test": 4}
    task = made(kind, phrasebook=sizes, **CHANGED, **({"tagger": tagger} if tagger else {}))
    with pytest.raises(Stopped) as found:
        task.train(encoder, ("en",), TaskInputs("en"), Runtime(seed=0), tmp_path)
    assert found.value.args == (LOOP,)
