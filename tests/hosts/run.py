"""A grid that a driver on the head runs, watched from outside to its end, and what is lost while it
trains.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import IO

from tests.e2e.runs import Site
from tests.hosts.cluster import GROUP, HEAD, INLINE, LIMIT, Cluster, eventually

CUT = 60.0  # seconds without a network


@dataclass
class Run:
    """One run of a grid, of one driver or of several after one another.

    Attributes:
        cluster: Where it runs.
        site: The grid and its storage.
        workers: Workers of each training.
        crowded: Whether another job uses the head's CPU, so that trials run on other hosts.
        said: What the drivers wrote on the screen, with the seconds since the start.
        written: When each checkpoint was written that was seen.
    """

    cluster: Cluster
    site: Site
    workers: int
    crowded: bool = False
    said: list[str] = field(default_factory=list)
    written: set[float] = field(default_factory=set)
    other: subprocess.Popen[str] | None = None

    def __post_init__(self) -> None:
        self.begun, self.struck = time.monotonic(), time.time()

    def start(self) -> None:
        """Start a driver."""
        if self.crowded and (self.other is None or self.other.poll() is not None):
            self.other = self.cluster.occupy()
        command = self.site.command("grid", "--address", "auto", f"--workers={self.workers}")
        self.process = self.cluster.hosts.popen(
            HEAD, *command, RAY_AUTH_MODE="token", RAXALIGN_STORAGE=str(self.site.storage)
        )
        for stream in (self.process.stdout, self.process.stderr):
            threading.Thread(target=self._listen, args=(stream,), daemon=True).start()
        threading.Thread(target=self._look, args=(self.process,), daemon=True).start()

    def _listen(self, stream: IO[str]) -> None:
        for line in stream:
            self.note(line.rstrip())

    def _look(self, process: subprocess.Popen[str]) -> None:
        while process.poll() is None:
            with suppress(FileNotFoundError):  # a checkpoint that was removed meanwhile
                self.written |= {state.stat().st_mtime for state in self.site.checkpoints()}
            time.sleep(0.2)

    def suffer(self, name: str) -> None:
        """Suffer a loss once there is a checkpoint since the last one, and wait until the run goes
        on.
        """
        struck = self.struck
        eventually(lambda: max(self.written, default=0) > struck or self.ended_well(), "checkpoint")
        assert not self.ended_well(), self.text
        self.struck = time.time()
        self.note(f"-- struck: {name}")
        # what an orphan writes meanwhile does not count
        repair, since = LOSSES[name](self), time.time()
        eventually(lambda: max(self.written) > since or self.ended_well(), "that it goes on")
        self.note(f"-- back {time.time() - self.struck:.0f} s after the loss: {name}")
        if repair is not None:
            repair()

    def ended_well(self) -> bool:
        """Return whether the driver ended by itself; fails where it did so with an error."""
        code = self.process.poll()
        assert code in (None, 0), self.text
        return code == 0

    def note(self, text: str) -> None:
        """Keep a line of the screen, or of this program's."""
        self.said.append(f"   {time.monotonic() - self.begun:6.1f} {text}")

    def finish(self) -> float:
        """Wait for the end; returns the seconds from the first start to it."""
        self.process.wait(LIMIT + 120)
        return time.monotonic() - self.begun

    def kill(self) -> None:
        """Kill the driver."""
        self.cluster.kill(self.process, "-m raxalign grid")

    def release(self) -> None:
        """End what is left of the run."""
        self.kill()
        if self.other is not None and self.other.poll() is None:
            self.cluster.kill(self.other, "others_work():")

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(self.said)

    def training(self) -> tuple[int, int]:
        """Return the process of an actor that trains, and its host."""
        return self.cluster.training(GROUP if self.workers > 1 else INLINE)[0]


Repair = Callable[[], None]
"""What a person does once the run goes on. Ray's autoscaler does the rest."""


def _worker(run: Run) -> None:
    """Kill a worker."""
    os.kill(run.training()[0], signal.SIGKILL)


def _host(run: Run) -> Repair:
    """Cut the power of a host that trains; it is switched on again once the run goes on."""
    _, number = run.training()
    run.cluster.hosts.kill(number)
    return partial(run.cluster.hosts.boot, number)


def _hosts(run: Run) -> None:
    """Cut the power of all hosts but the head, for half a minute."""
    others = [number for number in run.cluster.numbers if number != HEAD]
    for number in others:
        run.cluster.hosts.kill(number)
    time.sleep(CUT / 2)
    for number in others:
        run.cluster.hosts.boot(number)


def _driver(run: Run) -> None:
    """Kill the driver, and type the command again."""
    run.kill()
    run.start()


def _head(run: Run) -> None:
    """Cut the head's power, and the driver's with it; switch it on, and type `ray up` and the
    grid's command again.
    """
    run.cluster.hosts.kill(HEAD)
    run.process.wait()
    run.cluster.hosts.boot(HEAD)
    run.cluster.up()
    run.note("-- the head is up again")
    run.start()


def _network(run: Run) -> None:
    """Pull the network cable of a host that trains for `CUT` seconds."""
    _, number = run.training()
    run.cluster.hosts.cut(number)
    time.sleep(CUT)
    run.cluster.hosts.mend(number)
    run.note("-- the network is mended")


LOSSES: Mapping[str, Callable[[Run], Repair | None]] = {
    "worker": _worker,
    "host": _host,
    "hosts": _hosts,
    "driver": _driver,
    "head": _head,
    "network": _network,
}
