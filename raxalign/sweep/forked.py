"""Workers that are forked from one process per machine, which has loaded the libraries. A worker
that loads them itself takes 6 core-seconds and 350 MiB more.

Each of Tune's actors hands its jobs over to its worker, one after the other, and waits. Ray knows
the actor alone, and nobody outlives whom it needs:

* The process has one connection with each actor. Where it breaks, since the actor has ended or was
  killed, it kills the worker, and what this has started.
* Where a worker dies, its actor kills itself. So Ray reports what it reports of every dead worker.
* Where the process dies, the kernel kills its workers. Their next actors start another one.
* It ends with its last connection, of an actor or of the driver.

It has no threads and no CUDA, so that a fork of it is whole: a worker starts its own. A machine has
one by the name of its abstract socket, which two processes cannot have, and which leaves no file.
Where there are none (macOS), or a debugger follows an actor, jobs run in the actor itself.
"""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import gc
import hashlib
import json
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from raxalign.errors import RaxalignError, TransientError

_PROGRAM = (
    "import json, sys; given = json.load(sys.stdin); sys.path[:] = given.pop('path');"
    " from raxalign.sweep.forked import serve; serve(**given)"
)
_OPENING = ("transformers.models.auto.modeling_auto", "transformers.models.bert.modeling_bert")
"""What the opening of a model imports; nearly all of it is common to all models."""
_TRIES = 3  # to meet the process, which may end meanwhile
_START, _LOOK = 60.0, 0.5  # seconds for its start, and between two looks while it loads
_ALONE = {"RAY_DEBUG", "RAY_DEBUG_POST_MORTEM"}  # and Ray kills all that it does not know:
_ALONE |= {"RAY_kill_child_processes_on_worker_exit_with_raylet_subreaper"}
_PARENT_DIES = 1  # PR_SET_PDEATHSIG of prctl(2)
_OOM = Path("/proc/self/oom_score_adj")


@dataclass(frozen=True)
class Libraries:
    """The process with the libraries of a sweep, one on each machine. Of all sweeps only this one
    knows its `name`. It loads `modules`, with the limits of threads in its `environment`.
    """

    name: str
    modules: Sequence[str]
    environment: Mapping[str, str]

    @classmethod
    def of_the_kinds_here(cls, environment: Mapping[str, str]) -> Libraries:
        """Return what workers need: the code of the kinds of a plan, which the driver has loaded,
        and what it imports when it is used. PyArrow is not among them, since it starts a thread.
        """
        from raxalign.encoders.base import EncoderKind

        above = ("api", "cli", "inspect", "report", "single", "sweep", "tracking")
        there = list(sys.modules)  # the tracker's thread imports MLflow meanwhile
        own = [name for name in there if name.startswith("raxalign.")]
        own = [name for name in own if name.split(".")[1] not in above]
        families = {getattr(kind, "family", "") for kind in EncoderKind.__subclasses__()}
        opening = _OPENING if "transformer" in families else ()
        modules = (*own, "raxalign.sweep.work", "numpy", "torch", *opening)
        return cls(secrets.token_hex(16), modules, environment)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Have the process on this machine within the block."""
        connection = self._connect()
        try:
            yield
        finally:
            if connection is not None:
                connection.close()

    def run(self, config: dict[str, Any], work: bytes, patience: bytes) -> None:
        """Do a job in the worker of this actor, or here where there can be none, or where the job
        starts a group of workers; Tune calls this. `work` is the pickled function that does it, and
        `patience` the one that `work` calls and only an actor can answer, since it asks Ray.
        """
        from ray import cloudpickle, tune

        worker = None if config["needs"] == "GROUP" else self._worker()
        if worker is None:
            result = cloudpickle.loads(work)(config, patience=cloudpickle.loads(patience))
        else:
            result = worker.do(config, work, lambda holder: cloudpickle.loads(patience)(holder))
        tune.report(result)

    def _worker(self) -> _Worker | None:
        """Return the worker of this actor, or None; the first call forks it."""
        for _ in range(0 if _workers else _TRIES):
            connection = self._connect()
            if connection is None:
                break
            with suppress(OSError, EOFError):  # the process has died
                worker = _Worker(connection)
                _workers.append(worker if worker.pid else None)
                break
        return _workers[0] if _workers else None

    def _connect(self) -> socket.socket | None:
        """Connect with the process of this machine, or start it; None where there can be none."""
        if sys.platform != "linux" or sys.gettrace() or os.environ.keys() & _ALONE:
            return None
        with suppress(OSError, subprocess.SubprocessError):
            address = self._address()
            for _ in range(_TRIES):
                connection = socket.socket(socket.AF_UNIX)
                with suppress(ConnectionRefusedError):
                    connection.connect(address)
                    return connection if _is_own(connection) else None
                connection.close()
                self._start(address)
        return None

    def _address(self) -> str:
        """Return the name of the socket. Containers on one host have processes of their own, and so
        has what a scheduler limits apart.
        """
        place = [Path(f"/proc/self/ns/{kind}").stat().st_ino for kind in ("mnt", "pid", "user")]
        limits = Path("/proc/self/cgroup").read_text("utf-8")
        whole = repr([*place, limits, sys.executable, self.name])
        return f"\0raxalign-{hashlib.sha256(whole.encode()).hexdigest()}"

    def _start(self, address: str) -> None:
        """Start the process; it has its socket when this returns. It is in a group of its own,
        which Ctrl-C does not reach, and no child of this one, which Ray would kill with an actor.
        """
        given = {"path": sys.path, "address": address, "modules": list(self.modules)}
        subprocess.run(
            [sys.executable, "-P", "-c", _PROGRAM],
            input=json.dumps(given),
            text=True,
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
            timeout=_START,
            check=True,
        )


_workers: list[_Worker | None] = []  # of this actor: one, or None where there can be none


def _is_own(connection: socket.socket) -> bool:
    """Whether a process of the same user is at the other end."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", found)[1] == os.getuid())


class _Worker:
    """A worker, as its actor has it."""

    def __init__(self, connection: socket.socket) -> None:
        socket.send_fds(connection, [b"0"], [1, 2])  # a worker writes where this process does
        self._connection = Connection(connection.detach())
        self._connection.send(_place())
        self.pid: int = self._connection.recv()  # 0 where there can be none

    def do(self, config: object, work: bytes, patience: Callable[[Any], object]) -> object:
        """Have a job done; return its result. Where the worker dies, this process does."""
        try:
            self._connection.send(config)
            self._connection.send_bytes(work)
            what, value = self._connection.recv()
            while what == "patience":
                self._connection.send(patience(value))
                what, value = self._connection.recv()
        except (EOFError, OSError):
            _kill_group(self.pid)  # what it has started
            os.kill(os.getpid(), signal.SIGKILL)
            raise
        if what == "failed":
            known, text, trace = value
            error = TransientError(text) if known else RuntimeError(text)
            error.add_note(trace)
            raise error
        return value


def _place() -> tuple[dict[str, str], str, list[str], int, str]:
    """Return what this process is for the machine, and for code that runs in it."""
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    return dict(os.environ), str(Path.cwd()), sys.path, niceness, _OOM.read_text("ascii")


def _take(
    environment: Mapping[str, str], folder: str, path: list[str], niceness: int, first_to_kill: str
) -> None:
    """Give this process the place of another."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:] = path
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    with suppress(OSError):
        _OOM.write_text(first_to_kill, "ascii")
    if "numpy" in sys.modules:  # else the stochastic numbers of all workers would be the same
        sys.modules["numpy"].random.seed()


def serve(address: str, modules: list[str]) -> None:
    """Be the process with the libraries."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(address)
    except OSError as error:
        sys.exit(error.errno != errno.EADDRINUSE)  # another one was faster
    listener.listen(1024)
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    forks = _Forks(listener)
    if forks.look(round(1000 * _START)):  # the one that has started this process
        forks.load(modules)
        while forks.look():
            pass


class _Forks:
    """The loop of the process with the libraries."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener, self._poll = listener, select.poll()
        self._poll.register(listener, select.POLLIN)
        self._connections: dict[int, socket.socket] = {}  # by file number
        self._pids: dict[int, int] = {}  # of workers, by the file number of the connection
        self._ends: dict[int, int] = {}  # file that tells the end of a worker -> the same number
        self._may_fork: bool | None = None  # not loaded

    def load(self, modules: list[str]) -> None:
        """Load the libraries; meanwhile look whether anybody is left who needs them."""
        signal.signal(signal.SIGALRM, lambda *_: self.look(0) or os._exit(0))
        signal.siginterrupt(signal.SIGALRM, False)
        signal.setitimer(signal.ITIMER_REAL, _LOOK, _LOOK)
        for name in modules:
            with suppress(Exception):  # a worker that needs it hears why
                import_module(name)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        gc.collect()
        gc.freeze()  # a collection would copy the pages that workers share
        # libraries end their threads before a fork, or cannot be forked
        if (pid := os.fork()) == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        threads, torch = list(Path("/proc/self/task").iterdir()), sys.modules.get("torch")
        self._may_fork = len(threads) == 1 and not (torch and torch.cuda.is_initialized())

    def look(self, wait: int | None = None) -> bool:
        """Wait for what happens next, and do what it asks for; return whether to go on."""
        # one at a time: another event may be of a file that the first one closes
        for number, event in self._poll.poll(wait)[:1]:
            if number == self._listener.fileno():
                connection, _ = self._listener.accept()
                if _is_own(connection):
                    self._connections[connection.fileno()] = connection
                    self._poll.register(connection, select.POLLIN)
            elif number in self._ends:
                self._bury(number)
            elif event & ~select.POLLIN and number in self._pids:  # the actor has ended
                self._poll.unregister(number)
                _kill_group(self._pids[number])
            elif event & ~select.POLLIN:
                self._close(number)
            elif self._may_fork is not None:
                self._fork(number)
        return bool(self._connections)

    def _close(self, number: int) -> None:
        with suppress(KeyError):  # it is not looked at any more
            self._poll.unregister(number)
        self._connections.pop(number).close()

    def _fork(self, number: int) -> None:
        """Fork a worker for an actor that asks for one."""
        parent, pid = os.getpid(), None
        with suppress(OSError):  # no memory, or too many processes
            pid = os.fork() if self._may_fork else None
        if pid is None:
            with suppress(OSError):
                Connection(os.dup(number)).send(0)
            self._close(number)
            return
        if pid == 0:
            self._be_worker(number, parent)
        with suppress(OSError):  # the worker was faster
            os.setpgid(pid, pid)
        self._pids[number], end = pid, os.pidfd_open(pid)
        self._ends[end] = number
        self._poll.register(end, select.POLLIN)
        self._poll.modify(number, 0)  # its end alone; what it says is for the worker

    def _be_worker(self, number: int, parent: int) -> NoReturn:
        """Be a worker that was forked, and end."""
        try:
            os.setpgid(0, 0)
            ctypes.CDLL(None).prctl(_PARENT_DIES, signal.SIGKILL, 0, 0, 0)
            for file in (self._listener.fileno(), *self._ends, *{*self._connections} - {number}):
                os.close(file)
            if os.getppid() == parent:
                _work(self._connections[number])
        except EOFError:  # the actor has ended
            pass
        except BaseException:  # noqa: BLE001 - nothing of it may go on as the process that forked it
            traceback.print_exc()
        finally:
            os._exit(1)

    def _bury(self, end: int) -> None:
        """Let an actor hear that its worker has ended, and end what this has started."""
        self._poll.unregister(end)
        os.close(end)
        number = self._ends.pop(end)
        pid = self._pids.pop(number)
        _kill_group(pid)
        os.waitpid(pid, 0)
        self._close(number)


def _kill_group(pid: int) -> None:
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _work(connection: socket.socket) -> None:
    """Be the worker of an actor: do one job after the other until the actor ends."""
    for number, file in enumerate(socket.recv_fds(connection, 1, 2)[1], 1):
        os.dup2(file, number)
        os.close(file)
    actor, lock = Connection(connection.detach()), threading.Lock()
    _take(*actor.recv())
    faulthandler.enable()
    actor.send(os.getpid())

    def patience(holder: object) -> object:
        with lock:
            actor.send(("patience", holder))
            return actor.recv()

    while True:
        config = actor.recv()
        try:
            answer = ("done", actor.recv()(config, patience=patience))
            sys.stdout.flush()
        except BaseException as error:  # noqa: BLE001 - the actor raises it
            known = isinstance(error, RaxalignError)
            text = str(error) if known else f"{type(error).__name__}: {error}"
            answer = ("failed", (known, text, traceback.format_exc()))
        actor.send(answer)
