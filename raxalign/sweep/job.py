"""What travels to workers: where the plan and the storage are, and what a worker may use. And what
workers tell the driver while they work: how far a job is, what holds it up, and what plug-ins
print. They leave it as files in Ray's scratch folder. Where one cannot be written or read, the work
goes on without.
"""

from __future__ import annotations

import io
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import AllowInfNan

from raxalign.catalog import Catalog
from raxalign.errors import StorageError
from raxalign.grid.plan import Plan
from raxalign.grid.stored import StoredPlans
from raxalign.lazy import torch
from raxalign.options.run import Checkpointing
from raxalign.printing import lasting, masked
from raxalign.stages import Workshop
from raxalign.store.disk import Cache
from raxalign.store.files import files_of, split_place
from raxalign.store.sealed import recorded, seal, unseal
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """What a worker needs to know; `threads` and `gpus` are its share. For what has no comment see
    `raxalign.options.run.RunConfig`.
    """

    EVERY: ClassVar[float] = 2.0  # seconds between reports of a worker, and looks of the driver
    TRAINED_ONLY: ClassVar[str] = "trained"
    """In a group's result, and in Tune's configuration of what is left of it."""
    DRIVER: ClassVar[str] = "trial_driver"
    """A resource of its own: drivers of training trials must never take what their workers wait
    for.
    """

    storage: Storage
    plan: str  # its place in the storage
    workers: int = 1  # of a training trial
    threads: int = 1
    gpus: float | None = 0.0  # None: to be chosen by what the cluster has
    max_failures: int = 2
    scratch: str = ""  # a folder or URL for Ray's own files, which nobody needs afterwards
    at_once: int | None = None  # the most trials that run at a time (None: as many as fit)
    cache_gib: float = 50.0
    sign: str = ""  # a file that shows a machine that it has the driver's storage
    checkpoint_minutes: float = 10.0
    activation_checkpointing: Checkpointing = "auto"

    @property
    def demand(self) -> dict[str, float]:
        """What one worker holds."""
        return {"CPU": float(self.threads), **({"GPU": self.gpus} if self.gpus else {})}

    def describe(self, free: Mapping[str, float] | None = None) -> str:
        """Describe what one worker holds in words (``2 CPU and 1 GPU``), or how much is free of
        the same resources.
        """
        shown = {n: free.get(n, 0.0) for n in self.demand} if free is not None else self.demand
        return " and ".join(f"{amount:g} {resource}" for resource, amount in shown.items())

    @property
    def thread_limits(self) -> dict[str, str]:
        """The environment that holds a worker to its share of the cores: several processes with a
        full set of threads each slow one another tenfold. The numeric libraries read it when they
        are loaded, so a worker must begin with it.
        """
        libraries = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "RAYON")
        names = (f"{library}_NUM_THREADS" for library in libraries)
        return {**dict.fromkeys(names, str(self.threads)), "TOKENIZERS_PARALLELISM": "false"}

    def read_plan(self) -> Plan:
        """Read the plan, once per process, and load its plug-in files: those of the user's own
        grid, since the place comes from the driver and is checked against the plan.

        Raises `StorageError` where the plan was changed, and `PluginFault` where a file is not what
        the plan was made of.
        """
        return _read_plan(self.plan)

    def run_of(self, trial: str) -> str:
        """Return what is kept of a trial's run is filed under. Raises as `read_plan` for a plan
        that was changed; plug-ins are not loaded.
        """
        return _stored_plan(self.plan).by_key[trial].run

    def keep_failure(self, run: str, message: str, trace: str, *, bug: bool = False) -> None:
        """Keep why the run of a trial (`Trial.run`) failed, and whether that was an error which no
        code expected; where the storage can no longer be written, only the driver reports it.
        """
        with suppress(StorageError):
            why = {"message": masked(message), "trace": masked(trace)}
            self.storage.ledger.fail(run, {**why, **({"bug": True} if bug else {})})

    @staticmethod
    def sees(place: str) -> bool:
        """Return whether this machine sees a file of the storage now."""
        storage, name = split_place(place)
        return bool(storage.existing([name]))

    def inbox(self) -> Inbox:
        """Return what the driver reads of all workers."""
        return Inbox(self.scratch)

    def outbox(self, key: str) -> Outbox:
        """Return what a worker tells of one stage or trial."""
        return Outbox(self.scratch, key)

    def open_workshop(
        self,
        *,
        report: Callable[[Mapping[str, float], int], None] | None = None,
        trains: bool = True,
        rank: int = 0,
        world_size: int = 1,
    ) -> Workshop:
        """Open the workshop of this process, which loads torch where it `trains`. `report` receives
        points of curves: values by name, and their step.

        Raises `StorageError` where this machine does not have the driver's storage: it may have
        joined the cluster after the others were asked.
        """
        if self.sign and not self.sees(self.sign):
            raise StorageError(
                f"{self.storage}: {socket.gethostname()} does not see what the driver wrote there."
                " Mount one shared file system at that path on all machines, or give an object"
                " store (--storage s3://...)"
            )
        os.environ.update({**self.thread_limits, Cache.GIB: str(self.cache_gib)})
        runtime = Runtime(
            self._take_share() if trains else "cpu",
            rank=rank,
            world_size=world_size,
            threads=self.threads,
            checkpoint_seconds=60 * self.checkpoint_minutes,
            checkpointing=self.activation_checkpointing,
        )
        if report is not None:
            runtime = replace(runtime, report=report)
        return Workshop(self.read_plan(), self.storage, runtime)

    def _take_share(self) -> str:
        """Hold torch to this worker's share of the cores and of a GPU; returns the device."""
        torch.set_num_threads(self.threads)
        if not (self.gpus and torch.cuda.is_available()):
            return "cpu"
        if self.gpus < 1:  # who takes too much runs out of memory itself, and not its neighbour
            torch.cuda.set_per_process_memory_fraction(self.gpus)
        return "cuda"


@cache
def _stored_plan(place: str) -> Plan:
    return StoredPlans.at(place)


@cache
def _read_plan(place: str) -> Plan:
    plan = _stored_plan(place)
    for file in plan.plugins:
        file.load()
    return plan


@recorded
class Advance:
    """How far a job is: seconds since it began, and the last step of its training with the values
    of that step (0 and none where it has not reported any). A group of workers may be `waiting` for
    room; seconds are then those of its wait.
    """

    seconds: float
    step: int = 0
    values: Mapping[str, Annotated[float, AllowInfNan()]] = field(default_factory=dict)
    waiting: bool = False


@recorded
class _Line:
    kind: Literal["held-up", "printed"]
    text: str


class Outbox:
    """What a worker tells of one job."""

    def __init__(self, scratch: str, key: str) -> None:
        self._scratch, self._key = scratch, key
        self._begun, self._written = time.monotonic(), float("-inf")

    def begin(self, *, waiting: bool = False) -> None:
        """Tell that the job has begun, or waits for its workers."""
        self._begun = time.monotonic()
        self._advance(Advance(0.0, waiting=waiting))

    def report(self, metrics: Mapping[str, float], step: int) -> None:
        """Tell the values of a step; most calls write nothing."""
        now = time.monotonic()
        if now - self._written >= Job.EVERY:
            self._advance(Advance(now - self._begun, step, dict(metrics)))

    def hold_up(self, text: str) -> None:
        """Tell what holds the job up."""
        self._leave(f"lines/{time.time_ns():020d}-{self._key}", _Line("held-up", text))

    def print(self, text: str) -> None:
        """Pass on lines that a plug-in printed."""
        self._leave(f"lines/{time.time_ns():020d}-{self._key}", _Line("printed", text))

    @contextmanager
    def passing_on(self) -> Iterator[None]:
        """Leave for the driver what is printed in this process within the block, and what plug-ins
        from outside log as information or as more serious.
        """
        lines, root = _Lines(self.print), logging.getLogger()
        handler, level = _OfPlugins(lines), root.level
        root.addHandler(handler)
        root.setLevel(min(level, logging.INFO))
        try:
            with redirect_stdout(lines), redirect_stderr(lasting(sys.stderr)):
                yield
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
            lines.end()

    def _advance(self, advance: Advance) -> None:
        self._written = time.monotonic()
        self._leave(f"advances/{self._key}", advance)

    def _leave(self, name: str, what: Advance | _Line) -> None:
        # object stores raise anything, and a message stops no work
        with suppress(Exception):
            if self._scratch:
                storage, path = split_place(f"{self._scratch}/{name}")
                storage.write(path, seal(asdict(what)))


class Inbox:
    """What all workers tell, as the driver reads it."""

    def __init__(self, scratch: str) -> None:
        self._scratch = scratch
        self._begun: dict[tuple[str, bool], float] = {}
        self._seen: set[str] = set()

    def advances(self, keys: Iterable[str]) -> dict[str, Advance]:
        """Return how far each of these jobs is that has begun; seconds go on between reports."""
        found, now = {}, time.monotonic()
        for key, advance in self._read("advances", keys, Advance).items():
            self._begun.pop((key, not advance.waiting), None)  # of a group that was lost, or waited
            begun = self._begun.setdefault((key, advance.waiting), now - advance.seconds)
            found[key] = replace(advance, seconds=now - begun)
        return found

    def lines(self) -> list[tuple[str, str, bool]]:
        """Return the lines since the last look, oldest first: the key of the job, the text, and
        whether a plug-in has printed it.
        """
        names: list[str] = []
        with suppress(Exception):
            names = sorted(files_of(f"{self._scratch}/lines").names("").keys() - self._seen)
        found = self._read("lines", names, _Line)
        self._seen.update(found)
        return [
            (name.partition("-")[2], line.text, line.kind == "printed")
            for name, line in found.items()
        ]

    def _read(self, folder: str, names: Iterable[str], form: type[T]) -> dict[str, T]:
        found = dict[str, T]()
        # a sweep whose messages cannot be read goes on all the same
        with suppress(Exception):
            if self._scratch:
                data = files_of(f"{self._scratch}/{folder}").read_many(list(names))
                for name in sorted(data):
                    with suppress(ValueError):
                        found[name] = unseal(data[name], form)
        return found


class _Lines(io.TextIOBase):
    """A text file whose lines are passed on: those of `Job.EVERY` seconds together, when more comes
    after them. `tell` receives some at a time, without the line break after the last one.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell, self._lock, self._kept = tell, threading.RLock(), ""
        self._told = float("-inf")

    def writable(self) -> bool:
        """Return that it is."""
        return True

    def write(self, text: str) -> int:
        """Keep a text until its line is whole; of a line that is written over the last state."""
        with self._lock:
            self._kept += text
            if time.monotonic() - self._told >= Job.EVERY:
                self._pass_on()
        return len(text)

    def end(self) -> None:
        """Pass on what is left."""
        with self._lock:
            self._kept += "\n" if self._kept and not self._kept.endswith("\n") else ""
            self._pass_on()

    def _pass_on(self) -> None:
        whole, line_break, self._kept = self._kept.rpartition("\n")
        if line_break:
            self._told = time.monotonic()
            self._tell("\n".join(line.rpartition("\r")[2] for line in whole.split("\n")))


class _OfPlugins(logging.Handler):
    """A handler for what the code of plug-ins from outside logs."""

    def __init__(self, lines: _Lines) -> None:
        super().__init__(logging.INFO)
        self._lines = lines
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of a plug-in's own file, or of the package of an entry point."""
        if any(_is_of(record.pathname, file) for file in Catalog.outside()):
            self._lines.write(f"{self.format(record)}\n")


def _is_of(path: str, file: str) -> bool:
    """Whether code is that of a plug-in's file, or in the same package where it is installed."""
    folder = os.path.dirname(file)  # noqa: PTH120 - called for each record
    packaged = os.path.exists(f"{folder}/__init__.py")  # noqa: PTH110 - likewise
    return path == file or (packaged and path.startswith(f"{folder}/"))
