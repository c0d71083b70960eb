"""Static word vectors as an encoder: one space per language or one for all, and the same vector for
a word in every sentence.

The static vectors of one language: looked up, read and written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.pooling import WordIndex, pool_words
from raxalign.encoders.models.static_files import Subwords, read_vectors, write_vectors
from raxalign.encoders.models.vectors import Pooling, WordVectors
from raxalign.errors import DataError, RaxalignError

if TYPE_CHECKING:
    from raxalign.encoders.models.static_files import Floats


Casing = Literal["keep", "lower", "fallback"]
Normalization = Literal["unit-center-unit", "unit", "none"]

_SIZES = ("min_n", "max_n", "buckets")


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
class Space:
    """The vectors of one language, as trained: row `rows[word]` of `vectors_VH`; with `subwords`
    unseen words have vectors too.
    """

    words: list[str]
    vectors_VH: Floats
    subwords: Subwords | None = None
    rows: dict[str, int] = field(init=False)
    _more: list[Floats] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = {word: i for i, word in enumerate(self.words)}

    def row(self, word: str, casing: Casing) -> int:
        """The row of a word, -1 where it has none. What subwords make is kept: the rows from
        ``len(words)`` on.
        """
        form = word.lower() if casing == "lower" else word
        found = self.rows.get(form)
        if found is None and casing == "fallback":
            found = self.rows.get(word.lower())
        if found is None:
            vector = None if self.subwords is None else self.subwords.vector(form)
            found = -1 if vector is None else len(self.words) + len(self._more)
            self._more += [] if vector is None else [vector]
            self.rows[form] = found
        return found

    def table(self) -> Floats:
        """All rows, those of unseen words included."""
        return (
            np.concatenate([self.vectors_VH, np.stack(self._more)])
            if self._more
            else self.vectors_VH
        )

    @classmethod
    def read(cls, path: Path, limit: int | None) -> Space:
        """Read what `write` wrote, or any file of vectors, of which at most `limit` are read."""
        words, vectors = read_vectors(path, limit)
        ngrams = _ngrams_of(path)
        return cls(words, vectors, _read_subwords(ngrams) if ngrams.is_file() else None)

    def write(self, path: Path) -> None:
        """Write the vectors in word2vec's text format, not normalised, and n-grams next to them."""
        from safetensors.numpy import save_file

        write_vectors(path, self.words, self.vectors_VH)
        if self.subwords is not None:
            sizes = np.array([getattr(self.subwords, name) for name in _SIZES])
            tensors = {
                "numbers": self.subwords.numbers,
                "sizes": sizes,
                "vectors": self.subwords.vectors_GH,
            }
            save_file(tensors, _ngrams_of(path))


def _ngrams_of(path: Path) -> Path:
    """The file of n-grams that belongs to a file of vectors."""
    return path.with_name(path.stem + ".ngrams.safetensors")


def _read_subwords(path: Path) -> Subwords:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
        return Subwords(tensors["numbers"], tensors["vectors"], *tensors["sizes"].tolist())
    except (OSError, SafetensorError, KeyError, TypeError) as error:
        raise DataError(path, f"the n-grams cannot be read ({error})") from error


def dimension_of(path: Path) -> int:
    """Return the dimension of the vectors in a file."""
    return int(read_vectors(path, 0)[1].shape[1])


RECORD = "static.json"
_FORMAT, _JOINT_FORMAT, _VOCABULARY = 1, 2, "vocab.txt"
_JOINT = "joint"
"""The name of the one space of all languages, and of its file."""
CHUNK = 4096
"""Sentences whose words are looked up together."""


@dataclass(frozen=True)
class JointSpace:
    """One space that all `languages` share: its vectors, or the file that holds them."""

    languages: tuple[str, ...]
    space: Space | Path


@dataclass
class _Table:
    """The normalised rows of a space on the device; `mean_H` is that of the unit vectors of the
    vocabulary.
    """

    vectors_VH: torch.Tensor
    mean_H: torch.Tensor | None


class StaticEncoder(Encoder):
    """Word vectors, one space per language or one for all of them, opened when the language is
    first asked for. It has one layer, 0, and no hidden states.
    """

    family: ClassVar[str] = "static"
    n_layers = 0

    def __init__(
        self,
        spaces: Mapping[str, Space | Path] | JointSpace,
        dimension: int,
        reading: Lookup,
        device: str = "cpu",
        *,
        vocabulary: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> None:
        """`spaces`: the vectors of each language, or the file that holds them, of which `limit` are
        read; or the one space of all languages. `vocabulary`: WordPieces, where words are split.
        """
        self.hidden_size, self.device, self.reading = dimension, device, reading
        self.vocabulary = None if vocabulary is None else list(vocabulary)
        if isinstance(spaces, JointSpace):
            self._names = dict.fromkeys(spaces.languages, _JOINT)
            self._spaces: dict[str, Space | Path] = {_JOINT: spaces.space}
        else:
            self._names = {lang: lang for lang in spaces}
            self._spaces = dict(spaces)
        self._limit = limit
        self._tables: dict[str, _Table] = {}
        self._tokenizer: Any = None

    @classmethod
    def from_folder(cls, folder: Path | str, device: str = "cpu") -> StaticEncoder:
        """What `save` wrote. Raises `DataError` for any other folder."""
        folder = Path(folder)
        try:
            record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
            if record["format"] not in (_FORMAT, _JOINT_FORMAT):
                raise DataError(
                    folder / RECORD,
                    f"format {record['format']!r}, but this version reads {_FORMAT} and"
                    f" {_JOINT_FORMAT}",
                )
            vocabulary = (
                (folder / _VOCABULARY).read_text(encoding="utf-8").split("\n")
                if record["reading"]["pieces"]
                else None
            )
            languages = tuple(record["languages"])
            spaces = (
                JointSpace(languages, _file_of(folder, _JOINT))
                if record["format"] == _JOINT_FORMAT
                else {lang: _file_of(folder, lang) for lang in languages}
            )
            return cls(
                spaces,
                record["dimension"],
                Lookup(**record["reading"]),
                device,
                vocabulary=vocabulary,
            )
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
        """Vectors of files, one file per language; at most the first `limit` of each are read."""
        dimensions = {lang: dimension_of(path) for lang, path in files.items()}
        if len(set(dimensions.values())) != 1:
            raise RaxalignError(
                "vectors of different dimensions:"
                f" {', '.join(f'{lang} {n}' for lang, n in dimensions.items())}"
            )
        return cls(files, next(iter(dimensions.values())), reading, device, limit=limit)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that have vectors."""
        return tuple(self._names)

    def space(self, lang: str) -> Space:
        """Return the vectors of a language, which others may share. Raises `RaxalignError` where
        it has none.
        """
        if lang not in self._names:
            raise RaxalignError(
                f"the static encoder has no vectors for {lang}; it has"
                f" {', '.join(self._names) or 'none at all'}"
            )
        return self._opened(self._names[lang])

    def _opened(self, name: str) -> Space:
        space = self._spaces[name]
        if isinstance(space, Path):
            space = self._spaces[name] = Space.read(space, self._limit)
            if space.vectors_VH.shape[1] != self.hidden_size:
                raise RaxalignError(
                    f"the vectors of {name} have {space.vectors_VH.shape[1]} dimensions, not"
                    f" {self.hidden_size}"
                )
        return space

    def iter_words(
        self,
        sentences: Sequence[Sequence[str]],
        lang: str,
        *,
        layers: tuple[int, ...],
        pooling: Pooling,
    ) -> Iterator[tuple[Sequence[int], WordVectors]]:
        """Word vectors in input order, some sentences at a time; `pooling` joins the pieces of a
        word that have a vector.

        Words without a vector are absent. Raises `RaxalignError` for a language without vectors,
        and for layers other than 0.
        """
        if set(layers) != {0}:
            raise RaxalignError(
                f"layers {', '.join(map(str, layers))}: static vectors are one layer, 0 (`layers:"
                " last`)"
            )
        for start in range(0, len(sentences), CHUNK):
            part = sentences[start : start + CHUNK]
            yield range(start, start + len(part)), self._looked_up(part, lang, len(layers), pooling)

    def _looked_up(
        self, sentences: Sequence[Sequence[str]], lang: str, n_layers: int, pooling: Pooling
    ) -> WordVectors:
        space, casing = self.space(lang), self.reading.casing
        offsets = [0, *np.cumsum([len(sentence) for sentence in sentences]).tolist()]
        if self.reading.pieces:
            units, owners = self._split(sentences, offsets)
        else:
            units, owners = (
                [word for sentence in sentences for word in sentence],
                np.arange(offsets[-1]),
            )
        rows = np.array([space.row(unit, casing) for unit in units], dtype=np.int64)
        known, owners = rows[rows >= 0], owners[rows >= 0]
        words, counts = np.unique(owners, return_counts=True)
        parts = (np.arange(len(known)), owners, words, counts)
        places_P, owners_P, words_M, counts_M = (
            torch.from_numpy(part.astype(np.int64)).to(self.device) for part in parts
        )
        index = WordIndex(places_P, owners_P, words_M, counts_M, offsets[-1])
        vectors_PH = self._table(lang).vectors_VH[torch.from_numpy(known).to(self.device)]
        vectors_NH = pool_words(vectors_PH, index, pooling)
        return WordVectors(vectors_NH[:, None].repeat(1, n_layers, 1), offsets, index.present())

    def _split(
        self, sentences: Sequence[Sequence[str]], offsets: Sequence[int]
    ) -> tuple[list[str], np.ndarray]:
        """(pieces, the word of each)."""
        pieces, owners = [], []
        for (names, words), start in zip(self.pieces(sentences), offsets, strict=False):
            pieces += names
            owners.append(words + start)
        return pieces, np.concatenate([np.zeros(0, np.int64), *owners])

    def pieces(self, sentences: Sequence[Sequence[str]]) -> Iterator[tuple[list[str], np.ndarray]]:
        """(pieces, the word of each in its sentence) of every sentence; a word that cannot be split
        is one ``[UNK]``. Words are split apart from each other, also where they are written without
        spaces: each has vectors of its own.
        """
        from raxalign.encoders.models.pieces import bulk_pieces
        from raxalign.encoders.training.wordpiece import wrap_vocabulary

        if self.vocabulary is None:
            raise RaxalignError("the static encoder has vectors of words, not of pieces")
        if self._tokenizer is None:
            self._tokenizer = wrap_vocabulary(
                self.vocabulary, lowercase=self.reading.casing == "lower"
            )
        apart = [list(words) for words in sentences]
        for found in bulk_pieces(self._tokenizer, apart, None):
            yield [self.vocabulary[i] for i in found.ids.tolist()], found.words.astype(np.int64)

    def _table(self, lang: str) -> _Table:
        """The table of a language, with rows for all words that were looked up so far."""
        space, name = self.space(lang), self._names[lang]
        table = self._tables.get(name)
        if table is None:
            units = torch.nn.functional.normalize(torch.from_numpy(space.vectors_VH), dim=-1)
            mean_H = units.mean(dim=0) if self.reading.normalization == "unit-center-unit" else None
            table = self._tables[name] = _Table(
                torch.zeros(0, self.hidden_size, device=self.device), mean_H
            )
        have = len(table.vectors_VH)
        rows = space.table()
        if have < len(rows):
            more = _normalized(
                torch.from_numpy(rows[have:]), self.reading.normalization, table.mean_H
            )
            table.vectors_VH = torch.cat([table.vectors_VH, more.to(self.device)])
        return table

    def save(self, folder: Path | str) -> None:
        """Write ``<lang>.vec`` (word2vec's text format, not normalised) for each language, or
        ``joint.vec`` for all of them, n-grams next to it, and how words are read.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name in self._spaces:
            self._opened(name).write(_file_of(folder, name))
        if self.vocabulary is not None:
            (folder / _VOCABULARY).write_text("\n".join(self.vocabulary), encoding="utf-8")
        record = {
            "format": _JOINT_FORMAT if _JOINT in self._spaces else _FORMAT,
            "languages": list(self._names),
            "dimension": self.hidden_size,
            "reading": asdict(self.reading),
        }
        (folder / RECORD).write_text(
            json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8"
        )


def _file_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.vec"


def _normalized(
    rows: torch.Tensor, normalization: Normalization, mean_H: torch.Tensor | None
) -> torch.Tensor:
    if normalization == "none":
        return rows
    rows = torch.nn.functional.normalize(rows, dim=-1)
    return rows if mean_H is None else torch.nn.functional.normalize(rows - mean_H, dim=-1)
