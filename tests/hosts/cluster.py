"""A Ray cluster on the hosts: made from the desk by `ray up` with cluster/local.yaml."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.hosts.namespaces import DESK, Hosts

HEAD = 1
GROUP, INLINE = "RayTrainWorker", "ImplicitFunc"
LIMIT = 240.0  # seconds after which something that should have happened counts as never
_FILE = Path(__file__).parents[2] / "cluster" / "local.yaml"
# Ray's own agents, the one coordinator that Ray Train leaves in a cluster, and what `occupy` starts
_OTHERS = ("IDLE", "DashboardAgent", "RuntimeEnvAgent", "_AutoscalingCoord", "others_work")
_ACTOR = re.compile(rf"ray::(?!{'|'.join(_OTHERS)})([\w.]+)")
_OCCUPY = """
import ray, time
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
@ray.remote(num_cpus=1)
def others_work():
    time.sleep(3600)
here = On(ray.get_runtime_context().get_node_id(), soft=False)
ray.get(others_work.options(scheduling_strategy=here).remote())
"""
_STATE = """
import ray
from ray.util import placement_group_table
ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
groups = sum(info["state"] != "REMOVED" for info in placement_group_table().values())
print(sum(node["Alive"] for node in ray.nodes()), groups)
"""


def eventually(found: Callable[[], object], what: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + LIMIT
    while not found():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.2)


@dataclass
class Cluster:
    """Ray on all hosts; the first one is the head. One CPU each.

    Attributes:
        hosts: The hosts and the desk.
        folder: Where the cluster file is written.
        site: The user's folder on the desk, which `ray up` copies to the hosts.
        storage: The storage that the cluster file names.
    """

    hosts: Hosts
    folder: Path
    site: Path
    storage: Path

    def __post_init__(self) -> None:
        """Write cluster/local.yaml for these hosts. Python is there already."""
        config = yaml.safe_load(_FILE.read_text().replace("/shared/raxalign", str(self.storage)))
        head, *workers = (self.hosts.address(number) for number in self.numbers)
        config["provider"] |= {"head_ip": head, "worker_ips": workers}
        config["auth"] = {"ssh_user": "root", "ssh_private_key": str(self.hosts.key)}
        config["setup_commands"] = [
            command for command in config["setup_commands"] if "venv/bin/p" not in command
        ]
        for name in ("head_start_ray_commands", "worker_start_ray_commands"):
            config[name] = [
                command.replace("ray start", "ray start --num-cpus=1") for command in config[name]
            ]
        self.file = self.folder / "local.yaml"
        self.file.write_text(yaml.safe_dump(config))

    @property
    def numbers(self) -> range:
        """The numbers of the hosts."""
        return range(1, self.hosts.count + 1)

    def desk(self, *command: str) -> str:
        """Run a command in the user's folder on the user's machine; returns what it printed."""
        done = self.hosts.run(DESK, "env", f"--chdir={self.site}", *command, timeout=LIMIT)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def up(self) -> None:
        """Start the cluster, or what of it is lost; workers join a little later (see `wait`)."""
        if not (self.hosts.home(DESK) / ".ray" / "auth_token").exists():
            self.desk("ray", "get-auth-token", "--generate")
        self.desk("ray", "up", "-y", "--no-config-cache", str(self.file))

    def repair(self) -> None:
        """Boot the hosts that are down, plug in those that are cut off, and start the cluster."""
        for number in self.numbers:
            if not self.hosts.is_up(number):
                self.hosts.boot(number)
            self.hosts.mend(number)
        self.up()
        self.wait()

    def wait(self) -> None:
        """Wait until all hosts have joined: Ray's autoscaler starts Ray on them, again too."""
        for number in self.numbers:
            eventually(lambda n=number: self.runs(n, "raylet/raylet"), f"Ray on host {number}")
        eventually(lambda: self.state()[0] == self.hosts.count, "all hosts in the cluster")

    def exec(self, command: str) -> str:
        """Run a command line on the head from the desk; returns what it printed."""
        return self.desk("ray", "exec", "--no-config-cache", str(self.file), command)

    def down(self) -> None:
        """End Ray on all hosts."""
        self.desk("ray", "down", "-y", str(self.file))

    def runs(self, number: int, program: str) -> bool:
        """Return whether a program runs on a host."""
        return any(program in command for command in self.hosts.processes(number).values())

    def state(self) -> tuple[int, int]:
        """Return how many hosts Ray counts as alive, and how many placement groups there are."""
        done = self.hosts.run(HEAD, sys.executable, "-c", _STATE, RAY_AUTH_MODE="token")
        assert done.returncode == 0, done.stderr
        alive, groups = done.stdout.split()[-2:]
        return int(alive), int(groups)

    def occupy(self) -> subprocess.Popen[str]:
        """Have another job use the head's CPU, so that trials run on other hosts; returns it."""
        return self.hosts.popen(HEAD, sys.executable, "-c", _OCCUPY, RAY_AUTH_MODE="token")

    def kill(self, process: subprocess.Popen[str], words: str) -> None:
        """Kill a command on the head, by words of its command line."""
        found = [pid for pid, line in self.hosts.processes(HEAD).items() if words in line]
        if found:
            os.kill(min(found), signal.SIGKILL)
        process.wait()

    def actors(self) -> dict[int, tuple[int, str]]:
        """Return the processes of Ray's actors and running tasks: id -> host and kind."""
        return {
            pid: (number, found.group(1))
            for number in self.numbers
            if self.hosts.is_up(number)
            for pid, line in self.hosts.processes(number).items()
            if (found := _ACTOR.match(line))
        }

    def training(self, kind: str) -> list[tuple[int, int]]:
        """Return the processes of actors of a kind that are at work, and their hosts; those of the
        head last. A group's workers do not show in their titles that they are.
        """
        found = [
            (pid, host)
            for pid, (host, name) in self.actors().items()
            if name.startswith(kind) and (kind == GROUP or name.endswith(".train"))
        ]
        return sorted(found, key=lambda entry: entry[1] == HEAD)
