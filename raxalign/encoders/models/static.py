"""Static word vectors as an encoder: one space per language or one for all, and the same vector for
a word in every sentence. Their files are word2vec's, with the vectors of n-grams next to them.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, TypeAlias

from raxalign.arrays import Ints, offsets_of
from raxalign.caveats import Caveats, LeftOut
from raxalign.corpora.readers.lines import opened
from raxalign.corpora.text.words import look_up_form
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.pieces import Pieces
from raxalign.encoders.models.vectors import Pooling, Spans, WordLists, WordVectors
from raxalign.encoders.models.vocabulary import wrap_vocabulary
from raxalign.errors import DataError, RaxalignError
from raxalign.lazy import np, torch
from raxalign.store.storage import Stamp

Floats: TypeAlias = "np.typing.NDArray[np.float32]"
Casing = Literal["keep", "lower", "fallback"]
Normalization = Literal["unit-center-unit", "unit", "none"]

CHUNK = 4096
"""Sentences whose words are looked up together."""
_FORMAT, _JOINT_FORMAT, _VOCABULARY = 1, 2, "vocab.txt"
_SIZES = ("min_n", "max_n", "buckets")
_BINARY = (".bin", ".bin.gz", ".bin.bz2", ".bin.xz")
_FACEBOOK = (793_712_314).to_bytes(4, "little")
_NGRAMS = ".ngrams.safetensors"  # the end of the name of a file of n-grams next to vectors
_PRIME, _START = 16_777_619, 2_166_136_261


def ngrams_of(path: Path) -> Path:
    """Return the file of n-grams that belongs to one of vectors, whether it is there or not."""
    return path.with_name(path.stem + _NGRAMS)


def read_vectors(path: Path, limit: int | None = None) -> tuple[list[str], Floats]:
    """Return (words, vectors (V, H)) of a file in word2vec's text format, with its first line or
    without it (GloVe), or in its binary one (``.bin``), packed or not; at most the first `limit`.

    The last H fields of a line are the vector: words may have blanks. A word that is given twice
    has its first vector. What is left out, those beyond the limit too, and a wrong number of words
    in the first line, are caveats. Raises `DataError` with the line where the file is neither.
    """
    left, beyond = LeftOut(), 0
    try:
        with opened(path) as file:
            first = file.readline()
            count, dimension = _sizes(path, first)
            told = count if count is None or limit is None else min(count, limit)
            if told is not None and path.name.endswith(_BINARY):
                words, vectors = _read_binary(path, file, told, dimension)
            else:
                lines = enumerate(
                    chain([first] if count is None else [], file), 2 - (count is None)
                )
                words, vectors = _read_text(path, islice(lines, limit), dimension, left)
                if limit and count is None:  # else the first line says how many there are
                    beyond = sum(bool(line.strip()) for _, line in lines)
    except OSError as error:
        raise DataError(path, f"the vectors cannot be read ({error.strerror})") from error
    if not np.isfinite(vectors).all():
        raise DataError(path, "has values that are NaN or infinite")
    there = len(words) + left.total()
    kept = sorted({word: i for i, word in reversed(list(enumerate(words)))}.values())
    left["there before"] = len(words) - len(kept)
    if limit and there >= limit:
        left[f"beyond the first {limit:,}"] = beyond or max((count or 0) - limit, 0)
    said = list(left.remarks("words", len(kept)))
    if told not in (None, there):
        said.append(f"its first line says {count:,} words, it has {there:,}")
    if said and (heard := Caveats.listener()) is not None:
        heard.partial[path.name] = "; ".join(said)
    return [words[i] for i in kept], vectors[kept]


def _sizes(path: Path, first: bytes) -> tuple[int | None, int]:
    """The number of words, where the first line says it, and the dimension."""
    if first.startswith(_FACEBOOK):
        fault = "is fastText's own binary format, which is not read"
        raise DataError(path, fault, remedy="Name the .vec file that is next to it")
    parts = first.split()
    if len(parts) == 2 and all(part.isdigit() for part in parts):
        return int(parts[0]), int(parts[1])
    if len(parts) < 2 or not _is_number(parts[-1]):
        fault = "begins with neither the number of words and their dimension nor a vector"
        raise DataError(path, fault, line=1, remedy="It has to be word2vec's or GloVe's")
    return None, len(parts) - 1


def _is_number(text: bytes) -> bool:
    return re.fullmatch(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", text, re.IGNORECASE) is not None


def _read_text(
    path: Path, lines: Iterable[tuple[int, bytes]], dimension: int, left: LeftOut
) -> tuple[list[str], Floats]:
    """The words and vectors of numbered lines; `left` counts those that are left out."""
    words, vectors = list[str](), array("f")
    for number, line in lines:
        word, *values = line.rsplit(None, dimension) or [b""]
        longer = not words and _is_number(b"".join(word.split()[1:][-1:]))
        try:
            if word and (longer or len(values) < dimension - _is_number(word)):
                found = len(line.split()) - 1
                raise ValueError(f"{found} numbers, but the first line says {dimension}")
            row = [float(value) for value in values]
        except ValueError as error:
            raise DataError(path, str(error), line=number) from None
        try:
            if len(row) == dimension:
                words.append(word.decode("utf-8"))
                vectors.extend(row)
            else:
                left.keep(not word, "without letters")
        except UnicodeDecodeError:
            left.keep(False, "not UTF-8")
    return words, np.asarray(vectors, np.float32).reshape(-1, dimension)


def _read_binary(
    path: Path, file: IO[bytes], count: int, dimension: int
) -> tuple[list[str], Floats]:
    words, vectors = [], np.zeros((count, dimension), np.float32)
    for i in range(count):
        word = bytearray()
        while (byte := file.read(1)) not in (b" ", b""):
            word += byte if byte != b"\n" else b""
        values = file.read(4 * dimension)
        if len(values) != 4 * dimension:
            raise DataError(path, f"ends after {i} of {count} words")
        words.append(word.decode("utf-8", errors="replace"))
        vectors[i] = np.frombuffer(values, dtype="<f4")
    return words, vectors


@dataclass(frozen=True)
class Subwords:
    """The trained vectors of fastText's n-grams: n-grams of `min_n` to `max_n` characters of
    ``<word>`` fall into `buckets` by a hash, and the vector of bucket ``numbers[i]`` (ascending) is
    row i of `vectors_GH`. Buckets that training never met are left out.
    """

    numbers: Ints
    vectors_GH: Floats
    min_n: int
    max_n: int
    buckets: int

    def vector(self, word: str) -> Floats | None:
        """Return the mean of a word's n-grams (H,), or None where training met none of them."""
        grams = ngrams(word, self.min_n, self.max_n)
        wanted = np.array([_hash(gram) % self.buckets for gram in grams], dtype=np.int64)
        wanted = wanted[np.isin(wanted, self.numbers)]
        found = self.vectors_GH[np.searchsorted(self.numbers, wanted)]
        return found.mean(axis=0) if len(found) else None


def ngrams(word: str, min_n: int, max_n: int) -> list[bytes]:
    """Return all n-grams of characters of ``<word>``, as UTF-8 (Bojanowski et al. 2017, §3.2); the
    boundary marks alone are none.

    >>> [gram.decode() for gram in ngrams("an", 2, 3)]
    ['<a', '<an', 'an', 'an>', 'n>']
    """
    marked = f"<{word}>"
    last = len(marked)
    return [
        marked[i : i + n].encode()
        for i in range(last)
        for n in range(min_n, max_n + 1)
        if i + n <= last and not (n == 1 and i in (0, last - 1))
    ]


def _hash(gram: bytes) -> int:
    """FNV-1a over signed bytes, as fastText has it."""
    value = _START
    for byte in gram:
        value = ((value ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * _PRIME) & 0xFFFFFFFF
    return value


@dataclass(frozen=True)
class Lookup:
    """How words become vectors. `casing`: words are looked up as they are, lower-cased, or
    lower-cased where they have no vector as they are; `normalization` is that of every vector
    before pieces are pooled: x/|x|, then the mean over the vocabulary is subtracted, then x/|x|
    again (Artetxe et al. 2018; Cao et al. 2020, Appendix A.1); `pieces`: words are split into
    WordPieces, which have the vectors.
    """

    casing: Casing = "keep"
    normalization: Normalization = "unit-center-unit"
    pieces: bool = False


@dataclass
class VectorSpace:
    """The vectors of one language, as trained; with `subwords` unseen words have some too."""

    words: list[str]
    vectors_VH: Floats
    subwords: Subwords | None = None
    said: Mapping[str, str] = field(default_factory=dict)
    """The caveats of its file."""
    rows: dict[str, int] = field(init=False)
    _more: list[Floats] = field(default_factory=list)
    _table: torch.Tensor | None = None

    def __post_init__(self) -> None:
        rows = {look_up_form(word): i for i, word in reversed(list(enumerate(self.words)))}
        self.rows = rows | {word: i for i, word in enumerate(self.words)}

    def row(self, word: str, casing: Casing, lang: str) -> int:
        """Return the row of a word of a language: that of its letters as they are in the file, or
        else in the form in which words are looked up; -1 where it has none. What subwords make is
        kept.
        """
        form = look_up_form(word, lang if casing == "lower" else None)
        found = self.rows.get(form if casing == "lower" else word, self.rows.get(form))
        if found is None and casing == "fallback":
            found = self.rows.get(look_up_form(word, lang))
        if found is None:
            vector = None if self.subwords is None else self.subwords.vector(form)
            found = -1 if vector is None else len(self.words) + len(self._more)
            self._more += [] if vector is None else [vector]
            self.rows[form] = found
        return found

    def table(self, how: Normalization, device: str) -> torch.Tensor:
        """Return all rows, those of unseen words that were looked up included, normalised, on a
        device. Their mean is that of the unit vectors of the vocabulary.
        """
        made = [] if self._table is None else [self._table]
        seen = 0 if self._table is None else len(self._table) - len(self.words)
        fresh = [] if made else [self.vectors_VH]
        fresh += [vector[None] for vector in self._more[seen:]]
        if fresh:
            more = torch.from_numpy(np.concatenate(fresh))
            more = more if how == "none" else _unit(more)
            more = _unit(more - self._center) if how == "unit-center-unit" else more
            self._table = torch.cat([*made, more.to(device)])
        assert self._table is not None
        return self._table

    @cached_property
    def _center(self) -> torch.Tensor:
        return _unit(torch.from_numpy(self.vectors_VH)).mean(dim=0)

    @classmethod
    def read(cls, path: Path, limit: int | None) -> VectorSpace:
        """Read what `write` wrote, or any file of vectors, of which at most `limit` are read."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        with Caveats.collecting() as found:
            words, vectors = read_vectors(path, limit)
        grams, subwords = ngrams_of(path), None
        if grams.is_file():
            try:
                tensors = load_file(grams)
                sizes = tensors["sizes"].tolist()
                subwords = Subwords(tensors["numbers"], tensors["vectors"], *sizes)
            except (OSError, SafetensorError, KeyError, TypeError) as error:
                raise DataError(grams, f"the n-grams cannot be read ({error})") from error
        return cls(words, vectors, subwords, found.partial)

    def write(self, path: Path) -> None:
        """Write the vectors in word2vec's text format, not normalised, with nine digits, so that
        float32 values come back as they were, and n-grams next to them.
        """
        from safetensors.numpy import save_file

        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.write(f"{len(self.words)} {self.vectors_VH.shape[1]}\n")
            row_format = " ".join(["%.9g"] * self.vectors_VH.shape[1])
            for word, row in zip(self.words, self.vectors_VH, strict=True):
                file.write(f"{word} {row_format % tuple(row.tolist())}\n")
        if (own := self.subwords) is not None:
            sizes = np.array([getattr(own, name) for name in _SIZES])
            tensors = {"numbers": own.numbers, "sizes": sizes, "vectors": own.vectors_GH}
            save_file(tensors, ngrams_of(path))


class StaticEncoder(Encoder):
    """Word vectors, one space per language or one for all of them, opened when the language is
    first asked for. It has one layer, 0, and no hidden states.
    """

    family: ClassVar[str] = "static"
    RECORD: ClassVar = "static.json"
    JOINT: ClassVar = "joint"
    """The name of the one space of all languages, and of its file."""
    n_layers = 0

    def __init__(
        self,
        spaces: Mapping[str, VectorSpace | Path],
        dimension: int,
        reading: Lookup,
        device: str = "cpu",
        *,
        vocabulary: Sequence[str] | None = None,
        languages: Sequence[str] | None = None,
    ) -> None:
        """`spaces`: the vectors of each language, or the file that holds them; the one space
        ``joint`` where `languages` share it. `vocabulary`: WordPieces, where words are split.
        """
        self.hidden_size, self.device, self.reading = dimension, device, reading
        self.vocabulary = None if vocabulary is None else list(vocabulary)
        self._spaces = dict(spaces)
        self._stamps = {name: _stamps(at) for name, at in spaces.items() if isinstance(at, Path)}
        shared = None if languages is None else dict.fromkeys(languages, self.JOINT)
        self._names = shared or {lang: lang for lang in spaces}
        self.limit: int | None = None
        """How many vectors of a file are read (None: all)."""
        self._tokenizer: Any = None

    @classmethod
    def from_folder(cls, folder: Path | str, device: str = "cpu") -> StaticEncoder:
        """Return what `save` wrote. Raises `DataError` for any other folder."""
        folder = Path(folder)
        try:
            record = json.loads((folder / cls.RECORD).read_text(encoding="utf-8"))
            if record["format"] not in (_FORMAT, _JOINT_FORMAT):
                reads = f"but this version reads {_FORMAT} and {_JOINT_FORMAT}"
                raise DataError(folder / cls.RECORD, f"format {record['format']!r}, {reads}")
            reading, vocabulary = Lookup(**record["reading"]), None
            if reading.pieces:
                vocabulary = (folder / _VOCABULARY).read_text(encoding="utf-8").split("\n")
            names, shared = record["languages"], None
            if record["format"] == _JOINT_FORMAT:
                names, shared = [cls.JOINT], names
            files, size = {name: folder / f"{name}.vec" for name in names}, record["dimension"]
            return cls(files, size, reading, device, vocabulary=vocabulary, languages=shared)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(folder, f"is not a folder of static vectors ({error})") from error

    @classmethod
    def from_files(
        cls,
        files: Mapping[str, Path],
        reading: Lookup,
        device: str = "cpu",
        limit: int | None = None,
    ) -> StaticEncoder:
        """Return vectors of one file per language, of each at most the first `limit`."""
        sizes = {lang: int(read_vectors(path, 0)[1].shape[1]) for lang, path in files.items()}
        if len(set(sizes.values())) != 1:
            found = ", ".join(f"{lang} {size}" for lang, size in sizes.items())
            raise RaxalignError(f"vectors of different dimensions: {found}")
        encoder = cls(files, next(iter(sizes.values())), reading, device)
        encoder.limit = limit
        return encoder

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that have vectors."""
        return tuple(self._names)

    def space(self, lang: str) -> VectorSpace:
        """Return the vectors of a language. Raises `RaxalignError` where it has none."""
        if lang not in self._names:
            has = ", ".join(self._names) or "none at all"
            raise RaxalignError(f"the static encoder has no vectors for {lang}; it has {has}")
        return self._opened(self._names[lang])

    def _opened(self, name: str) -> VectorSpace:
        space = self._spaces[name]
        if isinstance(space, Path):
            path, space = space, VectorSpace.read(space, self.limit)
            if _stamps(path) != self._stamps[name]:
                raise DataError(path, "was changed since this began", remedy="Run it again")
            self._spaces[name] = space
        return space

    def iter_words(
        self, sentences: WordLists, lang: str, *, layers: tuple[int, ...], pooling: Pooling
    ) -> Iterator[tuple[Sequence[int], WordVectors]]:
        """Word vectors in input order, some sentences at a time; `pooling` joins the pieces of a
        word that have a vector. Words without one are absent. Raises `RaxalignError` for a language
        without vectors, and for layers other than 0.
        """
        if set(layers) != {0}:
            read = ", ".join(map(str, layers))
            raise RaxalignError(f"layers {read}: static vectors are one layer, 0 (`layers: last`)")
        for start in range(0, len(sentences), CHUNK):
            part = sentences[start : start + CHUNK]
            yield range(start, start + len(part)), self._looked_up(part, lang, len(layers), pooling)

    def _looked_up(
        self, sentences: Sequence[Sequence[str]], lang: str, n_layers: int, pooling: Pooling
    ) -> WordVectors:
        space, offsets = self.space(lang), offsets_of([len(words) for words in sentences]).tolist()
        units = [word for sentence in sentences for word in sentence]
        owners = np.arange(offsets[-1])
        if self.reading.pieces:
            lower = lang if self.reading.casing == "lower" else None
            forms = [[look_up_form(word, lower) for word in words] for words in sentences]
            made = list(self.pieces(forms))
            units = [name for names, _ in made for name in names]
            counted = [words + start for (_, words), start in zip(made, offsets, strict=False)]
            owners = np.concatenate([np.zeros(0, np.int64), *counted])
        casing = self.reading.casing
        rows = np.array([space.row(unit, casing, lang) for unit in units], dtype=np.int64)
        if (heard := Caveats.listener()) is not None:
            heard.partial.update(space.said)
            heard.words.update({lang: len(units)} if units else {})
            heard.with_vector[lang] += int((rows >= 0).sum())
        known, owners = rows[rows >= 0], owners[rows >= 0]
        spans = Spans.grouped(np.arange(len(known)), owners, offsets[-1], pooling)
        table_VH = space.table(self.reading.normalization, self.device)
        vectors_PH = table_VH[torch.from_numpy(known).to(self.device)]
        vectors_N1H, present_N = spans.pool([vectors_PH]), spans.present(self.device)
        return WordVectors(vectors_N1H.repeat(1, n_layers, 1), offsets, present_N)

    def pieces(self, sentences: Sequence[Sequence[str]]) -> Iterator[tuple[list[str], np.ndarray]]:
        """(pieces, the word of each in its sentence) of every sentence. Words are split apart from
        each other in every script; one that cannot be split is one ``[UNK]``.
        """
        if self.vocabulary is None:
            raise RaxalignError("the static encoder has vectors of words, not of subword tokens")
        if self._tokenizer is None:
            lowercase = self.reading.casing == "lower"
            self._tokenizer = wrap_vocabulary(self.vocabulary, lowercase=lowercase)
        apart = [list(words) for words in sentences]
        for start in range(0, len(apart), CHUNK):
            found = Pieces.read(self._tokenizer, [apart[start : start + CHUNK]], None)
            words = np.split(found.words[:].astype(np.int64), found.offsets[1:-1])
            for ids, own in zip(found.of_sentences(), words, strict=False):
                yield [self.vocabulary[i] for i in ids.tolist()], own

    def save(self, folder: Path | str) -> None:
        """Write ``<lang>.vec`` (word2vec's text format, not normalised) for each language, or
        ``joint.vec`` for all of them, n-grams next to it, and how words are read.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name in self._spaces:
            self._opened(name).write(folder / f"{name}.vec")
        if self.vocabulary is not None:
            (folder / _VOCABULARY).write_text("\n".join(self.vocabulary), encoding="utf-8")
        record = {
            "format": _JOINT_FORMAT if self.JOINT in self._spaces else _FORMAT,
            "languages": list(self._names),
            "dimension": self.hidden_size,
            "reading": asdict(self.reading),
        }
        text = json.dumps(record, indent=1, sort_keys=True)
        (folder / self.RECORD).write_text(text + "\n", encoding="utf-8")


def _stamps(path: Path) -> list[Stamp]:
    return [Stamp.of(file) for file in (path, ngrams_of(path)) if file.is_file()]


def _unit(rows: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(rows, dim=-1)
