"""Named entities end to end on a tiny BERT: names are known by their words, and end where `of`
begins.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file

from raxalign.caveats import thin_support
from raxalign.config.sources import LocalFile, RemoteData
from raxalign.encoders.models.aligned import Affine, AlignedEncoder, Transform
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.ner import Ner
from raxalign.tasks.pos import Pos
from raxalign.tasks.tagging.reading import read_hub
from raxalign.tasks.transfer.params import HubSet
from raxalign.tasks.transfer.trained import Trained
from raxalign.train.runtime import Runtime
from tests.host_reads import host_reads
from tests.tiny import tiny_bert

NAMES = {"en": ["anna", "bert", "cleo"], "de": ["anna", "bernd", "klara"]}
PLACES = {"en": ["rome", "york"], "de": ["rom", "yorck"]}
WORDS = [f"w{i}" for i in range(12)] + [
    word for kind in (NAMES, PLACES) for words in kind.values() for word in words
]
FAST = {
    "linear": {
        "tagger": "linear",
        "learning_rate": 3e-3,
        "epochs": 2,
        "batch_size": 8,
        "max_length": 16,
    },
    "bilstm_crf": {
        "tagger": "bilstm_crf",
        "learning_rate": 2e-2,
        "epochs": 2,
        "batch_size": 8,
        "hidden": 8,
        "input_dropout": 0.1,
        "dropout": 0.1,
    },
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    torch.set_num_threads(1)
    return TransformerEncoder.from_folder(
        tiny_bert(tmp_path_factory.mktemp("tiny"), WORDS, positions=32)
    )


def write(path, lang, n, seed, unknown=False):
    rng, lines = np.random.default_rng(seed), []
    for i in range(n):
        name, place = (list(rng.permutation(kind[lang])) for kind in (NAMES, PLACES))
        pairs = [
            (f"w{rng.integers(12)}", "O"),
            (name[0], "I-PER"),
            *([(name[1], "I-PER")] if i % 2 else []),
            (f"w{rng.integers(12)}", "O"),
        ]
        pairs += [
            (place[0], "I-MISC" if unknown and i == 0 else "I-LOC"),
            (f"w{rng.integers(12)}", "O"),
        ]
        lines += [*(f"{word} x {tag}" for word, tag in pairs), ""]
    path.write_text("-DOCSTART- x O\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    write(folder / "train-en", "en", 120, 0)
    for k, lang in enumerate(("en", "de")):
        write(folder / f"dev-{lang}", lang, 24, 10 + k)
        write(folder / f"test-{lang}", lang, 20, 20 + k, unknown=lang == "de")
    return {
        "train": f"{folder}/train-{{pivot}}",
        "dev": f"{folder}/dev-{{lang}}",
        "test": f"{folder}/test-{{lang}}",
    }


def task(files, tagger="linear", **params):
    return Ner(Ner.Params(**{"data": files, **FAST[tagger], **params}))


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


def test_predictions_recompute_to_the_scores(tmp_path, encoder, files):
    outcome = run(tmp_path, AlignedEncoder(encoder), files, epochs=3)
    rows = outcome.predictions.to_pylist()
    for lang, split, n in (("en", "dev", 24), ("de", "test", 20)):
        chosen = [row for row in rows if (row["lang"], row["split"]) == (lang, split)]
        assert [row["id"] for row in chosen] == list(range(n))
        for metric in ("f1", "precision", "recall", "accuracy"):
            parts = Ner.samples(outcome.predictions, [(lang, metric, split)])[lang, metric, split]
            assert parts.gains.sum() / parts.counts.sum() == pytest.approx(
                values(outcome, metric)[lang, split], abs=1e-12
            )
    assert outcome.notes["tags_not_in_training"] == {"de/test": ["B-MISC"]}
    assert not any("MISC" in tag for row in rows for tag in row["predicted"])


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


def test_one_seed_gives_one_result(tmp_path, encoder, files):
    for tagger in FAST:
        few = {"epochs": 1, "max_train": 24}
        first, again, _ = (
            run(
                tmp_path,
                AlignedEncoder(encoder),
                files,
                tagger,
                seed=seed,
                name=f"{tagger}{i}",
                **few,
            )
            for i, seed in enumerate((0, 0, 1))
        )
        assert first.predictions.equals(again.predictions)
        assert first.scores == again.scores
        weights = [
            load_file(next((tmp_path / f"{tagger}{i}").glob("ner.*.safetensors"))) for i in range(3)
        ]
        assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
        assert not all(torch.equal(weights[0][name], weights[2][name]) for name in weights[0])


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


def test_without_a_development_set_the_last_weights_are_taken(tmp_path, encoder, files):
    outcome = run(
        tmp_path,
        AlignedEncoder(encoder),
        {n: p for n, p in files.items() if n != "dev"},
        selection="last",
        epochs=1,
        max_train=20,
    )
    assert {split for _, split in values(outcome)} == {"test"}
    assert outcome.notes["steps"]["all"] == {"en": 3, "de": 3}


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


def test_where_the_pivot_moves_each_language_has_its_tagger(tmp_path, encoder, files):
    for name in ("dev", "test"):
        write(tmp_path / "files" / f"{name}-fr", "de", 12, 40)
    towards = tuple(
        Transform("en", 2, steps=(Affine(weight=-torch.eye(32)),), toward=lang)
        for lang in ("de", "fr")
    )
    aligned, ner, inputs, folder = (
        AlignedEncoder(encoder, towards),
        task(files, epochs=1, max_train=24),
        TaskInputs("en"),
        tmp_path / "tuned",
    )
    folder.mkdir()
    ner.train(aligned, ("en",), inputs, Runtime(), folder)
    assert [model.toward for model in Trained.read(folder).models] == ["de", "fr"]
    outcome = ner.evaluate(aligned, ("en", "de", "fr"), inputs, Runtime(), folder)
    rows = outcome.predictions.to_pylist()
    assert {(row["lang"], row["toward"]) for row in rows} == {
        ("en", "de"),
        ("en", "fr"),
        ("de", "de"),
        ("fr", "fr"),
    }


def test_faults_that_only_the_params_show(files):
    assert task(files).check(("de",), "en") == []
    assert (
        task(files, tagger="linear", readout="refit", selection="last").check(("de",), "en") == []
    )
    assert (
        "tagger: linear"
        in task(files, tagger="bilstm_crf", readout="refit", selection="last").check(("de",), "en")[
            0
        ]
    )
    assert (
        "selection"
        in task(files, tagger="linear", readout="refit", selection="target-dev").check(
            ("de",), "en"
        )[0]
    )
    assert "zero-shot" in task({**files, "train": "train-{lang}"}).check(("de",), "en")[0]
    assert (
        "one file per language: put {lang} in"
        in task({**files, "dev": "dev"}).check(("de",), "en")[0]
    )
    assert "selection" in task({"train": "t", "test": "x-{lang}"}).check(("de",), "en")[0]
    assert any(
        "nothing to evaluate" in fault
        for fault in task({"train": "t"}, selection="last").check(("de",), "en")
    )
    assert "phrasebook has no zh" in task("phrasebook").check(("de", "zh"), "en")[0]
    assert "dataset" in task("hub", dataset="").check(("de",), "en")[0]
    for wrong in (
        {"data": {"dev": "x"}},
        {"data": "web"},
        {"tagger": "hmm"},
        {"crf": "none"},
        {"epochs": 0},
    ):
        with pytest.raises(ValidationError):
            Ner.Params(**wrong)


def test_what_is_read_of_each_language(files):
    ner = task(files)
    assert set(ner.sources("en", "en")) == {"train", "dev", "test"}
    assert set(ner.sources("de", "en")) == {"dev", "test"}
    assert isinstance(ner.sources("de", "en")["dev"], LocalFile)
    assert Ner(Ner.Params(configs={"de": "de_x"})).sources("de", "en") == {
        "hub": RemoteData("hub:unimelb-nlp/wikiann/de_x@main")
    }
    assert Ner(Ner.Params(revision="a" * 40)).sources("de", "en")["hub"].pin == "a" * 40
    assert ner.training_languages(("de",), "en") == ("en",)
    assert task(files, selection="target-dev").training_languages(("de",), "en") == ("en", "de")


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
    assert all(str(path) not in json.dumps(paper.canonical()) for path in files.values())


def test_a_local_copy_of_the_hub_is_read(tmp_path):
    import datasets

    names = ["O", "B-PER", "I-PER"]
    features = datasets.Features(
        {
            "tokens": datasets.Sequence(datasets.Value("string")),
            "ner_tags": datasets.Sequence(datasets.ClassLabel(names=names)),
        }
    )
    table = datasets.Dataset.from_dict(
        {"tokens": [["Anna", "B", "ruft"], []], "ner_tags": [[2, 2, 0], []]}, features=features
    )
    (tmp_path / "set" / "de").mkdir(parents=True)
    table.to_parquet(tmp_path / "set" / "de" / "validation-0.parquet")
    head = (
        "---\nconfigs:\n- config_name: de\n  data_files:\n  - split: validation\n    path:"
        " de/validation-*\n---\n"
    )
    (tmp_path / "set" / "README.md").write_text(head)
    found = HubSet(str(tmp_path / "set"), "de", "main")
    rows = read_hub(found, "dev", Ner(Ner.Params()).scheme(), tmp_path / "cache").rows
    assert [(row.words, row.tags) for row in rows] == [
        (("Anna", "B", "ruft"), ("B-PER", "I-PER", "O"))
    ]
    with pytest.raises(DataError, match="expected tokens and upos"):
        read_hub(found, "dev", Pos(Pos.Params()).scheme(), tmp_path / "cache")


def test_the_phrasebook_has_names_in_every_language():
    data = Ner(Ner.Params(data="phrasebook", phrasebook={"train": 40, "dev": 10, "test": 10})).head(
        TaskInputs("en")
    )
    train = data.rows("train", "en")
    assert {tag for row in train.rows for tag in row.tags} >= {"O", "B-PER", "B-LOC", "B-ORG"}
    for lang in ("en", "de", "el"):
        assert len(data.rows("test", lang)) == 10
        assert not np.isin(data.rows("dev", "en").fingerprints(), train.fingerprints()).any()


def test_no_step_of_the_training_waits_for_the_device(tmp_path, encoder, files):
    with host_reads() as steps:
        run(tmp_path, AlignedEncoder(encoder), files)
    assert len(steps) > 2
    assert [name for found in steps[1:] for name in found] == []
