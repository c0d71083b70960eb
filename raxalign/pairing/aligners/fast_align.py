"""Our own fast_align: deterministic, without a compiler, in NumPy. It is IBM model 2 with a prior
for the diagonal, by expectation maximisation over all cells at once.

A *cell* is a source position with a target position of one sentence pair. Sentence pairs of equal
lengths form blocks of shape (n, S, T): n pairs, S source and T target words. Each cell holds the
number of its word-type pair, in one flat array for all blocks. So the lexicon is one vector,
reading it is one gather, and counting is one `bincount`. Directions differ in the axis over which a
block is normalised.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from raxalign.arrays import Floats, Int32s, Ints, offsets_of
from raxalign.lazy import np
from raxalign.options.params import Removed
from raxalign.pairing.aligners.base import AlignerInputs, WordAligner
from raxalign.pairing.links import Links
from raxalign.pairing.words import Words

ITERATIONS = 5
"""Passes over the text, the last of which reads off the links."""
NULL = 0.08
"""Prior probability that a word has no link, p0 in the paper."""
TENSION = 4.0
"""Pull towards the diagonal at the start, λ in the paper; the second pass begins to estimate it."""
ALPHA = 0.01
"""Strength of the lexicon's Dirichlet prior, α in the paper."""
_PART = 1 << 22
_TENSION_RANGE = (0.1, 14.0)
_TENSION_STEPS, _TENSION_RATE = 8, 20.0
_BLOCK_CELLS = 1 << 17
_CHUNK_CELLS = 1 << 22
_MAPPED_CELLS = 1 << 26


@dataclass(frozen=True)
class NumberedWords:
    """One language's words as numbers below `size`: those of sentence i are
    ``words[offsets[i]:offsets[i] + lengths[i]]``.
    """

    words: Int32s
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
        """The number of its cells."""
        return len(self.rows) * self.S * self.T


@dataclass(frozen=True)
class Cells:
    """All cells of a bitext: `types[c]` is the pair of word types of cell c, and pair k is of words
    ``src_of[k]`` and ``tgt_of[k]``. Where there are very many, `work` is the folder of their files
    (None: they are in memory).
    """

    blocks: list[CellBlock]
    types: Int32s
    src_of: Int32s
    tgt_of: Int32s
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
        if many:
            path = work / f"codes-{len(found)}.npy"
            np.save(path, codes)
            codes = np.load(path, mmap_mode="r")
        found.append(codes)
    pairs = _union(found)
    for chunk, codes in zip(chunks(blocks), found, strict=True):
        part = slice(chunk[0].cell, chunk[-1].cell + chunk[-1].n_cells)
        types[part] = np.searchsorted(pairs, codes).astype(np.int32)[types[part]]
    sides = np.empty((2, len(pairs)), np.int32)
    np.floor_divide(pairs, tgt.size, out=sides[0], casting="unsafe")
    np.remainder(pairs, tgt.size, out=sides[1], casting="unsafe")
    return Cells(blocks, types, sides[0], sides[1], work if many else None)


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


class DirectedModel:
    """One direction: every word of the *explained* side is drawn from a word of the other side, or
    from nothing (the null word).

    `axis` is that of the explaining side in a block: 1 explains target words (the forward
    direction), 2 explains source words. With `released` the tension is estimated as the authors'
    program does, with its two slips (`found_closeness`, `expected_closeness`).
    """

    def __init__(
        self, cells: Cells, src: NumberedWords, tgt: NumberedWords, axis: int, *, released: bool
    ) -> None:
        self.cells, self.axis, self.released = cells, axis, released
        self.explained, self.explaining = (tgt, src) if axis == 1 else (src, tgt)
        self.given = cells.src_of if axis == 1 else cells.tgt_of
        self.tension = TENSION
        self.lexicon = cells.numbers(f"lexicon-{axis}", 1.0)
        self.counts = cells.numbers(f"counts-{axis}", 0.0)
        self.null_lexicon = np.ones(self.explained.size)

    def links(self) -> tuple[Int32s, Int32s, Int32s]:
        """(sentence pair, source position, target position) of each link, after all iterations."""
        for iteration in range(ITERATIONS - 1):
            self._iterate(optimize_tension=iteration > 0)
        found: tuple[list[Int32s], ...] = ([], [], [])
        for block in self.cells.blocks:
            for parts, part in zip(found, self._best(block), strict=True):
                parts.append(part)
        rows, src, tgt = map(_end_to_end, found)
        return rows, src, tgt

    def _iterate(self, *, optimize_tension: bool) -> None:
        """One pass: expected counts, then the lexicon, and the tension where it is optimised."""
        counts, null_counts = self.counts, np.zeros_like(self.null_lexicon)
        counts[:] = 0.0
        feature, released = 0.0, self.released
        for chunk in chunks(self.cells.blocks):
            start, stop = chunk[0].cell, chunk[-1].cell + chunk[-1].n_cells
            posterior = np.empty(stop - start)
            null_words, null_weights = [], []
            for block in chunk:
                p, null, words = self._posterior(block)
                posterior[block.cell - start : block.cell - start + block.n_cells] = p.ravel()
                near = found_closeness(block.S, block.T, self.axis - 1, released=released)
                feature += float((p.sum(axis=0) * near).sum())
                null_words.append(words.ravel())
                null_weights.append(null.ravel())
            _count(counts, self.cells.types[start:stop], posterior)
            _count(null_counts, np.concatenate(null_words), np.concatenate(null_weights))
        if optimize_tension:
            self._optimize_tension(feature)
        self._maximize(counts, null_counts)

    def _posterior(self, block: CellBlock) -> tuple[Floats, Floats, Int32s]:
        """Of a block: each cell's share (n, S, T) in its explained word, the null word's share, and
        the explained words, both (n, T) or (n, S).
        """
        p, null, words = self._joint(block)
        total = p.sum(axis=self.axis) + null
        p /= np.expand_dims(total, self.axis)
        return p, null / total, words

    def _joint(self, block: CellBlock) -> tuple[Floats, Floats, Int32s]:
        n, S, T = len(block.rows), block.S, block.T
        p = self.lexicon[self.cells.types[block.cell : block.cell + block.n_cells]].reshape(n, S, T)
        p *= (1 - NULL) * diagonal_prior(S, T, self.tension, self.axis - 1)
        words = self.explained.words[
            positions(self.explained, block.rows, T if self.axis == 1 else S)
        ]
        return p, NULL * self.null_lexicon[words], words

    def _best(self, block: CellBlock) -> tuple[Int32s, Int32s, Int32s]:
        """The most probable explanation of each word; ties go to the null word, then the first."""
        p, null, _ = self._joint(block)
        best = p.argmax(axis=self.axis)
        has_link = (
            np.take_along_axis(p, np.expand_dims(best, self.axis), self.axis).squeeze(self.axis)
            > null
        )
        pair, linked = np.nonzero(has_link)
        rows = block.rows[pair].astype(np.int32)
        explaining, explained = best[pair, linked].astype(np.int32), linked.astype(np.int32)
        return (rows, explaining, explained) if self.axis == 1 else (rows, explained, explaining)

    def _maximize(self, counts: Floats, null_counts: Floats) -> None:
        """The lexicon from expected counts: its mean under a Dirichlet prior, as variational Bayes
        has it.
        """
        totals = np.zeros(self.explaining.size)
        for part in _parts(len(counts)):
            np.add.at(totals, self.given[part], counts[part] + ALPHA)
        from scipy.special import digamma

        with np.errstate(divide="ignore"):
            of_totals = digamma(totals)
            for part in _parts(len(counts)):
                self.lexicon[part] = np.exp(
                    digamma(counts[part] + ALPHA) - of_totals[self.given[part]]
                )
            present = null_counts + ALPHA
            self.null_lexicon = np.exp(digamma(present) - digamma(present.sum()))

    def _optimize_tension(self, feature: float) -> None:
        """Steps along the gradient of the expected log prior: the mean closeness found, less the
        one that the prior expects (section 3.2).
        """
        n_words = int(self.explained.lengths.sum())
        shapes: dict[tuple[int, int], int] = {}
        for block in self.cells.blocks:
            shapes[block.S, block.T] = shapes.get((block.S, block.T), 0) + len(block.rows)
        axis, released = self.axis - 1, self.released
        for _ in range(_TENSION_STEPS):
            expected = sum(
                n * expected_closeness(S, T, self.tension, axis, released=released)
                for (S, T), n in shapes.items()
            )
            step = _TENSION_RATE * (feature - expected) / n_words
            self.tension = min(max(self.tension + step, _TENSION_RANGE[0]), _TENSION_RANGE[1])


def _parts(size: int) -> Iterator[slice]:
    """Parts of a long array, so that what is computed of it on the way takes little memory."""
    return (slice(start, start + _PART) for start in range(0, size, _PART))


def _end_to_end(parts: list[Int32s]) -> Int32s:
    """All parts in one array; they are given up."""
    found: Int32s = np.concatenate([np.zeros(0, np.int32), *parts])
    parts.clear()
    return found


def _count(counts: Floats, numbers: Int32s, weights: Floats) -> None:
    """Add weights to the counts of their numbers. `bincount`, the faster, copies `counts`."""
    if len(counts) > len(numbers):
        np.add.at(counts, numbers, weights)
    else:
        counts += np.bincount(numbers, weights, len(counts))


def diagonal_prior(S: int, T: int, tension: float, axis: int) -> Floats:
    """(S, T) shares, proportional to ``exp(-tension * |s/S - t/T|)`` with positions from 1, that
    sum to 1 along `axis` (equation 1).
    """
    shares = np.exp(tension * _closeness(S, T))
    normal: Floats = shares / shares.sum(axis=axis, keepdims=True)
    return normal


def _closeness(S: int, T: int) -> Floats:
    closeness: Floats = -np.abs(np.arange(1, S + 1)[:, None] / S - np.arange(1, T + 1) / T)
    return closeness


def found_closeness(S: int, T: int, axis: int, *, released: bool) -> Floats:
    """(S, T) closeness of the positions that links are counted at, where `axis` is that of the
    explaining side.

    The program numbers the explained word from 0 here, and from 1 everywhere else.
    """
    if not released:
        return _closeness(S, T)
    source, target = (
        (np.arange(1, S + 1), np.arange(T)) if axis == 0 else (np.arange(S), np.arange(1, T + 1))
    )
    closeness: Floats = -np.abs(source[:, None] / S - target / T)
    return closeness


def expected_closeness(S: int, T: int, tension: float, axis: int, *, released: bool) -> float:
    """The closeness that the prior expects, summed over the explained words of one sentence pair.

    The program divides by the normaliser of a sentence pair of swapped lengths.
    """
    closeness = _closeness(S, T)
    if not released:
        return float((diagonal_prior(S, T, tension, axis) * closeness).sum())
    explaining, explained = (S, T) if axis == 0 else (T, S)
    weighted = (np.exp(tension * closeness) * closeness).sum(axis=axis)
    return float((weighted / _swapped_normalizer(explaining, explained, tension)).sum())


def _swapped_normalizer(explaining: int, explained: int, tension: float) -> Floats:
    """(explained,) the program's normaliser with the two lengths swapped: position i of
    `explaining` words, explained by `explained` ones.

    Both sides of the diagonal are geometric series. Positions beyond `explaining` leave a negative
    number of terms above the diagonal, which is a huge one in the program's unsigned numbers: all
    terms of the infinite series.
    """
    position = np.arange(1, explained + 1)
    below = position * explained // explaining
    above = np.where(below > explained, np.inf, explained - below)
    ratio = np.exp(-tension / explained)
    diagonal = position / explaining
    lower = np.exp(-tension * np.abs(below / explained - diagonal)) * (1 - ratio**below)
    upper = np.exp(-tension * np.abs((below + 1) / explained - diagonal)) * (1 - ratio**above)
    normalizer: Floats = (lower + upper) / (1 - ratio)
    return normalizer


class FastAlign(WordAligner):
    """IBM model 2 whose distortion is one parameter, the tension towards the diagonal, estimated
    with the lexicon.

    The same sentences give the same links, always, with any number of threads (two are of use: one
    per direction).

    Data: the sentence pairs alone; the more, the better.

    Reference: Dyer, Chahuneau & Smith 2013, A Simple, Fast, and Effective Reparameterization of IBM
    Model 2.

    Relations: The quickest; `thot` and `eflomal` link fewer words wrongly. `simalign` and
    `awesome_align` need no sentence pairs to learn from.

    Example:
        pairs:
          aligner: fast_align
          symmetrization: grow-diag-final-and
          one_to_one: true
    """

    VERSION: ClassVar[int] = 1
    papers = ("dyer2013",)

    class Params(WordAligner.Params):
        """The defaults are the paper's settings.

        `profile: released` estimates the tension as the authors' program does with `-o`. That
        counts positions of explained words from 0 where it looks at what was found, and divides
        what the prior expects by the normaliser of swapped lengths. The tension comes out lower for
        it (5.0 in place of 13.2 on 8,447 pairs of English and French). `sane` follows the paper's
        equations.
        """

        lowercase: bool = Field(True, description=WordAligner.LOWERCASE)
        profile: Literal["released", "sane"] = "sane"
        """How the tension is estimated: by the paper's equations (`sane`), or as the authors'
        program does (`released`).
        """

        removed: ClassVar = {
            "iterations": Removed("leave it out: there are 5 passes", ITERATIONS),
            "null": Removed("leave it out: the prior of no link is 0.08", NULL),
            "tension": Removed("leave it out: the tension is estimated", TENSION),
            "optimize_tension": Removed("leave it out: the tension is estimated", True),
            "alpha": Removed("leave it out: the lexicon's prior is 0.01", ALPHA),
        }

        def identity(self) -> dict[str, Any]:
            """Return the options, without the profile at its default."""
            every = super().identity().items()
            return {name: value for name, value in every if (name, value) != ("profile", "sane")}

    params: Params

    def align(
        self, src: Sequence[Sequence[str]], tgt: Sequence[Sequence[str]], inputs: AlignerInputs
    ) -> tuple[Links, Links]:
        """Both directions' most probable links; positions of one sentence pair are sorted by
        source, then target.
        """
        if not len(src):
            return Links.of([]), Links.of([])
        source, target = self._side(Words.of(src)), self._side(Words.of(tgt))
        inputs.work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fast_align-", dir=inputs.work) as scratch:
            cells = make_cells(source, target, Path(scratch))
            released = self.params.profile == "released"
            directions = [
                DirectedModel(cells, source, target, axis, released=released) for axis in (1, 2)
            ]
            with ThreadPoolExecutor(max_workers=min(2, max(1, inputs.threads))) as pool:
                forward, reverse = pool.map(DirectedModel.links, directions)
        return _compact(forward, len(src)), _compact(reverse, len(src))

    def _side(self, words: Words) -> NumberedWords:
        numbers, size = words.folded(lowercase=self.params.lowercase)
        return NumberedWords(numbers, words.offsets[:-1], words.lengths, size)


def _compact(links: tuple[Int32s, Int32s, Int32s], n: int) -> Links:
    rows, src, tgt = links
    order = np.lexsort((tgt, src, rows))
    offsets = offsets_of(np.bincount(rows, minlength=n))
    return Links(offsets, src[order], tgt[order])
