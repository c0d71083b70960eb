"""Several hosts on one machine: each has a network, a host name, processes and a /tmp/ray of its
own, and all share the file system. Needs root and iproute2.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

SWITCH, NAME, NETWORK = "rax-switch", "rax", "10.78.0"
_INIT = "while :; do sleep 3600 & wait $!; done"  # the first process of a host collects the dead


def missing() -> str:
    """Return what this machine lacks; empty where hosts can be made."""
    if os.geteuid():
        return "network namespaces need root"
    lacking = [name for name in ("ip", "unshare", "nsenter") if shutil.which(name) is None]
    return f"not installed: {', '.join(lacking)} (iproute2, util-linux)" if lacking else ""


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Host:
    """One host, running from `boot` to `kill`."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number, self.name = number, f"{NAME}{number}"
        self.address, self._port = f"{NETWORK}.{number}", f"p{number}"
        self._folder, self._first = folder, 0

    def connect(self) -> None:
        """Make the host's network and plug it into the switch."""
        _ip("netns", "add", self.name)
        _ip("-n", self.name, "link", "set", "lo", "up")
        veth = ["link", "add", "eth0", "netns", self.name, "type", "veth"]
        _ip(*veth, "peer", "name", self._port, "netns", SWITCH)
        _ip("-n", self.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        _ip("-n", self.name, "link", "set", "eth0", "up")
        _ip("-n", SWITCH, "link", "set", self._port, "master", "br0")
        self.plug(up=True)

    def plug(self, *, up: bool) -> None:
        """Cut the host's network off, or let it come back."""
        _ip("-n", SWITCH, "link", "set", self._port, "up" if up else "down")

    def boot(self) -> None:
        """Start the host's first process; its /tmp/ray and its part of ``own/`` are its alone."""
        mine = self._folder / self.name
        binds = ((mine / "ray", Path("/tmp/ray")), (mine / "own", self._folder / "own"))
        for source, target in binds:
            shutil.rmtree(source, ignore_errors=True)
            source.mkdir(parents=True)
            target.mkdir(exist_ok=True)
        mounts = [f"mount --bind {source} {target}" for source, target in binds]
        mounts.append(f"mount --bind {self._folder}/hosts /etc/hosts")
        script = " && ".join([f"hostname {self.name}", *mounts, _INIT])
        outer = subprocess.Popen(
            [
                *("ip", "netns", "exec", self.name),
                *("unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--uts"),
                *("bash", "-c", script),
            ],
            start_new_session=True,
            stderr=subprocess.DEVNULL,  # unshare mentions that its child was killed
        )
        while not (children := _children(outer.pid)):
            assert outer.poll() is None, f"{self.name} did not boot"
        self._first = children[0]
        self.run("true")

    def enter(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command on the host."""
        return ["nsenter", "--target", str(self._first), "--all", "--", *command]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the host to its end."""
        return subprocess.run(self.enter(command), capture_output=True, text=True, check=False)

    def processes(self) -> dict[int, str]:
        """Return the command lines of the host's processes, by their ids outside."""
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and _space(int(entry.name)) == _space(self._first):
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(entry.name)] = line.decode(errors="replace").strip()
        return found

    def kill(self) -> None:
        """Kill all processes at once: those of a process namespace die with its first one."""
        with suppress(ProcessLookupError):
            os.kill(self._first, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


def child_of(pid: int) -> int:
    """Return the id of the one child of `nsenter`: the command that it runs on a host."""
    return _children(pid)[0]


def _space(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/pid").readlink())


class Network:
    """A switch with hosts, for a ``with`` block; nothing of it is left afterwards."""

    def __init__(self, folder: Path, count: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.hosts = [Host(number + 1, folder) for number in range(count)]
        names = [f"{host.address} {host.name}" for host in self.hosts]
        (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))

    def __enter__(self) -> Network:
        self._remove()
        _ip("netns", "add", SWITCH)
        _ip("-n", SWITCH, "link", "add", "br0", "type", "bridge")
        _ip("-n", SWITCH, "link", "set", "br0", "up")
        for host in self.hosts:
            host.connect()
            host.boot()
        return self

    def __exit__(self, *error: object) -> None:
        for host in self.hosts:
            host.kill()
        self._remove()

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts)

    def _remove(self) -> None:
        for name in (*(host.name for host in self.hosts), SWITCH):
            inside = subprocess.run(
                ["ip", "netns", "pids", name], check=False, capture_output=True, text=True
            )
            for pid in inside.stdout.split():  # of a run that was killed
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
