"""XNLI end to end on a tiny BERT: a task that one word of the hypothesis decides."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch

from raxalign.encoders.models.aligned import Affine, AlignedEncoder, Transform
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classification.model import SentenceClassifier
from raxalign.tasks.xnli import Xnli
from raxalign.train.runtime import Runtime
from tests.tasks.word_nli import WORDS, at, task, values, write, write_all
from tests.tiny import tiny_bert


@pytest.fixture(scope="module")
def read_encoder(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tiny_bert(tmp_path_factory.mktemp("tiny"), WORDS, positions=32)
    return TransformerEncoder.from_folder(folder)


@pytest.fixture
def encoder(read_encoder):
    return deepcopy(read_encoder)


@pytest.fixture
def files(tmp_path):
    return write_all(tmp_path / "files")


def run(tmp_path, aligned, files, *, seed=0, name="tuned", start=None, runtime=None, **params):
    xnli, inputs, runtime = task(files, **params), TaskInputs("en"), runtime or Runtime(seed=seed)
    folder = tmp_path / name
    folder.mkdir()
    xnli.train(start or aligned, ("en",), inputs, runtime, folder)
    return xnli.evaluate(aligned, xnli.languages(("de",), "en"), inputs, runtime, folder)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, read_encoder):
    """A training with all defaults: its encoder, its folder and its outcome."""
    root, encoder = tmp_path_factory.mktemp("whole"), deepcopy(read_encoder)
    outcome = run(root, AlignedEncoder(encoder), write_all(root / "files"))
    return encoder, root / "tuned", outcome


def test_predictions_recompute_to_the_scores(tuned):
    *_, outcome = tuned
    rows = outcome.predictions.to_pylist()
    for lang in ("en", "de"):
        for split, n in (("dev", 30), ("test", 33)):
            chosen = [row for row in rows if (row["lang"], row["split"]) == (lang, split)]
            assert [row["id"] for row in chosen] == list(range(n))
            assert (
                np.mean([row["label"] == row["predicted"] for row in chosen])
                == values(outcome)[lang, split]
            )
            for row in chosen:
                probabilities = {
                    label: row[label] for label in ("entailment", "neutral", "contradiction")
                }
                assert sum(probabilities.values()) == pytest.approx(1, abs=1e-5)
                assert max(probabilities, key=probabilities.get) == row["predicted"]


@pytest.mark.slow
def test_no_rule_looks_at_the_test_side(tmp_path, encoder, files):
    """With every test label changed, the same epochs are picked and the same rows predicted."""
    train = at(files["train"].replace("{pivot}", "{lang}"), "en")
    write(train, "en", 48, 0)  # six steps per epoch are enough to differ
    for rule in ("pivot-dev", "mean-dev", "target-dev"):
        outcome = run(tmp_path, AlignedEncoder(encoder), files, selection=rule, name=rule, epochs=2)
        turned = dict(files, test=files["test"].replace("/test-", "/turned-"))
        for lang in ("en", "de"):
            rows = [
                line.split("\t")
                for line in at(files["test"], lang).read_text(encoding="utf-8").splitlines()
            ]
            text = "".join(f"{a}\t{b}\t{(int(c) + 1) % 3}\n" for a, b, c in rows)
            at(turned["test"], lang).write_text(text, encoding="utf-8")
        other = run(
            tmp_path,
            AlignedEncoder(encoder),
            turned,
            selection=rule,
            name=f"{rule}-turned",
            epochs=2,
        )
        assert outcome.notes["models"] == other.notes["models"]
        assert outcome.predictions["predicted"].equals(other.predictions["predicted"])


def test_max_train_takes_the_first_rows(tmp_path, encoder, files):
    folder = tmp_path / "few"
    folder.mkdir()
    assert (
        task(files, max_train=9, epochs=1).train(
            AlignedEncoder(encoder), ("en",), TaskInputs("en"), Runtime(), folder
        )["rows"]
        == 9
    )


def test_training_rows_that_are_evaluated_are_refused(tmp_path, encoder, files):
    for split in ("dev", "test"):
        with pytest.raises(DataError, match="training rows too"):
            run(tmp_path, AlignedEncoder(encoder), {**files, split: files["train"]}, name=split)
    leaking = at(files["train"], "en").read_text(encoding="utf-8").splitlines(keepends=True)[0]
    with at(files["test"], "de").open("a", encoding="utf-8") as file:
        file.write(leaking)
    with pytest.raises(DataError, match=r"test-de\.tsv:34: 1 of 34 rows"):
        run(tmp_path, AlignedEncoder(encoder), files, epochs=1)


def test_blocks_below_an_inside_shift_stay_as_they_are(encoder):
    aligned = AlignedEncoder(
        encoder, (Transform("de", 1, "inside", (Affine(shift=torch.ones(32)),)),)
    )
    trained = SentenceClassifier(aligned, 3, dropout=0.0, max_length=16, seed=0).trained()
    assert any("layer.1." in name for name in trained)
    assert not any("layer.0." in name or "embeddings" in name for name in trained)
    free = SentenceClassifier(
        AlignedEncoder(encoder), 3, dropout=0.0, max_length=16, seed=0
    ).trained()
    assert any("layer.0." in name for name in free)
    assert any("word_embeddings" in name for name in free)
    assert not any(word in name for name in free for word in ("pooler", "predictions"))


def test_a_language_of_the_hub_without_a_development_set_is_scored_on_its_test_set(
    tmp_path, encoder
):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for k, (lang, split) in enumerate(
        (("en", "train"), ("en", "validation"), ("en", "test"), ("de", "test"))
    ):
        write(tmp_path / "rows.tsv", lang, 24, k)
        rows = [
            line.split("\t")
            for line in (tmp_path / "rows.tsv").read_text(encoding="utf-8").splitlines()
        ]
        place = tmp_path / "nli" / lang / split
        place.mkdir(parents=True)
        table = pa.table(
            {
                "premise": [r[0] for r in rows],
                "hypothesis": [r[1] for r in rows],
                "label": [int(r[2]) for r in rows],
            }
        )
        pq.write_table(table, place / "0000.parquet")
    xnli, inputs = (
        task("hub", dataset=str(tmp_path / "nli"), epochs=1),
        TaskInputs("en", downloads=tmp_path),
    )
    (tmp_path / "tuned").mkdir()
    xnli.train(AlignedEncoder(encoder), ("en",), inputs, Runtime(), tmp_path / "tuned")
    outcome = xnli.evaluate(
        AlignedEncoder(encoder), ("en", "de"), inputs, Runtime(), tmp_path / "tuned"
    )
    assert set(values(outcome)) == {
        ("en", "dev"),
        *((lang, "test") for lang in ("en", "de", "avg", "avg_zero_shot")),
    }
    assert outcome.notes["missing_splits"] == ["de/dev"]
    turned = TaskInputs("de", downloads=tmp_path)
    with pytest.raises(DataError, match=r"nli/de:train: has no split train"):
        xnli.train(AlignedEncoder(encoder), ("de",), turned, Runtime(), tmp_path / "tuned")
    chosen = task("hub", dataset=str(tmp_path / "nli"), epochs=1, selection="mean-dev")
    with pytest.raises(DataError, match=r"nli/de:validation: has no split validation"):
        chosen.evaluate(
            AlignedEncoder(encoder), ("en", "de"), inputs, Runtime(), tmp_path / "tuned"
        )


def test_the_phrasebook_is_read_in_every_language_and_shares_nothing_between_splits():
    params = Xnli.Params(data="phrasebook", phrasebook={"train": 60, "dev": 12, "test": 12})
    data = Xnli(params).head(TaskInputs("en"))
    train = data.rows("train", "en")
    for split in ("dev", "test"):
        data.rows(split, "en").seen_in(train.fingerprints())
        labels = [[row.label for row in data.rows(split, lang).rows] for lang in ("en", "de", "el")]
        assert labels[0] == labels[1] == labels[2]
        assert len(labels[0]) == 12
