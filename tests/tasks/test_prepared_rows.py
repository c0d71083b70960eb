"""Training rows that were divided into pieces before: the same rows, counts, notes and weights."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from raxalign.caveats import Caveats, LeftOut
from raxalign.corpora.text.words import Sentence
from raxalign.encoders.models import pieces
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.pieces import Pieces
from raxalign.errors import DataError
from raxalign.tasks.answers.rows import (
    Answer,
    Question,
    Questions,
    WindowSizes,
)
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.classifiers.examples import Example, Examples, ExampleTable
from raxalign.tasks.mlqa import Mlqa
from raxalign.tasks.ner import Ner
from raxalign.tasks.taggers.reading import Tagged, TaggedSentences
from raxalign.train.runtime import Runtime
from tests.tasks import word_nli, word_qa

WORDS = [
    *("rot", "haus", "hund", "red", "house", "dog", "7", "##s", "who", "where", "in", "Rom", "alt"),
    *("anna", "Anna", "came", "to", "ro", "##me", "from", "york", "."),
    *word_nli.WORDS[:-2],
]
TEXTS = [("rot haus", "red"), ("xyzzy", "red house hund 7"), ("  ", "dog"), ("haus rot haus", "")]
EXAMPLES = Examples(
    "a.tsv",
    [Example(a, b, "xy"[i % 2], 3 * i + 1, f"n{i}", None) for i, (a, b) in enumerate(TEXTS)],
    LeftOut({Examples.UNLABELLED: 2}),
)
SENTENCES = TaggedSentences(
    "train.conll",
    [
        Tagged(("anna", "came", "to", "rome", "."), ("B-PER", "O", "O", "B-LOC", "O"), 1),
        Tagged(("to", "york."), ("O", "B-LOC"), 7, Sentence(("to", "york."), "to york.", (0, 3))),
        Tagged(("xyzzy",), ("O",), 9),
        Tagged(("rome",) * 12, ("B-LOC",) * 12, 11),
    ],
)
LONG = "Anna came . " * 9 + "in Rom ."
QUESTIONS = Questions(
    "q.json",
    [
        Question("a", "who came", "Anna came in Rom", 0, (Answer("Anna", 0),)),
        Question("b", "where in alt xyzzy ?", LONG, 1, (Answer("Rom", LONG.index("Rom")),)),
        Question("c", "who", "Anna came in Rom", 0, (Answer("Anna", 3),)),  # stands elsewhere
        Question("d", "where " * 20, "Anna came in Rom", 0, (Answer("Rom", 13),)),
        Question("e", "who", "   Anna", 2, (Answer(" ", 1),)),  # shares no piece
    ],
    LeftOut({Questions.UNANSWERED: 3}),
)
SIZES = WindowSizes(question=8, stride=6, answer=3)
KINDS = {
    "examples": EXAMPLES,
    "sentences": SENTENCES,
    "questions": QUESTIONS,
}


@pytest.fixture
def encoder(tiny):
    return copy(tiny(WORDS, positions=24))


def prepared(kind, lang, encoder, folder):
    KINDS[kind].write(lang, encoder.tokenizer, 1, folder)
    assert not list(folder.glob("texts-*"))
    return folder


def same(found, expected):
    assert len(found) == len(expected)
    for own, other in zip(found, expected, strict=True):
        for name in ("ids", "words", "lasts"):
            assert getattr(own, name).tolist() == getattr(other, name).tolist()
        assert own.segments.tolist() == other.segments.tolist()
        assert own.languages == other.languages


@pytest.mark.parametrize("max_positions", [24, 6])
@pytest.mark.parametrize("chosen", [None, [0, 1, 2, 3], [3, 1]])
def test_rows_of_prepared_examples_are_those_of_the_texts(
    encoder, tmp_path, monkeypatch, max_positions, chosen
):
    monkeypatch.setattr(encoder, "max_positions", max_positions)
    folder = prepared("examples", "de", encoder, tmp_path)
    places = None if chosen is None else np.array(chosen)
    first, second = (list(EXAMPLES.texts(name, places)) for name in ("first", "second"))
    with Caveats.collecting() as read:
        expected = encoder.pieces(first, "de", pairs=second, pair_lang="de")
        single = encoder.pieces(first, "de")
    mapped = Examples.prepared(folder, "de", None)
    sides = [mapped.texts(name, places) for name in mapped.text_names]
    assert all(isinstance(side, Pieces) for side in sides)
    with Caveats.collecting() as counted:
        found, alone = Examples.encoded(encoder, sides), Examples.encoded(encoder, sides[:1])
        same(found, expected)  # rows are formed, and cut, when they are read
        same(alone, single)
    assert alone.n_words().tolist() == single.n_words().tolist()
    assert counted.notes() == read.notes()
    assert (counted.pieces, counted.unknown) == (read.pieces, read.unknown)
    with pytest.raises(IndexError):
        found[len(first)]


@pytest.mark.parametrize("kind", KINDS)
def test_prepared_rows_keep_the_remarks_on_their_source(encoder, tmp_path, kind):
    rows = KINDS[kind]
    asked = rows.first(2)
    replace(asked, left_out=LeftOut({"why": 3}), said=("so",)).write(
        "en", encoder.tokenizer, 1, tmp_path
    )
    found = rows.prepared(tmp_path, "en", None)
    assert found.remarks == ("so", f"3 of {len(rows) + 3} {rows.noun} are left out: why")


def test_examples_are_read_back_without_their_texts(encoder, tmp_path):
    folder = prepared("examples", "de", encoder, tmp_path)
    read = Examples.prepared(folder, "de", None)
    assert (len(read), read.left_out, read.source) == (4, EXAMPLES.left_out, "a.tsv")
    assert Examples.prepared(folder, "de", "b.tsv").source == "b.tsv"
    assert read.fingerprints().tolist() == EXAMPLES.fingerprints().tolist()
    assert read.numbers(["x", "y"]).tolist() == [0, 1, 0, 1]
    assert read.table["line"].to_pylist() == [1, 4, 7, 10]
    assert read.table["id"].to_pylist() == ["n0", "n1", "n2", "n3"]


def test_examples_of_one_text_have_no_second_pieces(encoder, tmp_path):
    rows = [Example(row.first, None, row.label, row.line) for row in EXAMPLES.rows]
    counts = Examples("a.tsv", rows).write("de", encoder.tokenizer, 1, tmp_path)
    assert list(counts) == ["first"]
    assert Examples.prepared(tmp_path, "de", None).text_names == ("first",)


def test_prepared_sentences_have_the_pieces_tags_and_fingerprints_of_the_sentences(
    encoder, tmp_path
):
    folder = prepared("sentences", "en", encoder, tmp_path)
    found = TaggedSentences.prepared(folder, "en", None)
    with Caveats.collecting() as read:
        expected = encoder.pieces(SENTENCES.words(), "en")
    with Caveats.collecting() as mapped:
        same(found.piece_rows(encoder, "en"), expected)
    assert read.unknown["en"] > 0
    assert (mapped.pieces, mapped.unknown) == (read.pieces, read.unknown)
    assert (len(found), found.n_words(), found.source) == (4, SENTENCES.n_words(), "train.conll")
    assert TaggedSentences.prepared(folder, "en", "other.conll").source == "other.conll"
    assert found.tags() == {"O", "B-PER", "B-LOC"}
    labels = ["O", "B-LOC", "I-LOC", "B-PER"]
    numbers = [row.tolist() for row in found.numbers(labels)]
    assert numbers == [row.tolist() for row in SENTENCES.numbers(labels)]
    assert numbers[:2] == [[3, 0, 0, 1, 0], [0, 1]]
    assert found.fingerprints().tolist() == SENTENCES.fingerprints().tolist()


def test_windows_of_prepared_questions_are_those_of_their_texts(encoder, tmp_path):
    folder = prepared("questions", "en", encoder, tmp_path)
    with Caveats.collecting() as read:
        expected = QUESTIONS.answered().training_windows(encoder, "en", SIZES)
    with Caveats.collecting() as mapped:
        found = Questions.prepared(folder, "en", None).training_windows(encoder, "en", SIZES)
    assert len(found) == len(expected) > len(QUESTIONS)
    assert found.cuts_S5.tolist() == expected.cuts_S5.tolist()
    assert found.answered() == expected.answered() > 2
    same(found.rows, expected.rows)
    assert found.begins().tolist() == expected.begins().tolist()
    assert read.unknown["en"] > 0
    assert (mapped.pieces, mapped.unknown) == (read.pieces, read.unknown)


def test_prepared_questions_know_what_was_left_out_and_have_each_context_once(encoder, tmp_path):
    counts = QUESTIONS.write("en", encoder.tokenizer, 1, tmp_path)
    assert (counts["questions"], counts["contexts"]) == (4, 3)
    assert len(np.load(tmp_path / "contexts" / "offsets.npy")) == 4
    found = Questions.prepared(tmp_path, "en", None)
    lost = {Questions.UNANSWERED: 3, Questions.MISPLACED: 1}
    assert (len(found), found.left_out, found.source) == (4, lost, "q.json")
    assert Questions.prepared(tmp_path, "en", "other.json").source == "other.json"
    assert found.fingerprints().tolist() == QUESTIONS.fingerprints().tolist()
    assert found.pieces.spans_Q2.tolist() == [[0, 0], [28, 28], [3, 3], [-1, -1]]
    assert found.pieces.contexts.numbers().tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("examples", "first: .* the subword tokens of texts in fr"),
        ("sentences", "words: .* the subword tokens of texts in fr"),
        ("questions", "does not have the subword tokens of questions in fr"),
    ],
)
def test_pieces_of_another_language_are_refused(encoder, tmp_path, kind, told):
    with pytest.raises(DataError, match=told):
        KINDS[kind].prepared(prepared(kind, "de", encoder, tmp_path), "fr", None)


def classification(folder, switching):
    files = word_nli.write_all(folder / "files")
    files["train"] = files["train"].replace("{pivot}", "{lang}")
    for k, lang in enumerate(("en", "de")):
        word_nli.write(word_nli.at(files["train"], lang), lang, 24, k)
    options = {"setting": "translate-train", "code_switching": switching}
    return word_nli.task(files, epochs=1, selection="last", **options), ("en", "de")


def tagging(folder, tagger):
    lines = (
        "\n".join(map("\t".join, zip(row.words, row.tags, strict=True))) for row in SENTENCES.rows
    )
    (folder / "train.en").write_text("\n\n".join(lines))
    (folder / "dev.en").write_text("anna O\n")
    data = {"train": f"{folder}/train.{{pivot}}", "dev": f"{folder}/dev.{{lang}}"}
    small = {"hidden": 4} if tagger == "bilstm_crf" else {}
    options = {"epochs": 2, "batch_size": 2, "max_length": 12, "tagger": tagger, **small}
    return Ner(Ner.Params(data=data, **options)), ("en",)


def answering(folder, _):
    asked = [
        (row.context, (row.id, row.question, *((a.text, a.start) for a in row.answers)))
        for row in QUESTIONS.rows
    ]
    for lang in ("en", "de"):
        (folder / f"train.{lang}.json").write_text(word_qa.squad(*asked))
    options = {"setting": "translate-train", "selection": "last", "epochs": 2, "batch_size": 2}
    data = {"train": f"{folder}/train.{{lang}}.json"}
    task = Mlqa(Mlqa.Params(data=data, max_length=24, **options))
    task.sizes = SIZES
    return task, ("en", "de")


@pytest.mark.parametrize(
    ("make", "how", "note"),
    [
        (classification, "none", ("rows_by_language", {"en": 24, "de": 24})),
        (classification, "sentence", ("examples", 72)),
        (tagging, "linear", ("words_left_out", 7)),
        (tagging, "bilstm_crf", ("words_left_out", 7)),
        (answering, "", ("misplaced", {"en": 1, "de": 1})),
    ],
)
def test_a_training_on_prepared_rows_ends_with_the_same_weights_and_notes(
    encoder, tmp_path, make, how, note
):
    task, languages = make(tmp_path, how)
    rows = {lang: tmp_path / f"rows-{lang}" for lang in languages}
    for lang, folder in rows.items():
        folder.mkdir()
        task.write_rows(lang, TaskInputs("en"), encoder.tokenizer, 1, folder)
    found = []
    for inputs in (TaskInputs("en"), TaskInputs("en", rows=rows)):
        folder = tmp_path / f"trained-{len(found)}"
        folder.mkdir()
        with Caveats.collecting() as caveats:
            notes = task.train(AlignedEncoder(encoder), languages, inputs, Runtime(), folder)
        tensors = {path.name: load_file(path) for path in folder.glob("*.safetensors")}
        found.append((tensors, notes, caveats.notes()))
    (plain, *notes), (mapped, *others) = found
    assert others == notes
    assert notes[0][note[0]] == note[1]
    assert plain.keys() == mapped.keys()
    for name, tensors in plain.items():
        assert tensors.keys() == mapped[name].keys()
        assert all(torch.equal(tensor, mapped[name][key]) for key, tensor in tensors.items())


def test_only_the_rows_that_are_trained_on_are_prepared_and_no_mixed_questions(tmp_path):
    data = {"train": f"{tmp_path}/train.{{pivot}}", "dev": f"{tmp_path}/dev.{{lang}}"}
    ner = Ner(Ner.Params(data=data, selection="target-dev", max_train=7))
    assert ner.training().rows["max_train"] == 7
    assert ner.training().languages(("de",), "en") == ("en", "de")
    assert not ner.training().translations
    data["train"] = f"{tmp_path}/train.{{lang}}"
    together = {"setting": "translate-train"}
    both = Mlqa(Mlqa.Params(data=data, **together)).training()
    assert both.rows
    assert both.translations
    mixed = Mlqa.Params(data=data, code_switching="sentence", **together)
    assert Mlqa(mixed).training().rows is None
    assert not Mlqa(Mlqa.Params(data=data)).training().translations


MANY = [
    Example(f"haus rot {i}", f"house {i}" if i % 3 else "red", "ab"[i % 2], i + 1, f"n{i}", None)
    for i in range(40)
]


def test_rows_of_texts_in_several_chunks_are_those_of_one(encoder, monkeypatch):
    texts = [Sentence.of_text(row.first) for row in MANY]
    others = [Sentence.of_text(row.second) for row in MANY]
    rows = encoder.pieces(texts, "de", pairs=others, pair_lang="en")
    monkeypatch.setattr(pieces, "CHUNK", 7)
    chunked = encoder.pieces(texts, "de", pairs=others, pair_lang="en")
    same(chunked, rows)
    assert chunked[-1].ids.tolist() == chunked[len(rows) - 1].ids.tolist()
    with pytest.raises(IndexError):
        chunked[len(rows)]


def test_examples_are_read_back_from_their_table():
    many = Examples("x", ExampleTable.of(iter(MANY)))
    assert (list(many.rows), list(many.first(3).rows), many.rows[-1]) == (MANY, MANY[:3], MANY[-1])
    assert many.fingerprints().tolist() == Examples("x", MANY).fingerprints().tolist()
    assert many.numbers(("b", "a")).tolist() == [1, 0] * 20
    assert many.numbers(("c",)).tolist() == [1, 2] * 20
    texts = many.texts("second", np.array([4, 2, 9]))
    assert (len(texts), texts[1].text) == (3, MANY[2].second)
    assert [text.text for text in texts[1:]] == [MANY[2].second, MANY[9].second]
    single = ExampleTable.of(Example("a", None, "a", line) for line in range(20))
    assert (many.text_names, Examples("x", single).text_names) == (("first", "second"), ("first",))
