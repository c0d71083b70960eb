"""Lists of layers: each entry has the values of an evaluation of its own, from one pass."""

import pyarrow as pa
import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import RaxalignError
from raxalign.measured import Measured
from raxalign.pairing.build import types_schema, write_types
from raxalign.sample import of_layers
from raxalign.tasks.vectors.frame import OnePass
from tests.every import in_turn
from tests.methods.toy import WORDS, toy_encoder, toy_rows, write_pairs
from tests.tasks.outcomes import evaluated, made, values, write_dataset

LANGS = ("de", "fr")
GIVEN = {
    "dictionary_retrieval": {"dictionary": "d.txt"},
    "word_alignment": {"data": {"test": {"text": "text.{lang}", "links": "links.{lang}"}}},
}
LIST = ["0", "1-2", "last"]
LABELS = {"0": "0", "1-2": "1-2", "last": "3"}
TASKS = (
    ("retrieval", {}),
    ("dictionary_retrieval", {}),
    ("word_alignment", {}),
    *in_turn([("sentence_retrieval", {}), ("sentence_retrieval", {"pool": "mixed"})], 1),
)


@pytest.fixture(scope="module")
def aligned(tmp_path_factory):
    encoder = toy_encoder(tmp_path_factory.mktemp("encoder"), layers=3)
    up = torch.linspace(-1, 1, encoder.hidden_size)
    shifts = [Transform("de", layer, steps=(Affine(shift=up),)) for layer in (1, 3)]
    return AlignedEncoder(encoder, tuple(shifts))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """What the tasks read, of the toy's sentences."""
    folder, rows = tmp_path_factory.mktemp("inputs"), toy_rows(12)
    (folder / "pairs").mkdir()
    for part in ("dev", "data"):
        write_pairs(folder / "pairs" / part, rows)
    types = pa.Table.from_pylist([{"src": "x", "tgt": "y"}], types_schema())
    for name in ("types", "dictionary"):
        write_types(types, folder / f"{name}.arrow")
    sides = {"de": rows["src"], "fr": rows["src"], "en": rows["tgt"]}
    text = {lang: write_dataset(folder / lang, words=words) for lang, words in sides.items()}
    both = zip(rows["src"], rows["tgt"], strict=True)
    texts = [f"{' '.join(a)} ||| {' '.join(b)}\n" for a, b in both]
    (folder / "words").write_text("".join(f"{a} {b}\n" for a, b in WORDS.items()))
    (folder / "text").write_text("".join(texts))
    (folder / "links").write_text("0-0 1-1\n" * 12)
    paths = {"dictionary": "words", "test_text": "text", "test_links": "links"}
    pairs, seen = dict.fromkeys(LANGS, folder / "pairs"), dict.fromkeys(LANGS, folder)
    files = {name: dict.fromkeys(LANGS, folder / file) for name, file in paths.items()}
    return {"heldout": pairs, "bitext": pairs, "seen": seen, "text": text, "files": files}


def run(kind, aligned, inputs, **params):
    task = made(kind, **GIVEN.get(kind, {}), **params)
    return evaluated(task, aligned, LANGS, **inputs)


@pytest.mark.parametrize(("kind", "params"), TASKS, ids=lambda part: str(part))
def test_each_entry_has_the_values_of_an_evaluation_of_its_own(aligned, inputs, kind, params):
    """Rows, values and means are those of one layer at a time; the last entry has plain names."""
    every = run(kind, aligned, inputs, layers=LIST, **params)
    kept = [name for name in every.predictions.column_names if name != "layers"]
    for entry, label in LABELS.items():
        alone = run(kind, aligned, inputs, layers=entry, **params)
        rows = of_layers(every.predictions, label).select(kept)
        assert repr(rows.to_pylist()) == repr(alone.predictions.to_pylist())  # NaN is itself
        for lang in ("de-en", "avg"):
            of_entry, found = values(alone, lang), values(every, lang)
            assert of_entry
            assert {name: found[f"layer{label}_{name}"] for name in of_entry} == of_entry
            if entry == LIST[-1]:
                assert {name: found[name] for name in of_entry} == of_entry
    assert of_layers(every.predictions)["layers"].unique().to_pylist() == ["3"]


@pytest.mark.parametrize("kind", ["word_alignment", "sentence_retrieval"])
def test_the_encoder_reads_once(aligned, inputs, kind, monkeypatch):
    passes = []
    hidden = type(aligned.encoder).hidden
    counted = lambda *a, **k: passes.append(1) or hidden(*a, **k)  # noqa: E731
    monkeypatch.setattr(type(aligned.encoder), "hidden", counted)
    run(kind, aligned, inputs, layers="last")
    once = len(passes)
    run(kind, aligned, inputs, layers=LIST)
    assert 0 < len(passes) <= 2 * once  # text that dev and test share is read once


def test_what_does_not_fit_is_read_again(aligned, monkeypatch):
    view, sentences = OnePass.of(aligned, LIST), [["Haus"], ["Hund", "Haus"]]
    wide = aligned.words(sentences, "de", layers="1-2").vectors_NLH
    for limit in (1 << 30, 0):
        monkeypatch.setattr("raxalign.tasks.vectors.frame.LIMIT", limit)
        assert view.words(sentences, "de", layers="1-2").vectors_NLH.equal(wide)
        view.kept.clear()
    view.words(sentences, "de", layers="1-2")
    assert not view.kept


def test_a_list_reads_the_layers_of_all_its_entries():
    task = made("sentence_retrieval", layers=[1, "3-4"])
    assert task.reads(4).layers == {1, 3, 4}
    assert Measured.find(task.metrics, "layer3-4_accuracy").role == "part"
    assert Measured.find(task.metrics, "layer3_accuracy_pairs").role == "count"
    assert Measured.find(task.metrics, "layer3_nothing") is None


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "names no layer"),
        ([4, 4], "names '4' twice"),
        ([4, "12-9"], "begins with its smaller number"),
        (["first"], "write `last`, one number"),
    ],
)
def test_lists_that_cannot_be_are_refused(layers, message):
    with pytest.raises(ValueError, match=message):
        made("retrieval", layers=layers)


def test_two_entries_are_not_the_same_layers(aligned, inputs):
    with pytest.raises(RaxalignError, match="are layer 3 of this encoder, which another entry"):
        run("sentence_retrieval", aligned, inputs, layers=["3", "last"])
