"""What a scratch encoder is trained on: text sliced into windows, over a vocabulary that is
given.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from raxalign.config.sources import LocalFile
from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.scratch import Scratch
from raxalign.encoders.training.masked_lm import new_bert, slice_rows, training_rows
from raxalign.encoders.training.params import ScratchParams
from raxalign.encoders.training.text import SPECIALS, wrap_vocabulary
from raxalign.errors import DataError
from raxalign.train.runtime import Runtime

CLS, SEP = 2, 3
SHAPE = {
    "layers": 1,
    "hidden_size": 16,
    "heads": 2,
    "intermediate": 16,
    "positions": 32,
    "window": 20,
    "steps": 2,
    "batch_size": 2,
}
WORDS = ["dog", "cat", "house", "sees", "loves", "."]


def text_of(folder: Path, sentences: list[list[str]]) -> dict[str, Path]:
    with DatasetWriter(folder, pa.schema([("words", pa.list_(pa.string()))]), {}) as writer:
        writer.write({"words": sentences})
    return {"en": folder}


def build(
    text: dict[str, Path], folder: Path, vocabulary: Path | None = None, **options: object
) -> dict[str, object]:
    folder.mkdir()
    named = {} if vocabulary is None else {"vocabulary": str(vocabulary)}
    kind = Scratch(Scratch.Params.model_validate({**SHAPE, **named, **options}))
    inputs = EncoderInputs(text=text, locations=named)
    return dict(kind.build(inputs, Runtime(), folder))


@pytest.mark.parametrize("window", [20, 128])
def test_every_piece_of_the_text_is_in_one_row_in_its_order(window: int) -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 90, 200)
    text = np.arange(100, 100 + lengths.sum())
    sentences = np.split(text, np.cumsum(lengths)[:-1])
    rows = slice_rows(sentences, window, (CLS, SEP), rng)
    kept = [row.ids[(row.ids != CLS) & (row.ids != SEP)] for row in rows]
    assert np.array_equal(np.concatenate(kept), text)
    assert {len(row) for row in rows[:-1]} == {window}
    assert len(rows[-1]) <= window
    assert all(row.ids[0] == CLS and row.ids[-1] == SEP for row in rows)


def test_second_segments_begin_where_sentences_do() -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(2, 30, 300)
    text = np.arange(100, 100 + lengths.sum())
    sentences = np.split(text, np.cumsum(lengths)[:-1])
    rows = slice_rows(sentences, 40, (CLS, SEP), rng)
    pairs = [row for row in rows if row.first < len(row)]
    assert 0.35 * len(rows) < len(pairs) < 0.65 * len(rows)
    begins = {int(sentence[0]) for sentence in sentences}
    assert all(row.ids[row.first - 1] == SEP and int(row.ids[row.first]) in begins for row in pairs)
    assert all((row.ids == SEP).sum() == 2 for row in pairs)
    assert all((row.ids == SEP).sum() == 1 for row in rows if row.first == len(row))


def test_rows_by_hand() -> None:
    """Eight pieces per row without specials but one of two segments, which has seven."""
    sentences = [np.arange(10, 14), np.arange(20, 33)]
    none = slice_rows(sentences, 10, (CLS, SEP), np.random.default_rng(0))
    rows = [row.ids.tolist() for row in none]
    assert rows[0] == [CLS, 10, 11, 12, 13, 20, 21, 22, 23, SEP]  # not divided with this seed
    assert rows[1] == [CLS, *range(24, 32), SEP]
    assert rows[2] == [CLS, 32, SEP]
    two = slice_rows(sentences, 10, (CLS, SEP), np.random.default_rng(2))
    assert two[0].ids.tolist() == [CLS, 10, 11, 12, 13, SEP, 20, 21, 22, SEP]
    assert two[0].segments.tolist() == [0] * 6 + [1] * 4
    assert two[1].ids.tolist() == [CLS, *range(23, 31), SEP]


def test_sliced_text_reads_as_its_file_does_whose_last_line_comes_first_in_the_dataset() -> None:
    params = ScratchParams.model_validate({**SHAPE, "slicing": True, "window": 8})
    tokenizer = wrap_vocabulary([*SPECIALS, *WORDS])
    encoder = TransformerEncoder(new_bert(params, len(tokenizer)), tokenizer)
    text = {"de": [["house"], ["cat", "cat"], ["dog"]], "en": [["loves"], ["sees"]]}
    rows, _ = training_rows(encoder, text, params)
    ids = [i for i in rows.ids.tolist() if i >= len(SPECIALS)]
    assert tokenizer.convert_ids_to_tokens(ids) == ["dog", "cat", "cat", "house", "sees", "loves"]


def test_no_text_makes_no_rows() -> None:
    assert slice_rows([], 20, (CLS, SEP), np.random.default_rng(0)) == []


def test_short_windows_lose_the_ends_of_sentences_unless_the_text_is_sliced(tmp_path: Path) -> None:
    """Each sentence has 40 pieces of words; a window of 20 holds 18 or 19 of them."""
    text = text_of(tmp_path / "text", [WORDS[:4] * 10] * 30)
    whole = build(text, tmp_path / "sliced", slicing=True, vocab_size=100)
    assert whole["sentences_cut"] == {"en": 0}
    assert 1200 < int(str(whole["pieces"])) <= 1200 + 3 * 1200 / 17 + 3
    cut = build(text, tmp_path / "cut", vocab_size=100)
    assert cut["sentences_cut"] == {"en": 30}
    assert json.loads(json.dumps(cut)) == cut  # notes go into the manifest
    assert int(str(cut["pieces"])) == 30 * 20
    fits = text_of(tmp_path / "short", [WORDS] * 30)
    assert build(fits, tmp_path / "fits")["sentences_cut"] == {"en": 0}


def test_the_given_vocabulary_is_the_encoders(tmp_path: Path) -> None:
    pieces = [*SPECIALS, "do", "##g", "cat", "house", "sees", "loves", "."]
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(pieces) + "\n", encoding="utf-8")
    text = text_of(tmp_path / "text", [WORDS] * 20)
    notes = build(text, tmp_path / "a", vocabulary, slicing=True)
    assert notes["vocabulary"] == 12
    encoder = Scratch(Scratch.Params()).load(EncoderInputs(folder=tmp_path / "a"), "cpu")
    (row,) = encoder.pieces([["dog", "cat"]], "en")
    assert row.ids.tolist() == [2, 5, 6, 7, 3]


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (["[PAD]", "[UNK]", "[CLS]", "[SEP]"], r"has no \[MASK\], which masked language modelling"),
        (["[PAD]", "[MASK]"], r"has no \[UNK\], \[CLS\], \[SEP\], so it is not a WordPiece"),
    ],
)
def test_a_vocabulary_without_special_pieces_is_refused(
    tmp_path: Path, left: list[str], told: str
) -> None:
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join([*left, "dog"]) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=told):
        build(text_of(tmp_path / "text", [WORDS]), tmp_path / "a", vocabulary)


def test_the_options_enter_keys_only_where_they_are_set() -> None:
    identity = Scratch.Params().identity()
    assert not {"slicing", "vocabulary"} & set(identity)
    assert Scratch(Scratch.Params()).sources() == {}
    given = Scratch(Scratch.Params(vocabulary="vocab.txt", slicing=True))
    assert given.sources() == {"vocabulary": LocalFile(Path("vocab.txt"))}
    del identity["vocab_size"]
    assert given.params.identity() == {**identity, "slicing": True}


def test_multilingual_berts_vocabulary_reads_real_text_without_unknown_pieces(
    tmp_path: Path,
) -> None:
    data = os.environ.get("RAXALIGN_TEST_DATA")
    if data is None:
        pytest.skip("RAXALIGN_TEST_DATA names no folder of real data")
    vocabulary = Path(data) / "mbert-vocab" / "vocab.txt"
    lines = (Path(data) / "ntrex" / "ntrex.tr").read_text(encoding="utf-8").splitlines()[:40]
    text = text_of(tmp_path / "text", [line.split() for line in lines])
    notes = build(text, tmp_path / "a", vocabulary, slicing=True)
    assert notes["vocabulary"] == 119_547
    encoder = Scratch(Scratch.Params()).load(EncoderInputs(folder=tmp_path / "a"), "cpu")
    rows = encoder.pieces([line.split() for line in lines], "tr")
    assert not any((row.ids == encoder.tokenizer.unk_token_id).any() for row in rows)
    assert encoder.tokenizer.convert_tokens_to_ids("[CLS]") == 101
