"""Pieces in flat arrays: those of each sentence, whether they are made from text or mapped."""

from __future__ import annotations

from types import SimpleNamespace as Namespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raxalign.arrays import word_pieces
from raxalign.caveats import Caveats
from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.encoders.models import pieces as made_pieces
from raxalign.encoders.models.pieces import Pieces, read_template, write_pieces
from raxalign.encoders.models.rows import RowSource
from raxalign.errors import DataError, RaxalignError
from raxalign.methods.distillation import tokenise
from tests.encoders.tokenizers_of_kinds import tokenizer_of
from tests.methods.toy import WORDS, toy_encoder

SENTENCES = [["haus", "xyzzy"], [], ["rothaus", "sieht", "hund"], ["redhouse"], ["rot", "alt"]]
LANGS = {"src": "de", "tgt": "en"}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return toy_encoder(tmp_path_factory.mktemp("encoder"))


def dataset(folder, sentences=SENTENCES):
    words = pa.list_(pa.string())
    with DatasetWriter(folder, pa.schema({"src": words, "tgt": words}), {}) as writer:
        writer.write({"src": sentences, "tgt": sentences[::-1]})
    return folder


def same(one: Pieces, other: Pieces) -> bool:
    arrays = ((getattr(part, name)[:].tolist() for part in (one, other)) for name in Pieces.ARRAYS)
    return all(a == b for a, b in arrays) and one.unknown == other.unknown


WORD = st.sampled_from([*WORDS, *WORDS.values(), "x", "."])


@settings(deadline=None, max_examples=20)
@given(st.lists(st.lists(WORD, max_size=9), min_size=1), st.integers(3, 14))
def test_rows_are_the_pieces_of_each_sentence_cut_to_the_room(encoder, sentences, max_length):
    read = tokenise(encoder, [sentences[:2], sentences[2:]], max_length, "de")
    rows, template, number = [], read_template(encoder.tokenizer), 0
    for s, sentence in enumerate(sentences):
        whole = Pieces.read(encoder.tokenizer, [[sentence]], "de")
        rows.append([*template.before, *whole.ids[: max_length - 2], *template.after_single])
        assert read.single_rows(np.array([s])).ids.tolist() == rows[s]
        pieces, words = word_pieces(whole.words, whole.lasts)
        for word in range(len(sentence)):
            first, count = read.spans(np.array([number]))
            own = pieces[words == word]
            own = own if len(own) and own[-1] < max_length - 2 else own[:0]
            assert count.tolist() == [len(own)]
            if len(own):
                assert first.tolist() == [own[0] + 1]
            number += 1
    order = np.arange(len(sentences))[::-1]
    assert read.single_rows(order).ids.tolist() == [i for s in order for i in rows[s]]


@pytest.mark.parametrize("kind", ["unigram", "byte-level", "wordpiece"])
def test_words_that_share_a_piece_are_cut_together(kind):
    tokenizer = tokenizer_of(kind)
    sentence = ["We", "now", "have", "four", "mice", "."]
    flat = Pieces.read(tokenizer, [[sentence]], "en")
    encoder = Namespace(template=read_template(tokenizer), filler=0, not_as_trained={})
    around = len(encoder.template.before) + len(encoder.template.after_single)
    for room in range(1, len(flat.ids) + 1):
        encoder.max_positions = room + around
        row = RowSource.of(encoder, [flat]).take()
        _, words = word_pieces(row.words, row.lasts)
        read = [word for word in range(6) if word in words]
        whole_W = (flat.count_W > 0) & (flat.first_W + flat.count_W <= room)
        assert np.flatnonzero(whole_W).tolist() == read


@pytest.mark.parametrize(
    ("threads", "part"), [(1, 2), (1, 100), pytest.param(3, 2, marks=pytest.mark.slow)]
)
def test_mapped_pieces_are_those_of_the_text(encoder, tmp_path, monkeypatch, threads, part):
    monkeypatch.setattr(made_pieces, "_PART", part)
    data = dataset(tmp_path / "data")
    counts = write_pieces(encoder.tokenizer, data, LANGS, threads, tmp_path)
    for column, sentences in (("src", SENTENCES), ("tgt", SENTENCES[::-1])):
        made = Pieces.read(encoder.tokenizer, [sentences], LANGS[column])
        mapped = Pieces.mapped(tmp_path / column, LANGS[column])
        assert mapped is not None
        assert same(mapped, made)
        assert counts[column]["sentences"] == 5
        assert counts[column]["pieces"] == len(made.ids)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "src", "tgt"]


def test_a_column_without_a_sentence_is_mapped(encoder, tmp_path):
    write_pieces(encoder.tokenizer, dataset(tmp_path / "data", [[]]), LANGS, 1, tmp_path)
    mapped = Pieces.mapped(tmp_path / "src", "de")
    assert mapped is not None
    assert (len(mapped), len(mapped.ids)) == (1, 0)


def test_prepared_pieces_are_read_and_their_unknown_ones_counted(encoder, tmp_path, monkeypatch):
    data = dataset(tmp_path / "data")
    with Caveats.collecting() as first:
        made = Pieces.of_column(encoder, data, "src", "de", "de-en")
    write_pieces(encoder.tokenizer, data, LANGS, 1, tmp_path)
    assert (
        Pieces.mapped(tmp_path / "src", "zh") is Pieces.mapped(tmp_path / "nothing", "de") is None
    )
    Pieces.mapped(tmp_path / "src", "de").count_W[:] = 0  # is not written to the file
    monkeypatch.setattr(encoder, "prepared", {data: tmp_path})
    monkeypatch.setattr(encoder, "tokenizer", None)  # nothing is tokenised
    with Caveats.collecting() as second:
        mapped = Pieces.of_column(encoder, data, "src", "de", "de-en")
    assert same(mapped, made)
    assert first.notes()["unknown"]
    assert second.notes() == first.notes()


def test_pieces_of_other_sentences_are_refused(encoder, tmp_path, monkeypatch):
    write_pieces(encoder.tokenizer, dataset(tmp_path / "data"), LANGS, 1, tmp_path)
    other = dataset(tmp_path / "other", [*SENTENCES[:-1], ["rot"]])
    monkeypatch.setattr(encoder, "prepared", {other: tmp_path})
    said = r"src: has the subword tokens of other sentences than .*other"
    with pytest.raises(DataError, match=said):
        Pieces.of_column(encoder, other, "src", "de")


def test_a_process_that_fails_is_reported(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(made_pieces, "_PART", 2)
    monkeypatch.setattr(made_pieces, "_saved", lambda tokenizer, path: path.write_text("{}") > 0)
    with pytest.raises(RaxalignError, match=r"data: a process that tokenises it failed \(.+\)"):
        write_pieces(encoder.tokenizer, dataset(tmp_path / "data"), LANGS, 2, tmp_path)
