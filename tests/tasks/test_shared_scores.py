"""Dev selection of tasks in a group of two workers, which are really started."""

from __future__ import annotations

import json

import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.tasks.base import TaskInputs
from raxalign.train.runtime import Runtime
from tests.tasks import word_ner, word_nli, word_qa
from tests.tiny import tiny_bert
from tests.train.workers import run_workers

pytestmark = pytest.mark.slow
WORDS = [*word_nli.WORDS, *word_qa.WORDS, *word_ner.WORDS]


def encoder_of(folder):
    encoder = TransformerEncoder.from_folder(folder / "tiny")
    encoder.batch_tokens = 48  # so that there are several batches
    return AlignedEncoder(encoder)


class Heard:
    """A watch that keeps what it hears."""

    languages, metric = ("de",), "accuracy"

    def __init__(self, metric):
        self.metric, self.scores = metric, list[float]()

    def ends(self, scores, at):
        self.scores.append(scores["de"])
        return False


def trainings(folder):
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
        "crf": (word_ner.task(files["ner"], "bilstm_crf", selection="target-dev"), "f1"),
        "qa": (word_qa.task(files["qa"], selection="mean-dev", epochs=2), "f1"),
    }


def train(rank, folder):
    """One of two workers, which train each task; the first one writes what was heard."""
    for name, (task, metric) in trainings(folder).items():
        watch = Heard(metric)
        runtime = Runtime(rank=rank, world_size=2, watch=watch)
        made = folder / f"{name}-{rank}"
        made.mkdir()
        tags = name in ("ner", "crf")
        languages = ("en", "de") if tags else ("en",)  # whose dev sets choose, or train
        task.train(encoder_of(folder), languages, TaskInputs("en"), runtime, made)
        assert bool(watch.scores) == (rank == 0), "the first worker alone asks the watch"
        if rank == 0:
            (folder / f"{name}.json").write_text(json.dumps(watch.scores), encoding="utf-8")
        else:
            assert list(made.iterdir()) == [], "the first worker alone writes"


def test_scores_of_a_group_are_those_that_one_worker_finds_for_the_weights_that_it_kept(tmp_path):
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
        if name in ("ner", "crf"):
            assert [curve["de"] for curve in model["dev"].values()] == heard
            assert dev["de", "f1"] == max(heard)
            continue
        assert dev["de", metric] in heard
        assert dev["en", metric] in model["pivot_dev"]
