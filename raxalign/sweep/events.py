"""What a sweep reports while it runs: the display, the tracker and others hear every event."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign.grid.plan import Plan
from raxalign.grid.stage import Stage
from raxalign.grid.trial import Trial

if TYPE_CHECKING:  # `raxalign sync` and `report` track without the code that makes stages
    from raxalign.sweep.job import Advance
    from raxalign.sweep.order import SweepJob


@dataclass(frozen=True)
class Planned:
    """A plan begins, or, where it is not the first one, a search adds trials."""

    plan: Plan
    pending: int  # trials to run
    cached: int  # trials whose results are all there
    stages: int  # shared stages to make
    first: bool = True
    jobs: Sequence[SweepJob] = ()  # what its stages and trials are expected to take
    workers: int = 1  # that there is room for


@dataclass(frozen=True)
class Began:
    """A worker has begun with a trial or a shared stage."""

    what: Trial | Stage


@dataclass(frozen=True)
class Advanced:
    """How far a trial or a shared stage is; every few seconds."""

    what: Trial | Stage
    advance: Advance


@dataclass(frozen=True)
class JobEnded:
    """A trial or a shared stage has ended: well, with an error, or pruned by a search, which says
    where. A stage that was made took some seconds. Results and failures are in the ledger.
    """

    what: Trial | Stage
    error: str | None = None
    seconds: float | None = None
    pruned: str = ""


@dataclass(frozen=True)
class Said:
    """A line for the user: what holds up a trial or a stage, what a plug-in `printed` while it
    worked on one, or, of none, what was found, and mended or chosen, that a person should know.
    """

    message: str
    what: Trial | Stage | None = None
    printed: bool = False


@dataclass(frozen=True)
class Waiting:
    """How many stages and trials wait for what, whenever that changes."""

    inputs: int = 0
    workers: int = 0  # their inputs are there, and no worker is free
    nodes: int = 0  # requested some time ago, and no worker has begun
    each: str = ""  # what a worker asks for, in words

    @property
    def described(self) -> str:
        """What waits in words: for stages, for a free worker, or for one that was requested."""
        numbers = ((self.inputs, "inputs"), (self.workers, "a worker"), (self.nodes, "its start"))
        return ", ".join(f"{number} for {what}" for number, what in numbers if number)


@dataclass(frozen=True)
class GroupsWaiting:
    """The trials whose groups of workers wait for room on the cluster, and for how many seconds;
    every few seconds, and once without any when none waits any more.
    """

    seconds: Mapping[str, float]
    text: str = ""


@dataclass(frozen=True)
class Over:
    """Nothing runs any more; `failed` is the number of trials that failed."""

    failed: int


Event = Planned | Began | Advanced | JobEnded | Said | Waiting | GroupsWaiting | Over
Hear = Callable[[Event], None]
