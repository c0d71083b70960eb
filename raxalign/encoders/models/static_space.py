"""The static vectors of one language: looked up, read and written."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from raxalign.encoders.models.static_files import Subwords, read_vectors, write_vectors
from raxalign.errors import DataError

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
