"""A Ray cluster on the hosts of a network, and a grid on it."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from raxalign.store.artifacts import ArtifactStore
from tests.hosts.network import Host, Network, child_of

PORT = 6379
LIMIT = 240.0  # seconds after which something that should have happened counts as never
GROUP, INLINE = "RayTrainWorker", "ImplicitFunc"
# Ray's own agents, and the one coordinator that Ray Train leaves in a cluster, are nobody's trials
_ACTOR = re.compile(r"ray::(?!IDLE|DashboardAgent|RuntimeEnvAgent|_AutoscalingCoord)([\w.]+)")
_ROOM = """
import ray
from ray.util import placement_group_table
ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
print(sum(info["state"] != "REMOVED" for info in placement_group_table().values()))
"""


def eventually(found: Callable[[], object], what: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + LIMIT
    while not found():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.1)


@dataclass
class Cluster:
    """Ray on all hosts of a network; the first one is the head. One CPU each."""

    network: Network
    folder: Path

    @property
    def head(self) -> Host:
        return self.network.hosts[0]

    def environment(self) -> dict[str, str]:
        """Return the environment of Ray and the driver: the token is asked for everywhere."""
        token = self.folder / "token"
        if not token.exists():
            with os.fdopen(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(secrets.token_hex(32))
        dropped = ("MLFLOW_TRACKING_URI", "RAXALIGN_STORAGE", "RAY_ADDRESS")
        return {
            **{name: value for name, value in os.environ.items() if name not in dropped},
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def join(self, host: Host) -> None:
        """Start Ray on a host; on the head first."""
        kind = (
            ["--head", f"--port={PORT}", '--resources={"trial_driver": 100}']
            if host is self.head
            else [f"--address={self.head.address}:{PORT}"]
        )
        command = ["ray", "start", *kind, f"--node-ip-address={host.address}", "--num-cpus=1"]
        command += ["--object-store-memory=100000000"]
        command += ["--include-dashboard=false"] if host is self.head else []
        done = subprocess.run(
            host.enter(command),
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"ray start on {host.name}: {done.stdout}{done.stderr}"

    def room(self) -> int:
        """Return how many placement groups there are."""
        command = self.head.enter([sys.executable, "-c", _ROOM])
        done = subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, check=True
        )
        return int(done.stdout.split()[-1])

    def actors(self) -> dict[int, tuple[Host, str]]:
        """Return the processes of Ray's actors and running tasks: id -> host and kind."""
        return {
            pid: (host, found.group(1))
            for host in self.network
            for pid, line in host.processes().items()
            if (found := _ACTOR.match(line))
        }

    def training(self, kind: str) -> list[tuple[int, Host]]:
        """Return the processes of actors of a kind, those of the head last."""
        found = [
            (pid, host) for pid, (host, name) in self.actors().items() if name.startswith(kind)
        ]
        return sorted(found, key=lambda entry: entry[1] is self.head)


@dataclass
class Run:
    """One run of a grid by a driver on the head, watched to its end."""

    cluster: Cluster
    grid: Path
    storage: Path
    arguments: tuple[str, ...] = ()
    said: list[str] = field(default_factory=list)
    seen: dict[int, tuple[str, str]] = field(default_factory=dict)

    def start(self) -> None:
        """Start the driver."""
        command = [sys.executable, "-m", "raxalign", "grid", str(self.grid), *self.arguments]
        command += ["--address", f"{self.cluster.head.address}:{PORT}"]
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            self.cluster.head.enter(command),
            env={**self.cluster.environment(), "RAXALIGN_STORAGE": str(self.storage)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for work in (self._listen, self._look):
            threading.Thread(target=work, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip())

    def _look(self) -> None:
        while self.process.poll() is None:
            for pid, (host, kind) in self.cluster.actors().items():
                self.seen[pid] = (host.name, kind.partition(".")[0])
            time.sleep(0.3)

    def checkpointed(self) -> bool:
        """Return whether a training has written a checkpoint."""
        assert self.process.poll() is None, "\n".join(self.said)
        return bool(list(self.storage.glob("checkpoints/*/*/step-*/state.json")))

    def finish(self) -> float:
        """Wait for the end; returns the seconds since the start."""
        self.process.wait(LIMIT)
        return time.monotonic() - self.begun

    def kill(self) -> None:
        """Kill the driver."""
        os.kill(child_of(self.process.pid), signal.SIGKILL)
        self.process.wait()

    def spread(self) -> str:
        """Return how many processes of trials and of workers of groups each host had."""
        counts = Counter(
            (host, kind) for host, kind in self.seen.values() if kind in {INLINE, GROUP}
        )
        names = {INLINE: "trials or their drivers", GROUP: "workers of groups"}
        return ", ".join(f"{h}: {n} {names[kind]}" for (h, kind), n in sorted(counts.items()))

    def values(self) -> object:
        """Return the results, and the digests of all trained weights."""
        command = [sys.executable, "-m", "raxalign", "results", str(self.grid), "--format", "json"]
        done = subprocess.run(
            command,
            env={**self.cluster.environment(), "RAXALIGN_STORAGE": str(self.storage)},
            capture_output=True,
            text=True,
            check=True,
        )
        store = ArtifactStore(str(self.storage))
        made = [key for kind, key in store.keys() if kind == "aligned"]  # noqa: SIM118
        weights = {key: store.manifest("aligned", key).content for key in made}
        return json.loads(done.stdout), weights
