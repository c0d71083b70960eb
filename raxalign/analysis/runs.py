"""What systems did: predictions taken apart into sums by unit, and a value over its runs with the
influence of every unit on it.

Every metric that is tested is a mean over parts (directions, models) of a ratio of two sums over
units: right answers over queries for an accuracy, twice the entities found over entities given and
there for F1, a score over questions for exact match; BLEU has a brevity penalty besides. A unit is
what can be taken for independent of the others: a sentence for word pairs, a premise, a paragraph
of questions. The influence of a unit on a value is the derivative of the value by the unit's weight
(the delta method; Efron & Tibshirani 1993, chapter 21).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from raxalign.arrays import Floats, Ints
from raxalign.lazy import np
from raxalign.measured import Measured, undeclared
from raxalign.sample import Sample

NUMBER = undeclared("")


@dataclass(frozen=True)
class Runs:
    """A value over its runs: `values` (runs,) and their `influences` (runs, units), over `units` in
    ascending order.

    `seeds` name the runs. `chance` says whether another seed may give another value (which the plan
    knows, and one run does not show); `share`, whether values are shares; `limits`, the smallest
    and the largest value that there can be.
    """

    seeds: tuple[object, ...]
    values: Floats
    units: Ints
    influences: Floats
    chance: bool
    share: bool = False
    links: Ints | None = None
    limits: tuple[float, float] = (-math.inf, math.inf)

    @classmethod
    def of(
        cls,
        samples: Mapping[object, Sequence[Sample]],
        *,
        chance: bool,
        measured: Measured = NUMBER,
    ) -> Runs:
        """Return the samples of each seed; where a seed has several (models of the pivot in an
        ``each`` grid), its value is the mean of theirs. With `chance`, another seed may give
        another value; `measured` is what is declared: shares have intervals of their own.
        """
        every = [sample for several in samples.values() for sample in several]
        units = union([sample.units for sample in every])
        influences = np.zeros((len(samples), len(units)))
        for row, several in zip(influences, samples.values(), strict=True):
            for sample in several:
                row[_places(units, sample.units)] += sample.influence() / len(several)
        values = [
            math.fsum(sample.value for sample in several) / len(several)
            for several in samples.values()
        ]
        share, links = measured.unit == "share", links_of(every)
        seeds, limits = tuple(samples), measured.limits
        return cls(seeds, np.array(values), units, influences, chance, share, links, limits)

    @property
    def testable(self) -> bool:
        """Whether the spread of what is chance can be seen: not in a single run that has chance."""
        return not self.chance or len(self.seeds) > 1

    def mean(self) -> float:
        """Return the mean over runs."""
        return float(self.values.mean())

    def only(self, seeds: Sequence[object]) -> Runs:
        """Return the runs of some seeds, in their order."""
        rows = [self.seeds.index(seed) for seed in seeds]
        return replace(
            self, seeds=tuple(seeds), values=self.values[rows], influences=self.influences[rows]
        )


def mean_of(languages: Sequence[Runs]) -> Runs:
    """Return the mean over languages, run by run, over the seeds that all have; a unit that several
    languages have is one unit.

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
    links, limits = links_of(parts), parts[0].limits
    return Runs(tuple(seeds), values, units, influences, chance, share, links, limits)


def links_of(parts: Sequence[Sample] | Sequence[Runs]) -> Ints | None:
    """Return the links of all together; samples of one test set have the same, which count once."""
    given: list[Ints] = []
    for part in parts:
        if part.links is not None and not any(np.array_equal(part.links, known) for known in given):
            given.append(part.links)
    return np.concatenate(given) if given else None


def union(several: Sequence[Ints]) -> Ints:
    """Return the units of any, ascending; the first one itself where all are equal."""
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
