"""Sentences to pieces: the Unicode form that an encoder reads, tokenisation of running text, the
words that pieces belong to, special pieces, truncation, and padded batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from raxalign.arrays import Flat, Ints, offsets_of, ranges, word_pieces
from raxalign.caveats import listener
from raxalign.corpora.text.words import FORMAT_CHARACTERS
from raxalign.errors import RaxalignError
from raxalign.languages import is_code
from raxalign.lazy import np
from raxalign.running import Sentence, in_text, unspaced_letter

TextForm = Literal["none", "nfc", "clean"]
"""What is done to a text before the tokenizer's own steps: nothing, composition (Unicode's form C),
or composition without format characters.
"""
TEXT_FORMS: dict[TextForm, list[list[str]]] = {
    "none": [],
    "nfc": [[]],
    "clean": [[], ["\u200b", " "], [FORMAT_CHARACTERS, ""]],
}
"""The steps of each form: a pattern and what replaces it, or nothing for composition."""
_KEPT = "raxalign_normalize"
"""The entry of a model's ``config.json`` by which an encoder keeps its form on disk: transformers
makes some tokenizers anew and drops normalisers of theirs.
"""
CHUNK = 4096  # sentences tokenised by one call: bounds what the tokenizer's objects take

_BLANKS = "\u2581\u0120"
"""The characters by which the pieces of Metaspace and of byte-level tokenizers mark a blank."""
_LONGEST_BLANK = 64


def set_text_form(config: Any, tokenizer: Any, form: TextForm) -> None:
    """Put a form before the tokenizer's own steps from now on; `config` keeps it."""
    setattr(config, _KEPT, form)
    keep_text_form(config, tokenizer)


def text_form(config: Any) -> TextForm:
    """Return the form that a config keeps."""
    form: TextForm = getattr(config, _KEPT, "none")
    return form


def keep_text_form(config: Any, tokenizer: Any) -> None:
    """Put the form that a config keeps, if any, before the tokenizer's own steps."""
    from tokenizers import Regex, normalizers

    steps: list[Any] = [
        normalizers.Replace(Regex(step[0]), step[1]) if step else normalizers.NFC()
        for step in TEXT_FORMS[text_form(config)]
    ]
    backend = tokenizer.backend_tokenizer
    own = [] if backend.normalizer is None else [backend.normalizer]
    if steps:
        backend.normalizer = normalizers.Sequence([*steps, *own])


@dataclass(frozen=True, slots=True)
class Encoded:
    """The pieces of some texts end to end, none of them special: those of text i are the entries
    ``offsets[i]`` to ``offsets[i + 1]``.

    Piece p is `ids_P[p]`, comes from the characters ``starts_P[p]`` to ``ends_P[p]`` of its own
    text, as it was given, and is nothing but a blank where `blank_P[p]`. The characters may include
    a blank before a word.
    """

    ids_P: np.ndarray
    starts_P: Ints
    ends_P: Ints
    blank_P: np.ndarray
    offsets: Ints


def encode_texts(tokenizer: Any, texts: Sequence[str], counted: str | None) -> Encoded:
    """Return the pieces of texts as the tokenizer makes them of running text, in which ``[SEP]`` is
    text. Unknown pieces are `counted` for a language while caveats are collected.
    """
    backend = tokenizer.backend_tokenizer
    # The tokenizer is shared: earlier truncation or padding is still switched on.
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    try:
        encodings = backend.encode_batch(list(texts), add_special_tokens=False)
    finally:
        backend.encode_special_tokens = False
    ids = [encoding.ids for encoding in encodings]
    offsets = offsets_of([len(part) for part in ids])
    ids_P = np.fromiter(chain.from_iterable(ids), np.int32, int(offsets[-1]))
    found, unknown = listener(), tokenizer.unk_token_id
    if found is not None and counted is not None and unknown is not None:
        found.read(counted, len(ids_P), int((ids_P == unknown).sum()))
    spans = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
    spans_P2 = np.fromiter(spans, np.int64, 2 * int(offsets[-1])).reshape(-1, 2)
    starts_P, ends_P = spans_P2[:, 0].copy(), spans_P2[:, 1].copy()
    blank_P = np.isin(ids_P, _blank_pieces(backend))
    for text, begin, end in zip(texts, offsets, offsets[1:], strict=False):
        if _BLANKS[0] in text:
            for p in np.flatnonzero(blank_P[begin:end]) + begin:
                blank_P[p] = _BLANKS[0] not in text[starts_P[p] : ends_P[p]]
    return Encoded(ids_P, starts_P, ends_P, blank_P, offsets)


def _blank_pieces(backend: Any) -> list[int]:
    """The pieces of a tokenizer that stand for blanks alone: those that become blanks in the text
    that they are decoded to.

    Their offsets do not show it: a blank that a tokenizer puts before a word has those of the
    word's first character.
    """
    marks, decoder = _BLANKS[:1], backend.decoder
    if decoder is not None:
        decoded = {mark: decoder.decode(["a", mark]).removeprefix("a") for mark in _BLANKS}
        marks = "".join(mark for mark, text in decoded.items() if not text.strip())
    runs = (mark * n for mark in marks for n in range(1, _LONGEST_BLANK + 1))
    return [number for run in runs if (number := backend.token_to_id(run)) is not None]


def place_words(encoded: Encoded, sentences: Sequence[Sentence]) -> tuple[Ints, Ints]:
    """Return the first and the last word of each piece, (P,) and (P,), numbered in each sentence;
    -1 where a piece covers no character of a word, or nothing but a blank.

    The pieces of a word are adjacent: a blank that a normaliser puts into the middle of a word is
    one of them. White space at the ends of a word is not part of it.
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
    first_P, last_P = (np.where(p >= 0, p - number_P, -1) for p in (firsts, lasts))
    return first_P, last_P


def _word_spans(sentences: Sequence[Sentence], before_S: Ints, words_S: Ints) -> tuple[Ints, Ints]:
    """The first character and the end of each word in all texts end to end, stripped."""
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
    """Give the blanks between two pieces (`inside`) of one word to that word, in place."""
    place = np.searchsorted(inside, blanks)
    between = (place > 0) & (place < len(inside))
    blanks, place = blanks[between], place[between]
    word, next_word = lasts[inside[place - 1]], firsts[inside[place]]
    same = word >= next_word
    firsts[blanks[same]], lasts[blanks[same]] = next_word[same], word[same]


_ANCHORS = (",", "1")  # what a word follows whose pieces within a text are looked for


@dataclass(frozen=True)
class Template:
    """The special pieces that a tokenizer puts before, between and after sentences."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after_single: tuple[int, ...]
    after_pair: tuple[int, ...]


def read_template(tokenizer: Any) -> Template:
    """The special pieces of a tokenizer's post-processor; where it has none, [CLS] a [SEP] b [SEP],
    or nothing for a tokenizer that has no such pieces, as most decoders' have none.
    """
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    single = backend.encode(["a"], is_pretokenized=True)
    pair = backend.encode(["a"], ["b"], is_pretokenized=True)
    if single.sequence_ids.count(None) == 0:
        cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
        if cls is None and sep is None and tokenizer.mask_token_id is None:
            return Template((), (), (), ())
        if cls is None or sep is None:
            raise RaxalignError("the tokenizer has no [CLS] and [SEP], or names for them")
        return Template((cls,), (sep,), (sep,), (sep,))
    before, after_single = _specials(single)
    _, between, after_pair = _specials(pair)
    return Template(before, between, after_single, after_pair)


def _specials(encoding: Any) -> list[tuple[int, ...]]:
    """The special pieces before the first sequence, and after each."""
    groups: list[list[int]] = [[]]
    last = None
    for number, sequence in zip(encoding.ids, encoding.sequence_ids, strict=True):
        if sequence is None:
            groups[-1].append(number)
        elif sequence != last:
            groups.append([])
        last = last if sequence is None else sequence
    return [tuple(group) for group in groups]


@dataclass(frozen=True)
class Pieces:
    """The pieces of some sentences of a language, none of them special. Those of sentence s are the
    entries ``offsets[s]`` to ``offsets[s + 1]`` of `ids`; the same entries of `words` and `lasts`
    are the first and the last word of each (-1: it belongs to no word, as a bare blank does). They
    differ only where several words share a piece; the pieces of a word are adjacent.

    Word w of sentence s has the number ``word_offsets[s] + w``. Its pieces are `count_W` adjacent
    ones (0: it has none) from the place `first_W` of the sentence on (both empty where files do
    not have them). `unknown` counts the tokenizer's unknown piece (None: it has no such piece).
    `chosen` numbers the sentences that are read (None: all).

    The arrays of mapped files are read-only, except `count_W`: what is written there is not
    written to the file.
    """

    ids: Flat
    offsets: np.ndarray
    words: Flat
    lasts: Flat
    word_offsets: np.ndarray
    first_W: Flat
    count_W: Flat
    unknown: int | None = None
    lang: str | None = None
    chosen: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of(cls, ids: Sequence[np.ndarray], lang: str) -> Pieces:
        """Return the pieces `ids` of each text, none of which belongs to a word."""
        none = np.zeros(0, np.int32)
        flat, offsets = np.concatenate([none, *ids]), offsets_of([len(part) for part in ids])
        return cls.without_words(flat, offsets, lang)

    @classmethod
    def without_words(cls, ids: np.ndarray, offsets: np.ndarray, lang: str) -> Pieces:
        """Return the pieces of texts that lie end to end, none in a word."""
        none, words = np.zeros(0, np.int32), np.broadcast_to(np.int32(-1), len(ids))
        return cls(ids, offsets, words, words, np.zeros_like(offsets), none, none, lang=lang)

    @property
    def lengths(self) -> np.ndarray:
        """The number of pieces of each sentence."""
        return np.diff(self.offsets)

    def numbers(self) -> np.ndarray:
        """Return the numbers of the sentences that are read."""
        return np.arange(len(self)) if self.chosen is None else self.chosen

    def of_sentences(self) -> list[np.ndarray]:
        """Return the pieces of each sentence."""
        return np.split(self.ids[:], self.offsets[1:-1]) if len(self) else []

    def report(self, counted: str | None, unknown: int | None) -> None:
        """Count those that are read, and the tokenizer's `unknown` piece (None: it has none) among
        them, for a language while caveats are collected, as if they were made now.
        """
        if (heard := listener()) is None or counted is None or unknown is None:
            return
        if self.chosen is None or np.array_equal(self.chosen, np.arange(len(self))):
            heard.read(counted, len(self.ids), self.unknown or 0)
        else:
            ids = self.ids[ranges(self.offsets, self.chosen)[0]]
            heard.read(counted, len(ids), int((ids == unknown).sum()))


def text_to_pieces(
    tokenizer: Any,
    chunks: Iterable[Sequence[Sequence[str]]],
    lang: str | None,
    counted: str | None = None,
) -> Pieces:
    """Return the pieces of sentences, given as chunks: those that a fast tokenizer makes of its
    running text. The words of a plain list are joined as `lang` writes them (None, and what is not
    known: with blanks). Unknown pieces are counted under the name `counted`, or else the language,
    while caveats are collected.
    """
    known = lang if lang is not None and is_code(lang) else None
    none, parts = np.zeros(0, np.int32), list[tuple[np.ndarray, ...]]()
    for chunk in chunks:
        for start in range(0, len(chunk), CHUNK):
            part = [in_text(words, known) for words in chunk[start : start + CHUNK]]
            encoded = encode_texts(tokenizer, [sentence.text for sentence in part], counted or lang)
            words, lasts = (found.astype(np.int32) for found in place_words(encoded, part))
            sizes = np.array([len(sentence) for sentence in part], np.int64)
            lengths = np.diff(encoded.offsets)
            spans = word_spans(words, lasts, lengths, sizes)
            parts.append((encoded.ids_P, words, lasts, lengths, sizes, *spans))
    ids, words, lasts, lengths, sizes, first_W, count_W = map(
        np.concatenate, zip(*(parts or [(none,) * 7]), strict=True)
    )
    number = tokenizer.unk_token_id
    unknown = None if number is None else int((ids == number).sum())
    offsets, word_offsets = offsets_of(lengths), offsets_of(sizes)
    return Pieces(ids, offsets, words, lasts, word_offsets, first_W, count_W, unknown, lang)


def word_spans(
    firsts: np.ndarray, lasts: np.ndarray, lengths: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(place of the first piece in its sentence, number of pieces) of all words, int32, by the
    first and the last word of each piece and the numbers of pieces and words of each sentence.
    """
    read, words = word_pieces(firsts, lasts)
    place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    number = words + np.repeat(np.cumsum(sizes) - sizes, lengths)[read]
    found, where, counts = np.unique(number, return_index=True, return_counts=True)
    first, count = np.zeros((2, int(sizes.sum())), np.int32)
    first[found], count[found] = place[read[where]], counts
    return first, count


def inner_pieces(tokenizer: Any, words: Sequence[str]) -> list[np.ndarray]:
    """Return the pieces of each word in the middle of a text, after a blank unless its script has
    none, read off behind a character with which it shares no piece.
    """
    gaps = ["" if word and unspaced_letter(word[0]) else " " for word in words]
    found: list[np.ndarray | None] = [None] * len(words)
    for anchor in (*_ANCHORS, ""):
        left = [i for i, pieces in enumerate(found) if pieces is None]
        for start in range(0, len(left), CHUNK):
            part = left[start : start + CHUNK]
            texts = [anchor + (gaps[i] if anchor else "") + words[i] for i in part]
            encoded = encode_texts(tokenizer, texts, None)
            for i, begin, end in zip(part, encoded.offsets, encoded.offsets[1:], strict=False):
                behind = encoded.starts_P[begin:end] >= len(anchor)
                clean = bool((behind | (encoded.ends_P[begin:end] <= len(anchor))).all())
                if clean or not anchor:
                    found[i] = encoded.ids_P[begin:end][behind]
    return [pieces for pieces in found if pieces is not None]


def token_batches(lengths: Sequence[int] | np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Indices of rows, longest first, in batches of at most `budget` pieces with padding."""
    lengths = np.asarray(lengths)
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, budget // max(1, int(lengths[order[start]])))
        yield order[start : start + size]
        start += size


SAMPLE = (
    "We now have four mice, don't we?",
    "Die Straße am Café ist seit 2019 gesperrt.",
    "Şimdi İstanbul'da yağmur yağıyor.",
    "Сега имаме четири мишки.",
    "हमारे पास अब चार चूहे हैं।",
    "我们现在有四只老鼠。",
    "ตอนนี้เรามีหนูสี่ตัว",
    "لدينا الآن أربعة فئران.",
)
"""A sentence of each of some languages and scripts."""


def other_pieces(tokenizer: Any) -> str | None:
    """Return in what the pieces of the sample, special ones included, differ from those that the
    tokenizer gives by itself; None where they are the same.
    """
    template = read_template(tokenizer)
    sentences = [Sentence.of_text(text) for text in SAMPLE]
    found = text_to_pieces(tokenizer, [sentences], None).of_sentences()
    for sentence, ids in zip(sentences, found, strict=True):
        read = [*template.before, *ids.tolist(), *template.after_single]
        expected = tokenizer(sentence.text, verbose=False)["input_ids"]
        if read != expected:
            ours, own = (" ".join(tokenizer.convert_ids_to_tokens(ids)) for ids in (read, expected))
            return f"{sentence.text!r} is read as {ours}, but its tokenizer makes {own} of it"
    return None


@dataclass(frozen=True, slots=True)
class TextPieces:
    """The pieces of a text, none of them special: `ids` (n,), and the characters
    ``text[starts[i]:ends[i]]`` of each, white space around them left out (a bare blank has none).
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def spanning(self, start: int, end: int) -> tuple[int, int] | None:
        """The first and last piece that share characters with ``text[start:end]``, or None."""
        shared = np.flatnonzero((self.ends > start) & (self.starts < end))
        return (int(shared[0]), int(shared[-1])) if len(shared) else None


def text_pieces(tokenizer: Any, texts: Sequence[str], lang: str) -> Iterator[TextPieces]:
    """The pieces of every text; offsets are those of the text as it was given, before any
    normaliser. Unknown pieces are counted for `lang` while caveats are collected.
    """
    for start in range(0, len(texts), CHUNK):
        part = texts[start : start + CHUNK]
        encoded = encode_texts(tokenizer, part, lang)
        for i, text in enumerate(part):
            own = slice(encoded.offsets[i], encoded.offsets[i + 1])
            begins = encoded.starts_P[own]
            ends = np.where(encoded.blank_P[own], begins, encoded.ends_P[own])
            # some tokenizers count the space before a word as its piece's
            covered = [text[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)]
            left = np.array([len(part) - len(part.lstrip()) for part in covered], np.int64)
            sizes = np.array([len(part.strip()) for part in covered], np.int64)
            yield TextPieces(encoded.ids_P[own], begins + left, begins + left + sizes)
