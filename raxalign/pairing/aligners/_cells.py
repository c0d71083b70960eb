"""The cells of a bitext, numbered by their pairs of word types: what `fast_align` computes on.

A *cell* is a source position with a target position of one sentence pair. Sentence pairs of equal
lengths form blocks of shape (n, S, T): n pairs, S source and T target words. Each cell holds the
number of its word-type pair, in one flat array for all blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from raxalign.arrays import Floats, Ints
from raxalign.lazy import np

if TYPE_CHECKING:
    import numpy.typing as npt

_BLOCK_CELLS = 1 << 17
_CHUNK_CELLS = 1 << 22
_MAPPED_CELLS = 1 << 26


@dataclass(frozen=True)
class NumberedWords:
    """One language's words as numbers below `size`: those of sentence i are
    ``words[offsets[i]:offsets[i] + lengths[i]]``.
    """

    words: npt.NDArray[np.int32]
    offsets: Ints
    lengths: Ints
    size: int


@dataclass(frozen=True)
class CellBlock:
    """Sentence pairs `rows` of one shape; their cells begin at `cell`."""

    rows: Ints
    S: int
    T: int
    cell: int

    @property
    def n_cells(self) -> int:
        return len(self.rows) * self.S * self.T


@dataclass(frozen=True)
class Cells:
    """All cells of a bitext: `types[c]` is the pair of word types of cell c, and pair k is of words
    ``src_of[k]`` and ``tgt_of[k]``. Where there are very many, `work` is the folder of their files
    (None: they are in memory).
    """

    blocks: list[CellBlock]
    types: npt.NDArray[np.int32]
    src_of: npt.NDArray[np.int32]
    tgt_of: npt.NDArray[np.int32]
    work: Path | None = None

    def numbers(self, name: str, fill: float) -> Floats:
        """A number per pair of word types, each `fill`: in memory, or in the file `name` where the
        cells are in files.
        """
        if self.work is None:
            return np.full(len(self.src_of), fill)
        shape = (len(self.src_of),)
        found = np.asarray(np.memmap(self.work / name, np.float64, "w+", shape=shape))
        found[:] = fill
        return found


def positions(side: NumberedWords, rows: Ints, length: int) -> Ints:
    """The positions in `side.words` of the words of sentences `rows`, all of one length: (n,
    length).
    """
    return side.offsets[rows][:, None] + np.arange(length)


def make_cells(src: NumberedWords, tgt: NumberedWords, work: Path) -> Cells:
    """Numbers the word-type pairs that occur together in a sentence pair, by sorting a chunk of
    cells at a time.

    The numbers of very many cells are in files in `work`, so that only those in use take memory.
    """
    blocks = _blocks(src.lengths, tgt.lengths)
    n_cells = blocks[-1].cell + blocks[-1].n_cells if blocks else 0
    many = n_cells > _MAPPED_CELLS
    types = (
        np.memmap(work / "types", np.int32, "w+", shape=(n_cells,))
        if many
        else np.empty(n_cells, np.int32)
    )
    found = list[Ints]()
    for chunk in chunks(blocks):
        codes, numbers = np.unique(
            np.concatenate([_codes(block, src, tgt) for block in chunk]), return_inverse=True
        )
        types[chunk[0].cell : chunk[-1].cell + chunk[-1].n_cells] = numbers
        found.append(_mapped(codes, work / f"codes-{len(found)}.npy") if many else codes)
    pairs = _union(found)
    for chunk, codes in zip(chunks(blocks), found, strict=True):
        part = slice(chunk[0].cell, chunk[-1].cell + chunk[-1].n_cells)
        types[part] = np.searchsorted(pairs, codes).astype(np.int32)[types[part]]
    sides = np.empty((2, len(pairs)), np.int32)
    np.floor_divide(pairs, tgt.size, out=sides[0], casting="unsafe")
    np.remainder(pairs, tgt.size, out=sides[1], casting="unsafe")
    return Cells(blocks, types, sides[0], sides[1], work if many else None)


def _mapped(array: Ints, path: Path) -> Ints:
    """Write an array to a file, and map it."""
    np.save(path, array)
    found: Ints = np.load(path, mmap_mode="r")
    return found


def _union(parts: Iterable[Ints]) -> Ints:
    """The different numbers of all parts, sorted. Parts are merged when they hold half as many
    numbers as were merged before, so that few of the numbers that repeat are in memory at once.
    """
    waiting, known, size = [np.zeros(0, np.int64)], 0, 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size - known >= max(known // 2, _CHUNK_CELLS):
            waiting = [_merged(waiting)]
            known = size = len(waiting[0])
    return _merged(waiting)


def _merged(parts: list[Ints]) -> Ints:
    numbers = np.concatenate(parts)
    parts.clear()
    numbers.sort()  # `np.unique` would sort a copy
    first = np.ones(len(numbers), bool)
    np.not_equal(numbers[1:], numbers[:-1], out=first[1:])
    found: Ints = numbers[first]
    return found


def _codes(block: CellBlock, src: NumberedWords, tgt: NumberedWords) -> Ints:
    """The pair of word types of each cell as one integer."""
    s = src.words[positions(src, block.rows, block.S)].astype(np.int64)
    t = tgt.words[positions(tgt, block.rows, block.T)]
    codes: Ints = (s[:, :, None] * tgt.size + t[:, None, :]).ravel()
    return codes


def chunks(blocks: list[CellBlock]) -> Iterator[list[CellBlock]]:
    """Runs of neighbouring blocks with some millions of cells together."""
    chunk: list[CellBlock] = []
    size = 0
    for block in blocks:
        if chunk and size + block.n_cells > _CHUNK_CELLS:
            yield chunk
            chunk, size = [], 0
        chunk.append(block)
        size += block.n_cells
    if chunk:
        yield chunk


def _blocks(src_lengths: Ints, tgt_lengths: Ints) -> list[CellBlock]:
    """Sentence pairs grouped by both lengths, groups cut where they are large."""
    order = np.lexsort((np.arange(len(src_lengths)), tgt_lengths, src_lengths))
    shapes = np.stack([src_lengths[order], tgt_lengths[order]])
    edges = np.flatnonzero((np.diff(shapes, axis=1) != 0).any(axis=0)) + 1
    blocks, cell = [], 0
    for group in np.split(order, edges) if len(order) else []:
        S, T = int(src_lengths[group[0]]), int(tgt_lengths[group[0]])
        step = max(1, _BLOCK_CELLS // (S * T))
        for start in range(0, len(group), step):
            block = CellBlock(group[start : start + step], S, T, cell)
            blocks.append(block)
            cell += block.n_cells
    return blocks
