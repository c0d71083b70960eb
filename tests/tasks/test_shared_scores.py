"""Dev selection of tasks in a group of workers: really started, and shared by them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classification.model import SentenceClassifier
from raxalign.tasks.slots import Slots
from raxalign.tasks.spans.model import SpanModel
from raxalign.tasks.spans.rows import Answer, Question, Questions
from raxalign.tasks.spans.windows import WindowSizes, make_windows
from raxalign.tasks.tagging.models import BilstmCrf, LinearTagger, make_tagger
from raxalign.train.runtime import Moment, Runtime
from raxalign.train.sharing import sharing
from tests.tasks import word_ner, word_nli, word_qa
from tests.tiny import tiny_bert
from tests.train.workers import run_workers

pytestmark = pytest.mark.slow
WORDS = [*word_nli.WORDS, *word_qa.WORDS, *word_ner.WORDS]
TEXTS = [[f"w{(i * k) % 12}" for k in range(1, 3 + i % 5)] for i in range(30)]


def encoder_of(folder: Path) -> AlignedEncoder:
    encoder = TransformerEncoder.from_folder(folder / "tiny")
    encoder.batch_tokens = 48  # so that there are several batches
    return AlignedEncoder(encoder)


def classify(aligned: AlignedEncoder) -> tuple[nn.Module, Callable[[], Any]]:
    model = SentenceClassifier(aligned, 3, dropout=0.0, max_length=16, seed=0)
    rows = model.rows([TEXTS], ["en"])
    return model.head, lambda: model.probabilities(rows).tolist()


def tag(aligned: AlignedEncoder, tagger: str) -> tuple[nn.Module, Callable[[], Any]]:
    options = {"hidden": 6, "dropout": 0.0, "max_length": 16}
    settings = Slots(Slots.Params(data="phrasebook", tagger=tagger, **options)).settings()
    model = make_tagger(settings, aligned, 4, 0)
    placed = model.place(TEXTS, "en")
    assert isinstance(model, LinearTagger | BilstmCrf)
    part = model.head if isinstance(model, LinearTagger) else model.lstm
    return part, lambda: [labels.tolist() for labels in model.predict(placed)]


def answer(aligned: AlignedEncoder) -> tuple[nn.Module, Callable[[], Any]]:
    model = SpanModel(aligned, 2, dropout=0.0, max_length=12, seed=0)
    rows = [
        Question(str(i), "who", " ".join(text * 3), i, (Answer(text[0], 0),))
        for i, text in enumerate(TEXTS)
    ]
    windows = make_windows(Questions("q", rows), model.encoder, ("en", "en"), WindowSizes(4, 2, 3))
    assert len(windows.windows) > len(rows), "some questions have several windows"
    return model.head, lambda: model.answers(windows, 3)


def predict(rank: int, folder: Path) -> None:
    """One of two workers: predicts alone and together, and counts its batches."""
    aligned = encoder_of(folder)
    for part, predicted in (
        classify(aligned),
        tag(aligned, "linear"),
        tag(aligned, "bilstm_crf"),
        answer(aligned),
    ):
        batches: list[int] = []
        part.register_forward_pre_hook(lambda *_, counted=batches: counted.append(1))
        alone, n_alone = predicted(), len(batches)
        with sharing(Runtime(rank=rank, world_size=2)):
            assert predicted() == alone, type(part)
        n_own = len(batches) - n_alone
        assert n_alone > 4
        assert n_own == (n_alone + 1 - rank) // 2
    (folder / f"predicted-{rank}").touch()


def test_two_workers_predict_bit_for_bit_what_one_does_and_each_half_of_it(tmp_path: Path) -> None:
    tiny_bert(tmp_path / "tiny", WORDS, positions=32)
    run_workers(predict, 2, tmp_path)
    assert (tmp_path / "predicted-0").exists()
    assert (tmp_path / "predicted-1").exists()


class Heard:
    """A watch that keeps what it hears."""

    languages, metric = ("de",), "accuracy"

    def __init__(self, metric: str) -> None:
        self.metric, self.scores = metric, list[float]()

    def ends(self, scores: Mapping[str, float], at: Moment) -> bool:
        self.scores.append(scores["de"])
        return False


def trainings(folder: Path) -> dict[str, tuple[Any, str]]:
    """Tasks over files, each with the metric that is watched."""
    files = {
        name: {split: f"{folder}/{name}/{split}-{{lang}}" for split in ("dev", "test")}
        | {"train": f"{folder}/{name}/train-{{pivot}}"}
        for name in ("qa", "ner")
    }
    nli = {
        "train": f"{folder}/nli/train-{{pivot}}.tsv",
        "dev": f"{folder}/nli/dev-{{lang}}.tsv",
        "test": f"{folder}/nli/test-{{lang}}.tsv",
    }
    return {
        "nli": (word_nli.task(nli, selection="mean-dev", epochs=2), "accuracy"),
        "ner": (word_ner.task(files["ner"], selection="target-dev"), "f1"),
        "qa": (word_qa.task(files["qa"], selection="mean-dev", epochs=2), "f1"),
    }


def train(rank: int, folder: Path) -> None:
    """One of two workers, which train each task; the first one writes what was heard."""
    for name, (task, metric) in trainings(folder).items():
        watch = Heard(metric)
        runtime = Runtime(rank=rank, world_size=2, watch=watch)
        made = folder / f"{name}-{rank}"
        made.mkdir()
        languages = ("en", "de") if name == "ner" else ("en",)  # whose dev sets choose, or train
        task.train(encoder_of(folder), languages, TaskInputs("en"), runtime, made)
        assert bool(watch.scores) == (rank == 0), "the first worker alone asks the watch"
        if rank == 0:
            (folder / f"{name}.json").write_text(json.dumps(watch.scores), encoding="utf-8")
        else:
            assert list(made.iterdir()) == [], "the first worker alone writes"


def test_scores_of_a_group_are_those_that_one_worker_finds_for_the_weights_that_it_kept(
    tmp_path: Path,
) -> None:
    torch.set_num_threads(1)
    tiny_bert(tmp_path / "tiny", WORDS, positions=32)
    word_nli.write_all(tmp_path / "nli")
    for name in ("qa", "ner"):
        (tmp_path / name).mkdir()
    for k, lang in enumerate(("en", "de")):
        for seed, split in ((k, "train"), (k + 10, "dev"), (k + 20, "test")):
            word_qa.write(tmp_path / f"qa/{split}-{lang}", lang, 24, seed, split)
            word_ner.write(tmp_path / f"ner/{split}-{lang}", lang, 24, seed)
    run_workers(train, 2, tmp_path)
    for name, (task, metric) in trainings(tmp_path).items():
        heard = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        record = json.loads((tmp_path / f"{name}-0" / "training.json").read_text(encoding="utf-8"))
        outcome = task.evaluate(
            encoder_of(tmp_path), ("en", "de"), TaskInputs("en"), Runtime(), tmp_path / f"{name}-0"
        )
        (model,) = record["models"]
        dev = {(s.lang, s.metric): s.value for s in outcome.scores if s.split == "dev"}
        if name == "ner":
            assert [curve["de"] for curve in model["dev"].values()] == heard
            assert dev["de", "f1"] == max(heard)
            continue
        assert dev["de", metric] in heard
        assert dev["en", metric] in model["pivot_dev"]
