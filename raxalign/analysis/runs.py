"""What systems did: predictions taken apart into sums by unit, and a value over its runs with the influence of every unit on it.

Every metric that is tested is a mean over parts (directions, models) of a ratio of two sums over units: right answers over queries for an
accuracy, twice the entities found over entities given and there for F1, a score over questions for exact match; BLEU has a brevity penalty
besides. A unit is what can be taken for independent of the others: a sentence for word pairs, a premise, a paragraph of questions. The
influence of a unit on a value is the derivative of the value by the unit's weight (the delta method; Efron & Tibshirani 1993, chapter 21).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """What a system did in one run: `gains` and `counts` (parts, units), and the `units` (their number) in ascending order.

    The metric is the mean over parts of sum(gains) / sum(counts), in percent or as a fraction as the gains are; where `wanted` (parts, units)
    is there, times BLEU's brevity penalty of sum(counts) against sum(wanted). A part without counts is left out.

    `links` (links, 2) are pairs of units that are not independent of each other; a link may go over numbers that are no units here. What
    links hold together may differ between samples over the same units: samples that are compared are clustered by the links of both.
    """

    units: Ints
    gains: Floats
    counts: Floats
    wanted: Floats | None = None
    links: Ints | None = None

    @property
    def value(self) -> float:
        """The metric over all units."""
        ratios, penalties, _ = self._parts()
        return float((ratios * penalties).mean()) if len(ratios) else 0.0

    @property
    def is_share(self) -> bool:
        """Whether the metric cannot leave 0 to 1, as no unit gains more than it counts."""
        return bool(np.all(self.gains >= 0) and np.all(self.gains <= self.counts + 1e-9))

    def influence(self) -> Floats:
        """(units,): the derivative of the metric by each unit's weight; sums to 0."""
        ratios, penalties, there = self._parts()
        if not len(ratios):
            return np.zeros(len(self.units))
        counts, totals = self.counts[there], self.counts[there].sum(1, keepdims=True)
        parts = penalties[:, None] * (self.gains[there] - ratios[:, None] * counts) / totals
        if self.wanted is not None:
            wanted = self.wanted[there]
            sums = wanted.sum(1, keepdims=True)
            slopes = np.where(sums > totals, (ratios * penalties)[:, None], 0.0)
            parts = parts + slopes * (counts * sums / totals - wanted) / totals
        return np.asarray(parts.mean(0), dtype=np.float64)

    def _parts(self) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        """Ratios and brevity penalties of the parts that count something, and which those are."""
        totals = self.counts.sum(1)
        there = totals > 0
        ratios = self.gains.sum(1)[there] / totals[there]
        if self.wanted is None:
            return ratios, np.ones_like(ratios), there
        return ratios, np.exp(np.minimum(0.0, 1 - self.wanted.sum(1)[there] / totals[there])), there


@dataclass(frozen=True)
class Runs:
    """A value over its runs: `values` (runs,) and their `influences` (runs, units), over `units` in ascending order.

    `seeds` name the runs. `chance` says whether another seed may give another value (which the plan knows, and one run does not show);
    `share`, whether values cannot leave 0 to 1.
    """

    seeds: tuple[object, ...]
    values: Floats
    units: Ints
    influences: Floats
    chance: bool
    share: bool = False
    links: Ints | None = None

    @classmethod
    def of(cls, samples: Mapping[object, Sequence[Sample]], *, chance: bool) -> Runs:
        """The samples of each seed; where a seed has several (models of the pivot in an ``each`` grid), its value is the mean of theirs."""
        every = [sample for several in samples.values() for sample in several]
        units = union([sample.units for sample in every])
        influences = np.zeros((len(samples), len(units)))
        for row, several in zip(influences, samples.values(), strict=True):
            for sample in several:
                row[_places(units, sample.units)] += sample.influence() / len(several)
        values = np.array([math.fsum(sample.value for sample in several) / len(several) for several in samples.values()])
        return cls(tuple(samples), values, units, influences, chance, all(sample.is_share for sample in every), links_of(every))

    @property
    def testable(self) -> bool:
        """Whether the spread of what is chance can be seen: not in one run of something that has chance."""
        return not self.chance or len(self.seeds) > 1

    def mean(self) -> float:
        """The mean over runs."""
        return float(self.values.mean())

    def only(self, seeds: Sequence[object]) -> Runs:
        """The runs of some seeds, in their order."""
        rows = [self.seeds.index(seed) for seed in seeds]
        return replace(self, seeds=tuple(seeds), values=self.values[rows], influences=self.influences[rows])


def mean_of(languages: Sequence[Runs]) -> Runs:
    """The mean over languages, run by run, over the seeds that all have; a unit that several languages have is one unit.

    Raises ValueError where no seed is common to all.
    """
    seeds = [seed for seed in languages[0].seeds if all(seed in other.seeds for other in languages)]
    if not seeds:
        raise ValueError("no seed is common to all languages")
    parts = [runs.only(seeds) for runs in languages]
    units = union([part.units for part in parts])
    influences = np.mean([over(units, part) for part in parts], axis=0)
    values = np.mean([part.values for part in parts], axis=0)
    chance, share = any(part.chance for part in parts), all(part.share for part in parts)
    return Runs(tuple(seeds), values, units, influences, chance, share, links_of(parts))


def links_of(parts: Sequence[Sample] | Sequence[Runs]) -> Ints | None:
    """The links of all together; samples of one test set have equal ones, which count once."""
    given: list[Ints] = []
    for part in parts:
        if part.links is not None and not any(np.array_equal(part.links, known) for known in given):
            given.append(part.links)
    return np.concatenate(given) if given else None


def union(several: Sequence[Ints]) -> Ints:
    """The units of any, ascending; the first one itself where all are equal."""
    first = several[0]
    if all(np.array_equal(first, other) for other in several[1:]):
        return first
    return np.unique(np.concatenate(list(several)))


def over(units: Ints, runs: Runs) -> Floats:
    """Influences over more units; those of units that were absent are 0."""
    if len(units) == len(runs.units):
        return runs.influences
    wide = np.zeros((len(runs.seeds), len(units)))
    wide[:, np.searchsorted(units, runs.units)] = runs.influences
    return wide


def _places(units: Ints, some: Ints) -> slice | Ints:
    return slice(None) if len(some) == len(units) else np.searchsorted(units, some)
