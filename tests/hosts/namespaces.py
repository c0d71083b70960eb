"""Several hosts on one machine, for tests of real clusters. Each host has a network, processes, a
host name, a home, /dev/shm and /tmp/ray of its own, and an SSH server; all other files are shared.

    desk (10.77.0.254), where a user types `ray up`
      |
    bridge ---- host 1 (10.77.0.1, rax1) ---- host 2 (10.77.0.2, rax2) ---- ...

They are anonymous Linux namespaces: they vanish with their processes, and these end with the test's
process. Nothing outside them is changed, so that several sets may be up at the same time.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

DESK = 0
PROGRAMS = ("ip", "nsenter", "rsync", "setpriv", "ssh", "ssh-keygen", "unshare")
SERVER = "/usr/sbin/sshd"
_NAMESPACES = ("--net", "--mount", "--uts", "--pid")
_PATIENCE = 20.0  # seconds until an SSH server listens
_SERVER_OPTIONS = """HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
StrictModes no
UsePAM no
PidFile none
Subsystem sftp internal-sftp
"""


def missing() -> str:
    """Say what keeps this machine from having such hosts; empty if nothing does."""
    if not sys.platform.startswith("linux"):
        return "hosts in namespaces need Linux"
    if os.geteuid():
        return "hosts in namespaces need root"
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    absent += [] if Path(SERVER).exists() else ["sshd"]
    if absent:
        return f"not installed: {', '.join(absent)} (iproute2, openssh-server, rsync, util-linux)"
    tried = subprocess.run(
        ["unshare", *_NAMESPACES, "--fork", "--mount-proc", "ip", "link", "add", "type", "bridge"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no namespaces: {tried.stderr.strip()}" if tried.returncode else ""


NEEDED = pytest.mark.skipif(bool(reason := missing()), reason=reason or "-")
"""Skips tests where a machine cannot have such hosts."""


@dataclass
class Hosts:
    """A desk and hosts on one bridge.

    Attributes:
        folder: Of the hosts: SSH keys and configuration, and `<number>/home` of each.
        count: Number of hosts next to the desk; they are numbered from 1, the desk is 0.
        private: Folders outside `folder` of which each host has its own, empty at first.
        variables: What shells on the hosts find in their environment.
    """

    folder: Path
    count: int = 3
    private: Sequence[Path] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    _inits: dict[int, tuple[subprocess.Popen[bytes], int]] = field(default_factory=dict)

    @property
    def key(self) -> Path:
        """The private SSH key that opens all hosts to root."""
        return self.folder / "key"

    @staticmethod
    def address(number: int) -> str:
        return f"10.77.0.{number or 254}"

    def home(self, number: int) -> Path:
        return self.folder / str(number) / "home"

    def command(self, number: int, *command: str) -> list[str]:
        """The command line that runs a command on a host, from outside."""
        _, init = self._inits[number]
        return ["nsenter", f"--target={init}", *_NAMESPACES, *command]

    def environment(self, number: int, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Variables for commands on a host: those of here, with its home, and none of Ray's."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        programs = f"{Path(sys.executable).parent}:{kept.get('PATH', os.defpath)}"
        return {**kept, "HOME": str(self.home(number)), "PATH": programs, **(more or {})}

    def run(
        self, number: int, *command: str, timeout: float = 240, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """A command on a host (0 is the desk), to its end."""
        return subprocess.run(
            self.command(number, *command),
            env=self.environment(number, environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def popen(self, number: int, *command: str, **environment: str) -> subprocess.Popen[str]:
        """A command on a host that goes on; it ends with its host at the latest."""
        return subprocess.Popen(
            self.command(number, *command),
            env=self.environment(number, environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def processes(self, number: int) -> dict[int, str]:
        """All processes on a host: their ids here (not on the host) -> command lines."""
        _, init = self._inits[number]
        wanted = Path(f"/proc/{init}/ns/pid").readlink()
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (entry / "ns" / "pid").readlink() == wanted:
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(entry.name)] = line.decode(errors="replace").strip()
        return found

    def is_up(self, number: int) -> bool:
        """Return whether a host was booted and not killed."""
        return number in self._inits

    def kill(self, number: int) -> None:
        """What a loss of power does: all processes of a host are gone at once."""
        process, _ = self._inits.pop(number)
        process.kill()  # its child, the host's first process, is killed with it (--kill-child)
        process.wait()
        if DESK in self._inits:
            self._switch("link", "delete", f"p{number}", check=False)

    def cut(self, number: int) -> None:
        """Pull a host's network cable."""
        self._switch("link", "set", f"p{number}", "down")

    def mend(self, number: int) -> None:
        """Plug a host's network cable in again."""
        self._switch("link", "set", f"p{number}", "up")

    def boot(self, number: int) -> None:
        """Start a host, or start it again after `kill`."""
        (self.folder / str(number) / "ray").mkdir(parents=True, exist_ok=True)
        self._make_home(number)
        process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", "unshare", *_NAMESPACES, "--fork"),
                *("--kill-child", "--mount-proc", "bash", "-c", self._script(number)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=(self.folder / str(number) / "log").open("ab"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._inits[number] = (process, _only_child(process))
        if number == DESK:
            self._switch("link", "add", "bridge", "type", "bridge")
            self._switch("address", "add", f"{self.address(DESK)}/24", "dev", "bridge")
            self._switch("link", "set", "bridge", "up")
            return
        self._plug(number)
        self._await_server(number)

    def _plug(self, number: int) -> None:
        """Join a host to the bridge by a pair of virtual cards. A host that is booted again has the
        same card: others remember its hardware address for a while.
        """
        _, init = self._inits[number]
        port, card, hardware = f"p{number}", "eth0", f"02:00:00:00:00:{number:02x}"
        self._switch(
            *("link", "add", port, "type", "veth", "peer", "name", card),
            *("address", hardware, "netns", str(init)),
        )
        self._switch("link", "set", port, "master", "bridge", "up")
        for arguments in (
            ("address", "add", f"{self.address(number)}/24", "dev", card),
            ("link", "set", card, "up"),
        ):
            subprocess.run(self.command(number, "ip", *arguments), check=True)

    def _switch(self, *arguments: str, check: bool = True) -> None:
        """`ip` in the desk's network, which has the bridge; process ids in it are those of here."""
        _, init = self._inits[DESK]
        subprocess.run(
            ["nsenter", f"--target={init}", "--net", "ip", *arguments],
            check=check,
            stderr=None if check else subprocess.DEVNULL,
        )

    def _script(self, number: int) -> str:
        """What the first process of a host does; its last line takes its place."""
        own = shlex.quote(str(self.folder / str(number)))
        mounts = "".join(
            f"mkdir -p {own}/private{path} && mount --bind {own}/private{path} {path}\n"
            for path in map(shlex.quote, map(str, self.private))
        )
        server = f"{SERVER} -D -e -f {own}/sshd_config"
        return f"""set -e
hostname {"desk" if number == DESK else f"rax{number}"}
mkdir -p /tmp/ray
mount --bind {own}/ray /tmp/ray
mount --bind {shlex.quote(str(self.folder / "hosts"))} /etc/hosts
mount --bind {own}/passwd /etc/passwd
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mkdir /run/sshd
{mounts}ip link set lo up
exec {"sleep infinity" if number == DESK else server}
"""

    def _make_home(self, number: int) -> None:
        """Make a home whose shells find this Python and this source, and the SSH server's
        configuration.
        """
        home = self.home(number)
        home.mkdir(parents=True, exist_ok=True)
        variables = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), **self.variables}
        (home / ".bashrc").write_text(
            f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH\n"
            + "".join(f"export {name}={shlex.quote(v)}\n" for name, v in variables.items())
        )
        server = _SERVER_OPTIONS.format(folder=self.folder)
        (self.folder / str(number) / "sshd_config").write_text(server)
        # ssh takes ~ for what /etc/passwd says, whatever HOME says
        users = [line.split(":") for line in Path("/etc/passwd").read_text().splitlines()]
        (self.folder / str(number) / "passwd").write_text(
            "".join(
                ":".join([*user[:5], str(home), *user[6:]] if user[0] == "root" else user) + "\n"
                for user in users
            )
        )

    def _await_server(self, number: int) -> None:
        """Wait until a host's SSH server listens."""
        end = time.monotonic() + _PATIENCE
        probe = f"exec 3<>/dev/tcp/{self.address(number)}/22"
        while self.run(DESK, "bash", "-c", probe).returncode:
            log = self.folder / str(number) / "log"
            assert self._inits[number][0].poll() is None, log.read_text()
            assert time.monotonic() < end, f"host {number} never came up: {log.read_text()}"
            time.sleep(0.05)


@contextmanager
def hosts_up(
    folder: Path,
    count: int = 3,
    private: Sequence[Path] = (),
    variables: Mapping[str, str] | None = None,
) -> Iterator[Hosts]:
    """A desk and hosts that are up, and end with the block; their files are in an empty folder. For
    the rest see `Hosts`.
    """
    hosts = Hosts(folder, count, private, variables or {})
    for name in ("key", "host_key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True
        )
    # a host that took its own name for 127.0.0.1 would offer that to other hosts
    names = "".join(f"{hosts.address(number)} rax{number}\n" for number in range(1, count + 1))
    (folder / "hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n{names}")
    try:
        for number in range(count + 1):
            hosts.boot(number)
        yield hosts
    finally:
        for number in sorted(hosts._inits, reverse=True):
            hosts.kill(number)


def _only_child(process: subprocess.Popen[bytes]) -> int:
    """The id of the one process that another has started, once it has."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    end = time.monotonic() + _PATIENCE
    while not (found := children.read_text().split()):
        assert process.poll() is None, "unshare ended"
        assert time.monotonic() < end, "unshare started nothing"
        time.sleep(0.01)
    return int(found[0])
