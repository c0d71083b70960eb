from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raxalign.encoders.models.pieces import share
from raxalign.errors import DataError
from raxalign.methods.rows.sentences import (
    Rows,
    Sentences,
    joint_rows,
    read_bitexts,
    read_texts,
    shares,
    single_rows,
)
from tests.methods.toy import toy_encoder, toy_inputs, toy_rows


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    toy_inputs(folder, languages=("de", "nl"))
    return folder


@pytest.fixture(scope="module")
def encoder(root):
    return toy_encoder(root / "encoder")


def bitext_folders(root: Path) -> dict[str, Path]:
    return {lang: root / f"bitext-{lang}" for lang in ("de", "nl")}


def row(rows: Rows, name: str, r: int) -> list[int]:
    part: list[int] = getattr(rows, name)[rows.offsets[r] : rows.offsets[r + 1]].tolist()
    return part


def pieces(sentences: Sentences, number: int) -> list[int]:
    start = sentences.starts_S[number]
    return sentences.ids[start : start + sentences.lengths_S[number]].tolist()


@pytest.mark.parametrize("max_length", [64, 15, 8])
def test_pair_rows_are_those_of_the_encoder_in_pieces_words_segments_and_languages(
    root, encoder, max_length
):
    bitexts = read_bitexts(encoder, bitext_folders(root), "en", max_length)
    encoder.max_positions, before = max_length, encoder.max_positions
    try:
        for first, second, turned in (
            (bitexts.src_P, bitexts.tgt_P, False),
            (bitexts.tgt_P, bitexts.src_P, True),
        ):
            rows = joint_rows(bitexts.sentences, first, second)
            for p in range(len(bitexts)):
                lang = bitexts.sentences.languages[bitexts.langs_P[p]]
                columns = toy_rows(24 if lang == "de" else 19, seed=0 if lang == "de" else 1)
                sides = [columns["src"][bitexts.numbers_P[p]], columns["tgt"][bitexts.numbers_P[p]]]
                languages = [lang, "en"]
                if turned:
                    sides, languages = sides[::-1], languages[::-1]
                (expected,) = encoder.pieces([sides[0]], languages[0], [sides[1]], languages[1])
                assert row(rows, "ids", p) == expected.ids.tolist()
                assert row(rows, "segments", p) == expected.segments.tolist()
                assert [bitexts.sentences.languages[k] for k in row(rows, "langs", p)] == [
                    languages[k] for k in expected.langs
                ]
                # The cut may go through a word: here its first pieces are still told as its own.
                words = np.array(row(rows, "words", p)) + np.array(row(rows, "segments", p)) * len(
                    sides[0]
                )
                assert (
                    words[expected.words >= 0].tolist()
                    == expected.words[expected.words >= 0].tolist()
                )
    finally:
        encoder.max_positions = before


def test_the_sentences_of_a_row_are_where_it_says(root, encoder):
    bitexts = read_bitexts(encoder, bitext_folders(root), "en", 14)
    rows = joint_rows(bitexts.sentences, bitexts.src_P, bitexts.tgt_P)
    assert rows.lengths.max() == 14
    for p in range(len(bitexts)):
        ids = row(rows, "ids", p)
        for k, side in enumerate((bitexts.src_P, bitexts.tgt_P)):
            first, kept = rows.first_RK[p, k], rows.kept_RK[p, k]
            assert ids[first : first + kept] == pieces(bitexts.sentences, side[p])[:kept]


def test_single_rows_are_those_of_the_encoder(root, encoder):
    texts = read_texts(encoder, {lang: root / f"text-{lang}" for lang in ("de", "en")}, 64)
    rows = single_rows(texts.sentences, np.array([30, 2]))
    assert (
        row(rows, "ids", 0)
        == encoder.pieces([toy_rows(19, seed=1)["tgt"][6]], "en")[0].ids.tolist()
    )
    assert row(rows, "ids", 1) == encoder.pieces([toy_rows(24)["src"][2]], "de")[0].ids.tolist()
    assert (set(row(rows, "langs", 0)), set(row(rows, "langs", 1)), set(rows.segments)) == (
        {1},
        {0},
        {0},
    )


def test_taken_rows_are_the_rows(root, encoder):
    bitexts = read_bitexts(encoder, bitext_folders(root), "en", 64)
    numbers = np.array([4, 0, 30])
    rows = joint_rows(bitexts.sentences, bitexts.src_P, bitexts.tgt_P)
    taken = rows.take(numbers)
    again = joint_rows(bitexts.sentences, bitexts.src_P[numbers], bitexts.tgt_P[numbers])
    for name in ("ids", "words", "langs", "segments", "offsets", "first_RK", "kept_RK"):
        assert np.array_equal(getattr(taken, name), getattr(again, name))


def test_the_length_filter_counts_pieces_before_the_cut_without_special_ones(root, encoder):
    columns = toy_rows(24)
    sizes = np.array(
        [
            [len(encoder.pieces([columns[side][i]], "de")[0]) - 2 for side in ("src", "tgt")]
            for i in range(24)
        ]
    )
    expected = np.flatnonzero((sizes.min(axis=1) >= 4) & (sizes.sum(axis=1) <= 20))
    assert 0 < len(expected) < 24
    bitexts = read_bitexts(
        encoder, {"de": root / "bitext-de"}, "en", 8, min_pieces=4, max_pieces=20
    )
    assert bitexts.numbers_P.tolist() == expected.tolist()
    assert bitexts.counts == {"de": {"sentences": len(expected), "read": 24}}


def test_a_filter_that_leaves_nothing_is_refused_with_the_options_to_relax(root, encoder):
    with pytest.raises(DataError, match="min_pieces"):
        read_bitexts(encoder, {"de": root / "bitext-de"}, "en", 64, min_pieces=100)
    with pytest.raises(DataError, match="min_pieces"):
        read_texts(encoder, {"de": root / "text-de"}, 64, min_pieces=100)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=5),
    st.integers(0, 50),
)
def test_two_sentences_share_the_room_as_in_the_encoder(lengths, room):
    assert shares(np.array(lengths), room).tolist() == [
        list(share(first, second, room)) for first, second in lengths
    ]
