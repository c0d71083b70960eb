"""Sentences to pieces: tokenisation of running text, the words that pieces belong to, and special
pieces. The pieces of many sentences lie in flat arrays: made from text, or mapped from files that
were made once for all that read the same text by the same tokenizer.

Files are made part after part by processes of their own, since most of the work holds Python's
lock; the parts are then copied end to end. So no process holds more than one part, whatever the
size of the dataset.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from raxalign.arrays import Flat, Ints, offsets_of, ranges, word_pieces
from raxalign.caveats import Caveats
from raxalign.children import child_environment
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.corpora.text.words import Sentence, in_text, unspaced_letter
from raxalign.errors import DataError, RaxalignError
from raxalign.languages import is_code
from raxalign.lazy import np, pc

CHUNK = 4096  # sentences tokenised by one call: bounds what the tokenizer's objects take
_READ = 8192  # sentences of a file that are tokenised together
_PART = 32_768  # sentences of one part of a file
_RECORD = "pieces.json"
_SMALL = 2**15  # what words, places and numbers of pieces have to be below to take two bytes each
_NARROW = ("words", "lasts", "first_W", "count_W")

# the characters by which the pieces of Metaspace and of byte-level tokenizers mark a blank
_BLANKS = "\u2581\u0120"
_LONGEST_BLANK = 64


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
    found, unknown = Caveats.listener(), tokenizer.unk_token_id
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
    ARRAYS: ClassVar = ("ids", "offsets", "words", "lasts", "word_offsets", "first_W", "count_W")
    """The fields that are arrays, and the names of their files."""
    OF_ROWS: ClassVar = ARRAYS[:5]
    """Those of them that rows are made of."""

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

    @classmethod
    def read(
        cls,
        tokenizer: Any,
        chunks: Iterable[Sequence[Sequence[str]]],
        lang: str | None,
        counted: str | None = None,
    ) -> Pieces:
        """Return the pieces of sentences, given as chunks: those that a fast tokenizer makes of its
        running text. The words of a plain list are joined as `lang` writes them (None, and what is
        not known: with blanks). Unknown pieces are counted under the name `counted`, or else the
        language, while caveats are collected.
        """
        known = lang if lang is not None and is_code(lang) else None
        none, parts = np.zeros(0, np.int32), list[tuple[np.ndarray, ...]]()
        for chunk in chunks:
            for start in range(0, len(chunk), CHUNK):
                part = [in_text(words, known) for words in chunk[start : start + CHUNK]]
                encoded = encode_texts(
                    tokenizer, [sentence.text for sentence in part], counted or lang
                )
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
        return cls(ids, offsets, words, lasts, word_offsets, first_W, count_W, unknown, lang)

    @classmethod
    def of_column(
        cls,
        encoder: Any,
        folder: Path,
        column: str,
        lang: str | None,
        counted: str | None = None,
    ) -> Pieces:
        """Return the pieces of a column of words of a dataset in a language (None: a spaced one):
        mapped where they were made before (`TransformerEncoder.prepared`), else made now. Unknown
        pieces are counted under the name `counted` (None: the language). Raises `DataError` where
        what was made before is of other sentences.
        """
        table, made = read_table(folder), encoder.prepared.get(folder)
        found = None if made is None else cls.mapped(made / column, lang)
        if found is None:
            chunks = sentence_chunks(table, column, _READ)
            return cls.read(encoder.tokenizer, chunks, lang, counted)
        n_words = pc.sum(pc.list_value_length(table.column(column))).as_py() or 0
        if (len(found), len(found.first_W)) != (len(table), n_words):
            fault = f"has the subword tokens of other sentences than {folder}"
            remedy = "Remove both folders, and run the grid again to make them"
            raise DataError(f"{made}/{column}", fault, remedy=remedy)
        found.report(counted or lang, found.unknown)
        return found

    @classmethod
    def mapped(cls, folder: Path, lang: str | None) -> Pieces | None:
        """Return the pieces of a language in a folder of `write_pieces`, mapped, if there."""
        file = folder / _RECORD
        record = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
        if record is None or record["lang"] != lang:
            return None
        none = np.zeros(0, np.int32)
        there = {name for name in cls.ARRAYS if (folder / f"{name}.npy").exists()} | {"lasts"}
        arrays = {name: map_array(folder, name) if name in there else none for name in cls.ARRAYS}
        return cls(**arrays, unknown=record["unknown"], lang=lang)

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
        if (heard := Caveats.listener()) is None or counted is None or unknown is None:
            return
        if self.chosen is None or np.array_equal(self.chosen, np.arange(len(self))):
            heard.read(counted, len(self.ids), self.unknown or 0)
        else:
            ids = self.ids[ranges(self.offsets, self.chosen)[0]]
            heard.read(counted, len(ids), int((ids == unknown).sum()))


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
    found = Pieces.read(tokenizer, [sentences], None).of_sentences()
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

    @classmethod
    def read(cls, tokenizer: Any, texts: Sequence[str], lang: str) -> Iterator[TextPieces]:
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
                yield cls(encoded.ids_P[own], begins + left, begins + left + sizes)


def map_array(folder: Path, name: str) -> np.ndarray:
    """Return an array of a file, mapped. `lasts` without a file of its own is `words`."""
    path = folder / f"{name}.npy"
    if name == "lasts" and not path.exists():
        path = folder / "words.npy"
    try:
        return np.asarray(np.load(path, mmap_mode="c" if name == "count_W" else "r"))
    except ValueError:  # a file without an entry cannot be mapped
        return np.asarray(np.load(path))


def write_pieces(
    tokenizer: Any,
    dataset: Path,
    columns: Mapping[str, str | None],
    threads: int,
    folder: Path,
    arrays: Sequence[str] = Pieces.ARRAYS,
) -> dict[str, Any]:
    """Write `arrays` of the pieces of columns of a dataset, each with its language (None: a spaced
    one), as `Pieces.mapped` reads them from ``folder/column``, by at most `threads` processes at
    once. Returns the numbers of sentences, words, pieces and unknown pieces of each column. Raises
    `RaxalignError` where a process failed.
    """
    n_parts = max(1, -(-len(read_table(dataset)) // _PART))
    at_once = max(1, min(threads, n_parts))
    with tempfile.TemporaryDirectory(prefix="pieces-", dir=folder) as work:
        shared = {"dataset": str(dataset), "columns": dict(columns), "arrays": list(arrays)}
        parts = [[[k, _PART] for k in range(n, n_parts, at_once)] for n in range(at_once)]
        jobs = [{**shared, "folder": work, "parts": some} for some in parts]
        saved = Path(work) / "tokenizer.json"
        if at_once == 1 or not _saved(tokenizer, saved):
            with Caveats.collecting():  # the trials that read the pieces count the unknown ones
                for job in jobs:
                    write_parts(tokenizer, **job)  # type: ignore[arg-type]
        else:
            _run([{"saved": str(saved), "unknown": tokenizer.unk_token_id, **job} for job in jobs])
        made = {c: [Path(work) / f"{c}-{k}.npz" for k in range(n_parts)] for c in columns}
        return {c: _join(made[c], arrays, lang, folder / c) for c, lang in columns.items()}


def write_parts(
    tokenizer: Any,
    dataset: str,
    columns: Mapping[str, str | None],
    arrays: Sequence[str],
    folder: str,
    parts: Sequence[tuple[int, int]],
) -> None:
    """Write parts of a dataset, (number, size) each, as ``folder/<column>-<number>.npz``."""
    table = read_table(Path(dataset))
    for number, size in parts:
        rows = table.slice(number * size, size)
        for column, lang in columns.items():
            pieces = Pieces.read(tokenizer, sentence_chunks(rows, column, _READ), lang)
            kept = {name: getattr(pieces, name)[:] for name in arrays}
            unknown = -1 if pieces.unknown is None else pieces.unknown
            np.savez(Path(folder) / f"{column}-{number}.npz", unknown=unknown, **kept)


def _saved(tokenizer: Any, path: Path) -> bool:
    """Write a tokenizer to a file; return whether it can be: not with steps written in Python."""
    try:
        tokenizer.backend_tokenizer.save(str(path))
    except Exception:  # noqa: BLE001 the library raises nothing more specific
        return False
    return True


def _run(jobs: Sequence[Mapping[str, Any]]) -> None:
    """Run each job in a process of its own, and wait for all."""
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = child_environment({"TOKENIZERS_PARALLELISM": "false", **single})

    def work(job: Mapping[str, Any]) -> None:
        command, none = [sys.executable, "-m", __name__, json.dumps(job)], subprocess.DEVNULL
        done = subprocess.run(
            command, env=environment, stdin=none, stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            last = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"
            fault = f"{job['dataset']}: a process that tokenises it failed ({last})"
            raise RaxalignError(fault)

    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(work, jobs))


def _join(
    parts: list[Path], arrays: Sequence[str], lang: str | None, folder: Path
) -> dict[str, int | None]:
    """Copy the parts of a column end to end into a folder; return what they count."""

    def read(name: str) -> Iterator[np.ndarray]:
        return (np.load(part)[name] for part in parts)

    folder.mkdir()
    sizes = {name: sum(map(len, read(name))) for name in arrays}
    for name in arrays:
        path = folder / f"{name}.npy"
        if name.endswith("offsets"):
            np.save(path, offsets_of(np.concatenate([np.diff(part) for part in read(name)])))
        # where no two words share a piece, `lasts` are the words
        elif name != "lasts" or not all(map(np.array_equal, read("words"), read("lasts"))):
            narrow = name in _NARROW and all(int(p.max(initial=0)) < _SMALL for p in read(name))
            dtype, at = np.dtype(np.int16 if narrow else np.int32), 0
            file = np.lib.format.open_memmap(path, "w+", dtype, (sizes[name],))  # never held whole
            for part in read(name):
                file[at : at + len(part)] = part
                at += len(part)
    counts = [int(count) for count in read("unknown")]
    unknown = None if -1 in counts else sum(counts)
    (folder / _RECORD).write_text(json.dumps({"lang": lang, "unknown": unknown}), "utf-8")
    return {
        "sentences": sizes["offsets"] - len(parts),
        "words": sum(int(part[-1]) for part in read("word_offsets")),
        "pieces": sizes["ids"],
        "unknown": unknown,
    }


def _main(given: str) -> None:
    """Do a job that another process has given."""
    from tokenizers import Tokenizer

    job = json.loads(given)
    backend, unknown = Tokenizer.from_file(job.pop("saved")), job.pop("unknown")
    write_parts(SimpleNamespace(backend_tokenizer=backend, unk_token_id=unknown), **job)


if __name__ == "__main__":
    _main(sys.argv[1])
