"""Training questions that were divided into pieces before: the same windows, notes and weights."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from raxalign.caveats import collecting
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.mlqa import Mlqa
from raxalign.tasks.spans.divided_questions import read_questions, write_questions
from raxalign.tasks.spans.rows import Answer, Question, Questions, answered
from raxalign.tasks.spans.windows import WindowSizes, cut_windows, make_windows
from raxalign.train.runtime import Runtime
from tests.tiny import tiny_bert

WORDS = ["who", "where", "in", "Rom", "Anna", "came", "alt", "."]
LONG = "Anna came . " * 9 + "in Rom ."
ROWS = [
    Question("a", "who came", "Anna came in Rom", 0, (Answer("Anna", 0),)),
    Question("b", "where in alt xyzzy ?", LONG, 1, (Answer("Rom", LONG.index("Rom")),)),
    Question("c", "who", "Anna came in Rom", 0, (Answer("Anna", 3),)),  # stands elsewhere
    Question("d", "where " * 20, "Anna came in Rom", 0, (Answer("Rom", 13),)),
    Question("e", "who", "   Anna", 2, (Answer(" ", 1),)),  # shares no piece
]
GIVEN = Questions("q.json", ROWS, 3)
SIZES = WindowSizes(question=8, stride=6, answer=3)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    torch.set_num_threads(1)
    return TransformerEncoder.from_folder(
        tiny_bert(tmp_path_factory.mktemp("tiny"), WORDS, positions=24)
    )


@pytest.fixture
def made(encoder, tmp_path):
    write_questions(GIVEN, "en", encoder.tokenizer, tmp_path)
    return tmp_path


def test_windows_of_divided_questions_are_those_of_their_texts(encoder, made):
    with collecting() as read:
        expected = make_windows(answered(GIVEN), encoder, ("en", "en"), SIZES).windows
    with collecting() as mapped:
        found = cut_windows(read_questions(made, "en", None).texts(), encoder, SIZES)
    assert len(found) == len(expected) > len(ROWS)
    assert found.cuts_S5.tolist() == expected.cuts_S5.tolist()
    assert found.answered() == expected.answered() > 2
    for own, other in zip(found, expected, strict=True):
        assert own.row.ids.tolist() == other.row.ids.tolist()
        assert own.row.ids.dtype == other.row.ids.dtype
        assert (own.row.first, own.row.languages) == (other.row.first, other.row.languages)
        assert (own.question, own.begin, own.target) == (other.question, other.begin, other.target)
    assert read.unknown["en"] > 0
    assert (mapped.pieces, mapped.unknown) == (read.pieces, read.unknown)


def test_divided_questions_know_what_was_left_out(encoder, made, tmp_path):
    found = read_questions(made, "en", None)
    assert (len(found), found.total, found.unanswerable, found.source) == (4, 5, 3, "q.json")
    assert read_questions(made, "en", "other.json").source == "other.json"
    assert found.fingerprints().tolist() == GIVEN.fingerprints().tolist()
    assert found.spans_Q2.tolist() == [[0, 0], [28, 28], [3, 3], [-1, -1]]
    assert [pieces.tolist() for pieces in found.contexts[2:3]] == [found.contexts[0].tolist()]
    with pytest.raises(IndexError):
        found.asked[4]


def test_each_context_is_kept_once(encoder, tmp_path):
    counts = write_questions(GIVEN, "en", encoder.tokenizer, tmp_path)
    assert (counts["questions"], counts["contexts"]) == (4, 3)
    assert len(np.load(tmp_path / "contexts" / "offsets.npy")) == 4


def test_questions_of_another_language_are_refused(made):
    with pytest.raises(DataError, match="does not have the pieces of questions in de"):
        read_questions(made, "de", None)


def document(rows):
    paragraphs = [
        {
            "context": row.context,
            "qas": [
                {
                    "id": row.id,
                    "question": row.question,
                    "answers": [{"text": a.text, "answer_start": a.start} for a in row.answers],
                }
            ],
        }
        for row in rows
    ]
    return json.dumps({"data": [{"paragraphs": paragraphs}]})


def test_a_training_on_divided_questions_ends_with_the_same_weights_and_notes(encoder, tmp_path):
    for lang in ("en", "de"):
        (tmp_path / f"train.{lang}.json").write_text(document(ROWS))
    mlqa = Mlqa(
        Mlqa.Params(
            data={"train": f"{tmp_path}/train.{{lang}}.json"},
            setting="translate-train",
            selection="last",
            epochs=2,
            batch_size=2,
            max_length=24,
            max_question_length=8,
            doc_stride=6,
            max_answer_length=3,
        )
    )
    rows = {}
    for lang in ("en", "de"):
        rows[lang] = tmp_path / f"rows-{lang}"
        rows[lang].mkdir()
        mlqa.write_rows(lang, TaskInputs("en"), encoder.tokenizer, 1, rows[lang])
    found = []
    for inputs in (TaskInputs("en"), TaskInputs("en", rows=rows)):
        folder = tmp_path / f"trained-{len(found)}"
        folder.mkdir()
        with collecting() as caveats:
            notes = mlqa.train(AlignedEncoder(encoder), ("en", "de"), inputs, Runtime(), folder)
        tensors = {path.name: load_file(path) for path in folder.glob("*.safetensors")}
        found.append((tensors, notes, caveats.notes()))
    (plain, *notes), (divided, *others) = found
    assert others == notes
    assert notes[0]["misplaced"] == {"en": 1, "de": 1}
    assert plain.keys() == divided.keys()
    for name, tensors in plain.items():
        assert tensors.keys() == divided[name].keys()
        assert all(torch.equal(tensor, divided[name][key]) for key, tensor in tensors.items())


def test_mixed_questions_are_not_divided_before(tmp_path):
    data = {"train": f"{tmp_path}/train.{{lang}}.json", "dev": f"{tmp_path}/dev.{{lang}}.json"}
    together = Mlqa(Mlqa.Params(data=data, setting="translate-train"))
    mixed = Mlqa(Mlqa.Params(data=data, setting="translate-train", code_switching="sentence"))
    prepared = together.prepares("de", "en")
    assert prepared is not None
    assert set(prepared.sources) == {"train"}
    assert mixed.prepares("de", "en") is None
    assert Mlqa(Mlqa.Params(data=data)).prepares("de", "en") is None
