"""What the log of an experiment says: when each piece of work began and ended, and what of it was
made twice.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.against.work import STAGE_SECONDS


@dataclass(frozen=True)
class Span:
    """One piece of work: its name, and the moments in seconds at which it began and ended (None: it
    was cut off, or has not ended yet).
    """

    name: str
    begin: float
    end: float | None

    @property
    def is_trial(self) -> bool:
        """Whether it is a trial, and not a corpus."""
        return self.name.startswith("trial-")


@dataclass(frozen=True)
class Found:
    """What one program took.

    Attributes:
        wall: The seconds from its start to its end, without those between the kill and the second
            start.
        ratio: `wall` over the seconds of all work divided by the number of workers.
        gap: The median of the seconds between the end of one piece of work and the begin of the
            next in its place.
        begun: The seconds from the start to the first begin of any work.
        resumed: The seconds from the second start to the begin of the first trial that had not
            ended before.
        repeated: The seconds of work that had ended before and was done again.
        again: The number of trials among that.
        lost: The number of trials that never ended.
        cores: The core-seconds of all processes for each trial.
    """

    wall: float
    ratio: float
    gap: float
    begun: float
    resumed: float
    repeated: float
    again: int
    lost: int
    cores: float


def read(lines: Iterable[str]) -> list[Span]:
    """Return the work in the lines ``begin NAME SECONDS PID`` and ``end NAME SECONDS PID``, in the
    order in which it began.
    """
    open_spans: dict[tuple[str, str], float] = {}
    spans = []
    for line in lines:
        what, name, moment, pid = line.split()
        if what == "begin":
            open_spans[name, pid] = float(moment)
        else:
            spans.append(Span(name, open_spans.pop((name, pid)), float(moment)))
    spans += [Span(name, begin, None) for (name, _), begin in open_spans.items()]
    return sorted(spans, key=lambda span: span.begin)


def gaps(spans: Sequence[Span]) -> list[float]:
    """Return for each piece of work but the first ones of the workers how long its place was empty.
    Work takes the place that has been empty longest.
    """
    ends = sorted(span.end for span in spans if span.end is not None)
    found, taken = [], 0
    for span in sorted(spans, key=lambda span: span.begin):
        if taken < len(ends) and ends[taken] <= span.begin:
            found.append(span.begin - ends[taken])
            taken += 1
    return found


def repeats(spans: Sequence[Span]) -> list[Span]:
    """Return the work that has ended though the same had ended before."""
    seen, found = set(), []
    for span in sorted((s for s in spans if s.end is not None), key=lambda span: span.end or 0.0):
        if span.name in seen:
            found.append(span)
        seen.add(span.name)
    return found


@dataclass(frozen=True)
class Times:
    """The moments, in seconds, of both starts, the kill and the end; and the core-seconds of all
    processes of a program.
    """

    start: float
    killed: float
    restart: float
    end: float
    cores: float


def measure(
    spans: Sequence[Span], times: Times, *, trials: Sequence[str], seconds: float, workers: int
) -> Found:
    """Return what a program took that was killed and started again.

    Args:
        spans: Its work.
        times: When it was started, killed and started again, and when it ended.
        trials: The names of all trials.
        seconds: How long a trial works.
        workers: How many pieces of work may run at once.
    """
    first = [span for span in spans if span.begin < times.restart]
    second = [span for span in spans if span.begin >= times.restart]
    ended = {span.name for span in first if span.end is not None}
    twice = repeats(spans)
    fresh = [span.begin for span in second if span.is_trial and span.name not in ended]
    corpora = len({span.name for span in spans if not span.is_trial})
    ideal = (seconds * len(trials) + STAGE_SECONDS * corpora) / workers
    wall = times.killed - times.start + times.end - times.restart
    done = {span.name for span in spans if span.end is not None}
    return Found(
        wall=wall,
        ratio=wall / ideal,
        gap=statistics.median([*gaps(first), *gaps(second)]),
        begun=first[0].begin - times.start,
        resumed=min(fresh) - times.restart if fresh else float("nan"),
        repeated=sum((span.end or span.begin) - span.begin for span in twice),
        again=sum(span.is_trial for span in twice),
        lost=len(set(trials) - done),
        cores=times.cores / len(trials),
    )
