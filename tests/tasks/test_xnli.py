"""XNLI end to end on a tiny BERT: a task that one word of the hypothesis decides."""

from __future__ import annotations

import json
from copy import deepcopy

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from raxalign.config.sources import LocalFile, RemoteData
from raxalign.encoders.models.aligned import Affine, AlignedEncoder, Transform
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError, RaxalignError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classification.model import SentenceClassifier
from raxalign.tasks.transfer.trained import Trained
from raxalign.tasks.xnli import Xnli
from raxalign.train.runtime import Runtime
from tests.host_reads import host_reads
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


def test_learns_what_one_word_decides(read_encoder, tuned):
    encoder, _, outcome = tuned
    before = dict(read_encoder.model.named_parameters())
    found = values(outcome)
    assert found["en", "test"] > 0.9
    assert set(found) == {
        (lang, split) for lang in ("en", "de", "avg", "avg_zero_shot") for split in ("dev", "test")
    }
    assert found["avg", "test"] == pytest.approx((found["en", "test"] + found["de", "test"]) / 2)
    assert found["avg_zero_shot", "test"] == found["de", "test"]
    assert all(torch.equal(p, before[name]) for name, p in encoder.model.named_parameters())


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


def test_one_seed_gives_one_result(tmp_path, encoder, files):
    first, again, other = (
        run(tmp_path, AlignedEncoder(encoder), files, seed=seed, name=f"run{i}", epochs=1)
        for i, seed in enumerate((0, 0, 1))
    )
    assert first.predictions.equals(again.predictions)
    assert not first.predictions.equals(other.predictions)


def test_mean_dev_and_target_dev_pick_by_development_sets(tmp_path, encoder, files):
    for rule in ("mean-dev", "target-dev"):
        outcome = run(tmp_path, AlignedEncoder(encoder), files, selection=rule, name=rule)
        chosen = outcome.notes["models"]["all"]["epochs"]
        by_epoch = outcome.notes["models"]["all"]["dev_by_epoch"]
        assert {len(curve) for curve in by_epoch.values()} == {3}
        means = np.mean([by_epoch["en"], by_epoch["de"]], axis=0)
        for lang in ("en", "de"):
            assert chosen[lang] == 1 + int(
                np.argmax(means if rule == "mean-dev" else by_epoch[lang])
            )
            assert values(outcome)[lang, "dev"] == by_epoch[lang][chosen[lang] - 1]
        assert ("warning" in outcome.notes) is (rule == "target-dev")


def test_pivot_dev_keeps_the_best_epoch_of_the_pivot(tuned):
    _, folder, outcome = tuned
    record = json.loads((folder / "training.json").read_text())["models"][0]
    best = 1 + int(np.argmax(record["pivot_dev"]))
    assert [int(epoch) for epoch in record["files"]] == [best]
    assert values(outcome)["en", "dev"] == pytest.approx(max(record["pivot_dev"]))


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


def test_a_split_that_is_not_given_is_not_reported(tmp_path, encoder, files):
    dev_only = {name: path for name, path in files.items() if name != "test"}
    assert {
        split for _, split in values(run(tmp_path, AlignedEncoder(encoder), dev_only, epochs=1))
    } == {"dev"}
    test_only = {name: path for name, path in files.items() if name != "dev"}
    outcome = run(
        tmp_path, AlignedEncoder(encoder), test_only, selection="last", name="test-only", epochs=1
    )
    assert {split for _, split in values(outcome)} == {"test"}


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


def test_readouts_apply_to_the_language_they_are_for(tmp_path, encoder, files):
    """A readout for German alone changes German only, and needs no training of its own."""
    plain = AlignedEncoder(encoder)
    turn = torch.linalg.qr(torch.randn(32, 32, generator=torch.Generator().manual_seed(0)))[0]
    rotated = AlignedEncoder(encoder, (Transform("de", 2, steps=(Affine(weight=turn),)),))
    before = run(tmp_path, plain, files, name="plain", epochs=1)
    after = run(tmp_path, rotated, files, start=plain, name="rotated", epochs=1)
    for lang, same in (("en", True), ("de", False)):
        a, b = (
            [row["neutral"] for row in o.predictions.to_pylist() if row["lang"] == lang]
            for o in (before, after)
        )
        assert (a == b) is same


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


def test_where_the_pivot_moves_each_language_has_its_model(tmp_path, encoder, files):
    for name in ("dev", "test"):
        write(tmp_path / "files" / f"{name}-fr.tsv", "de", 12, 40)
    turn = -torch.eye(32)
    towards = tuple(
        Transform("en", 2, steps=(Affine(weight=turn),), toward=lang) for lang in ("de", "fr")
    )
    aligned, xnli, inputs = (
        AlignedEncoder(encoder, towards),
        task(files, epochs=1),
        TaskInputs("en"),
    )
    folder = tmp_path / "tuned"
    folder.mkdir()
    xnli.train(aligned, ("en",), inputs, Runtime(), folder)
    assert [model.toward for model in Trained.read(folder).models] == ["de", "fr"]
    outcome = xnli.evaluate(aligned, ("en", "de", "fr"), inputs, Runtime(), folder)
    rows = outcome.predictions.to_pylist()
    assert {(row["lang"], row["toward"]) for row in rows} == {
        ("en", "de"),
        ("en", "fr"),
        ("de", "de"),
        ("fr", "fr"),
    }
    right = [
        row["label"] == row["predicted"]
        for row in rows
        if (row["lang"], row["split"]) == ("en", "test")
    ]
    assert values(outcome)["en", "test"] == pytest.approx(np.mean(right))
    for name in ("dev", "test"):
        write(tmp_path / "files" / f"{name}-es.tsv", "de", 12, 41)
    with pytest.raises(DataError, match="no model for en, es"):
        xnli.evaluate(aligned, ("en", "es"), inputs, Runtime(), folder)


def test_a_resumed_training_gives_the_same_result(tmp_path, encoder, files):
    """Killed in its last epoch by the report of a curve, it goes on from the checkpoint and has all
    its epochs.
    """
    whole = run(tmp_path, AlignedEncoder(encoder), files, selection="mean-dev", name="whole")

    class Killed(Exception):
        pass

    def die(metrics, step):
        if step >= 40:
            raise Killed

    checkpoints = tmp_path / "checkpoints"
    with pytest.raises(Killed):
        run(
            tmp_path,
            AlignedEncoder(encoder),
            files,
            selection="mean-dev",
            name="killed",
            runtime=Runtime(checkpoints=checkpoints, checkpoint_every=7, report=die),
        )
    runtime = Runtime(checkpoints=checkpoints, checkpoint_every=7)
    resumed = run(
        tmp_path,
        AlignedEncoder(encoder),
        files,
        selection="mean-dev",
        name="resumed",
        runtime=runtime,
    )
    assert resumed.predictions.equals(whole.predictions)


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


def test_weights_of_another_encoder_are_refused(tmp_path, encoder, files):
    run(tmp_path, AlignedEncoder(encoder), files, epochs=1)
    deeper = TransformerEncoder.from_folder(
        tiny_bert(tmp_path / "deeper", WORDS, layers=3, positions=32)
    )
    with pytest.raises(RaxalignError, match="trained on another encoder"):
        task(files, epochs=1).evaluate(
            AlignedEncoder(deeper), ("en", "de"), TaskInputs("en"), Runtime(), tmp_path / "tuned"
        )


def test_faults_that_only_the_params_show(files):
    assert task(files).check(("de",), "en") == []
    assert "zero-shot" in task({**files, "train": "train-{lang}.tsv"}).check(("de",), "en")[0]
    assert (
        "selection: pivot-dev"
        in task(files, readout="refit", selection="mean-dev").check(("de",), "en")[0]
    )
    assert any(
        "zero-shot" in fault
        for fault in task(files, readout="refit", setting="translate-train").check(("de",), "en")
    )
    assert task(files, readout="refit").check(("de",), "en") == []
    assert "selection" in task({"train": "t", "test": "x"}).check(("de",), "en")[0]
    assert any(
        "nothing to evaluate" in fault
        for fault in task({"train": "t"}, selection="last").check(("de",), "en")
    )
    assert (
        "phrasebook has no zh" in Xnli(Xnli.Params(data="phrasebook")).check(("de", "zh"), "en")[0]
    )
    for wrong in (
        {"data": {"dev": "x"}},
        {"data": "web"},
        {"readout": "again"},
        {"setting": "translate-test"},
        {"epochs": 0},
    ):
        with pytest.raises(ValidationError):
            Xnli.Params(**wrong)


def test_what_is_read_of_each_language(files):
    xnli = task(files)
    assert xnli.languages(("de", "fr"), "en") == ("en", "de", "fr")
    assert set(xnli.sources("en", "en")) == {"train", "dev", "test"}
    assert set(xnli.sources("de", "en")) == {"dev", "test"}
    assert isinstance(xnli.sources("de", "en")["dev"], LocalFile)
    assert xnli.sources("de", "en")["dev"].path.name == "dev-de.tsv"
    assert Xnli(Xnli.Params(revision="a" * 40)).sources("de", "en")["hub"].pin == "a" * 40
    assert Xnli(Xnli.Params()).sources("de", "en") == {
        "hub": RemoteData("hub:facebook/xnli/de@main")
    }  # a branch is not a pin
    assert Xnli(Xnli.Params(data="phrasebook")).sources("de", "en") == {}


def test_rules_that_keep_the_same_share_a_training(files):
    training = {
        rule: task(files, selection=rule).training()
        for rule in ("pivot-dev", "mean-dev", "target-dev", "last")
    }
    assert task(files, readout="refit").training() == training["pivot-dev"]
    assert training["mean-dev"] == training["target-dev"]
    assert len({json.dumps(value, sort_keys=True) for value in training.values()}) == 3
    assert task(files).canonical() != task(files, selection="last").canonical()
    assert "phrasebook" not in task(files).canonical()
    assert all(str(path) not in json.dumps(task(files).canonical()) for path in files.values())


def test_the_phrasebook_is_read_in_every_language_and_shares_nothing_between_splits():
    params = Xnli.Params(data="phrasebook", phrasebook={"train": 60, "dev": 12, "test": 12})
    data = Xnli(params).head(TaskInputs("en"))
    train = data.rows("train", "en")
    for split in ("dev", "test"):
        data.rows(split, "en").seen_in(train.fingerprints())
        labels = [[row.label for row in data.rows(split, lang).rows] for lang in ("en", "de", "el")]
        assert labels[0] == labels[1] == labels[2]
        assert len(labels[0]) == 12


def test_no_step_of_the_training_waits_for_the_device(tmp_path, encoder, files):
    with host_reads() as steps:
        run(tmp_path, AlignedEncoder(encoder), files)
    assert len(steps) > 2
    assert [name for found in steps[1:] for name in found] == []
