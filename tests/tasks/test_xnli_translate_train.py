"""XNLI in translate-train, with and without sentences of two languages in one example."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from raxalign.encoders.models.aligned import Affine, AlignedEncoder, Transform
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classification.examples import Example, Examples, training_parts
from raxalign.tasks.classification.head import example_batches
from raxalign.tasks.transfer.training import Tuning
from raxalign.tasks.xnli import Xnli
from raxalign.train.objective import Step
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


def of(lang, *rows):
    return Examples(
        f"{lang}.tsv",
        [
            Example(f"p{i}-{lang}", f"h{i}-{lang}", Xnli.labels[label], i, name)
            for i, label, name in rows
        ],
    )


def mixed(switching="sentence", **languages):
    given = {"en": of("en", (1, 0, "a"), (2, 2, "b")), **languages}
    return training_parts(given, Xnli.labels, "en", switching)


def examples(parts):
    """(premise, hypothesis, their languages, label) by unit."""
    found = {}
    for part in parts:
        for premise, hypothesis, label, unit in zip(
            part.firsts, part.seconds, part.numbers, part.units, strict=True
        ):
            found.setdefault(unit, []).append((*premise, *hypothesis, *part.langs, int(label)))
    return found


def test_each_pair_of_another_language_is_mixed_with_the_pivot_both_ways_in_one_unit():
    assert examples(mixed(de=of("de", (1, 0, "a"), (2, 2, None)))) == {
        0: [("p1-en", "h1-en", "en", "en", 0)],
        1: [("p2-en", "h2-en", "en", "en", 2)],
        2: [("p1-de", "h1-en", "de", "en", 0), ("p1-en", "h1-de", "en", "de", 0)],
        3: [("p2-de", "h2-en", "de", "en", 2), ("p2-en", "h2-de", "en", "de", 2)],
    }
    plain = examples(mixed("none", de=of("de", (1, 1, "x"))))
    assert plain == {
        0: [("p1-en", "h1-en", "en", "en", 0)],
        1: [("p2-en", "h2-en", "en", "en", 2)],
        2: [("p1-de", "h1-de", "de", "de", 1)],
    }


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([(1, 0, "a")], r"de\.tsv: 1 labelled rows, but en\.tsv has 2"),
        ([(1, 0, "a"), (3, 2, "b")], r"de\.tsv:3: en\.tsv has no row in this line"),
        (
            [(1, 0, "a"), (2, 1, "b")],
            r"de\.tsv:2: the label is neutral, but contradiction in en\.tsv",
        ),
        ([(1, 0, "a"), (2, 2, "c")], r"de\.tsv:2: the id is c, but b"),
    ],
)
def test_files_that_are_not_parallel_are_not_mixed(rows, fault):
    with pytest.raises(DataError, match=fault):
        mixed(de=of("de", *rows))


def test_translate_train_learns_from_every_language(tmp_path, encoder, files):
    """The German answers, which zero-shot training never sees, are learnt; only with sentences
    mixed both trainings differ.
    """
    both = {**files, "train": files["train"].replace("{pivot}", "{lang}")}
    write(at(both["train"], "de"), "de", 120, 5)
    trained = {}
    for switching in ("none", "sentence"):
        xnli = task(both, setting="translate-train", code_switching=switching)
        folder = tmp_path / switching
        folder.mkdir()
        notes = xnli.train(
            AlignedEncoder(encoder),
            xnli.training_languages(("de",), "en"),
            TaskInputs("en"),
            Runtime(),
            folder,
        )
        assert notes["rows_by_language"] == {"en": 120, "de": 120}
        assert notes["examples"] == (240 if switching == "none" else 360)
        outcome = xnli.evaluate(
            AlignedEncoder(encoder), ("en", "de"), TaskInputs("en"), Runtime(), folder
        )
        assert min(values(outcome)[lang, "test"] for lang in ("en", "de")) > 0.9
        trained[switching] = outcome.predictions
    assert not trained["none"].equals(trained["sentence"])


@pytest.mark.parametrize("selection", ["pivot-dev", "mean-dev", "last"])
def test_one_model_per_language_is_trained_on_that_language_alone(
    tmp_path, encoder, files, selection
):
    """The pivot's model is that of a zero-shot training; the other one answers for German."""
    both = {**files, "train": files["train"].replace("{pivot}", "{lang}")}
    write(at(both["train"], "de"), "de", 120, 5)
    folders = {name: tmp_path / name for name in ("each", "alone")}
    aligned, inputs, outcomes = AlignedEncoder(encoder), TaskInputs("en"), {}
    for name, folder in folders.items():
        folder.mkdir()
        how = {"setting": "translate-train", "models": "each"} if name == "each" else {}
        xnli = task(both if how else files, selection=selection, **how)
        notes = xnli.train(
            aligned, xnli.training_languages(("de",), "en"), inputs, Runtime(), folder
        )
        outcomes[name] = xnli.evaluate(aligned, ("en", "de"), inputs, Runtime(), folder)
        if how:
            assert notes["rows_by_language"] == {"en": 120, "de": 120}
            assert [model["lang"] for model in notes["models"]] == ["en", "de"]
    own = sorted(folders["each"].glob("xnli-en.*.safetensors"))
    alone = sorted(folders["alone"].glob("xnli.*.safetensors"))
    assert [file.name.split(".")[1] for file in own] == [file.name.split(".")[1] for file in alone]
    for mine, other in zip(map(load_file, own), map(load_file, alone), strict=True):
        assert all(torch.equal(mine[key], other[key]) for key in other)
    found = values(outcomes["each"])
    assert found["de", "test"] > 0.9
    if selection != "mean-dev":  # there the zero-shot model is chosen by German dev too
        assert found["en", "test"] == values(outcomes["alone"])["en", "test"]
    assert found["avg", "test"] == pytest.approx((found["en", "test"] + found["de", "test"]) / 2)
    assert set(outcomes["each"].notes["models"]) == {"en", "de"}


def test_one_model_per_language_needs_translations_and_no_mixing(files):
    both = {**files, "train": files["train"].replace("{pivot}", "{lang}")}
    (fault,) = task(files, models="each").check(("de",), "en")
    assert fault.startswith("models: each trains on the translations of each language")
    mixed_too = task(both, models="each", setting="translate-train", code_switching="sentence")
    assert mixed_too.check(("de",), "en") == [
        "code_switching mixes languages in one model: leave out models: each"
    ]
    assert "models" not in task(both, setting="translate-train").training()
    assert task(both, setting="translate-train", models="each").training()["models"] == "each"


def test_training_rows_of_any_language_are_not_evaluated(tmp_path, encoder, files):
    both = {**files, "train": files["train"].replace("{pivot}", "{lang}")}
    at(both["train"], "de").write_text(
        at(files["dev"], "de").read_text(encoding="utf-8"), encoding="utf-8"
    )
    with pytest.raises(DataError, match=r"dev-de\.tsv:1: 30 of 30 rows"):
        task(both, setting="translate-train").train(
            AlignedEncoder(encoder), ("en", "de"), TaskInputs("en"), Runtime(), tmp_path
        )


def test_micro_batches_of_mixed_units_sum_to_the_loss_of_the_batch(encoder, files):
    head = task(files, dropout=0.0).head(TaskInputs("en"))
    turned = AlignedEncoder(encoder, (Transform("de", 2, steps=(Affine(shift=torch.ones(32)),)),))
    parts = mixed(de=of("de", (1, 0, "a"), (2, 2, "b")))
    model = head.new_model(turned, Xnli.labels, 0)
    tuning = Tuning(model, example_batches(model, parts))
    tuning.module.eval()
    step = Step(0, 0, np.array([3, 0, 2]))
    tuning.begin(step)
    whole = tuning.loss(step, np.arange(3)).detach()
    assert float(whole) == pytest.approx(
        sum(float(tuning.loss(step, np.array([k])).detach()) for k in range(3)), abs=1e-6
    )
    logits = tuning.model(
        [tuning.batches.entries[i] for i in (3, 5, 0, 2, 4)]
    ).detach()  # by hand: units 3, 0 and 2
    assert float(whole) == pytest.approx(
        float(torch.nn.functional.cross_entropy(logits, torch.tensor([2, 2, 0, 0, 0]))), abs=1e-6
    )
    assert [tuning.batches.entries[i].languages for i in (0, 3, 5)] == [
        ("en", "en"),
        ("de", "en"),
        ("en", "de"),
    ]


def test_which_settings_read_which_training_data(files):
    zero_shot = task(files)
    assert zero_shot.training_languages(("de",), "en") == ("en",)
    assert (
        "needs `setting: translate-train`"
        in task(files, code_switching="sentence").check(("de",), "en")[0]
    )
    assert "code_switching" not in zero_shot.canonical()
    assert (
        "reads one file per language; put {lang} in the path"
        in task(files, setting="translate-train").check(("de",), "en")[0]
    )
    both = task(
        {**files, "train": "train-{lang}.tsv"}, setting="translate-train", code_switching="sentence"
    )
    assert both.check(("de",), "en") == []
    assert both.training_languages(("de", "fr"), "en") == ("en", "de", "fr")
    assert both.sources("de", "en")["train"].path.name == "train-de.tsv"
    assert both.training()["code_switching"] == "sentence"


def test_the_phrasebook_is_parallel_enough_to_mix():
    params = Xnli.Params(
        data="phrasebook",
        phrasebook={"train": 60, "dev": 12, "test": 12},
        setting="translate-train",
    )
    data = Xnli(params).head(TaskInputs("en"))
    rows = {lang: data.rows("train", lang) for lang in ("en", "de", "el")}
    parts = training_parts(rows, Xnli.labels, "en", "sentence", whole=False)
    assert {part.langs for part in parts} == {
        ("en", "en"),
        ("de", "en"),
        ("en", "de"),
        ("el", "en"),
        ("en", "el"),
    }
    assert all(len(part.numbers) > 50 for part in parts)
    assert set(parts[0].numbers) == {0, 1, 2}
