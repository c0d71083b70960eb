"""A grid that a driver on the head runs, watched from outside to its end."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from tests.e2e.runs import Site, tracked
from tests.hosts.cluster import HEAD, LIMIT, Cluster
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
    """

    cluster: Cluster
    site: Site
    workers: int
    said: list[tuple[float, str]] = field(default_factory=list)
    steps: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def start(self) -> None:
        """Start a driver; the clock begins with the first one."""
        self.begun = getattr(self, "begun", time.monotonic())
        command = [*self.site.command("grid", "--address", "auto", f"--workers={self.workers}")]
        self.process = self.cluster.hosts.popen(
            HEAD, *command, RAY_AUTH_MODE="token", RAXALIGN_STORAGE=str(self.site.storage)
        )
        streams = (self.process.stdout, self.process.stderr)
        for work in (
            *(lambda stream=stream: self._listen(stream) for stream in streams),
            self._look,
        ):
            threading.Thread(target=work, daemon=True).start()

    def _listen(self, stream: IO[str]) -> None:
        for line in stream:
            self.said.append((time.monotonic() - self.begun, line.rstrip()))

    def _look(self) -> None:
        process = self.process
        while process.poll() is None:
            for state in self.site.storage.glob("checkpoints/*/*/step-*/state.json"):
                stage, _, step, _ = state.parts[-4:]
                try:
                    self.steps[f"{stage[:8]} {step}"].add(state.stat().st_mtime_ns)
                except FileNotFoundError:
                    continue
            time.sleep(0.2)

    def note(self, text: str) -> None:
        """Put a line of this program's between those on the screen."""
        self.said.append((time.monotonic() - self.begun, f"-- {text}"))

    def checkpointed(self) -> bool:
        """Return whether a training has written a checkpoint."""
        assert self.process.poll() is None, self.text
        return bool(self.steps)

    def finish(self) -> float:
        """Wait for the end; returns the seconds since the start."""
        self.process.wait(LIMIT + 120)
        return time.monotonic() - self.begun

    def kill(self) -> None:
        """Kill the driver."""
        processes = self.cluster.hosts.processes(HEAD)
        os.kill(
            min(pid for pid in processes if "-m raxalign grid" in processes[pid]), signal.SIGKILL
        )
        self.process.wait()

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(line for _, line in self.said)

    def values(self) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
        """Return the results, and the digest of each trained encoder's weights."""
        rows = self.site.results()
        store = ArtifactStore(str(self.site.storage))
        keys = {trial.aligned for trial in self.site.plan.trials if trial.method == "finetune"}
        return rows, {key: store.manifest("aligned", key).content for key in sorted(keys)}

    def spread(self, log: list[Mapping[str, Any]]) -> dict[str, list[str]]:
        """Return the trials that each host took part in, from a log of begun evaluations."""
        trials = {
            key: f"{trial.method} {trial.params}"
            for trial in self.site.plan.trials
            for key in trial.evaluations.values()
        }
        found: dict[str, list[str]] = defaultdict(list)
        for line in log:
            if line["key"] in trials:
                found[line["host"]].append(trials[line["key"]])
        return {host: sorted(names) for host, names in sorted(found.items())}

    def repeated(self, log: Any) -> list[str]:
        """Return the evaluations that were made again although they were finished."""
        plan, ledger = self.site.plan, Ledger(str(self.site.storage))
        keys = [key for trial in plan.trials for key in trial.evaluations.values()]
        return verdict.repeated(log, ledger.read_many(keys))

    def running(self) -> int:
        """Return how many MLflow runs are still RUNNING."""
        runs = tracked(f"sqlite:///{self.site.storage}/mlflow.db", self.site.plan.name)
        return sum(run["status"] == "RUNNING" for run in runs)
