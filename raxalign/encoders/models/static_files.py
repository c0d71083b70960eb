"""Files of word vectors: word2vec's text and binary formats, and the vectors of n-grams of
characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from raxalign.errors import DataError

Floats = npt.NDArray[np.float32]

_FACEBOOK = (793_712_314).to_bytes(4, "little")
_PRIME, _START = 16_777_619, 2_166_136_261


def write_vectors(path: Path, words: Sequence[str], vectors_VH: Floats) -> None:
    """Word2vec's text format: a line with both sizes, then one line per word. Nine digits, so that
    float32 values come back as they were.
    """
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(words)} {vectors_VH.shape[1]}\n")
        row_format = " ".join(["%.9g"] * vectors_VH.shape[1])
        for word, row in zip(words, vectors_VH, strict=True):
            file.write(f"{word} {row_format % tuple(row.tolist())}\n")


def read_vectors(path: Path, limit: int | None = None) -> tuple[list[str], Floats]:
    """(words, vectors (V, H)) of a file in word2vec's text format, or its binary one (``.bin``); at
    most the first `limit`.

    A word that is given twice has its first vector. Raises `DataError` with the line where the file
    is neither.
    """
    try:
        with path.open("rb") as file:
            first = file.readline()
            if first.startswith(_FACEBOOK):
                raise DataError(
                    path,
                    "is fastText's own binary format, which is not read",
                    remedy="Name the .vec file that is next to it",
                )
            try:
                count, dimension = (int(part) for part in first.split())
            except ValueError:
                raise DataError(
                    path,
                    "begins without the number of words and their dimension",
                    line=1,
                    remedy="It has to be word2vec's",
                ) from None
            count = count if limit is None else min(count, limit)
            words, vectors = (_read_binary if path.suffix == ".bin" else _read_text)(
                path, file, count, dimension
            )
    except OSError as error:
        raise DataError(path, f"the vectors cannot be read ({error.strerror})") from error
    if not np.isfinite(vectors).all():
        raise DataError(path, "has values that are NaN or infinite")
    if len(set(words)) == len(words):
        return words, vectors
    firsts = {word: i for i, word in reversed(list(enumerate(words)))}
    kept = sorted(firsts.values())
    return [words[i] for i in kept], vectors[kept]


def _read_text(path: Path, file: BinaryIO, count: int, dimension: int) -> tuple[list[str], Floats]:
    words, vectors = [], np.zeros((count, dimension), np.float32)
    for i in range(count):
        line = file.readline()
        word, _, rest = line.rstrip().partition(b" ")
        values = rest.split()
        try:
            if len(values) != dimension:
                raise ValueError(f"{len(values)} numbers, but the first line says {dimension}")
            vectors[i] = [float(value) for value in values]
            words.append(word.decode("utf-8"))
        except ValueError as error:
            raise DataError(
                path, str(error) if line else f"ends after {i} of {count} words", line=i + 2
            ) from None
    return words, vectors


def _read_binary(
    path: Path, file: BinaryIO, count: int, dimension: int
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

    numbers: npt.NDArray[np.int64]
    vectors_GH: Floats
    min_n: int
    max_n: int
    buckets: int

    def vector(self, word: str) -> Floats | None:
        """The mean of a word's n-grams (H,), or None where training met none of them."""
        wanted = np.array(
            [_hash(gram) % self.buckets for gram in ngrams(word, self.min_n, self.max_n)],
            dtype=np.int64,
        )
        wanted = wanted[np.isin(wanted, self.numbers)]
        return (
            self.vectors_GH[np.searchsorted(self.numbers, wanted)].mean(axis=0)
            if len(wanted)
            else None
        )


def ngrams(word: str, min_n: int, max_n: int) -> list[bytes]:
    """All n-grams of characters of ``<word>``, as UTF-8 (Bojanowski et al. 2017, §3.2); the
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
