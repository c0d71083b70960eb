"""The words that pieces belong to, by the characters that both cover."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from raxalign.arrays import Ints, offsets_of
from raxalign.encoders.models.encoding import Encoded
from raxalign.running import Sentence


def place_words(encoded: Encoded, sentences: Sequence[Sentence]) -> tuple[Ints, Ints]:
    """Return the first and the last word of each piece, (P,) and (P,), numbered in each sentence;
    -1 where a piece covers no character of a word, or nothing but a blank.

    The pieces of a word are adjacent: a blank that a normaliser puts into the middle of a word is
    one of them. White space at the ends of a word is not part of it.

    Args:
        encoded: the pieces of the texts of all sentences.
        sentences: the sentences, in the same order.
    """
    sizes = [len(sentence.text) + 1 for sentence in sentences]
    before_S, words_S = offsets_of(sizes), offsets_of([len(sentence) for sentence in sentences])
    starts_W, ends_W = _word_spans(sentences, before_S, words_S)
    known = np.flatnonzero(ends_W > starts_W)
    lengths_S = np.diff(encoded.offsets)
    begin_P = encoded.starts_P + np.repeat(before_S[:-1], lengths_S)
    end_P = begin_P + np.maximum(encoded.ends_P - encoded.starts_P, 1)
    first_P = np.searchsorted(ends_W[known], begin_P, side="right")
    last_P = np.searchsorted(starts_W[known], end_P, side="left") - 1
    inside = np.flatnonzero((first_P <= last_P) & ~encoded.blank_P)
    firsts, lasts = np.full(len(begin_P), -1), np.full(len(begin_P), -1)
    firsts[inside], lasts[inside] = known[first_P[inside]], known[last_P[inside]]
    _close(firsts, lasts, inside, np.flatnonzero(encoded.blank_P))
    number_P = np.repeat(words_S[:-1], lengths_S)
    return (
        np.where(firsts >= 0, firsts - number_P, -1),
        np.where(lasts >= 0, lasts - number_P, -1),
    )


def _word_spans(sentences: Sequence[Sentence], before_S: Ints, words_S: Ints) -> tuple[Ints, Ints]:
    """The first character and the end of each word, in all texts end to end, without white space at
    its ends.
    """
    words = list(chain.from_iterable(sentences))
    starts_W = np.fromiter(chain.from_iterable(s.starts for s in sentences), np.int64, len(words))
    starts_W += np.repeat(before_S[:-1], np.diff(words_S))
    stripped = [word.strip() for word in words]
    if stripped != words:
        left = [len(word) - len(word.lstrip()) for word in words]
        starts_W += np.array(left, np.int64)
    ends_W = starts_W + np.fromiter(map(len, stripped), np.int64, len(words))
    for i, sentence in enumerate(sentences):
        if sentence.ends is not None:
            ends_W[words_S[i] : words_S[i + 1]] = np.array(sentence.ends, np.int64) + before_S[i]
    return starts_W, ends_W


def _close(firsts: Ints, lasts: Ints, inside: Ints, blanks: Ints) -> None:
    """Give the blanks between two pieces of one word to that word, in place; `inside` are the
    pieces that have a word.
    """
    place = np.searchsorted(inside, blanks)
    between = (place > 0) & (place < len(inside))
    blanks, place = blanks[between], place[between]
    word, next_word = lasts[inside[place - 1]], firsts[inside[place]]
    same = word >= next_word
    firsts[blanks[same]], lasts[blanks[same]] = next_word[same], word[same]
