"""Named entities end to end on a tiny BERT: names are known by their words, and end where `of`
begins.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from raxalign.caveats import thin_support
from raxalign.encoders.models.aligned import Affine, AlignedEncoder, Transform
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.ner import Ner
from raxalign.train.runtime import Runtime
from tests.tasks.word_ner import WORDS, task, write_all
from tests.tiny import tiny_bert


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    torch.set_num_threads(1)
    return TransformerEncoder.from_folder(
        tiny_bert(tmp_path_factory.mktemp("tiny"), WORDS, positions=32)
    )


@pytest.fixture
def files(tmp_path):
    return write_all(tmp_path / "files")


def run(
    tmp_path,
    aligned,
    files,
    tagger="linear",
    *,
    seed=0,
    name="tuned",
    start=None,
    runtime=None,
    **params,
):
    ner, inputs, runtime = (
        task(files, tagger, **params),
        TaskInputs("en"),
        runtime or Runtime(seed=seed),
    )
    folder = tmp_path / name
    folder.mkdir()
    ner.train(start or aligned, ner.training_languages(("de",), "en"), inputs, runtime, folder)
    return ner.evaluate(aligned, ner.languages(("de",), "en"), inputs, runtime, folder)


def values(outcome, metric="f1"):
    return {(s.lang, s.split): s.value for s in outcome.scores if s.metric == metric}


@pytest.mark.parametrize(
    ("tagger", "crf"), [("linear", None), ("bilstm_crf", "static"), ("bilstm_crf", "conditioned")]
)
def test_learns_names_and_leaves_the_encoder_alone(tmp_path, encoder, files, tagger, crf):
    before = {name: p.clone() for name, p in encoder.model.named_parameters()}
    outcome = run(tmp_path, AlignedEncoder(encoder), files, tagger, crf=crf, epochs=4)
    found = values(outcome)
    assert found["en", "test"] > 0.9
    assert set(found) == {
        (lang, split) for lang in ("en", "de", "avg", "avg_zero_shot") for split in ("dev", "test")
    }
    assert found["avg", "test"] == pytest.approx((found["en", "test"] + found["de", "test"]) / 2)
    assert {s.metric for s in outcome.scores} == {"f1", "precision", "recall", "accuracy"}
    assert all(torch.equal(p, before[name]) for name, p in encoder.model.named_parameters())
    assert outcome.notes["tags_not_in_training"] == {"de/test": ["B-MISC"]}
    predicted = outcome.predictions["predicted"].to_pylist()
    assert not any("MISC" in tag for row in predicted for tag in row)


def test_rows_that_are_left_out_are_counted_beside_the_results(tmp_path, encoder, files):
    """In MultiATIS++'s form: the first request of some files has a label too many."""
    for path in (tmp_path / "files").iterdir():
        sentences = path.read_text(encoding="utf-8").strip().split("\n\n")[1:]
        rows = [[line.split(" x ") for line in text.split("\n")] for text in sentences]
        cells = [[" ".join(column) for column in zip(*row, strict=True)] for row in rows]
        if path.name in ("train-en", "test-de"):
            cells[0][1] += " O"
        lines = ["utterance\tslot_labels", *("\t".join(row) for row in cells)]
        path.write_text("\n".join(lines), encoding="utf-8")
    ner, inputs, folder = task(files, epochs=1, mismatched="drop"), TaskInputs("en"), tmp_path / "t"
    folder.mkdir()
    aligned = AlignedEncoder(encoder)
    notes = ner.train(aligned, ("en",), inputs, Runtime(), folder)
    outcome = ner.evaluate(aligned, ("en", "de"), inputs, Runtime(), folder)
    said = "1 row is left out: the numbers of words and of tags differ"
    assert notes["sentences"] == 119
    assert thin_support("ner", notes) == {"ner en/train": said}
    assert thin_support("ner", outcome.notes) == {"ner de/test": said}
    assert outcome.notes["sentences"]["de/test"] == 19


def test_the_encoder_runs_once_over_what_a_frozen_tagger_reads(
    tmp_path, encoder, files, monkeypatch
):
    """Ten epochs take as many forwards as one: those of the training set and the development
    set.
    """
    forwards = []
    hidden = TransformerEncoder.hidden
    monkeypatch.setattr(
        TransformerEncoder,
        "hidden",
        lambda self, batch, **more: (
            forwards.append(len(batch.ids_BT)) or hidden(self, batch, **more)
        ),
    )
    for epochs in (1, 10):
        forwards.clear()
        ner, folder = (
            task(files, "bilstm_crf", epochs=epochs, max_train=16),
            tmp_path / f"epochs-{epochs}",
        )
        folder.mkdir()
        ner.train(AlignedEncoder(encoder), ("en",), TaskInputs("en"), Runtime(), folder)
        assert sum(forwards) == 16 + 24


@pytest.mark.slow
def test_each_rule_takes_the_weights_that_it_says(tmp_path, encoder, files):
    for rule in ("pivot-dev", "mean-dev", "target-dev"):
        outcome = run(
            tmp_path,
            AlignedEncoder(encoder),
            files,
            "bilstm_crf",
            selection=rule,
            name=rule,
            evaluate_every=4,
            max_train=40,
        )
        record = json.loads((tmp_path / rule / "training.json").read_text())["models"][0]
        curves, chosen = record["dev"], outcome.notes["steps"]["all"]
        assert list(curves) == [
            "4",
            "8",
            "10",
        ]  # 2 epochs of 5 batches: every 4 steps, and at the end
        assert set(curves["4"]) == ({"en"} if rule == "pivot-dev" else {"en", "de"})
        for lang in ("en", "de"):
            by = {"pivot-dev": ["en"], "mean-dev": ["en", "de"], "target-dev": [lang]}[rule]
            means = {
                int(step): np.mean([scores[name] for name in by]) for step, scores in curves.items()
            }
            assert chosen[lang] == max(means, key=means.get)
            if lang in curves["4"]:
                assert values(outcome)[lang, "dev"] == pytest.approx(
                    curves[str(chosen[lang])][lang]
                )
        assert ("warning" in outcome.notes) is (rule == "target-dev")
        assert {int(step) for step in record["files"]} == set(record["chosen"].values())


@pytest.mark.slow
def test_a_resumed_training_gives_the_same_result(tmp_path, encoder, files):
    options = {"selection": "target-dev", "evaluate_every": 3, "max_train": 64}
    whole = run(tmp_path, AlignedEncoder(encoder), files, "bilstm_crf", name="whole", **options)

    class Killed(Exception):
        pass

    def die(metrics, step):
        if step >= 14:
            raise Killed

    runtime = {"checkpoints": tmp_path / "checkpoints", "checkpoint_every": 5}
    with pytest.raises(Killed):
        run(
            tmp_path,
            AlignedEncoder(encoder),
            files,
            "bilstm_crf",
            name="killed",
            runtime=Runtime(report=die, **runtime),
            **options,
        )
    resumed = run(
        tmp_path,
        AlignedEncoder(encoder),
        files,
        "bilstm_crf",
        name="resumed",
        runtime=Runtime(**runtime),
        **options,
    )
    assert resumed.predictions.equals(whole.predictions)
    assert resumed.notes == whole.notes


def test_sentences_that_were_trained_on_are_marked_and_a_training_file_is_refused(
    tmp_path, encoder, files
):
    train, test = (
        Path(files[split].replace("{pivot}", "en").replace("{lang}", "en"))
        for split in ("train", "test")
    )
    test.write_text(test.read_text() + train.read_text().split("\n\n")[1] + "\n", encoding="utf-8")
    outcome = run(tmp_path, AlignedEncoder(encoder), files, epochs=1, max_train=16)
    assert outcome.notes["seen_in_training"] == {"en/test": 1}
    assert [row["id"] for row in outcome.predictions.to_pylist() if row["seen"]] == [20]
    with pytest.raises(
        DataError, match=r"train-en:3: 120 of 120 sentences are training sentences too"
    ):
        run(
            tmp_path,
            AlignedEncoder(encoder),
            {**files, "test": files["train"].replace("{pivot}", "{lang}")},
            name="again",
        )


def test_readouts_reach_the_features_of_their_language_alone(tmp_path, encoder, files):
    turn = torch.linalg.qr(torch.randn(32, 32, generator=torch.Generator().manual_seed(0)))[0]
    plain, rotated = (
        AlignedEncoder(encoder),
        AlignedEncoder(
            encoder, tuple(Transform("de", k, steps=(Affine(weight=turn),)) for k in (1, 2))
        ),
    )
    before = run(tmp_path, plain, files, "bilstm_crf", name="plain", epochs=1)
    after = run(tmp_path, rotated, files, "bilstm_crf", start=plain, name="rotated", epochs=1)
    for lang, same in (("en", True), ("de", False)):
        a, b = (
            [row["predicted"] for row in o.predictions.to_pylist() if row["lang"] == lang]
            for o in (before, after)
        )
        assert (a == b) is same


def test_two_spellings_of_one_tagger_have_one_identity(files):
    paper = Ner(Ner.Params(data=files, profile="paper"))
    spelled = Ner(
        Ner.Params(
            data=files,
            tagger="bilstm_crf",
            crf="conditioned",
            selection="target-dev",
            evaluate_every=150,
            epochs=40,
            batch_size=10,
        )
    )
    assert paper.canonical() == spelled.canonical()
    assert paper.canonical()["learning_rate"] == 1e-4
    assert (
        Ner(Ner.Params(data=files)).canonical()
        == Ner(Ner.Params(data=files, tagger="linear", learning_rate=2e-5, hidden=7)).canonical()
    )
    assert (
        paper.canonical() != Ner(Ner.Params(data=files, profile="paper", crf="static")).canonical()
    )
    assert (
        Ner(Ner.Params(data=files, profile="paper", selection="pivot-dev")).settings().selection
        == "pivot-dev"
    )
    assert paper.training_languages(("de",), "en") == ("en", "de")
