"""Rows of pieces of running text: bare blanks that belong to no word, and pieces that words
share.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.encoders.models.flat_pieces import word_spans
from raxalign.encoders.models.pieces import Pieces, bulk_pieces, read_template
from raxalign.methods.rows.linked_words import expand
from raxalign.methods.rows.sentences import Rows, Sentences
from raxalign.methods.rows.switching import SwitchableText, read_switchable, switched_rows
from raxalign.pairing.aligners.base import Links
from tests.encoders.tokenizers_of_kinds import tokenizer_of

TEXT = {
    "en": [["We", "now", "have", "four", "mice", "."]],
    "zh": [["只", "我", "们", "有", "四", "只"]],
}
ENTRIES = {"de": [("Mäuse", "mice")], "zh": [("有", "have")]}
MIXED = {"en": "We now有 four Mäuse .", "zh": "只我们 have四只"}


def switchable(kind: str, folder: Path) -> SwitchableText:
    for lang, sentences in TEXT.items():
        schema = pa.schema({"words": pa.list_(pa.string())})
        with DatasetWriter(folder / lang, schema, {}) as writer:
            writer.write({"words": sentences})
    (folder / "de").mkdir()
    with DatasetWriter(folder / "de", pa.schema({"words": pa.list_(pa.string())}), {}) as writer:
        writer.write({"words": [["Haus"]]})
    encoder: Any = SimpleNamespace(tokenizer=tokenizer_of(kind), max_positions=64, prepared={})
    folders = {lang: folder / lang for lang in ("zh", "de", "en")}
    return read_switchable(encoder, folders, ENTRIES, "en", 64)


def row(rows: Rows, r: int) -> tuple[list[int], list[int], list[int]]:
    part = slice(rows.offsets[r], rows.offsets[r + 1])
    return rows.ids[part].tolist(), rows.words[part].tolist(), rows.lasts[part].tolist()


def drawn(text: SwitchableText, share: float) -> Rows:
    chance = np.random.default_rng(0)
    numbers = np.array([0, 2])
    return switched_rows(text, numbers, sentence_share=1.0, word_share=share, rng=chance)


@pytest.mark.parametrize("kind", ["unigram", "byte-level", "byte-fallback", "wordpiece"])
def test_sentences_without_changed_words_are_read_as_running_text(kind, tmp_path):
    rows, tokenizer = drawn(switchable(kind, tmp_path), 0.0), tokenizer_of(kind)
    template = read_template(tokenizer)
    for r, lang in enumerate(("zh", "en")):
        (whole,) = bulk_pieces(tokenizer, TEXT[lang], lang)
        ids, words, lasts = row(rows, r)
        assert ids == [*template.before, *whole.ids.tolist(), *template.after_single]
        assert (words[1:-1], lasts[1:-1]) == (whole.words.tolist(), whole.lasts.tolist())


@pytest.mark.parametrize("kind", ["unigram", "byte-level", "byte-fallback"])
def test_changed_words_have_the_pieces_of_words_within_a_text(kind, tmp_path):
    rows, tokenizer = drawn(switchable(kind, tmp_path), 1.0), tokenizer_of(kind)
    for r, lang in enumerate(("zh", "en")):
        ids, words, lasts = row(rows, r)
        assert tokenizer.decode(ids, skip_special_tokens=True).strip() == MIXED[lang]
        assert words == lasts
        assert set(words) == {-1, *range(len(TEXT[lang][0]))}


def test_a_shared_piece_is_among_those_of_each_of_its_words():
    found = Pieces(np.array([5, 6, 7]), np.array([0, 0, 1]), np.array([0, 1, 2]))
    blank = Pieces(np.array([3, 5]), np.array([-1, 0]), np.array([-1, 0]))
    words, lasts = (np.concatenate([found[i], blank[i]]) for i in (1, 2))
    lengths = np.array([len(found.ids), len(blank.ids)])
    first, count = word_spans(words, lasts, lengths, np.array([3, 2]))
    assert first.tolist() == [0, 1, 2, 1, 0]
    assert count.tolist() == [2, 2, 1, 1, 0]


def shared_sentences(max_length: int) -> Sentences:
    """[1] 10 11 12 [2] and [1] 20 21 [2]; the words 0 and 1 share piece 11, 1 and 2 piece 12."""
    return Sentences(
        np.array([1, 2, 2, 2, 10, 11, 12, 20, 21]),
        np.array([-1, -1, -1, -1, 0, 0, 1, 0, 1]),
        np.array([-1, -1, -1, -1, 0, 1, 2, 0, 1]),
        np.array([4, 7]),
        np.array([3, 2]),
        np.array([0, 1]),
        np.array([0, 3, 5]),
        np.array([0, 1, 2, 0, 1]),
        np.array([2, 2, 1, 1, 1]),
        ("de", "en"),
        max_length,
        (0, 1),
        (1, 1),
        (2, 1),
        (3, 1),
    )


def test_links_of_words_join_the_pieces_that_they_share():
    links = Links(np.array([0, 2]), np.array([1, 2]), np.array([0, 1]))
    whole = expand(shared_sentences(16), np.array([[0, 1]]), links)
    assert list(zip(whole.src.tolist(), whole.tgt.tolist(), strict=True)) == [
        (2, 5),
        (3, 5),
        (3, 6),
    ]


def test_a_word_that_loses_a_shared_piece_has_no_links():
    links = Links(np.array([0, 3]), np.array([0, 1, 2]), np.array([0, 0, 1]))
    kept = expand(shared_sentences(7), np.array([[0, 1]]), links)
    assert list(zip(kept.src.tolist(), kept.tgt.tolist(), strict=True)) == [(1, 4), (2, 4)]
