"""A metric as a curve over the number of sentence pairs, and what such curves say: a value at any
size, how much data one method is worth in data of another, where two cross, and what more data
would bring.

With n sentence pairs, and n_1 the smallest number that was run, a curve is

    f(n) = level + slope * (1 - (n / n_1)^-bend) / bend,

a power law that saturates, with 0 <= bend <= 2; at bend 0 it is level + slope * log(n / n_1). Three
sizes cannot show a bend, and get the latter. The sizes' means over runs are fitted by least squares
with their numbers of runs as weights. Near the fit the value of a curve is a weighted sum of these
means, so that its noise is that of `analysis.significance`: examples, which all sizes and methods
share, and training runs, whose variance is taken to be one at all sizes of a curve; for languages
like these, that of `analysis.power.LanguageSample`. Sizes between which two curves do not differ
are the interval of a size (Fieller 1954).

`benchmarks/curves.py` shows by simulation how often intervals hold the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

from raxalign.analysis.power import LanguageSample, LanguageSpread
from raxalign.analysis.significance import LEVEL, Noise, Runs, Spread, TrainedSide, holm
from raxalign.arrays import Floats
from raxalign.lazy import np

_BENDS = (0.0, 2.0, 81)  # ends and number of the bends that are tried
_FARTHEST, _PLACES = 4.0, 120
"""How far beyond the sizes that were run a curve is drawn and searched, as a factor, and at how
many places.
"""
_NEVER = 100.0  # the logarithm of a factor that no data grows by
_ROUNDING = 1e-9  # a curve through means of 1 may be that much above it


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % confidence interval, and `wide` the one for new languages, of which
    these are a sample; None for an end that is beyond what is searched.
    """

    value: float
    low: float | None
    high: float | None
    wide: tuple[float | None, float | None] | None = None

    def as_size(self, what: str = "") -> str:
        """Return a number of sentence pairs, or of `what`, with its intervals, to two digits.

        >>> Estimate(1904.0, 1430.0, None, (900.0, None)).as_size("pairs")
        '1,900 pairs (95 % CI 1,400 or more, new languages 900 or more)'
        """
        told = (
            f"{_rounded(self.value)} {what}".strip() + f" (95 % CI {_around(self.low, self.high)}"
        )
        return told + (f", new languages {_around(*self.wide)})" if self.wide else ")")

    def sides(self, fewer: str, more: str) -> str:
        """Return which of two is better with fewer pairs than this and which with more, as far as
        the interval ends, outside of which they differ significantly.

        >>> Estimate(3200.0, 1000.0, None).sides("rotation", "linear")
        'with fewer than 1,000, rotation is better; with more, no difference is shown'
        """
        if self.low is not None and self.high is not None:
            return f"with more, {more} is better"
        if self.low is not None:
            shown = f"with fewer than {_rounded(self.low)}, {fewer} is better"
            return f"{shown}; with more, no difference is shown"
        if self.high is not None:
            shown = f"with more than {_rounded(self.high)}, {more} is better"
            return f"{shown}; with fewer, no difference is shown"
        return "no difference is shown"


def _rounded(size: float) -> str:
    return f"{float(f'{size:.2g}'):,.0f}"


def _around(low: float | None, high: float | None) -> str:
    first, last = (None if end is None else _rounded(end) for end in (low, high))
    if first and last:
        return f"{first}–{last}"
    return f"{first} or more" if first else f"up to {last}" if last else "unknown"


@dataclass(frozen=True)
class Curve:
    """The curve of one method: the means over runs at its `sizes`, ascending, what was fitted to
    them, and between which `limits` the values of their metric are.
    """

    sizes: tuple[int, ...]
    means: Floats
    runs: Floats  # their numbers
    level: float
    slope: float
    bend: float
    limits: tuple[float, float] = (-math.inf, math.inf)

    FEWEST: ClassVar = 3
    """Sizes, with fewer of which nothing shows whether a curve describes them."""

    @classmethod
    def fit(
        cls,
        sizes: Sequence[int],
        means: Floats,
        runs: Floats,
        limits: tuple[float, float] = (-math.inf, math.inf),
    ) -> Curve:
        """Fit a curve; raises ValueError for fewer than `FEWEST` sizes."""
        if len(sizes) < cls.FEWEST:
            raise ValueError(f"a curve takes at least {cls.FEWEST} sizes")
        free, best = len(sizes) > cls.FEWEST, None
        for bend in np.linspace(*_BENDS) if free else (0.0,):
            basis = np.stack([np.ones(len(sizes)), _grown(_logs(sizes, sizes), bend)], 1)
            left = basis.T * runs
            level, slope = np.linalg.solve(left @ basis, left @ means)
            missed = float(runs @ (means - basis @ (level, slope)) ** 2)
            if best is None or missed < best[0]:
                best = missed, float(level), float(slope), float(bend)
        assert best is not None, "there are bends"
        return cls(tuple(sizes), means, runs, *best[1:], limits)

    @property
    def bends(self) -> bool:
        """Whether the bend was fitted and is inside its limits, so that it is a third parameter."""
        return _BENDS[0] < self.bend < _BENDS[1]

    def at(self, size: float) -> float:
        """Return its value at a size, also where it `leaves` the range of its metric."""
        return self.level + self.slope * float(_grown(_logs([size], self.sizes), self.bend)[0])

    @cached_property
    def within(self) -> tuple[float, float]:
        """The smallest and the largest size at which its value is one that the metric can have."""
        if not self.slope:
            return 0.0, math.inf
        low, high = self.limits
        ends = low - _ROUNDING, high + _ROUNDING
        first, last = sorted((end - self.level) / self.slope for end in ends)
        return self._size(first), self._size(last)

    def leaves(self, size: float) -> str:
        """Return where it leaves the range of its metric on the way to a size, beyond which it has
        no values; empty where it does not.
        """
        first, last = self.within
        if first <= size <= last:
            return ""
        at = _rounded(min(max(size, first), last))
        return f"its curve leaves the range of the metric at {at} pairs"

    def weights(self, size: float) -> Floats:
        """Return by how much each mean moves the value at a size, (sizes,)."""
        here, wide = self._basis([size])[0], self._basis(self.sizes)
        left = wide.T * self.runs
        return np.asarray(here @ np.linalg.pinv(left @ wide, rcond=1e-10) @ left)

    @cached_property
    def residuals(self) -> list[Floats]:
        """Weighted sums of the means, (sizes,) each, that are 0 on every such curve."""
        root = np.sqrt(self.runs)
        wide = self._basis(self.sizes) * root[:, None]
        left, size, _ = np.linalg.svd(wide)
        rank = int((size > 1e-10 * size[0]).sum())
        return [np.asarray(column * root) for column in left.T[rank:]]

    def _size(self, grown: float) -> float:
        """The size at which it has grown by so many slopes."""
        if self.bend:
            left = 1 - self.bend * grown
            grown = -math.log(left) / self.bend if left > 0 else math.inf
        return self.sizes[0] * math.exp(grown) if grown < _NEVER else math.inf

    def _basis(self, sizes: Sequence[float]) -> Floats:
        """The derivatives of the values at sizes by level, slope and, if it is one, bend."""
        logs = _logs(sizes, self.sizes)
        columns = [np.ones(len(logs)), _grown(logs, self.bend)]
        if self.bends:
            step = 1e-5
            apart = _grown(logs, self.bend + step) - _grown(logs, self.bend - step)
            columns.append(self.slope * apart / (2 * step))
        return np.stack(columns, 1)


def _logs(sizes: Sequence[float], own: Sequence[float]) -> Floats:
    return np.log(np.asarray(sizes, dtype=float) / own[0])


def _grown(logs: Floats, bend: float) -> Floats:
    return logs if bend == 0 else -np.expm1(-bend * logs) / bend


@dataclass(frozen=True)
class _Trained:
    """What the training runs of one curve add to the variance of a weighted sum of its means: the
    matrices (sizes, sizes) `between` runs and of the noise of examples `within` them, the degrees
    of freedom of the former, and the variance of one run where the sizes have runs of their own.
    """

    between: Floats
    within: Floats
    freedom: int
    of_run: float | None

    @classmethod
    def of(cls, sides: Sequence[Runs], parts: Sequence[Floats], *, shared: bool) -> _Trained | None:
        """Return what runs add, from those of each size and their influences on clusters of
        examples; None where nothing is random.
        """
        if not any(side.chance for side in sides):
            return None
        counts = np.array([len(side.seeds) for side in sides])
        clusters = parts[0].shape[1]
        factor = clusters / (clusters - 1)
        noise = [part - part.mean(0) for part in parts]
        if shared:
            values, runs = np.stack([side.values for side in sides]), int(counts[0])
            flat = np.stack([part.ravel() for part in noise])
            within = factor * flat @ flat.T / (runs * (runs - 1))
            return cls(np.cov(values) / runs, within, runs - 1, None)
        freedom = int((counts - 1).sum())
        between = sum(float(side.values.var()) * len(side.seeds) for side in sides) / freedom
        inside = factor * sum(float((part**2).sum()) for part in noise) / freedom
        return cls(np.diag(between / counts), np.diag(inside / counts), freedom, between)

    def side(self, weights: Floats) -> TrainedSide:
        """Return the variances of a weighted sum of the means."""
        between = max(float(weights @ self.between @ weights), 0.0)
        within, runs = float(weights @ self.within @ weights), self.freedom + 1
        weight = math.sqrt(between * runs / self.of_run) if self.of_run else 1.0
        return TrainedSide(runs, between, within, weight)


class FittedCurves:
    """The curves of several methods over one test set, with the noise that they share."""

    def __init__(
        self,
        runs: Mapping[str, Mapping[int, Runs]],
        shared: Collection[str] = (),
        languages: Mapping[str, Mapping[int, Mapping[str, Runs]]] | None = None,
    ) -> None:
        """Fit a curve to the runs of each method, size -> runs. Runs of methods that are `shared`
        have their task's training in common, seed by seed, at all sizes. `languages` has the runs
        of means in each language.

        Raises ValueError where there is no method or a single example, or a method has fewer than
        `Curve.FEWEST` sizes, or a single training run of a size.
        """
        self.curves: dict[str, Curve] = {}
        self._sides: dict[str, slice] = {}
        every: list[Runs] = []
        for method, by_size in runs.items():
            own = [by_size[size] for size in sorted(by_size)]
            if not all(side.testable for side in own):
                raise ValueError("a result that depends on the seed takes two training runs")
            if method in shared:
                seeds = [s for s in own[0].seeds if all(s in side.seeds for side in own)]
                own = [side.only(seeds) for side in own]
            self._sides[method] = slice(len(every), len(every) + len(own))
            every += own
            counts = np.array([float(len(side.seeds)) for side in own])
            means = np.array([side.mean() for side in own])
            self.curves[method] = Curve.fit(sorted(by_size), means, counts, own[0].limits)
        if not every:
            raise ValueError("there is nothing to fit")
        parts = Runs.aligned(every)
        self._clusters = parts[0].shape[1]
        if self._clusters < 2:
            raise ValueError("one example does not show how examples differ")
        means = np.stack([part.mean(0) for part in parts])
        self._examples = self._clusters / (self._clusters - 1) * means @ means.T
        places = self._sides.items()
        found = {m: _Trained.of(every[p], parts[p], shared=m in shared) for m, p in places}
        self._trained = {method: own for method, own in found.items() if own is not None}
        self._languages = self._sampled(languages, shared) if languages else None

    def at(self, method: str, size: float) -> Estimate | None:
        """Return the value of a method's curve at a size, with intervals that end where the values
        of its metric do; None where the curve leaves their range (`Curve.leaves`).
        """
        curve = self.curves[method]
        if curve.leaves(size):
            return None
        low, high = curve.limits
        value = min(max(curve.at(size), low), high)
        noises = [self._noise([(1.0, method, size)], wide=wide) for wide in self._sorts]
        halves = [0.0 if noise.absent else noise.half(1e-6) for noise in noises]
        found = [(max(value - half, low), min(value + half, high)) for half in halves]
        return Estimate(value, *found[0], *found[1:])

    def misfit(self, method: str) -> str:
        """Return why a curve does not describe the means of a method; empty where nothing says so.

        What is left of the means beside the curve is tested, with Holm's correction.
        """
        curve = self.curves[method]
        tests = [
            self._noise_of([(method, weights)]).p(float(weights @ curve.means))
            for weights in curve.residuals
        ]
        if not tests or min(holm(tests)) >= LEVEL:
            return ""
        few = len(curve.sizes) == Curve.FEWEST
        more = "; a curve that bends takes four sizes" if few else ", nor on a curve that bends"
        return f"its values do not lie on a straight line over the logarithm of the size{more}"

    def worth(self, method: str, size: float, other: str) -> Estimate | None:
        """Return the size at which another method's curve has the value of this one at a size, with
        those at which it does not differ from it; None where it nowhere has it.
        """
        if self.curves[method].leaves(size):
            return None
        value = self.curves[method].at(size)
        return self._equal(
            [self.curves[other]],
            self.curves[other].sizes,
            lambda place: self.curves[other].at(place) - value,
            lambda place: [(1.0, other, place), (-1.0, method, size)],
        )

    def crossing(self, method: str, other: str) -> Estimate | None:
        """Return the size at which two curves cross, with those around it at which they do not
        differ; None where they do not cross within a quarter and four times the sizes of both.
        """
        curves = self.curves[method], self.curves[other]
        ends = max(curve.sizes[0] for curve in curves), min(curve.sizes[-1] for curve in curves)
        return self._equal(
            curves,
            ends,
            lambda place: curves[0].at(place) - curves[1].at(place),
            lambda place: [(1.0, method, place), (-1.0, other, place)],
        )

    def _equal(
        self,
        curves: Sequence[Curve],
        sizes: Sequence[int],
        apart: Callable[[float], float],
        terms: Callable[[float], Sequence[tuple[float, str, float]]],
    ) -> Estimate | None:
        """The size at which a difference is 0, of several the one nearest to the middle, and the
        ends of those around it at which it is not significant; only where no curve leaves the range
        of its metric.
        """
        places = np.geomspace(min(sizes) / _FARTHEST, max(sizes) * _FARTHEST, _PLACES).tolist()

        def left(place: float) -> bool:
            return any(curve.leaves(place) for curve in curves)

        roots = _roots(places, [apart(place) for place in places])
        turns = [k for k, root in roots.items() if not left(root)]
        if not turns:
            return None
        turn = min(turns, key=lambda k: abs(k - _PLACES // 2))
        root = roots[turn]

        def same(at: float, wide: bool) -> bool:
            return self._noise(terms(at), wide=wide).p(apart(at)) >= LEVEL

        def end(way: range, wide: bool) -> float | None:
            """The end, on a way from the turn, of the sizes with no significant difference."""
            kept = root
            for k in way:
                if left(places[k]):
                    return None
                if not same(places[k], wide):
                    return _bisected(kept, places[k], lambda at: same(at, wide))
                kept = places[k]
            return None

        ways = range(turn, -1, -1), range(turn + 1, len(places))
        ends = [(end(ways[0], wide), end(ways[1], wide)) for wide in self._sorts]
        return Estimate(root, *ends[0], *ends[1:])

    @property
    def _sorts(self) -> Sequence[bool]:
        """Which intervals there are: whether they are for new languages."""
        return (False,) if self._languages is None else (False, True)

    def _sampled(
        self, runs: Mapping[str, Mapping[int, Mapping[str, Runs]]], shared: Collection[str]
    ) -> LanguageSpread | None:
        """The spread over languages; None where they are few, or not the same everywhere."""
        by_method = [[runs[m][size] for size in curve.sizes] for m, curve in self.curves.items()]
        langs = list(by_method[0][0])
        same = all(own.keys() == set(langs) for sizes in by_method for own in sizes)
        if not same or len(langs) < LanguageSample.FEWEST:
            return None
        groups = [[[own[lang] for lang in langs] for own in sizes] for sizes in by_method]
        return LanguageSpread.of(groups, [k for k, m in enumerate(self.curves) if m in shared])

    def _noise(self, terms: Sequence[tuple[float, str, float]], *, wide: bool = False) -> Noise:
        """The noise of a sum of curves' values: (sign, method, size) of each."""
        signed = [(m, sign * self.curves[m].weights(size)) for sign, m, size in terms]
        return self._noise_of(signed, wide=wide)

    def _noise_of(self, terms: Sequence[tuple[str, Floats]], *, wide: bool = False) -> Noise:
        """The noise of a weighted sum of the means of methods, for languages like these if
        `wide`.
        """
        whole, sums = np.zeros(len(self._examples)), dict[str, Floats]()
        for method, weights in terms:
            whole[self._sides[method]] += weights
            sums[method] = sums.get(method, 0.0) + weights
        if wide and self._languages is not None:
            return self._languages.noise(whole)
        random = [self._trained[m].side(w) for m, w in sums.items() if m in self._trained]
        examples = float(whole @ self._examples @ whole)
        return Spread(examples, self._clusters, tuple(random)).noise()


def _roots(places: Sequence[float], values: Sequence[float]) -> dict[int, float]:
    """Return between which places values change their sign, by the first one, and where."""
    return {
        k: places[k] * (places[k + 1] / places[k]) ** (a / (a - b))
        for k, (a, b) in enumerate(pairwise(values))
        if a * b <= 0 and a != b
    }


def _bisected(inside: float, outside: float, holds: Callable[[float], bool]) -> float:
    """The size at which something no longer holds, to a thousandth of the way."""
    for _ in range(10):
        middle = math.sqrt(inside * outside)
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return math.sqrt(inside * outside)
