"""The pieces of real text by BERT's own vocabulary, against those of words that stand apart."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from raxalign.corpora.text.words import tokenize
from raxalign.encoders.models.pieces import bulk_pieces
from raxalign.encoders.training.text import read_vocabulary, wrap_vocabulary

LANGS = ("de", "en", "fr", "es", "tr", "zh", "bg", "ar")
LINES = 400


@pytest.fixture(scope="module")
def data() -> Path:
    folder = os.environ.get("RAXALIGN_TEST_DATA")
    if not folder:
        pytest.skip("RAXALIGN_TEST_DATA names no folder of real data")
    return Path(folder)


def test_wordpiece_reads_running_text_as_it_reads_words_apart(data: Path) -> None:
    tokenizer = wrap_vocabulary(read_vocabulary(data / "mbert-vocab" / "vocab.txt"))
    differing, seen = [], 0
    for lang in LANGS:
        name = f"{'de' if lang == 'en' else lang}-en.{lang}"
        divide = tokenize(lang, "characters")
        with (data / "tatoeba" / name).open(encoding="utf-8") as file:
            sentences = [words for line in islice(file, LINES) if (words := divide(line))]
        apart = tokenizer.backend_tokenizer.encode_batch(
            sentences, is_pretokenized=True, add_special_tokens=False
        )
        found = bulk_pieces(tokenizer, sentences, lang)
        for words, one, other in zip(sentences, apart, found, strict=True):
            seen += 1
            same = other.ids.tolist() == one.ids and other.words.tolist() == one.word_ids
            if not same or not np.array_equal(other.words, other.lasts):
                differing.append((lang, words))
    assert seen > 7 * LINES
    assert differing == []
