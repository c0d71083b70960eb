"""What a person sees while a grid runs: a live display on a terminal, else lines; on stderr."""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from raxalign.catalog import Catalog
from raxalign.grid.estimates import roughly
from raxalign.grid.plan import Plan
from raxalign.grid.stage import Stage
from raxalign.grid.trial import Trial
from raxalign.printing import counted, printable
from raxalign.store.ledger import Ledger
from raxalign.sweep import events
from raxalign.sweep.job import Advance
from raxalign.sweep.order import SweepJob
from raxalign.train.runtime import TokenRate
from raxalign.values.results import HARDLY, DevMean, remarks

_MANY = 300  # jobs: with more of them left, chains hardly matter and are not followed


@dataclass
class _Sums:
    """How long the jobs of a group or family that ended took and should have taken, and what the
    others should take.
    """

    took: float = 0.0
    expected: float = 0.0
    left: float = 0.0  # expected of those that have not ended
    open: int = 0  # how many these are
    ended: int = 0


class Remaining:
    """Estimates the time left of running jobs and of all; events cost the same with many jobs."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._jobs: dict[str, SweepJob] = {}  # that have not ended
        self._since: dict[str, float] = {}
        self._groups: dict[tuple[str, str], _Sums] = defaultdict(_Sums)  # by family and group
        self._families: dict[str, _Sums] = defaultdict(_Sums)

    def add(self, jobs: Iterable[SweepJob]) -> None:
        """Add jobs, inputs before what reads them."""
        for entry in jobs:
            if entry.key not in self._jobs:
                self._jobs[entry.key] = entry
                group = self._groups[entry.family, entry.group]
                group.left, group.open = group.left + entry.cost, group.open + 1

    def started(self, key: str, now: float) -> None:
        """Note that a job has begun; one that begins again counts from then."""
        if key in self._jobs:
            self._since[key] = now

    def ended(self, key: str, now: float, seconds: float | None = None) -> None:
        """Note that a job has ended that took some seconds (None: since it began). One that failed
        before it began teaches nothing.
        """
        entry, since = self._jobs.pop(key, None), self._since.pop(key, None)
        if entry is None:
            return
        group = self._groups[entry.family, entry.group]
        group.left, group.open = group.left - entry.cost, group.open - 1
        if seconds is None and since is None:
            return
        for sums in (group, self._families[entry.family]):
            sums.took += now - since if seconds is None and since is not None else seconds or 0.0
            sums.expected += entry.cost
            sums.ended += 1

    def of(self, key: str, now: float) -> float | None:
        """Return the seconds left of a running job; None where it is not known to run, or how long
        it takes.
        """
        since = self._since.get(key)
        if since is None:
            return None
        entry = self._jobs[key]
        return self._left(key, now) if self._is_known(entry.family, entry.group) else None

    def all(self, now: float) -> float | None:
        """Return the seconds until all jobs have ended; None where there are none, or where it is
        not known how long some take.
        """
        left = (name for name, group in self._groups.items() if group.open)
        if not self._jobs or not all(self._is_known(*name) for name in left):
            return None
        if len(self._jobs) <= _MANY:
            return self._simulated(now)
        whole = sum(self._factor(*name, now) * group.left for name, group in self._groups.items())
        gone = sum(
            min(now - since, self._expectation(self._jobs[key], now))
            for key, since in self._since.items()
        )
        return max(0.0, whole - gone) / self.workers

    def _is_known(self, family: str, name: str) -> bool:
        """Whether it is known how long the jobs of a group take."""
        return family != SweepJob.UNKNOWN or self._groups[family, name].ended > 0

    def _left(self, key: str, now: float) -> float:
        """Return the seconds left of a job that runs."""
        return max(self._expectation(self._jobs[key], now) - (now - self._since[key]), 0.0)

    def _factor(self, family: str, name: str, now: float) -> float:
        """Return how much longer than expected the jobs of a group take.

        The factor of its family counts as much as half a job: the first jobs of a kind, which
        load libraries, are not the measure of the others.
        """
        group, alone = self._groups[family, name], family == SweepJob.UNKNOWN
        whole = group if alone else self._families[family]
        took, expected = whole.took, whole.expected
        usual = took / expected if expected > 0 else 1.0
        for key, since in self._since.items():  # running ones count where they are late already
            entry = self._jobs[key]
            near = entry.family == family and (not alone or entry.group == name)
            if near and now - since > usual * entry.cost:
                took, expected = took + now - since, expected + entry.cost
        factor = took / expected if expected > 0 else 1.0
        if not group.ended or not group.expected:
            return factor
        half = group.expected / group.ended / 2
        return (group.took + factor * half) / (group.expected + half)

    def _expectation(self, entry: SweepJob, now: float) -> float:
        """Return the whole time of a job; one that runs longer than expected is late by a tenth of
        the time that it has run.
        """
        found = self._factor(entry.family, entry.group, now) * entry.cost
        since = self._since.get(entry.key)
        return found if since is None else max(found, 1.1 * (now - since))

    def _simulated(self, now: float) -> float:
        """Return when the last job ends if each starts as soon as inputs and a worker are there."""
        ends: dict[str, float] = {}
        free = [0.0] * max(self.workers, len(self._since), 1)
        running = sorted((self._left(key, now), key) for key in self._since)
        for place, (left, key) in enumerate(running):
            ends[key] = free[place] = left
        heapq.heapify(free)
        factors = {name: self._factor(*name, now) for name in self._groups}
        for key, entry in self._jobs.items():
            if key in ends:
                continue
            ready = max((ends.get(name, 0.0) for name in entry.inputs), default=0.0)
            start = max(ready, heapq.heappop(free))
            ends[key] = start + factors[entry.family, entry.group] * entry.cost
            heapq.heappush(free, ends[key])
        return max(ends.values(), default=0.0)


_STEPPING, _SILENT = 10.0, 30.0  # seconds between lines on a stage: with new steps, without
_TRIAL = 60.0  # between lines on a trial
_DRAWN = 0.5  # between two drawings of a live display
_SHOWN = 8  # running stages and trials of a live display
_TASKS = 4  # whose means the line of a trial has
_WAITED, _WAITING = 10.0, 60.0  # seconds until the first line on a wait, and between two of them


def describe(trial: Trial, axes: tuple[str, ...] = ()) -> str:
    """Describe a trial in a few words: method, its axes, languages, sentences, seed."""
    values = (f"{name}={trial.params[name]}" for name in axes if name in trial.params)
    numbers = (("sentences", trial.sentences), ("seed", trial.seed))
    rest = (f"{name} {value:,}" for name, value in numbers if value is not None)
    return " ".join([trial.method, *values, "+".join(trial.languages), *rest])


def describe_stage(stage: Stage) -> str:
    """Describe a shared stage in a few words: kind, maker, languages (of a task's training run
    those that it reads), sentences or what it holds, and seed.
    """
    params = stage.params
    held_out = "held-out" if params.get("part") == "heldout" else ""
    langs = str(params.get("lang", "")) or "+".join(
        stage.languages if "languages" in params else ()
    )
    seed = f"seed {params['seed']}" if langs and "seed" in params else ""
    known = (langs, params.get("sentences", held_out), seed)
    maker = Catalog.name_of(stage.maker)
    return " ".join(str(part) for part in (stage.kind, maker, *known) if part)


class Progress:
    """The display: it counts what happens, estimates the time left, and shows what runs now. Values
    are means over languages on dev; test values are for the end.
    """

    def __init__(self, ledger: Ledger, console: Console | None = None) -> None:
        self._ledger, self._console = ledger, console or Console(stderr=True)
        self._live: Live | None = None
        self._plans: dict[str, Plan] = {}  # those that have the trials
        self._running: dict[str, float] = {}
        self._total = self._done = self._failed = self._cached = self._pruned = 0
        self._stages = self._stages_done = 0
        self._started = time.monotonic()
        self._left = Remaining()
        self._remarked: set[str] = set()
        self._failures: dict[str, str] = {}  # error -> the first job that failed by it
        self._advances: dict[str, str] = {}  # of the stages and trials that run
        self._noted: dict[str, tuple[Advance, str]] = {}  # their last notes, and speeds
        self._waits = events.Waiting()
        self._said: dict[str, tuple[int, float]] = {}  # job -> step and seconds of its last line
        self._groups_waiting: dict[str, str] = {}  # trial -> what its group waits for
        self._told: dict[str, float] = {}  # trial -> seconds of its wait at its last line
        self._drawn = 0.0  # when the live display was

    def hear(self, event: events.Event) -> None:
        """Show an event."""
        match event:
            case events.Planned():
                self._planned(event)
            case events.Began(what=what):
                self._begin(what)
            case events.Advanced(what=what):
                self._show_advance(what, event.advance)
            case events.JobEnded(what=Trial() as trial):
                self._trial_finished(trial, event)
            case events.JobEnded(what=Stage() as stage):
                self._stage_finished(stage, event)
            case events.Said(what=None):
                self._say(f"note: {event.message}")
            case events.Said(what=Trial() | Stage() as what, printed=True):
                for line in event.message.splitlines():
                    self._say(f"{self._describe(what)} | {line}")
            case events.Said(what=Trial() | Stage() as what):
                self._say(f"{self._describe(what)}: {event.message}")
            case events.Waiting():
                self._wait(event)
            case events.GroupsWaiting():
                self._groups_wait(event)
            case events.Over():
                self._end(event)
        now = time.monotonic()
        if self._live is not None and now - self._drawn >= _DRAWN:
            self._live.update(self._render(), refresh=True)
            self._drawn = now

    def _planned(self, event: events.Planned) -> None:
        self._plans |= dict.fromkeys((trial.key for trial in event.plan.trials), event.plan)
        self._total += event.pending
        self._cached += event.cached
        self._stages += event.stages
        if event.first:
            self._say(
                f"{event.plan.name}: {counted(event.pending, 'trial')} to run, {event.cached}"
                f" cached, {counted(event.stages, 'shared stage')} to make"
            )
        self._left.workers = max(event.workers, 1)
        self._left.add(event.jobs)
        left = self._left.all(time.monotonic())
        if left is not None and not self._done + self._failed + self._stages_done:
            self._say(f"about {roughly(left)} from now, by what has run in this storage")
        if event.first and self._console.is_terminal:
            # rich's thread, or one that prints, would draw what this one is changing
            self._live = Live(
                self._render(), console=self._console, auto_refresh=False, transient=True
            )
            self._live.start()

    def _wait(self, waits: events.Waiting) -> None:
        """Show what waits; a line is printed where all that could run begins to wait for nodes."""
        before, self._waits = self._waits, waits
        if waits.nodes and not before.nodes and not self._running and not self._advances:
            self._say(
                f"note: waiting for workers with {waits.each} each: {waits.nodes} requested, and"
                " none has started yet"
            )

    def _begin(self, what: Trial | Stage) -> None:
        now = time.monotonic()
        if isinstance(what, Trial):
            self._running[what.key] = now
        self._left.started(what.key, now)
        self._advances[what.key] = self._describe(what)

    def _show_advance(self, what: Trial | Stage, advance: Advance) -> None:
        """Show how far a job is: in the live display, or as a line from time to time."""
        text = f"{self._describe(what)}: {self._describe_advance(what.key, advance)}"
        self._advances[what.key] = text
        step, said = self._said.get(what.key, (0, 0.0))
        wait, count = _TRIAL, ""
        if isinstance(what, Stage):
            wait = _STEPPING if advance.step > step else _SILENT
            count = f"[{self._stages_done}/{self._stages}] "
        if self._live is None and advance.seconds - said >= wait:
            self._said[what.key] = (advance.step, advance.seconds)
            self._say(f"{count}{text}")

    def _stage_finished(self, stage: Stage, event: events.JobEnded) -> None:
        self._stages_done += 1
        self._forget(stage.key, event.seconds)
        described = describe_stage(stage)
        outcome = self._failure(described, event.error) or f"{event.seconds:.1f} s"
        self._say(f"[{self._stages_done}/{self._stages}] {described}: {outcome}")

    def _failure(self, described: str, error: str | None) -> str:
        """Return how a job failed, if it did: an error that was printed is not printed again."""
        if error is None:
            return ""
        first = self._failures.setdefault(error, described)
        return f"failed: {error}" if first == described else f"failed, as {first}"

    def _groups_wait(self, event: events.GroupsWaiting) -> None:
        """Show which groups wait: in the live display, or as a line from time to time."""
        self._told = {key: told for key, told in self._told.items() if key in event.seconds}
        self._groups_waiting = {}
        for key, seconds in event.seconds.items():
            described = self._describe(self._plans[key].by_key[key])
            text = f"{described}: {event.text} ({seconds:.0f} s so far)"
            self._groups_waiting[key] = text
            due = self._told[key] + _WAITING if key in self._told else _WAITED
            if self._live is None and seconds >= due:
                self._told[key] = seconds
                self._say(text)

    def _trial_finished(self, trial: Trial, event: events.JobEnded) -> None:
        started, plan = self._running.pop(trial.key, None), self._plans.get(trial.key)
        self._forget(trial.key, None)
        good = event.error is None and not event.pruned
        self._done, self._failed = self._done + good, self._failed + (event.error is not None)
        self._pruned += bool(event.pruned)
        keys = [key for key in trial.evaluations.values() if good and self._ledger.has(key)]
        records = self._ledger.read_many(keys) if keys else {}
        scores = [*DevMean.of(plan, trial, records)] if plan is not None else []
        shown = ", ".join(f"{score.name} {_number(score)}" for score in scores[:_TASKS])
        more = f" and {len(scores) - _TASKS} more" if len(scores) > _TASKS else ""
        shown = f", {shown}{more} on dev" if scores else ""
        seconds = f" ({time.monotonic() - started:.1f} s)" if started else ""
        described, left = self._describe(trial), "" if event.pruned else self._time_left()
        outcome = self._failure(described, event.error) or event.pruned or f"done{shown}"
        ended = self._done + self._failed + self._pruned
        self._say(f"{ended}/{self._total} {described}: {outcome}{seconds}{left}")
        if plan is not None and not event.pruned:
            self._remark(plan, trial, records)

    def _end(self, event: events.Over) -> None:
        """End the display with a line that stays."""
        self.stop()
        pruned = f"{self._pruned} pruned, " if self._pruned else ""
        self._say(
            f"{self._done} done, {pruned}{event.failed} failed, {self._cached} cached in"
            f" {time.monotonic() - self._started:.0f} s"
        )

    def stop(self) -> None:
        """End the live display."""
        if self._live:
            self._live.stop()
            self._live = None

    def _describe(self, what: Trial | Stage) -> str:
        if isinstance(what, Stage):
            return describe_stage(what)
        plan = self._plans.get(what.key)
        return describe(what, plan.axes.get(what.method, ()) if plan else ())

    def _remark(self, plan: Plan, trial: Trial, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Print a line that stays for each remark on a trial that no other trial had; of a training
        that ended too early one line is enough, whatever trials read it.
        """
        for text in remarks(plan.only(iter([trial])), records):
            said = text.partition(" (")[0] if text.startswith(HARDLY) else text
            if said not in self._remarked:
                self._remarked.add(said)
                self._say(f"note: {text}")

    def _forget(self, key: str, seconds: float | None) -> None:
        """End a job that was shown as running."""
        for known in (self._advances, self._noted, self._said):
            known.pop(key, None)
        self._left.ended(key, time.monotonic(), seconds)

    def _time_left(self) -> str:
        left = self._left.all(time.monotonic())
        return "" if left is None else f", about {roughly(left)} left"

    def _describe_advance(self, key: str, advance: Advance) -> str:
        """Describe how far a job is: its training step, speed and loss where it trains, its time,
        and the time that it has left.
        """
        losses = [value for name, value in advance.values.items() if name.endswith("loss")]
        training = ""
        if key in self._running:  # a trial has several trainings
            training = next((name.rpartition("/")[0] for name in advance.values if "/" in name), "")
        step = f"{training} step {advance.step:,}, ".lstrip() if advance.step else ""
        loss = f"loss {losses[0]:.3f}, " if losses else ""
        left = self._left.of(key, time.monotonic())
        rest = "" if left is None else f", about {roughly(left)} left"
        return f"{step}{self._speed(key, advance)}{loss}{advance.seconds:.0f} s so far{rest}"

    def _speed(self, key: str, advance: Advance) -> str:
        """Describe the speed of a training, ending in a comma: its tokens per second, or steps
        where it has none. Empty while it is not known.
        """
        before, rate = self._noted.get(key, (Advance(0.0), ""))
        if advance.step > before.step and advance.seconds > before.seconds:
            speed = (advance.step - before.step) / (advance.seconds - before.seconds)
            tokens = [v for name, v in advance.values.items() if name.endswith(TokenRate.NAME)]
            steps = f"{speed:.3g} steps/s, " if before.step else ""
            rate = f"{tokens[0]:,.0f} tokens/s, " if tokens else steps
        if advance.step != before.step or key not in self._noted:
            self._noted[key] = (advance, rate)
        return rate

    def _say(self, line: str) -> None:
        self._console.print(Text(printable(line)), soft_wrap=True)

    def _render(self) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_row(
            Text(f"{self._done + self._cached} done", "green"),
            f"{len(self._running)} running",
            Text(f"{self._failed} failed", "red" if self._failed else ""),
            f"{self._cached} cached",
            f"stages {self._stages_done}/{self._stages}",
            self._time_left().removeprefix(", "),
        )
        for text in list(self._advances.values())[:_SHOWN]:
            table.add_row("running", text)
        if len(self._advances) > _SHOWN:
            table.add_row("", f"and {len(self._advances) - _SHOWN} more")
        if self._waits.described:
            table.add_row("waiting", self._waits.described)
        for text in self._groups_waiting.values():
            table.add_row("waiting", text)
        return table


def _number(score: DevMean) -> str:
    """Write a score in its unit."""
    share = score.measured.unit == "share"
    return f"{100 * score.value:.1f} %" if share else f"{score.value:.4g}"
