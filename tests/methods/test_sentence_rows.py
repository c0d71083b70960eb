"""Rows of pieces: of sentences and pairs as the encoder has them, and of running text, with bare
blanks that belong to no word and pieces that words share.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from raxalign.caveats import Caveats
from raxalign.encoders.models.pieces import Pieces, read_template, word_spans
from raxalign.encoders.models.rows import Sentences, shares
from raxalign.errors import DataError
from raxalign.methods.code_switching import read_switchable, switched_rows
from raxalign.methods.distillation import tokenise
from raxalign.methods.families.rows import Bitexts, States, read_texts, real_gap
from raxalign.methods.sentence_margin import SentenceMargin
from raxalign.methods.weam import expand
from raxalign.pairing.links import Links
from tests.encoders.tokenizers_of_kinds import tokenizer_of
from tests.methods.toy import toy_encoder, toy_rows, write_text


def bitext_folders(root):
    return {lang: root / f"bitext-{lang}" for lang in ("de", "fr")}


def row(rows, name, r):
    return getattr(rows, name)[rows.offsets[r] : rows.offsets[r + 1]].tolist()


def pieces(sentences, number):
    start = sentences.starts_S[number]
    return sentences.ids[start : start + sentences.lengths_S[number]].tolist()


@pytest.mark.parametrize("max_length", [64, 15, 8])
def test_pair_rows_are_those_of_the_encoder_in_pieces_words_segments_and_languages(
    root, encoder, max_length
):
    bitexts = Bitexts.read(encoder, bitext_folders(root), "en", max_length)
    encoder.max_positions, before = max_length, encoder.max_positions
    try:
        for first, second, turned in (
            (bitexts.src_P, bitexts.tgt_P, False),
            (bitexts.tgt_P, bitexts.src_P, True),
        ):
            rows = bitexts.sentences.joint_rows(first, second)
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
                found = [bitexts.sentences.languages[k] for k in row(rows, "langs", p)]
                assert found == [expected.languages[k] for k in expected.langs]
                # The cut may go through a word: here its first pieces are still told as its own.
                words = np.array(row(rows, "words", p))
                own = expected.words >= 0
                assert words[own].tolist() == expected.words[own].tolist()
    finally:
        encoder.max_positions = before


def test_the_sentences_of_a_row_are_where_it_says(root, encoder):
    bitexts = Bitexts.read(encoder, bitext_folders(root), "en", 14)
    rows = bitexts.sentences.joint_rows(bitexts.src_P, bitexts.tgt_P)
    assert rows.lengths.max() == 14
    for p in range(len(bitexts)):
        ids = row(rows, "ids", p)
        for k, side in enumerate((bitexts.src_P, bitexts.tgt_P)):
            first, kept = rows.first_RK[p, k], rows.kept_RK[p, k]
            assert ids[first : first + kept] == pieces(bitexts.sentences, side[p])[:kept]


def test_single_rows_are_those_of_the_encoder(root, encoder):
    texts = read_texts(encoder, {lang: root / f"text-{lang}" for lang in ("de", "en")}, 64)
    rows = texts.sentences.single_rows(np.array([30, 2]))
    alone = ((toy_rows(19, seed=1)["tgt"][6], "en"), (toy_rows(24)["src"][2], "de"))
    for r, (sentence, lang) in enumerate(alone):
        assert row(rows, "ids", r) == encoder.pieces([sentence], lang)[0].ids.tolist()
    assert [set(row(rows, "langs", r)) for r in (0, 1)] == [{1}, {0}]
    assert set(rows.segments) == {0}


@pytest.mark.parametrize(("max_length", "alone"), [(14, False), (8, True), (64, True)])
def test_training_text_that_is_cut_is_counted(root, encoder, max_length, alone):
    with Caveats.collecting() as found:
        bitexts = Bitexts.read(encoder, bitext_folders(root), "en", max_length, alone=alone)
    sides, sentences = (bitexts.src_P, bitexts.tgt_P), bitexts.sentences
    if alone:
        lost = [s for side in sides for s in side[sentences.kept(side) < sentences.lengths_S[side]]]
    else:
        kept = sentences.joint_rows(*sides).kept_RK
        lost = np.stack(sides, axis=1)[kept < sentences.lengths_S[np.stack(sides, axis=1)]]
    texts = {(sentences.langs_S[s], *pieces(sentences, s)) for s in lost}
    by_language = [own for lost in found.cut.values() for own in lost.values()]
    assert sum(map(len, by_language)) == len(texts)
    assert bool(texts) == (max_length < 64)


def test_taken_rows_are_the_rows(root, encoder):
    bitexts = Bitexts.read(encoder, bitext_folders(root), "en", 64)
    numbers = np.array([4, 0, 30])
    rows = bitexts.sentences.joint_rows(bitexts.src_P, bitexts.tgt_P)
    taken = rows.take(numbers)
    again = bitexts.sentences.joint_rows(bitexts.src_P[numbers], bitexts.tgt_P[numbers])
    for name in ("ids", "words", "langs", "segments", "offsets", "first_RK", "kept_RK"):
        assert np.array_equal(getattr(taken, name), getattr(again, name))


def test_the_length_filter_counts_pieces_before_the_cut_without_special_ones(root, encoder):
    columns = toy_rows(24)
    rows = (encoder.pieces(columns[side], "de") for side in ("src", "tgt"))
    sizes = np.array([side.lengths - 2 for side in rows])
    expected = np.flatnonzero((sizes.min(axis=0) >= 4) & (sizes.sum(axis=0) <= 20))
    assert 0 < len(expected) < 24
    bitexts = Bitexts.read(encoder, {"de": root / "bitext-de"}, "en", 8, (4, 20))
    assert bitexts.numbers_P.tolist() == expected.tolist()
    assert bitexts.counts == {"de": {"sentences": len(expected), "read": 24}}


def test_a_filter_that_leaves_nothing_is_refused_with_the_options_to_relax(root, encoder):
    with pytest.raises(DataError, match="min_pieces"):
        Bitexts.read(encoder, {"de": root / "bitext-de"}, "en", 64, (100, None))
    with pytest.raises(DataError, match="min_pieces"):
        read_texts(encoder, {"de": root / "text-de"}, 64, min_pieces=100)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 40))
def test_shares_fill_the_room_and_the_longer_side_is_cut_first(first, second, room):
    ((a, b),) = shares(np.array([[first, second]]), room).tolist()
    assert 0 <= a <= first
    assert 0 <= b <= second
    assert a + b == min(room, first + second)
    assert a == first or a >= b - 1
    assert b == second or b >= a - 1


STATES = torch.tensor([[1.0], [2.0], [6.0], [0.0], [3.0], [5.0]])


@pytest.mark.parametrize(
    ("pooling", "trailing", "expected"),
    [
        ("last", 1, [[2.0], [3.0]]),
        ("last", 0, [[6.0], [5.0]]),
        ("last", 7, [[1.0], [3.0]]),
        ("weighted", 1, [[(1 + 4 + 18) / 6], [(3 + 10) / 3]]),
        ("mean", 1, [[3.0], [4.0]]),
        ("cls", 1, [[1.0], [3.0]]),
    ],
)
def test_pieces_are_pooled_within_their_sentences(pooling, trailing, expected):
    """The first sentence has the pieces 1, 2 and 6, the second one after a gap 3 and 5."""
    states = States([STATES], np.array([0, 4]), np.array([3, 2]), trailing)
    assert torch.allclose(states.sentences(pooling), torch.tensor(expected))


def test_rows_know_how_many_special_pieces_end_them(tmp_path):
    encoder = toy_encoder(tmp_path)
    sentences = tokenise(encoder, [[["haus", "sieht"], ["rot"]]], 32)
    states = States.read(encoder, sentences, np.arange(2), (encoder.n_layers,))
    rows = encoder.pieces([["haus", "sieht"], ["rot"]], "de")
    with torch.no_grad():
        alone = torch.stack([encoder.hidden(encoder.collate(row))[-1][0, -2] for row in rows])
    assert torch.allclose(states.sentences("last"), alone, atol=1e-5)


def test_the_pooling_of_the_last_layer_is_what_an_encoder_is_read_by_afterwards():
    alike = ({"pooling": "cls"}, "cls"), ({}, "mean")
    for options, expected in (*alike, ({"layers": "1"}, None), ({"layers": "0.5"}, None)):
        method = SentenceMargin(SentenceMargin.Params.model_validate(options))
        assert method.effect().pooling == expected


def test_a_difference_is_itself_rounding_of_its_type_is_nothing_and_no_number_stays_so():
    reference = torch.tensor([[1.0, -2.0, 0.5], [4.0, 0.0, 1.0]])
    # the limits are 100 x 2^-23 x 2 = 2.4e-5, and 4.8e-5
    offset = torch.tensor([[1e-3, 1e-6, -1e-3], [0.0, 4e-5, 6e-5]])
    real = torch.tensor([[True, False, True], [False, False, True]])
    vectors = (reference + offset).requires_grad_()
    gap = real_gap(vectors, reference)
    expected = torch.where(real, vectors.detach() - reference, 0.0)
    assert torch.equal(gap.detach(), expected)
    gap.sum().backward()
    assert torch.equal(vectors.grad, (expected != 0).float())
    double = torch.ones(1, 2, dtype=torch.float64)
    assert torch.equal(real_gap(double + 1e-12, double), (double + 1e-12) - double)
    gap = real_gap(torch.tensor([[torch.nan, 1.0]]), torch.tensor([[1.0, 1.0]]))
    assert torch.isnan(gap[0, 0])
    assert torch.isnan(real_gap(torch.tensor([[2.0]]), torch.tensor([[torch.inf]]) * 0)).all()


TEXT = {
    "en": [["We", "now", "have", "four", "mice", "."]],
    "zh": [["只", "我", "们", "有", "四", "只"]],
}
ENTRIES = {"de": [("Mäuse", "mice")], "zh": [("有", "have")]}
MIXED = {"en": "We now有 four Mäuse .", "zh": "只我们 have四只"}


def switchable(kind, folder):
    text = {"zh": TEXT["zh"], "de": [["Haus"]], "en": TEXT["en"]}
    folders = {lang: write_text(folder / lang, sentences) for lang, sentences in text.items()}
    tokenizer = tokenizer_of(kind)
    encoder = SimpleNamespace(
        tokenizer=tokenizer,
        template=read_template(tokenizer),
        filler=0,
        max_positions=64,
        prepared={},
    )
    return read_switchable(encoder, folders, ENTRIES, "en", 64)


def pieces_of(rows, r):
    part = slice(rows.offsets[r], rows.offsets[r + 1])
    return rows.ids[part].tolist(), rows.words[part].tolist(), rows.lasts[part].tolist()


def drawn(text, share):
    chance = np.random.default_rng(0)
    numbers = np.array([0, 2])
    return switched_rows(text, numbers, share, chance)


@pytest.mark.parametrize("kind", ["unigram", "byte-level", "byte-fallback", "wordpiece"])
def test_sentences_without_changed_words_are_read_as_running_text(kind, tmp_path):
    rows, tokenizer = drawn(switchable(kind, tmp_path), 0.0), tokenizer_of(kind)
    template = read_template(tokenizer)
    for r, lang in enumerate(("zh", "en")):
        whole = Pieces.read(tokenizer, [TEXT[lang]], lang)
        ids, words, lasts = pieces_of(rows, r)
        assert ids == [*template.before, *whole.ids.tolist(), *template.after_single]
        assert (words[1:-1], lasts[1:-1]) == (whole.words.tolist(), whole.lasts.tolist())


@pytest.mark.parametrize("kind", ["unigram", "byte-level", "byte-fallback"])
def test_changed_words_have_the_pieces_of_words_within_a_text(kind, tmp_path):
    rows, tokenizer = drawn(switchable(kind, tmp_path), 1.0), tokenizer_of(kind)
    for r, lang in enumerate(("zh", "en")):
        ids, words, lasts = pieces_of(rows, r)
        assert tokenizer.decode(ids, skip_special_tokens=True).strip() == MIXED[lang]
        assert words == lasts
        assert set(words) == {-1, *range(len(TEXT[lang][0]))}


def test_a_shared_piece_is_among_those_of_each_of_its_words():
    words, lasts = np.array([0, 0, 1, -1, 0]), np.array([0, 1, 2, -1, 0])
    first, count = word_spans(words, lasts, np.array([3, 2]), np.array([3, 2]))
    assert first.tolist() == [0, 1, 2, 1, 0]
    assert count.tolist() == [2, 2, 1, 1, 0]


def shared_sentences(max_length):
    """[1] 10 11 12 [2] and [1] 20 21 [2]; the words 0 and 1 share piece 11, 1 and 2 piece 12."""
    ids, words = [1, 2, 2, 2, 10, 11, 12, 20, 21], [-1, -1, -1, -1, 0, 0, 1, 0, 1]
    lasts, starts, lengths = [-1, -1, -1, -1, 0, 1, 2, 0, 1], [4, 7], [3, 2]
    by_word = [0, 3, 5], [0, 1, 2, 0, 1], [2, 2, 1, 1, 1]
    arrays = map(np.array, (ids, words, lasts, starts, lengths, [0, 1], *by_word))
    return Sentences(*arrays, ("de", "en"), max_length, (0, 1), (1, 1), (2, 1), (3, 1))


def expanded(max_length, *links):
    """The pieces that the links of words of both sentences join."""
    src, tgt = (np.array(side) for side in zip(*links, strict=True))
    links = Links(np.array([0, len(links)]), src, tgt)
    found = expand(shared_sentences(max_length), np.array([[0, 1]]), links)
    return list(zip(found.src.tolist(), found.tgt.tolist(), strict=True))


def test_links_of_words_join_the_pieces_that_they_share():
    assert expanded(16, (1, 0), (2, 1)) == [(2, 5), (3, 5), (3, 6)]


def test_a_word_that_loses_a_shared_piece_has_no_links():
    assert expanded(7, (0, 0), (1, 0), (2, 1)) == [(1, 4), (2, 4)]
