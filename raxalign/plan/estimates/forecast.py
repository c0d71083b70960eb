"""What is left of a plan in seconds, by kind of stage: measured times of this storage where it has
any, and the cost of the work elsewhere.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from raxalign.plan.estimates.cost import duration, roughly
from raxalign.plan.estimates.speed import Speed
from raxalign.plan.estimates.work import Work, family, group
from raxalign.plan.plan import Plan

_SHOWN = 0.5  # seconds: kinds of stages that take less are not named


@dataclass(frozen=True)
class Forecast:
    """The time of some stages and evaluations.

    Attributes:
        seconds: Key -> seconds, of those whose time can be estimated.
        kinds: Kind of stage -> seconds of all of its kind.
        unknown: Kind of stage -> how many have no estimate.
        measured: How many are of a kind and maker that has run in the storage.
    """

    seconds: Mapping[str, float]
    kinds: Mapping[str, float]
    unknown: Mapping[str, int]
    measured: int

    @property
    def total(self) -> float:
        """Seconds of all that can be estimated."""
        return math.fsum(self.seconds.values())

    def told(self, workers: int, start: float = 0.0) -> str:
        """Return the line of `plan`, with the time on a number of workers at once, until the end,
        and `start`, the seconds before they begin.
        """
        if not self.seconds and not self.unknown:
            return "nothing is left to run"
        unknown = ", ".join(f"{count} {kind}" for kind, count in self.unknown.items())
        rest = f"; not known before something like it has run: {unknown}" if unknown else ""
        if not self.seconds:
            return f"time: {rest.removeprefix('; ')}"
        kinds = ", ".join(
            f"{kind} {duration(seconds)}"
            for kind, seconds in sorted(self.kinds.items(), key=lambda entry: -entry[1])
            if seconds >= _SHOWN
        )
        basis = (
            "from what has run in this storage"
            if self.measured == len(self.seconds)
            else f"{self.measured} of {len(self.seconds)} from what has run in this storage, the"
            " others from the size of the work"
            if self.measured
            else "before a first run, from the size of the work: within a factor of about 2"
        )
        longest = max(self.seconds.values())
        shared = max(self.total / workers, longest)
        several = f"{workers} workers" if workers > 1 else ""
        begun = "the start of Ray" if start else ""
        ways = " and ".join(way for way in (several, begun) if way)
        bound = "at least" if unknown else "about"
        wall = f", {roughly(shared + start)} with {ways}" if ways else ""
        return f"time, {bound}: {roughly(self.total)} of worker time{wall} ({basis}): {kinds}{rest}"


def forecast(plan: Plan, took: Mapping[str, float], left: Iterable[str], speed: Speed) -> Forecast:
    """Estimate the time of stages and evaluations.

    A stage of a kind and maker that has run costs its share of what those took, by the work in
    each. Another one costs its work, times what the stages of its family took more than theirs.

    Args:
        plan: The plan.
        took: Key -> seconds of what has run.
        left: The keys of what is to run.
        speed: The speed of a worker.
    """
    work = Work(plan, speed)
    scale = _Scale(plan, work, took)
    seconds: dict[str, float] = {}
    kinds: dict[str, float] = defaultdict(float)
    unknown: Counter[str] = Counter()
    measured = 0
    for key in left:
        kind = plan.stages[key].kind
        found = scale.seconds(key)
        if found is None:
            unknown[kind] += 1
            continue
        seconds[key] = found
        kinds[kind] += found
        measured += scale.has(key)
    return Forecast(seconds, dict(kinds), dict(unknown), measured)


def quicker_links(plan: Plan, times: Forecast) -> str:
    """Return a line that names a quicker word aligner, where word alignment takes more than half of
    the time that is left; empty elsewhere.
    """
    for maker in {stage.maker for stage in plan.stages.values() if stage.kind == "pairs"}:
        own = [
            key
            for key in times.seconds
            if (plan.stages[key].kind, plan.stages[key].maker) == ("pairs", maker)
        ]
        took = math.fsum(times.seconds[key] for key in own)
        quicker = plan.stages[own[0]].plugin().QUICKER if own else ""
        if quicker and took > times.total / 2:
            return (
                f"  most of it is {maker}, about {duration(took)}: `pairs: {{aligner: {quicker}}}`"
                " is much quicker, and makes other links"
            )
    return ""


class _Scale:
    """What stages took, compared with their work."""

    def __init__(self, plan: Plan, work: Work, took: Mapping[str, float]) -> None:
        self._plan, self._work = plan, work
        self._took: dict[str, list[float]] = defaultdict(list)
        self._worked: dict[str, float] = defaultdict(float)
        self._like: dict[str, float] = defaultdict(float)
        self._families: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # took, cost
        for key, value in took.items():
            if key not in plan.stages or plan.stages[key].inline:
                continue
            name, cost = group(plan, key), work.seconds(key)
            self._took[name].append(value)
            if cost is not None:
                self._worked[name] += cost
                self._like[name] += value
            if cost is not None:
                whole = self._families[family(plan, key)]
                whole[0], whole[1] = whole[0] + value, whole[1] + cost

    def has(self, key: str) -> bool:
        """Return whether something of the kind and maker has run."""
        return group(self._plan, key) in self._took

    def seconds(self, key: str) -> float | None:
        name, cost = group(self._plan, key), self._work.seconds(key)
        if cost is None:
            known = self._took.get(name)
            return math.fsum(known) / len(known) if known else None
        if self._worked.get(name):
            return cost * self._like[name] / self._worked[name]
        took, worked = self._families[family(self._plan, key)]
        return cost * took / worked if worked else cost
