"""The pieces of running text, the words that they belong to, rows of them, and forms of text."""

import unicodedata
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from raxalign.corpora.text.words import Sentence, in_text, split_characters, tokenize, within_text
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models import pieces
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.pieces import (
    Encoded,
    Pieces,
    Template,
    TextPieces,
    encode_texts,
    inner_pieces,
    other_pieces,
    place_words,
    token_batches,
)
from raxalign.encoders.models.rows import RowSource
from raxalign.encoders.models.vectors import Spans
from raxalign.encoders.transformer import Transformer
from tests.encoders.tokenizers_of_kinds import KINDS, TEXTS, tokenizer_of


def pieces_of(kind, sentence, lang="en"):
    """The pieces of one sentence as texts, and with their words."""
    tokenizer = tokenizer_of(kind)
    found = Pieces.read(tokenizer, [[sentence]], lang)
    return tokenizer.convert_ids_to_tokens(found.ids.tolist()), found


def pieces_of_word(names, found, word):
    chosen = np.flatnonzero((found.words <= word) & (word <= found.lasts))
    assert chosen.tolist() == list(range(chosen.min(), chosen.max() + 1)) if len(chosen) else True
    return [names[i] for i in chosen]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_is_read_as_the_tokenizer_reads_its_text(kind):
    """Also of words that come as a list, with the blanks of their language."""
    tokenizer = tokenizer_of(kind)
    for lang, text in ((lang, text) for lang, texts in TEXTS.items() for text in texts):
        expected = tokenizer(text, add_special_tokens=False, split_special_tokens=True)
        for words in (Sentence.of_text(text), Sentence.within(split_characters(text), text)):
            assert words is not None
            found = Pieces.read(tokenizer, [[words]], lang)
            assert found.ids.tolist() == expected["input_ids"]
            assert set(range(len(words))) == {
                w for a, b in zip(found.words, found.lasts, strict=True) for w in range(a, b + 1)
            } - {-1}
    english, chinese = ["We", "have", "four", "."], ["我", "们", "有", "New", "York", "。"]
    for lang, words, text in (
        ("en", english, "We have four ."),
        ("zh", chinese, "我们有New York。"),
    ):
        found = Pieces.read(tokenizer, [[words]], lang)
        assert found.ids.tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]


def test_a_bare_blank_belongs_to_no_word_wherever_the_offsets_put_it():
    names, found = pieces_of("unigram", ["只", "我", "只"], "zh")
    assert names == ["\u2581", "只", "我", "只"]
    assert found.words.tolist() == [-1, 0, 1, 2]
    names, found = pieces_of("byte-fallback", ["We", "¤"], "en")
    blank = names.index("\u2581")
    assert found.words[blank:].tolist() == [-1, 1, 1]
    (text,) = TextPieces.read(tokenizer_of("unigram"), ["嗨我"], "zh")
    assert text.starts[0] == text.ends[0] == 0
    assert text.spanning(0, 1) == (1, 1)


def test_a_blank_sign_in_the_text_is_text():
    names, found = pieces_of("byte-fallback", ["We", "\u2581", "now"])
    assert 1 in found.words.tolist()
    assert "\u2581" in "".join(pieces_of_word(names, found, 1))


def test_the_bytes_of_a_character_all_belong_to_its_word():
    for kind in ("byte-fallback", "byte-level"):
        names, found = pieces_of(kind, ["now", "\U0001f9a6", "now"])
        own = pieces_of_word(names, found, 1)
        assert len(own) > 2
        assert tokenizer_of(kind).convert_tokens_to_string(own).strip() == "\U0001f9a6"


def test_offsets_are_those_of_the_text_before_its_normalisation():
    text = "ﬁne cafe\u0301 ½ 🙂x"
    words = Sentence.of_text(text)
    names, found = pieces_of("unigram", words)
    joined = ["".join(pieces_of_word(names, found, w)).replace("\u2581", "") for w in range(4)]
    assert joined[0] == "fine"
    assert joined[1] == "café"
    assert found.words.max() == 3


def test_words_that_share_a_piece_each_count_it():
    shared = Sentence.within(["do", "n't", "we"], "don't we")
    assert shared is not None
    starts, ends = np.array([0, 1, 4]), np.array([1, 4, 8])  # d|on'|t we
    merged = Encoded(np.array([7, 8, 9]), starts, ends, np.zeros(3, bool), np.array([0, 3]))
    words, lasts = place_words(merged, [shared])
    assert (words.tolist(), lasts.tolist()) == ([0, 0, 1], [0, 1, 2])
    states = torch.tensor([[[1.0], [10.0], [100.0]]])
    pooled = {"mean": [5.5, 55.0, 100.0], "sum": [11.0, 110.0, 100.0]}
    pooled |= {"first": [1.0, 10.0, 100.0], "last": [10.0, 100.0, 100.0]}
    for pooling, expected in pooled.items():
        spans = Spans.of_words(words[None], lasts[None], [3], pooling)
        assert spans.pool([states])[:, 0, 0].tolist() == expected


def test_a_cut_takes_every_word_that_loses_a_piece_and_leaves_the_others_their_own():
    words, lasts, none = np.array([0, 0, 1, 3]), np.array([0, 1, 3, 3]), np.zeros(0, np.int64)
    offsets, sizes = np.array([0, 4]), np.array([0, 4])
    whole = Pieces(np.arange(4), offsets, words, lasts, sizes, none, none, lang="en")
    encoder = SimpleNamespace(template=Template((), (), (), ()), filler=9, not_as_trained={})
    for encoder.max_positions, *expected in ((2, [0, 0], [0, 0]), (3, [0, 0, 1], [0, 1, 2])):
        kept = RowSource.of(encoder, [whole]).take()
        assert [kept.words.tolist(), kept.lasts.tolist()] == expected


def test_the_pieces_inside_a_text_are_those_behind_another_word():
    chinese = [(kind, "老鼠", "有老鼠") for kind in ("unigram", "byte-level")]
    for kind, word, text in [*((kind, "mice", "have mice") for kind in KINDS), *chinese]:
        (found,) = inner_pieces(tokenizer_of(kind), [word])
        expected = tokenizer_of(kind)(text, add_special_tokens=False)["input_ids"]
        assert found.tolist() == expected[-len(found) :]
        assert len(found) < len(expected)


LETTERS = "abcdeimnorstuzäçğışß’'.,;()12 我们有老鼠ตอนนี้เรามีपासचार बيت🙂ﬁ½é"
SCRIPTS = st.text(st.sampled_from(LETTERS), min_size=1, max_size=24)


@settings(max_examples=30, deadline=None)
@given(SCRIPTS, st.sampled_from(KINDS), st.booleans())
def test_the_pieces_of_a_word_cover_each_of_its_characters(text, kind, characters):
    words = Sentence.within(split_characters(text), text) if characters else None
    words = words or Sentence.of_text(text)
    tokenizer = tokenizer_of(kind)
    encoded = encode_texts(tokenizer, [words.text], None)
    found = Pieces.read(tokenizer, [[words]], "en")
    for w, (word, start) in enumerate(zip(words, words.starts, strict=True)):
        chosen = np.flatnonzero((found.words <= w) & (w <= found.lasts))
        covered = {c for p in chosen for c in range(encoded.starts_P[p], encoded.ends_P[p])}
        assert covered >= set(range(start, start + len(word)))
        assert chosen.tolist() == list(range(chosen[0], chosen[-1] + 1))


def test_an_unknown_language_is_taken_for_spaced_and_empty_words_keep_their_numbers():
    known, unknown = (pieces_of("wordpiece", ["We", "now"], lang)[1] for lang in ("en", "x"))
    assert known.ids.tolist() == unknown.ids.tolist()
    _, found = pieces_of("wordpiece", ["We", "", "now"])
    assert set(found.words.tolist()) == {0, 2}
    assert in_text(["", "我"], "zh").starts == (0, 0)


def test_other_pieces_than_the_tokenizers_own_are_described(monkeypatch):
    assert [other_pieces(tokenizer_of(kind)) for kind in KINDS] == [None] * len(KINDS)
    ends = Template((1,), (2,), (), (2,))
    monkeypatch.setattr(pieces, "read_template", lambda _: ends)
    found = other_pieces(tokenizer_of("unigram"))
    assert found.startswith('"We now have four mice, don\'t we?" is read as <s> ')
    assert found.endswith("</s> of it")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["NFD", "NFC"])
def test_words_of_a_cleaned_copy_get_the_pieces_of_the_published_text(kind, form):
    """Decomposed letters, a joiner and a soft hyphen reach the tokenizer; words are without."""
    tokenizer = tokenizer_of(kind)
    text = unicodedata.normalize(form, "Die Stra\u00dfe am Caf\u00e9, o\u200dkay M\u00e4u\u00adse")
    words = within_text(tokenize("de"), text)
    assert words == ["Die", "Stra\u00dfe", "am", "Caf\u00e9", ",", "okay", "M\u00e4use"]
    found = Pieces.read(tokenizer, [[words]], "de")
    expected = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    assert found.ids.tolist() == expected["input_ids"]
    for word, (start, end) in enumerate(words.spans()):
        shared = np.array([a < end and start < b for a, b in expected["offset_mapping"]])
        own = (found.words <= word) & (word <= found.lasts)
        assert np.array_equal(own, shared & (found.words >= 0))


def test_a_sentence_stands_between_cls_and_sep_and_words_are_counted_from_nought(encoder):
    (row,) = encoder.pieces([["the", "playing", "dogs"]], "en")
    names = encoder.tokenizer.convert_ids_to_tokens(row.ids)
    assert names == ["[CLS]", "the", "play", "##ing", "dogs", "[SEP]"]
    assert row.words.tolist() == [-1, 0, 1, 1, 2, -1]


def test_a_word_of_only_control_characters_has_no_piece(encoder):
    (row,) = encoder.pieces([["the", "\u00ad", "\u0007", "dogs"]], "en")
    assert row.words.tolist() == [-1, 0, 3, -1]


def test_pairs_have_words_by_sentence_and_segments_and_languages(encoder):
    rows = encoder.pieces([["der", "Hund"]], "de", [["the", "dogs"]], "en")
    batch = encoder.collate(rows)
    assert batch.languages == ("de", "en")
    assert batch.words_BT.tolist() == [[-1, 0, 1, -1, 0, 1, -1]]
    assert batch.segments_BT.tolist() == [[0, 0, 0, 0, 1, 1, 1]]
    assert batch.langs_BT.tolist() == [[0, 0, 0, 0, 1, 1, 1]]


def test_rows_of_several_languages_share_a_batch_and_padding_has_no_language(encoder):
    rows = [encoder.pieces([["der"]], "de"), encoder.pieces([["the", "cat"]], "en")]
    batch = encoder.collate(RowSource.join(rows))
    assert batch.languages == ("de", "en")
    assert batch.langs_BT.tolist() == [[0, 0, 0, -1], [1, 1, 1, 1]]
    assert batch.mask_BT.sum(1).tolist() == [3, 4]
    assert batch.ids_BT.dtype == batch.mask_BT.dtype == batch.words_BT.dtype == torch.int64


def test_a_word_that_truncation_cuts_in_two_is_no_word_and_the_longer_side_is_cut_first(encoder):
    encoder.tokenizer(["the dogs"], truncation=True, max_length=3, padding="max_length")
    assert encoder.pieces([["the"], ["the", "cat", "sleeps"]], "en").lengths.tolist() == [3, 5]
    words = ["the"] * (encoder.max_positions - 3) + ["playing", "dogs"]
    (row,) = encoder.pieces([words], "en")
    assert len(row.ids) == encoder.max_positions
    assert row.words[-2] == -1
    assert encoder.tokenizer.convert_ids_to_tokens(row.ids[-2:]) == ["play", "[SEP]"]
    assert row.words.max() == encoder.max_positions - 4
    (row,) = encoder.pieces([["the"] * 60], "en", [["der"] * 3], "de")
    assert len(row.ids) == encoder.max_positions
    assert row.words[row.segments == 1].tolist() == [0, 1, 2, -1]


def test_two_lists_of_different_lengths_are_refused(encoder):
    with pytest.raises(ValueError, match="2 sentences, but 1"):
        encoder.pieces([["a"], ["a"]], "en", [["der"]], "de")


@settings(max_examples=40)
@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 100))
def test_batches_hold_every_row_once_longest_first_within_the_budget(lengths, budget):
    batches = list(token_batches(lengths, budget))
    order = np.concatenate(batches).tolist() if batches else []
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[i] for i in order] == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


TEXT = unicodedata.normalize("NFD", "caf\u00e9 o\u200ck")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A BERT of the class of mBERT's tokenizer, which transformers makes anew from its options."""
    from transformers import BertTokenizer

    from tests.tiny import tiny_bert, tiny_vocabulary

    words = ["caf\u00e9", "ok", "cafe"]
    folder = tiny_bert(tmp_path_factory.mktemp("bert"), words)
    for file in folder.glob("*token*"):
        file.unlink()
    (folder / "vocab.txt").write_text("\n".join(tiny_vocabulary(words)), encoding="utf-8")
    BertTokenizer(str(folder / "vocab.txt"), do_lower_case=False).save_pretrained(folder)
    return folder


def opened(folder, **params):
    kind = Transformer(Transformer.Params(name=str(folder), **params))
    return kind.load(EncoderInputs(), "cpu")


def read(encoder):
    """The pieces of a text that words stand in, and of one that is read for itself: the same."""
    (row,) = encoder.pieces([TEXT.split()], "en")
    (found,) = TextPieces.read(encoder.tokenizer, [TEXT], "en")
    assert row.ids.tolist()[1:-1] == found.ids.tolist()
    return encoder.tokenizer.convert_ids_to_tokens(found.ids.tolist())


def test_text_is_read_as_published_unless_a_form_is_named(bert):
    from tokenizers import normalizers

    published = opened(bert)
    assert read(published) == ["[UNK]", "ok"]
    assert read(opened(bert, normalize="nfc")) == ["caf\u00e9", "ok"]
    published.tokenizer.backend_tokenizer.normalizer = normalizers.NFC()
    assert read(published) == ["caf\u00e9", "[UNK]"], "joiners stay but where `clean` is named"


def test_an_encoder_that_was_saved_keeps_its_form(bert, tmp_path):
    encoder = opened(bert, normalize="clean")
    AlignedEncoder(encoder, weights_changed=True).save(tmp_path / "stage")
    AlignedEncoder(encoder).export(tmp_path / "export")
    again = AlignedEncoder.load(tmp_path / "stage", lambda: encoder)
    for one in (encoder, again.encoder, AlignedEncoder.from_export(tmp_path / "export").encoder):
        assert read(one) == ["caf\u00e9", "ok"]
