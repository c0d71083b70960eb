"""Exact nearest neighbours between two sets of vectors, in both directions, block by block.

CSLS costs one matrix product and keeps no similarities. The first pass finds the k nearest of
every vector, and the largest similarity to each group of neighbouring candidates. When the hubness
terms are known, a second pass compares the best of the nearest with a bound of what each group
can score, and computes only groups again that can still win. Most queries have none. Where vectors
crowd so closely that no bound excludes a group, this costs another product. Scores that divide by
terms of both sides have no such bound. On several threads of a CPU, lanes walk
over blocks of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import Barrier, Lock
from typing import Any

from raxalign.lazy import np, torch
from raxalign.similarity.measures import MEASURES, TEMPERATURE, Measure, Terms

_MOST = 4
"""Lanes, so that their blocks stay large in the same memory."""

_WORK = 2**30
"""Multiplications below which one lane is as fast."""

_OPENING = Lock()
"""Held while the default number of threads is another, which others would take for theirs."""


def lanes_for(x: torch.Tensor, y: torch.Tensor) -> int:
    """Return how many lanes work on the products of two sets of vectors (n, d) and (m, d): a number
    that divides the calling thread's number of PyTorch threads, and 1 on a GPU.
    """
    if x.device.type != "cpu" or x.numel() * len(y) < _WORK:
        return 1
    threads = _own_threads()
    return next(lanes for lanes in range(_MOST, 0, -1) if threads % lanes == 0)


def _own_threads() -> int:
    """Return the calling thread's number, which is the default's where it has not asked before."""
    with _OPENING:
        return torch.get_num_threads()


@contextmanager
def opened(lanes: int) -> Iterator[Callable[[Sequence[Callable[[], Any]]], list[Any]]]:
    """Yield a function that runs some jobs in lanes and returns their results, or raises the error
    of the first one that failed. One lane is the caller's own thread; several share its PyTorch
    threads and have its modes of autograd.

    A number of threads that is set in one thread becomes the default of new ones. So the default is
    set again at once, in another thread, and the caller's own number is never touched.
    """
    if lanes == 1:
        yield lambda jobs: [job() for job in jobs]
        return
    threads = max(1, _own_threads() // lanes)
    inference, grad = torch.is_inference_mode_enabled(), torch.is_grad_enabled()

    def begin(all_there: Barrier) -> None:
        torch.get_num_threads()  # otherwise the first operation would set the default again
        torch.set_num_threads(threads)
        all_there.wait()

    def run(job: Callable[[], Any]) -> Any:
        with torch.inference_mode(inference), torch.set_grad_enabled(grad):
            return job()

    with ThreadPoolExecutor(lanes, "similarity") as pool:
        with _OPENING, ThreadPoolExecutor(1) as other:
            default = other.submit(torch.get_num_threads).result()
            list(pool.map(begin, [Barrier(lanes)] * lanes))
            other.submit(torch.set_num_threads, default).result()
        yield lambda jobs: list(pool.map(run, jobs))


def walk(
    rows: Sequence[int], columns: Sequence[int], visit: Callable[[int, int, int], None], lanes: int
) -> None:
    """Visit every cell of a grid, some cells at a time, none of them in one row or one column:
    `visit` is called with the number of a lane, a row, and a column. Each row is of one lane, each
    further lane begins one column later, and the order of the visits to each row and column is the
    same in every run. Raises the error of a visit, after which no other one begins.
    """
    lanes = min(lanes, len(columns))
    with opened(lanes) as run:
        for start in range(0, len(rows), lanes):
            for turn in range(len(columns)):
                cells = [
                    (lane, row, columns[(turn + lane) % len(columns)])
                    for lane, row in enumerate(rows[start : start + lanes])
                ]
                run([partial(visit, *cell) for cell in cells])


@dataclass(frozen=True)
class Tiling:
    """How the work is cut, which changes no result beyond rounding: `block_bytes` of similarities
    are in memory at once; the largest of a `row_group` of neighbouring columns, and of a
    `column_group` of rows, shows where the nearest of a row or a column are; of at least a
    `wide_group` of candidates it is kept for the second pass, in at most `peak_bytes`.
    """

    block_bytes: int = 128 * 2**20
    row_group: int = 32
    column_group: int = 16
    wide_group: int = 128
    peak_bytes: int = 256 * 2**20

    def wide(self, rows: int, columns: int) -> int:
        """Return the number of vectors in a wide group, a multiple of the others."""
        least = -(-8 * rows * columns // self.peak_bytes)  # two sides in float32
        return _rounded_up(max(self.wide_group, least), math.lcm(self.row_group, self.column_group))

    def block(self, rows: int, columns: int, itemsize: int, lanes: int = 1) -> tuple[int, int]:
        """Return the rows and columns of a block, multiples of the wide groups; a block has about
        twice as many rows as columns, since values are read faster from a row than from a column.
        Each lane has a block in memory, and as many rows of blocks as the others.
        """
        fit = self.block_bytes // itemsize
        high = _largest_part(rows, max(math.isqrt(2 * fit), fit // columns), lanes)
        wide = _largest_part(columns, min(fit // (lanes * high), -(-columns // lanes)))
        group = self.wide(rows, columns)
        return _rounded_up(high, group), _rounded_up(wide, group)


def _largest_part(size: int, most: int, unit: int = 1) -> int:
    """Return the largest part of `size` cut into the fewest equal parts, a multiple of `unit`."""
    return -(-size // _rounded_up(-(-size // max(1, most)), unit))


def _rounded_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


@dataclass(frozen=True)
class ScaledVectors:
    """One set of `vectors` (n, d), the factors by which they are multiplied a few at a time,
    `scale` (n,), and as queries where these differ, `query_scale`, and their numbers in some
    `order` (n,).
    """

    vectors: torch.Tensor
    scale: torch.Tensor
    order: torch.Tensor
    query_scale: torch.Tensor | None = None

    @classmethod
    def of(cls, vectors: torch.Tensor, scaling: str = "none") -> ScaledVectors:
        """Return vectors in the order in which they are given, with the factors of a measure."""
        scale, query_scale = vectors.new_ones(len(vectors)), None
        if scaling in ("unit", "released_cao"):
            norms = torch.linalg.vector_norm(vectors, dim=1)
            # A zero vector has cosine 0 with everything.
            scale = torch.where(norms > 0, 1 / norms, torch.zeros_like(norms))
        if scaling == "released_cao":
            # Matrices of Frobenius norm 1 in hubness terms, and queries of norm 1.
            tiny = torch.finfo(vectors.dtype).tiny
            whole = 1 / torch.linalg.matrix_norm(vectors).clamp_min(tiny)
            scale, query_scale = whole.expand(len(vectors)), scale
        return cls(vectors, scale, torch.arange(len(vectors), device=vectors.device), query_scale)

    def __len__(self) -> int:
        return len(self.vectors)

    def take(self, places: slice | torch.Tensor) -> torch.Tensor:
        """Return the scaled vectors at some places."""
        return self._scaled(places, self.scale)

    def queries(self, places: torch.Tensor) -> torch.Tensor:
        """Return the vectors at some places, scaled as queries."""
        return self._scaled(places, self.scale if self.query_scale is None else self.query_scale)

    def _scaled(self, places: slice | torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        numbers = self.order[places]
        return self.vectors.index_select(0, numbers).mul_(scale[numbers, None])

    def query_factors(self) -> torch.Tensor:
        """Return similarities of queries over those of the vectors otherwise, for each place."""
        if self.query_scale is None:
            return torch.ones_like(self.scale)
        return (self.query_scale / self.scale)[self.order]

    def by_nearness(self, other: ScaledVectors) -> ScaledVectors:
        """Return the vectors in the order of their similarity to the mean of another side."""
        mean = other.scale @ other.vectors / len(other)
        return replace(self, order=(self.vectors @ mean * self.scale).argsort(stable=True))


def first_twin(vectors: torch.Tensor) -> torch.Tensor:
    """Return for every row (n,) the lowest index of an identical row, since a product may round
    them differently. Whole rows are compared only where their first values are equal.
    """
    index = torch.arange(len(vectors), device=vectors.device)
    _, inverse, counts = torch.unique(vectors[:, 0], return_inverse=True, return_counts=True)
    alike = (counts[inverse] > 1).nonzero()[:, 0]
    if len(alike):
        _, inverse = torch.unique(vectors[alike], dim=0, return_inverse=True)
        firsts = torch.full_like(alike, len(index)).scatter_reduce_(0, inverse, alike, "amin")
        index[alike] = firsts[inverse]
    return index


_CACHED = 2**20
"""Bytes of similarities that stay in the cache of a core."""

_READ = 4096
"""Vectors whose groups are read at once."""


@dataclass(frozen=True)
class Nearest:
    """What one product says of the similarities between one side's n vectors and the other's: the
    `values` and the `places` of the k nearest of the other side in its order (n, k), and the
    `peaks`, the largest similarity to each `group` of so many neighbouring vectors of the other
    side (groups, n).
    """

    values: torch.Tensor
    places: torch.Tensor
    peaks: torch.Tensor
    group: int

    def add(self, grouped: torch.Tensor, peaks: torch.Tensor, first: int, other: int) -> None:
        """Take in the similarities `grouped` of some neighbouring vectors (vectors, groups, group)
        and the `peaks` of the groups (vectors, groups); `first` is the place of the first vector,
        and `other` that of the first vector of the other side.
        """
        narrow = grouped.shape[2]
        wide = peaks.view(len(peaks), -1, self.group // narrow).amax(2)
        start = other // self.group
        self.peaks[start : start + wide.shape[1], first : first + len(wide)] = wide.T
        k, rows = self.values.shape[1], torch.arange(_READ, device=peaks.device)[:, None]
        for begin in range(0, len(peaks), _READ):
            part = peaks[begin : begin + _READ]
            here = slice(first + begin, first + begin + len(part))
            values, places = self.values[here], self.places[here]
            _, groups = _largest(part, min(k, part.shape[1]))
            read = grouped[begin : begin + _READ][rows[: len(part)], groups].flatten(1)
            best, chosen = _largest(torch.cat([values, read], 1), k)
            is_new, known = chosen >= k, places.gather(1, chosen.clamp(max=k - 1))
            chosen = (chosen - k).clamp_(min=0)
            found = groups.gather(1, chosen // narrow).mul_(narrow)
            found.add_(chosen % narrow + other)
            self.values[here], self.places[here] = best, torch.where(is_new, found, known)


def _largest(values: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest values of every row and their columns, in any order; of equal ones the
    first where k is 1. NumPy selects three times as fast as PyTorch does on a CPU.
    """
    if k == 1:
        columns = values.argmax(1, keepdim=True)
    elif values.device.type == "cpu":
        columns = torch.from_numpy(np.argpartition(values.numpy(), -k, axis=1)[:, -k:])
    else:
        columns = values.topk(k, dim=1, sorted=False).indices
    return values.gather(1, columns), columns


def nearest_both(
    x: ScaledVectors,
    y: ScaledVectors,
    k: int,
    tiling: Tiling,
    penalties: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[Nearest, Nearest]:
    """Return the k nearest of every row (n vectors `x`) among the columns (m vectors `y`), and of
    every column among the rows; all of them where there are fewer.

    `penalties` are what is subtracted from twice the similarity for each row (n,) and each column
    (m,) as a candidate (None: nothing, and the similarity counts once).
    """
    n, m, g, h = len(x), len(y), tiling.row_group, tiling.column_group
    # One lane visits columns in ascending order, so that the first of equals stays.
    lanes = 1 if k == 1 else lanes_for(x.vectors, y.vectors)
    rows, columns = tiling.block(n, m, x.vectors.element_size(), lanes)
    space, group = x.vectors.new_empty(lanes, rows * columns), tiling.wide(n, m)
    sizes = ((n, m), (m, n))
    ahead, back = (_none_yet(own, other, min(k, other), group, space) for own, other in sizes)

    def visit(lane: int, top: int, left: int) -> None:
        some = x.take(slice(top, top + rows))
        others = y.take(slice(left, left + columns))
        block = _padded_product(some, others, space[lane], group)
        in_rows, in_columns = _scores(block, penalties, top, left)
        row_peaks, column_peaks = _maxima(in_rows, in_columns, g, h)
        grouped_rows = in_rows.view(len(block), -1, g)
        grouped_columns = in_columns.view(-1, h, block.shape[1]).permute(2, 0, 1)
        ahead.add(grouped_rows[: len(some)], row_peaks[: len(some)], top, left)
        back.add(grouped_columns[: len(others)], column_peaks.T[: len(others)], left, top)

    walk(range(0, n, rows), range(0, m, columns), visit, lanes)
    return ahead, back


def _none_yet(n: int, m: int, k: int, group: int, like: torch.Tensor) -> Nearest:
    values = like.new_full((n, k), -math.inf)
    places = torch.zeros((n, k), dtype=torch.int64, device=like.device)
    return Nearest(values, places, like.new_empty(-(-m // group), n), group)


def _padded_product(
    some: torch.Tensor, others: torch.Tensor, space: torch.Tensor, group: int
) -> torch.Tensor:
    """Return a block in `space`, rounded up to whole groups; padding is never near."""
    shape = -(-len(some) // group) * group, -(-len(others) // group) * group
    block = space[: shape[0] * shape[1]].view(shape)
    block[len(some) :], block[:, len(others) :] = -math.inf, -math.inf
    torch.mm(some, others.T, out=block[: len(some), : len(others)])
    return block


def _scores(
    block: torch.Tensor, penalties: tuple[torch.Tensor, torch.Tensor] | None, top: int, left: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a block's scores of the columns for each row, and of the rows for each column."""
    if penalties is None:
        return block, block
    (height, width), (of_rows, of_columns) = block.shape, penalties
    block.mul_(2)
    for_rows = block - _padded(of_columns[left : left + width], width)
    return for_rows, block - _padded(of_rows[top : top + height], height)[:, None]


def _padded(values: torch.Tensor, size: int) -> torch.Tensor:
    return torch.nn.functional.pad(values, (0, size - len(values)))


def _maxima(
    in_rows: torch.Tensor, in_columns: torch.Tensor, g: int, h: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maxima of groups of g neighbouring columns (rows, groups) and of h neighbouring
    rows (groups, columns); a CPU reads a few rows at a time, the second from its cache.
    """
    rows, width = in_rows.shape
    row_peaks = in_rows.new_empty(rows, width // g)
    column_peaks = in_rows.new_empty(rows // h, width)
    groups = rows // h
    if in_rows.device.type == "cpu":
        groups = max(1, _CACHED // (h * width * in_rows.element_size()))
    for top in range(0, rows, groups * h):
        here, there = slice(top, top + groups * h), slice(top // h, top // h + groups)
        torch.amax(in_rows[here].view(-1, width // g, g), 2, out=row_peaks[here])
        torch.amax(in_columns[here].view(-1, h, width), 1, out=column_peaks[there])
    return row_peaks, column_peaks


def nearest_normalised(
    x: ScaledVectors, y: ScaledVectors, penalty: str, k: int, temperature: float, tiling: Tiling
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the nearest y of every x (n,) and the nearest x of every y (m,) by `margin`, `softmax`
    or `sinkhorn`, the first of equals.
    """
    if penalty == "margin":
        ahead, back = nearest_both(x, y, k, tiling)
        of_x, of_y = ahead.values.mean(1), back.values.mean(1)
    elif penalty == "softmax":
        of_x, of_y = _sums(x, y, temperature, tiling)
    else:
        of_x, of_y = (
            Terms.transport(partial(_products, *sides, tiling), temperature)
            for sides in ((y, x), (x, y))
        )
    forward = torch.zeros(len(x), dtype=torch.int64, device=x.vectors.device)
    backward = torch.zeros(len(y), dtype=torch.int64, device=x.vectors.device)
    best_M = of_y.new_full((len(y),), -torch.inf)
    for rows, products in _blocks(x, y, tiling):
        if penalty == "margin":
            for_x = for_y = Terms(of_y, of_x).applied(products, rows)
        else:
            for_x, for_y = products - of_y, products - of_x[rows, None]
        forward[rows] = for_x.argmax(1)
        peaks_M, places_M = for_y.max(0)
        backward = torch.where(peaks_M > best_M, places_M + rows.start, backward)
        best_M = torch.maximum(best_M, peaks_M)
    return forward, backward


def _sums(
    x: ScaledVectors, y: ScaledVectors, temperature: float, tiling: Tiling
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return T log Σ exp(s / T) over all similarities of each x (n,) and of each y (m,)."""
    of_x, of_y = [], x.vectors.new_full((len(y),), -torch.inf)
    for _, products in _blocks(x, y, tiling):
        products /= temperature
        of_x.append(products.logsumexp(1))
        of_y = torch.logaddexp(of_y, products.logsumexp(0))
    return temperature * torch.cat(of_x), temperature * of_y


def _products(x: ScaledVectors, y: ScaledVectors, tiling: Tiling) -> Iterator[torch.Tensor]:
    return (products for _, products in _blocks(x, y, tiling))


def _blocks(
    x: ScaledVectors, y: ScaledVectors, tiling: Tiling
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield the similarities of some x to all y, with the places of these."""
    rows = max(1, tiling.block_bytes // (4 * x.vectors.element_size() * len(y)))
    others = y.take(slice(None))
    for start in range(0, len(x), rows):
        here = slice(start, min(start + rows, len(x)))
        yield here, x.take(here) @ others.T


def nearest_neighbors(
    source: torch.Tensor,
    target: torch.Tensor,
    *,
    measure: Measure = "csls",
    k: int = 10,
    temperature: float = TEMPERATURE,
    tiling: Tiling | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return for every source vector its nearest target vector, and for every target vector its
    nearest source vector.

    A k above the number of vectors means all of them. Ties go to the lower index; identical
    candidates always tie, other ties hold up to rounding.

    Vectors are float (n, d) and (m, d), on one device, normalised or not; half precision is
    computed in float32. `k` is the number of nearest vectors in a hubness term, `temperature` that
    of `inverted_softmax` and `sinkhorn`; `tiling` is for tests and tuning. Returns int64 (n,)
    indices into `target` and int64 (m,) indices into `source`.

    Raises `ValueError` for shapes, devices or dtypes that do not go together, a side without
    vectors, values that are not finite, an unknown measure, or a temperature of 0 or less.
    """
    _check(source, target, measure, k)
    if temperature <= 0:
        raise ValueError(f"temperature is {temperature}: choose one above 0")
    with torch.no_grad():
        if source.dtype in (torch.float16, torch.bfloat16):
            source, target = source.float(), target.float()
        options = measure, k, temperature, tiling or Tiling()
        forward, backward = _search(source, target, *options)
        return first_twin(target)[forward], first_twin(source)[backward]


def _search(
    source: torch.Tensor,
    target: torch.Tensor,
    measure: Measure,
    k: int,
    temperature: float,
    tiling: Tiling,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the nearest target of every source vector and the nearest source of every target."""
    definition = MEASURES[measure]
    if definition.scaling == "centered":
        center = target.mean(0)
        source, target = source - center, target - center
    x, y = (ScaledVectors.of(vectors, definition.scaling) for vectors in (source, target))
    if definition.penalty in ("margin", "softmax", "sinkhorn"):
        return nearest_normalised(x, y, definition.penalty, k, temperature, tiling)
    if definition.penalty == "hubness":
        # Vectors that are alike near to the other side's mean have hubness terms that are alike, so
        # that the bounds of groups of them are tight.
        x, y = x.by_nearness(y), y.by_nearness(x)
        rows, columns = nearest_both(x, y, k, tiling)
        sides = ((x, y, rows, columns.values.mean(1)), (y, x, columns, rows.values.mean(1)))
        with opened(lanes_for(x.vectors, y.vectors)) as run:
            forward, backward = run([partial(best_candidates, *side) for side in sides])
        return forward, backward
    squares = None
    if definition.penalty == "square":
        squares = source.square().sum(1), target.square().sum(1)
    rows, columns = nearest_both(x, y, 1, tiling, squares)
    return rows.places[:, 0], columns.places[:, 0]


def best_candidates(
    queries: ScaledVectors, candidates: ScaledVectors, nearest: Nearest, penalties: torch.Tensor
) -> torch.Tensor:
    """Return for every query (n,), by its number, the number of the candidate with the largest
    2 s - penalty, the first of equals.

    The best of a query's nearest comes first. Of other candidates, none of a group scores above
    twice the group's peak, or the similarity of the last of the nearest, less its smallest penalty.
    Groups are computed again whose bound reaches the best score: first the one with the largest.
    `penalties` (m,) are subtracted for each candidate, by its place.
    """
    double, group = 2 * queries.query_factors(), nearest.group
    best = _Best(queries, candidates, penalties, nearest, double)
    bounds_GN = torch.minimum(nearest.peaks, nearest.values.amin(1)).mul_(double)
    padded = torch.nn.functional.pad(penalties, (0, -len(penalties) % group), value=math.inf)
    bounds_GN -= padded.view(-1, group).amin(1)[:, None]
    # A product may round one similarity differently from another product.
    lowest, highest = bounds_GN.aminmax()
    bounds_GN += torch.maximum(-lowest, highest) * (16 * torch.finfo(bounds_GN.dtype).eps)
    open_O = (bounds_GN.amax(0) >= best.scores).nonzero()[:, 0]
    if len(open_O):
        bounds_GO = bounds_GN[:, open_O]
        first_O = bounds_GO.argmax(0)
        counts = torch.bincount(first_O, minlength=len(bounds_GO)).tolist()
        for number, some in enumerate(torch.split(first_O.argsort(), counts)):
            best.look(open_O[some], number * group, group)
        bounds_GO.scatter_(0, first_O[None], -math.inf)
        for number, bounds_O in enumerate(bounds_GO):
            best.look(open_O[bounds_O >= best.scores[open_O]], number * group, group)
    return torch.empty_like(best.numbers).scatter_(0, queries.order, best.numbers)


class _Best:
    """The best candidate of every query so far, by the query's place: its score and its number. At
    first it is the best of the query's nearest; `double` is twice the query's factor.
    """

    def __init__(
        self,
        queries: ScaledVectors,
        candidates: ScaledVectors,
        penalties: torch.Tensor,
        nearest: Nearest,
        double: torch.Tensor,
    ) -> None:
        self.queries, self.candidates, self.penalties = queries, candidates, penalties
        scores = nearest.values * double[:, None] - penalties[nearest.places]
        self.scores, numbers = scores.amax(1), candidates.order[nearest.places]
        equal = scores == self.scores[:, None]
        self.numbers = torch.where(equal, numbers, len(candidates)).amin(1)

    def look(self, some: torch.Tensor, start: int, count: int) -> None:
        """Look at some neighbouring candidates for some queries, given by their places."""
        if not len(some):
            return
        here = slice(start, start + count)
        scores = self.queries.queries(some) @ self.candidates.take(here).T
        peaks, places = scores.mul_(2).sub_(self.penalties[here]).max(1)
        numbers = self.candidates.order[here][places]
        before, known = self.scores[some], self.numbers[some]
        better = (peaks > before) | ((peaks == before) & (numbers < known))
        self.scores[some] = torch.where(better, peaks, before)
        self.numbers[some] = torch.where(better, numbers, known)


def _check(source: torch.Tensor, target: torch.Tensor, measure: str, k: int) -> None:
    if measure not in MEASURES:
        raise ValueError(f"unknown measure {measure!r}: choose one of {', '.join(MEASURES)}")
    if k < 1:
        raise ValueError(f"k is {k}: a hubness term needs at least one neighbour")
    if source.ndim != 2 or target.ndim != 2 or source.shape[1] != target.shape[1]:
        raise ValueError(
            f"shapes {tuple(source.shape)} and {tuple(target.shape)}: both sides must be (vectors,"
            " dimensions) with equal dimensions"
        )
    kinds = [(side.dtype, side.device) for side in (source, target)]
    if not source.is_floating_point() or kinds[0] != kinds[1]:
        raise ValueError(
            f"{source.dtype} on {source.device} and {target.dtype} on {target.device}: both sides"
            " must be of one float type and on one device"
        )
    for name, side in (("source", source), ("target", target)):
        if not len(side):
            raise ValueError(f"{name} has no vectors, so the other side has no neighbours")
        # Norms show it ten times as fast, unless they are too large themselves.
        norms = torch.linalg.vector_norm(side, dim=1)
        if not torch.isfinite(norms).all() and not all(
            torch.isfinite(part).all() for part in torch.split(side, 4096)
        ):
            raise ValueError(f"{name} has values that are NaN or infinite")
