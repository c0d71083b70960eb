"""XNLI end to end on a tiny BERT: a task that one word of the hypothesis decides."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from raxalign.encoders.models.aligned import Affine, AlignedEncoder, Transform
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classification.model import SentenceClassifier
from raxalign.tasks.xnli import Xnli
from raxalign.train.runtime import Runtime
from tests.tasks.word_nli import WORDS, at, task, write, write_all
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


def run(tmp_path, aligned, files, name="tuned", **params):
    xnli, inputs, folder = task(files, **params), TaskInputs("en"), tmp_path / name
    folder.mkdir()
    xnli.train(aligned, ("en",), inputs, Runtime(), folder)
    return xnli.evaluate(aligned, xnli.languages(("de",), "en"), inputs, Runtime(), folder)


def test_predictions_are_the_most_probable_labels(tmp_path, encoder, files):
    outcome = run(tmp_path, AlignedEncoder(encoder), files, epochs=1)
    rows = outcome.predictions.to_pylist()
    assert [row["id"] for row in rows] == 2 * [*range(30), *range(33)]
    for row in rows:
        probabilities = {label: row[label] for label in Xnli.labels}
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


def test_training_rows_that_are_evaluated_are_refused(tmp_path, encoder, files):
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
