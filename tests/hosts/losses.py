"""What is lost while a grid trains, and what a person does about it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial

from tests.hosts.cluster import GROUP, HEAD, INLINE
from tests.hosts.run import Run

CUT = 60.0  # seconds without a network
Repair = Callable[[], None]
"""What a person does once the run goes on. Ray's autoscaler does the rest."""


def nothing() -> None:
    """Leave the cluster as it is."""


def worker(run: Run) -> Repair:
    """Kill a worker."""
    pid, _ = run.cluster.training(_kind(run))[0]
    os.kill(pid, signal.SIGKILL)
    return nothing


def host(run: Run) -> Repair:
    """Cut the power of a host that trains; it is switched on again once the run goes on."""
    _, number = run.cluster.training(_kind(run))[0]
    run.cluster.hosts.kill(number)
    return partial(run.cluster.hosts.boot, number)


def hosts(run: Run) -> Repair:
    """Cut the power of all hosts but the head, for half a minute."""
    others = [number for number in run.cluster.numbers if number != HEAD]
    for number in others:
        run.cluster.hosts.kill(number)
    time.sleep(CUT / 2)
    for number in others:
        run.cluster.hosts.boot(number)
    return nothing


def driver(run: Run) -> Repair:
    """Kill the driver, and type the command again."""
    run.kill()
    run.start()
    return nothing


def head(run: Run) -> Repair:
    """Cut the head's power, and the driver's with it; switch it on, and type `ray up` and the
    grid's command again.
    """
    run.cluster.hosts.kill(HEAD)
    run.process.wait()
    run.cluster.hosts.boot(HEAD)
    run.cluster.up()
    run.note("the head is up again")
    run.start()
    return nothing


def network(run: Run) -> Repair:
    """Pull the network cable of a host that trains for `CUT` seconds."""
    _, number = run.cluster.training(_kind(run))[0]
    run.cluster.hosts.cut(number)
    time.sleep(CUT)
    run.cluster.hosts.mend(number)
    run.note("the network is mended")
    return nothing


LOSSES: Mapping[str, Callable[[Run], Repair]] = {
    "worker": worker,
    "host": host,
    "hosts": hosts,
    "driver": driver,
    "head": head,
    "network": network,
}


def _kind(run: Run) -> str:
    return GROUP if run.workers > 1 else INLINE
