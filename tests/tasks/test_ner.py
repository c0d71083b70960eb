"""Named entities end to end on a tiny BERT: names are known by their words, and end where a plain
word begins; and what slots have of their own.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from raxalign.caveats import thin_support
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.tasks.base import TaskInputs
from raxalign.train.runtime import Runtime
from tests.tasks.outcomes import scores, trained
from tests.tasks.word_ner import WORDS, task, write_all


@pytest.fixture
def encoder(tiny):
    return tiny(WORDS)


@pytest.fixture
def files(tmp_path):
    return write_all(tmp_path / "files")


@pytest.mark.parametrize("crf", ["static", "conditioned"])
def test_a_crf_learns_names_and_leaves_the_encoder_alone(tmp_path, encoder, files, crf):
    before = {name: p.clone() for name, p in encoder.model.named_parameters()}
    ner = task(files, "bilstm_crf", crf=crf, epochs=4)
    outcome, _ = trained(ner, AlignedEncoder(encoder), tmp_path / "tuned")
    found = scores(outcome, "f1")
    assert found["en", "test"] > 0.9
    assert {lang for lang, _ in found} == {"en", "de", "avg", "avg_zero_shot"}
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
    ner = task(files, epochs=1, mismatched="drop")
    outcome, notes = trained(ner, AlignedEncoder(encoder), tmp_path / "tuned")
    said = "1 row is left out: the numbers of words and of tags differ"
    assert notes["sentences"] == 119
    assert thin_support("ner", notes) == {"ner en/train": said}
    assert thin_support("ner", outcome.notes) == {"ner de/test": said}
    assert outcome.notes["sentences"]["de/test"] == 19


def test_the_encoder_runs_once_over_what_a_frozen_tagger_reads(
    tmp_path, encoder, files, monkeypatch
):
    """Several epochs take as many forwards as one: those of the training set and the development
    set.
    """
    forwards, hidden = [], TransformerEncoder.hidden

    def counted(self, batch, **more):
        forwards.append(len(batch.ids_BT))
        return hidden(self, batch, **more)

    monkeypatch.setattr(TransformerEncoder, "hidden", counted)
    for epochs in (1, 3):
        forwards.clear()
        ner = task(files, "bilstm_crf", epochs=epochs, max_train=16)
        (folder := tmp_path / f"epochs-{epochs}").mkdir()
        ner.train(AlignedEncoder(encoder), ("en",), TaskInputs("en"), Runtime(), folder)
        assert sum(forwards) == 16 + 24


@pytest.mark.slow
def test_each_rule_takes_the_weights_that_it_says(tmp_path, encoder, files):
    for rule in ("pivot-dev", "mean-dev", "target-dev"):
        ner = task(
            files, "bilstm_crf", selection=rule, evaluate_every=4, max_train=40, batch_size=8
        )
        outcome, notes = trained(ner, AlignedEncoder(encoder), tmp_path / rule)
        (record,), found = notes["models"], scores(outcome, "f1")
        curves, chosen = record["dev"], outcome.notes["steps"]["all"]
        # 2 epochs of 5 batches: every 4 steps, and at the end
        assert list(curves) == ["4", "8", "10"]
        assert set(curves["4"]) == ({"en"} if rule == "pivot-dev" else {"en", "de"})
        for lang in ("en", "de"):
            by = {"pivot-dev": ["en"], "mean-dev": ["en", "de"], "target-dev": [lang]}[rule]
            means = {int(n): np.mean([curve[name] for name in by]) for n, curve in curves.items()}
            assert chosen[lang] == max(means, key=means.get)
            if lang in curves["4"]:
                assert found[lang, "dev"] == pytest.approx(curves[str(chosen[lang])][lang])
        assert ("warning" in outcome.notes) is (rule == "target-dev")
        assert {int(step) for step in record["files"]} == set(record["chosen"].values())
        assert json.loads((tmp_path / rule / "training.json").read_text())["models"][0]["dev"]


def test_sentences_that_were_trained_on_are_marked(tmp_path, encoder, files):
    train, test = (
        Path(files[split].replace("{pivot}", "en").replace("{lang}", "en"))
        for split in ("train", "test")
    )
    test.write_text(test.read_text() + train.read_text().split("\n\n")[1] + "\n", encoding="utf-8")
    ner = task(files, epochs=1, max_train=16)
    outcome, _ = trained(ner, AlignedEncoder(encoder), tmp_path / "tuned")
    assert outcome.notes["seen_in_training"] == {"en/test": 1}
    assert [row["id"] for row in outcome.predictions.to_pylist() if row["seen"]] == [20]
