"""A grid that a driver on the head runs, watched from outside to its end."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from raxalign.plan.trial import Trial
from raxalign.store.artifacts import ArtifactStore
from raxalign.sweep.progress import describe
from tests.e2e.runs import Site, tracked
from tests.hosts.cluster import HEAD, LIMIT, Cluster, eventually
from tests.soak import verdict


@dataclass
class Run:
    """One run of a grid, of one driver or of several after one another.

    Attributes:
        cluster: Where it runs.
        site: The grid and its storage.
        workers: Workers of each training.
        said: What the drivers wrote on the screen, with the seconds since the start.
        steps: The checkpoints that were seen: stage and step -> when they were written.
        backs: Loss -> the seconds from it to the next checkpoint, or to the end.
        crowded: Whether another job uses the head's CPU, so that trials run on other hosts.
    """

    cluster: Cluster
    site: Site
    workers: int
    said: list[tuple[float, str]] = field(default_factory=list)
    steps: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    backs: dict[str, float] = field(default_factory=dict)
    crowded: bool = False
    other: subprocess.Popen[str] | None = None

    def __post_init__(self) -> None:
        self.begun, self.struck = time.monotonic(), time.time()

    def start(self) -> None:
        """Start a driver."""
        if self.crowded and (self.other is None or self.other.poll() is not None):
            self.other = self.cluster.occupy()
        command = [*self.site.command("grid", "--address", "auto", f"--workers={self.workers}")]
        self.process = self.cluster.hosts.popen(
            HEAD, *command, RAY_AUTH_MODE="token", RAXALIGN_STORAGE=str(self.site.storage)
        )
        for stream in (self.process.stdout, self.process.stderr):
            threading.Thread(target=self._listen, args=(stream,), daemon=True).start()
        self.watcher = threading.Thread(target=self._look, args=(self.process,), daemon=True)
        self.watcher.start()

    def _listen(self, stream: IO[str]) -> None:
        for line in stream:
            self.said.append((time.monotonic() - self.begun, line.rstrip()))

    def _look(self, process: subprocess.Popen[str]) -> None:
        while process.poll() is None:
            with suppress(FileNotFoundError):  # a checkpoint that was removed meanwhile
                for state in self.site.storage.glob("checkpoints/*/*/step-*/state.json"):
                    stage, _, step, _ = state.parts[-4:]
                    self.steps[f"{stage[:8]} {step}"].add(state.stat().st_mtime_ns)
            time.sleep(0.2)
        self.ended = time.monotonic()

    def suffer(self, name: str, loss: Callable[[Run], Callable[[], None]]) -> None:
        """Suffer a loss once there is a checkpoint since the last one, and wait until the run goes
        on.
        """
        struck = self.struck
        eventually(lambda: self._after(struck) or self.ended_well(), "a checkpoint")
        assert not self.ended_well(), self.text
        self.struck = time.time()
        self.note(f"struck: {name}")
        repair, since = loss(self), time.time()  # what an orphan writes meanwhile does not count
        eventually(lambda: self._after(since) or self.ended_well(), "that it goes on")
        self.backs[name] = min([*self._after(since), time.time()]) - self.struck
        self.note(f"back {self.backs[name]:.0f} s after the loss: {name}")
        repair()

    def _after(self, start: float) -> list[float]:
        """Return when checkpoints were written after a time."""
        times = [when / 1e9 for seen in list(self.steps.values()) for when in list(seen)]
        return [when for when in times if when > start]

    def ended_well(self) -> bool:
        """Return whether the driver ended by itself; fails where it did so with an error."""
        code = self.process.poll()
        assert code in (None, 0), self.text
        return code == 0

    def note(self, text: str) -> None:
        """Put a line of this program's between those on the screen."""
        self.said.append((time.monotonic() - self.begun, f"-- {text}"))
        print(f"   {self.said[-1][0]:6.1f} -- {text}", flush=True)

    def finish(self) -> float:
        """Wait for the end; returns the seconds from the first start to it."""
        self.process.wait(LIMIT + 120)
        self.watcher.join()
        return self.ended - self.begun

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
        return "\n".join(line for _, line in self.said)


def values(site: Site) -> tuple[dict[str, object], dict[str, object]]:
    """Return the results of each trial of a grid, and the digests of trained weights."""
    store, rows = ArtifactStore(str(site.storage)), defaultdict[str, Any](list)
    for row in site.results():
        rows[str(row["trial"])].append(row)
    keys = sorted({trial.aligned for trial in trained(site)})
    made = [key for key in keys if store.has("aligned", key)]
    return dict(rows), {key: store.manifest("aligned", key).content for key in made}


def trained(site: Site) -> list[Trial]:
    """Return the trials of a grid that train, the shortest first."""
    trials = [trial for trial in site.plan.trials if trial.method == "finetune"]
    return sorted(trials, key=lambda trial: int(str(trial.params["epochs"])))


def forget(site: Site, trial: Trial) -> None:
    """Remove the results of a trial, and its trained encoder."""
    for key in trial.evaluations.values():
        shutil.rmtree(site.storage / "ledger" / key)
    shutil.rmtree(site.storage / "artifacts" / "aligned" / trial.aligned[:2] / trial.aligned)


def spread(site: Site, begun: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the trials that each host took part in, from the evaluations that began."""
    plan = site.plan
    trials = {
        key: describe(trial, plan.axes.get(trial.method, ()))
        for trial in plan.trials
        for key in trial.evaluations.values()
    }
    found: dict[str, list[str]] = defaultdict(list)
    for line in begun:
        if line["key"] in trials:
            found[line["host"]].append(trials[line["key"]])
    return {host: sorted(names) for host, names in sorted(found.items())}


def repeated(site: Site, begun: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the evaluations that began after they had been finished."""
    keys = [key for trial in site.plan.trials for key in trial.evaluations.values()]
    return verdict.begun_again(begun, site.ledger.read_many(keys))


def running(site: Site) -> int:
    """Return how many MLflow runs are still RUNNING."""
    runs = tracked(f"sqlite:///{site.storage}/mlflow.db", site.plan.name)
    return sum(run["status"] == "RUNNING" for run in runs)
