"""What the stages of a plan took where they have run, which are left, and how long those take: as
long as others like them took here.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from raxalign.errors import RaxalignError
from raxalign.grid.plan import Plan
from raxalign.grid.stage import Stage
from raxalign.grid.trial import Trial
from raxalign.options.run import RunConfig
from raxalign.store.storage import Storage, Tombstone

_SAMPLE = 8  # timings of stages that take as long which are read for a mean
_SHOWN = 0.5  # seconds: kinds of stages that take less are not named
_START = 10.0  # seconds until Ray and its workers have started
_USUAL = {"encoder": 60.0, "tuned": 30.0, "aligned": 2.0, "evaluation": 2.0, "pairs": 2.0}
"""Seconds by kind of stage before anything like it has run: they say what begins first, and are not
shown. What is not here takes less than a second. An alignment that trains takes `_TRAINED`.
"""
_TRAINED = 20.0


@dataclass(frozen=True)
class Times:
    """What the stages and evaluations of a plan took where its storage has them."""

    plan: Plan
    storage: Storage

    def stored(self) -> set[str]:
        """Return the keys of the plan's stages and evaluations that are stored, by two listings."""
        stages = [(stage.kind, key) for key, stage in self.plan.stages.items()]
        artifacts = [(kind, key) for kind, key in stages if kind != "evaluation"]
        evaluations = {key for kind, key in stages if kind == "evaluation"}
        return self.storage.artifacts.present(artifacts) | (
            evaluations & self.storage.ledger.keys()
        )

    def by_key(
        self,
        stored: AbstractSet[str] | None = None,
        records: Mapping[str, Tombstone] | None = None,
    ) -> dict[str, float]:
        """Return the seconds that making each stored stage and evaluation of a plan took, by key,
        also of stages that were not kept. Stages that are made within others have none of their
        own. Where they are known, `stored` is what `stored` returns, and `records` what is left of
        the stages that were not kept, by key.
        """
        stored = self.stored() if stored is None else stored
        there = [
            stage for key, stage in self.plan.stages.items() if key in stored and not stage.inline
        ]
        took = self._seconds(sorted((stage.kind, stage.key) for stage in there))
        records = self.storage.tombstones.all() if records is None else records
        dropped = {key: entry.manifest.seconds for key, entry in records.items()}
        return {key: seconds for key, seconds in dropped.items() if key in self.plan.stages} | took

    def of(self, trial: Trial) -> float:
        """Return the seconds that the evaluations of a trial took, with the alignment and the
        trainings behind them. Data and encoders, which trials share, are not counted.
        """
        keys = [key for key in trial.evaluations.values() if self.storage.ledger.has(key)]
        stages = [self.plan.stages[key] for key in self.plan.closure(keys)]
        own = {"aligned", "tuned", "evaluation"}
        made = [
            (stage.kind, stage.key) for stage in stages if stage.kind in own and not stage.inline
        ]
        return math.fsum(self._seconds(made).values())

    def of_alignment(self, trial: Trial) -> float:
        """Return the seconds that the alignment of a trial took; 0 where they are not stored."""
        stage = self.plan.stages[trial.aligned]
        made = [] if stage.inline else [(stage.kind, stage.key)]
        return math.fsum(self._seconds(made).values())

    def sampled(self, done: Collection[str]) -> dict[str, float]:
        """Return the seconds that some of the stages and evaluations of a plan took which this
        storage has, by key: a few of those that take as long are read, so that a large grid
        starts at once. `done` are the evaluations that are in the ledger.
        """
        tried = defaultdict[tuple[Any, ...], list[tuple[str, str]]](list)
        for key, stage in self.plan.stages.items():
            known = key in done if stage.kind == "evaluation" else not stage.inline
            if known and len(found := tried[_alike(self.plan, key)]) < _SAMPLE:
                found.append((stage.kind, key))
        return self._seconds(chain.from_iterable(tried.values()))

    def _seconds(self, made: Iterable[tuple[str, str]]) -> dict[str, float]:
        """Return the seconds that evaluations and artifacts (kind, key) took."""
        made = list(made)
        records = self.storage.ledger.read_many([key for kind, key in made if kind == "evaluation"])
        manifests = self.storage.artifacts.manifests(
            [one for one in made if one[0] != "evaluation"]
        )
        took = {key: float(record.get("seconds", 0.0)) for key, record in records.items()}
        return took | {key: manifest.seconds for key, manifest in manifests.items()}


@dataclass(frozen=True)
class Forecast:
    """The time of some stages and evaluations."""

    seconds: Mapping[str, float]  # by key, of those like which some have run
    kinds: Mapping[str, float]  # kind of stage -> seconds of all of its kind
    unknown: Mapping[str, float]  # by key, of the others: what is usual for their kind
    unlike: Mapping[str, int]  # kind of stage -> how many of these there are

    @classmethod
    def of(cls, plan: Plan, took: Mapping[str, float], left: Iterable[str]) -> Forecast:
        """Estimate the time of the stages and evaluations that are `left`, by the seconds that
        others `took`, both by key. The time of data and of alignment is in proportion to their
        sentences.
        """

        def work(key: str) -> float:
            stage = plan.stages[key]
            return (plan.sentences_of(key) or 1.0) * _passes(stage) if stage.reads_training else 1.0

        left = list(left)
        seconds, kinds = cls.by_like(plan, took, left, work), defaultdict[str, float](float)
        for key, cost in seconds.items():
            kinds[plan.stages[key].kind] += cost
        others = {key: plan.stages[key].kind for key in left if key not in seconds}
        unknown = {
            key: _TRAINED if _trains(plan.stages[key]) else _USUAL.get(kind, 0.1)
            for key, kind in others.items()
        }
        return cls(seconds, dict(kinds), unknown, dict(Counter(others.values())))

    @staticmethod
    def by_like(
        plan: Plan, measured: Mapping[str, float], keys: Iterable[str], unit: Callable[[str], float]
    ) -> dict[str, float]:
        """Return what stages take, by key: of those that were `measured` and have the same kind,
        maker, readout and encoder, as it is or trained, the sum per unit, times the stage's own
        units. Without such ones a stage is left out.
        """
        sums = defaultdict[tuple[Any, ...], list[float]](lambda: [0.0, 0.0])
        for key, value in measured.items():
            if key in plan.stages and not plan.stages[key].inline:
                found = sums[_alike(plan, key)]
                found[0], found[1] = found[0] + value, found[1] + unit(key)
        wanted = {key: sums.get(_alike(plan, key)) for key in keys}
        return {key: found[0] / found[1] * unit(key) for key, found in wanted.items() if found}

    @property
    def total(self) -> float:
        """Seconds of all that is like something that has run."""
        return math.fsum(self.seconds.values())

    def told(self, workers: int, *, gpu_hours: float = 0.0, starts: bool = False) -> str:
        """Return the line of `plan`, with the time on a number of workers at once, until the end;
        with the hours of GPUs, where workers have some, and with that until Ray `starts`, where it
        has to.
        """
        rest = ", ".join(f"{count} {kind}" for kind, count in self.unlike.items())
        if not self.seconds:
            first = "time, not known before something like it has run"
            return f"{first}: {rest}" if rest else "nothing is left to run"
        shared = max(self.total / workers, *self.seconds.values())
        ways = [f"{workers} workers"] * (workers > 1) + ["the start of Ray"] * starts
        wall = f", {roughly(shared + _START * starts)} with {' and '.join(ways)}" if ways else ""
        bound = "at least" if rest else "about"
        held = max(gpu_hours, 0.01)
        hours = f", {held:{'.0f' if held >= 10 else '.2g'}} GPU hours" if gpu_hours else ""
        rest = f"; not known before something like it has run: {rest}" if rest else ""
        ranked = sorted(self.kinds.items(), key=lambda entry: -entry[1])
        parts = ", ".join(f"{kind} {duration(size)}" for kind, size in ranked if size >= _SHOWN)
        basis = f"from what has run in this storage{': ' if parts else ''}{parts}"
        return f"time, {bound}: {roughly(self.total)} of worker time{hours}{wall} ({basis}){rest}"


_BUDGET = re.compile(r"([0-9]*\.?[0-9]+) *(?:(gpu|core)[ -]?)?hours?", re.IGNORECASE)


@dataclass(frozen=True)
class Budget:
    """Hours of worker time, of workers' GPUs or of their cores, of which `run` says how many each
    worker has; a training run counts once per worker.
    """

    amount: float
    unit: str
    run: RunConfig
    _took: dict[str, float] = field(default_factory=dict, init=False)  # that was read so far

    @classmethod
    def of(cls, text: str, run: RunConfig) -> Budget:
        """Read ``40 GPU-hours``: where the grid does not say how many, each worker then has one.
        Raises `RaxalignError` for other texts, and for GPUs that workers do not have.
        """
        found = _BUDGET.fullmatch(text.strip())
        if found is None or not float(found[1]):
            forms = "`40 GPU-hours`, `100 core-hours` or `6 hours`"
            raise RaxalignError(f"--budget {text!r}: is not an amount; write for example {forms}")
        of = (found[2] or "").lower()
        if of == "gpu" and run.gpus_per_worker == 0:
            told = "workers have no GPU (run.gpus_per_worker: 0); write core-hours or hours"
            raise RaxalignError(f"--budget {text!r}: {told}")
        if of == "gpu" and run.gpus_per_worker is None:
            run = run.model_copy(update={"gpus_per_worker": 1.0})
        return cls(float(found[1]), {"gpu": "GPU-", "core": "core-"}.get(of, "") + "hours", run)

    def hours(self, plan: Plan, seconds: Mapping[str, float]) -> float:
        """Return the hours, in its unit, of stages that take some seconds, by key."""
        run, gpus = self.run, self.unit == "GPU-hours"
        each = run.gpus_per_worker if gpus else run.threads if self.unit == "core-hours" else 1
        stages = ((plan.stages[key], took) for key, took in seconds.items())
        held = ((s, took) for s, took in stages if s.holds_worker or not gpus)
        workers = (took * (run.workers if s.trained else 1) for s, took in held)
        return (each or 0) * math.fsum(workers) / 3600

    def spent(self, plan: Plan, storage: Storage) -> float:
        """Return the hours of all that the results of a plan took, whichever run made it."""
        times = Times(plan, storage)
        self._took.update(times.by_key(times.stored() - self._took.keys()))
        return self.hours(plan, {k: took for k, took in self._took.items() if k in plan.stages})

    def estimate(self, plan: Plan, storage: Storage, trials: Iterable[Trial]) -> float:
        """Return the hours of what some trials lack, by what `spent` has read."""
        stored = Times(plan, storage).stored()
        left = plan.only(iter(trials)).to_make(stored, stored)
        found = Forecast.of(plan, self._took, left)
        return self.hours(plan, {**found.unknown, **found.seconds})

    def told(self, *hours: float) -> str:
        """Return hours in words: ``3.1 GPU-hours``, ``3.1 of 40 GPU-hours``."""
        shown = (f"{amount:{'.0f' if amount >= 10 else '.2g'}}" for amount in hours)
        return f"{' of '.join(shown)} {self.unit}"

    @staticmethod
    def first(looks: Mapping[str, tuple[float, float]]) -> str:
        """Return which look comes first, of some with the width of an interval and hours each:
        that with the largest width per hour, or one that takes no time.

        >>> Budget.first({"wide": (6.0, 3.0), "cheap": (5.0, 2.0), "narrow": (1.0, 1.0)})
        'cheap'
        """
        rates = {name: (w / h if h else math.inf, -h) for name, (w, h) in looks.items()}
        return max(rates, key=rates.__getitem__)


def _alike(plan: Plan, key: str) -> tuple[Any, ...]:
    """Return what stages have in common that take as long, in proportion to their sentences."""
    stage, start = plan.stages[key], plan.start_of(key)
    whole = stage.reads_training and plan.sentences_of(key) is None
    encoder = start.key if start is not None else None
    # what reads a trained encoder reads its text by itself; maps share that of their start
    read = plan.stages.get(stage.inputs.get("aligned", ""))
    how = (stage.params.get("readout"), stage.task is None, whole)
    return stage.kind, stage.maker, encoder, read is not None and _trains(read), how


def _trains(stage: Stage) -> bool:
    """Whether a stage is an alignment by a training, which has a learning rate."""
    method: Any = stage.params.get("method", {})
    return stage.kind == "aligned" and "learning_rate" in method


def _passes(stage: Stage) -> float:
    """Return how often a method reads its sentences, where it has `epochs`."""
    method: Any = stage.params.get("method", {})
    epochs = method.get("epochs")
    return float(epochs) if isinstance(epochs, int | float) and epochs else 1.0


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(40), duration(720), duration(5_400)
    ('40 s', '12 min', '1.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def roughly(seconds: float) -> str:
    """Return an estimated time in words, rounded so that it does not look more exact than it is.

    >>> [roughly(seconds) for seconds in (1, 13, 57, 100, 400, 2_000, 9_000)]
    ['5 s', '15 s', '60 s', '2 min', '7 min', '35 min', '2.5 h']
    """
    if seconds < 27.5:
        return f"{max(5 * round(seconds / 5), 5)} s"
    if seconds < 90:
        return f"{10 * round(seconds / 10)} s"
    if seconds < 600:
        return f"{round(seconds / 60)} min"
    return (
        f"{5 * round(seconds / 300)} min" if seconds < 5400 else f"{round(seconds / 1800) / 2:g} h"
    )


def volume(size: float) -> str:
    """Return a number of bytes in words.

    >>> volume(712_000_000), volume(4_300), volume(7.2e12)
    ('712 MB', '4.3 kB', '7.2 TB')
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.1f} {unit}" if size < 9.95 and unit != "bytes" else f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
