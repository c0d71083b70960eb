"""The cluster: starting, joining and leaving it, and the folder of Ray's own files meanwhile; its
nodes, also those that may come, and what they have room for: which jobs fit beside those that run,
and what no node can ever give.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from raxalign.errors import ResourceError, StorageError
from raxalign.store.alive import ScratchFolders, maker_name
from raxalign.store.files import split_place
from raxalign.store.lease import Holder, Locks
from raxalign.sweep.events import Hear, Said
from raxalign.sweep.job import Job
from raxalign.sweep.order import Holds

BOOTSTRAP = Path("~/ray_bootstrap_config.yaml")
"""On the head of a cluster that `ray up` made: which nodes it may start. It is JSON."""
JOINING, _LOOK = 600.0, 2.0  # seconds in which machines join that are there, and between two looks

Node = Mapping[str, float]
"""The resources of one node by their names."""


@dataclass(frozen=True)
class Room:
    """The nodes of a cluster at one moment, those included that it may still start."""

    job: Job
    nodes: Sequence[Node]

    def fits(self, needs: Holds, held: Mapping[Holds, int]) -> bool:
        """Check whether a job fits beside those that run. One fits always where nothing runs: it
        waits for nodes that are lost or not there yet. `held` counts those by what they hold.
        """
        if not any(held.values()):
            return True
        asked = self.job.workers if needs is Holds.GROUP else 1
        return self.free(needs, held) >= asked

    def free(self, needs: Holds, held: Mapping[Holds, int]) -> int:
        """Count the workers for which there is room beside the jobs that run."""
        whole = held.get(Holds.WORKER, 0) + self.job.workers * held.get(Holds.GROUP, 0)
        cores = sum(slots(node, {"CPU": float(self.job.threads)}) for node in self.nodes)
        cores -= whole + held.get(Holds.CPUS, 0)
        if needs is Holds.CPUS:
            return cores
        return min(cores, sum(slots(node, self.job.demand) for node in self.nodes) - whole)


@dataclass(frozen=True)
class Nodes:
    """What a cluster has. It `may_grow` by nodes of which nothing is known: Ray does not report
    whether an autoscaler runs, and what it may start.
    """

    alive: tuple[Node, ...]
    most: tuple[Node, ...] = ()  # besides the head, when it is as large as it may grow, if known
    may_grow: bool = False

    @classmethod
    def find(cls, address: str | None) -> Nodes:
        """Return the nodes of the cluster that this process has joined (at an address), or of the
        Ray that it started on this machine (None).
        """
        config = _bootstrap() if address else {}
        most = [
            kind["resources"]
            for name, kind in config.get("available_node_types", {}).items()
            if name != config.get("head_node_type")
            for _ in range(min(kind.get("max_workers", 0), config.get("max_workers", 0)))
        ]
        return cls(_alive(), tuple(most), may_grow=bool(address) and not config)

    @property
    def later(self) -> tuple[Node, ...]:
        """What each node has that may still be started."""
        left = list(self.most)
        for node in self.alive:
            same = [kind for kind in left if all(node.get(name) == kind[name] for name in kind)]
            if same:
                left.remove(same[0])
        heads = sum("node:__internal_head__" in node for node in self.alive)
        return tuple(left[: max(0, heads + len(self.most) - len(self.alive))])

    def all(self, job: Job) -> tuple[Node, ...]:
        """Return the nodes to count on. Of a cluster that may grow a quarter more is requested than
        it has, since jobs that wait make an autoscaler start nodes. Groups of workers are not:
        without an autoscaler one would wait until it is given up.
        """
        if not self.may_grow or job.workers > 1:
            return (*self.alive, *self.later)
        there = sum(slots(node, job.demand) for node in self.alive)
        return (*self.alive, *(job.demand for _ in range(max(there // 4, 1))))

    def now(self) -> Nodes:
        """Return the same cluster with the nodes that are alive now. Where Ray does not answer, it
        is the one that was known; Ray itself ends a driver that has lost its cluster.
        """
        with suppress(ray.exceptions.RayError, TimeoutError, ConnectionError):
            return replace(self, alive=_alive())
        return self

    def wait_for_named(self, job: Job, hear: Hear, *, training: bool) -> Nodes:
        """Wait until a trial fits, or all machines have joined that the cluster file of `ray up`
        names: its command ends before Ray runs on the workers. Returns the nodes that are there
        then.
        """
        nodes, provider = self, _bootstrap().get("provider", {})
        named = 1 + len(provider.get("worker_ips", ())) if provider.get("type") == "local" else 0
        end, told = time.monotonic() + JOINING, False
        while len(nodes.alive) < named and time.monotonic() < end:
            with suppress(ResourceError):
                check_fits(job, (*nodes.alive, *nodes.later), training=training)
                break
            if not told:
                there = (
                    f"the cluster file names {named} machines, and {len(nodes.alive)} joined so far"
                )
                hear(Said(f"{there}: waiting for the others"))
            told = True
            time.sleep(_LOOK)
            nodes = nodes.now()
        return nodes

    def with_gpus(self, job: Job, hear: Hear) -> tuple[Job, Nodes]:
        """Return the job with a GPU for each worker where a node has one, if the grid does not say
        how many; and the nodes by then. Named machines are waited for, since one of them may have a
        card.
        """
        if job.gpus is not None:
            return job, self
        nodes = self.wait_for_named(replace(job, gpus=1.0), hear, training=False)
        if not any(node.get("GPU") for node in (*nodes.alive, *nodes.later)):
            return replace(job, gpus=0.0), nodes
        hear(
            Said("each worker gets a GPU of its own (run.gpus_per_worker: 0.5 lets two share one)")
        )
        return replace(job, gpus=1.0), nodes

    def refuse_impossible(self, job: Job, hear: Hear, *, training: bool) -> str | None:
        """Raise `ResourceError` with the name of the resource where the cluster can never give what
        a trial asks for. Where nodes may come of which nothing is known, the message is printed and
        returned instead, and the request waits for them.
        """
        try:
            check_fits(job, (*self.alive, *self.later), training=training)
        except ResourceError as error:
            if training:
                _check_driver(self.alive)
            if not self.may_grow:
                raise
            hear(Said(f"{error}. Waiting for nodes that the cluster may start"))
            return str(error)
        return None


def _alive() -> tuple[Node, ...]:
    return tuple(node["Resources"] for node in ray.nodes() if node["Alive"])


def _bootstrap() -> dict[str, Any]:
    """Return what `ray up` left on the head; empty where this is not such a head."""
    with suppress(OSError, ValueError):
        return dict(json.loads(BOOTSTRAP.expanduser().read_text(encoding="utf-8")))
    return {}


def slots(node: Node, wanted: Mapping[str, float]) -> int:
    """Count the workers that a node has room for."""
    return min(int(node.get(resource, 0.0) / amount + 1e-6) for resource, amount in wanted.items())


def check_fits(job: Job, nodes: Sequence[Node], *, training: bool) -> None:
    """Refuse what no node can ever give, naming the resource; a group must fit the cluster."""
    wanted = job.demand
    for resource, amount in wanted.items():
        most = max((node.get(resource, 0.0) for node in nodes), default=0.0)
        if amount > most:
            gpus = "lower run.gpus_per_worker, or join a cluster that has them with --address"
            remedy = "lower run.threads" if resource == "CPU" else gpus
            raise ResourceError(
                f"a worker asks for {amount:g} {resource}, and no node has more than {most:g}:"
                f" {remedy}"
            )
    each, total = job.describe(), sum(slots(node, wanted) for node in nodes)
    if not total:
        raise ResourceError(f"a worker asks for {each}, and no node has both")
    if training and job.workers > total:
        raise ResourceError(
            f"a trial asks for {job.workers} workers with {each} each, and the cluster has room for"
            f" {total}: lower run.workers (--workers)"
        )
    if training:
        _check_driver(nodes)


def _check_driver(nodes: Sequence[Node]) -> None:
    """Refuse trials with several workers where no node has the resource of their drivers."""
    if not any(node.get(Job.DRIVER) for node in nodes):
        raise ResourceError(
            f"no node has the resource {Job.DRIVER!r}, which the drivers of trials with several"
            f" workers sit on: start the head with --resources='{{\"{Job.DRIVER}\": 1000}}'"
            " (cluster.yaml does)"
        )


def scratch_folder(root: str, address: str | None) -> str:
    """Return a folder of this machine where Ray runs on it alone; on a cluster one in the storage,
    which every node sees.
    """
    if address:
        return f"{root}/ray/{maker_name()}"
    return ScratchFolders.make(Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()))


def remove_scratch(place: str) -> None:
    """Remove what `scratch_folder` gave."""
    with suppress(StorageError):
        storage, name = split_place(place)
        storage.remove(name)
    with suppress(OSError):  # last: what still runs would make a folder of this name
        ScratchFolders.link(place).unlink()


_ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # with verbose=0 the older output prints nothing
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "1800",  # groups fit: one waits for a node to boot
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",  # `Outbox.passing_on` passes on what is printed
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_FUNCTION_THREAD_TIMEOUT_S": "600",  # a slow end of a trial must not lose its actor
    "TUNE_GLOBAL_CHECKPOINT_S": "inf",  # what it would restore is in the ledger
    "TUNE_MAX_PENDING_TRIALS_PG": "100000",  # it gets only what there is room for
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # a loss is one line of the display, not a traceback
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}

_ROOM = 16 * 2**20  # bytes for Ray's own files
_daemons: dict[str, int] = {}  # of the Ray that this process started: their names and ids
_one_at_once = threading.Lock()
_PATIENCE, _PAUSE = 10.0, 0.5  # seconds for a head that is starting, and between two tries


@contextmanager
def joined(job: Job, address: str | None, hear: Hear) -> Iterator[tuple[Job, Nodes]]:
    """Be on the cluster at an address, or on one of this machine alone, within the block. Yields
    the job with the folder of Ray's own files, which is removed in the end, and with the GPUs of
    each worker; and the nodes of the cluster. A Ray that this process has already, as a notebook
    may, is used, and stays.

    Raises `ResourceError` where another grid runs in this process: both would have one Ray, which
    the first to end would end.
    """
    if not _one_at_once.acquire(blocking=False):
        raise ResourceError(
            "another grid is running in this process: run them one after the other, or each in a"
            " process of its own"
        )
    own = not ray.is_initialized()
    try:
        job = replace(job, scratch=scratch_folder(job.storage.root, address))
        connect(address, job)
        try:
            job = signed(job) if address else job
            yield Nodes.find(address).with_gpus(job, hear)
        finally:
            if own:
                disconnect()
            remove_scratch(job.scratch)
    finally:
        _one_at_once.release()


def connect(address: str | None, job: Job) -> None:
    """Join the cluster at an address, or start one on this machine (with room for trial drivers).
    Workers begin with their share of threads.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    if ray.is_initialized():
        return
    ends = signal.getsignal(signal.SIGTERM)
    if address:
        _join(address, job)
    else:
        _start(job)
    if threading.current_thread() is threading.main_thread():
        # Ray has put its own handler there, which ends this process with a trace, and not cleanly
        signal.signal(signal.SIGTERM, ends)


def disconnect() -> None:
    """Leave the cluster, and end Ray where this process started it.

    Python collects garbage in whichever thread allocates. Where that frees a reference to one of
    Ray's objects in another thread while Ray shuts down, Ray ends the whole process, so nothing is
    collected meanwhile.
    """
    _daemons.clear()
    collects = gc.isenabled()
    gc.disable()
    try:
        ray.shutdown()
    finally:
        if collects:
            gc.enable()


def _init(environment: Mapping[str, str], **given: object) -> None:
    """Call `ray.init` with an empty working directory for the workers: they would otherwise import
    from that of this process, and from the folder of its script. That of a job which was submitted
    with one is left, since it was chosen.
    """
    runtime: dict[str, object] = {"env_vars": environment}
    with tempfile.TemporaryDirectory() as empty:
        if "working_dir" not in os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", ""):
            runtime["working_dir"] = empty
        ray.init(runtime_env=runtime, log_to_driver=False, logging_level=logging.ERROR, **given)


def _join(address: str, job: Job) -> None:
    """Join a cluster. Raises `ResourceError` where none answers, or it refuses this process."""
    _require_listener(address)
    limits = job.thread_limits
    try:
        _init({**limits, **{name: os.environ[name] for name in _ENVIRONMENT}}, address=address)
    except (ConnectionError, ValueError) as error:
        if "InvalidAuthToken" not in str(error.__cause__):
            raise _no_cluster(address, error) from error
        raise ResourceError(
            f"the Ray cluster at {address} demands a token: set RAY_AUTH_MODE=token, and have here"
            " the ~/.ray/auth_token of its head (RAY_AUTH_TOKEN_PATH names another place). Or start"
            " the cluster anew with RAY_AUTH_MODE=disabled, where nobody else reaches it"
        ) from error
    except RuntimeError as error:  # another version of Ray or Python, for example
        told = " ".join(str(error).split())
        raise ResourceError(f"the Ray cluster at {address} was not joined: {told}") from error


def _start(job: Job) -> None:
    """Start a cluster on this machine. Raises `ResourceError` where Ray does not get that far."""
    os.environ.update(job.thread_limits)  # workers inherit it
    require_token()
    folder = _short_name(job.scratch)
    # without it Ray's processes begin: they end with this one, and not with its terminal before it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        _init(
            {},
            address="local",
            resources={Job.DRIVER: 1000},
            # it needs more libraries (ray[default]), and a second one on a machine confuses both
            include_dashboard=False,
            _temp_dir=folder,
        )
    except Exception as error:
        # where its processes do not answer in time, Ray raises a bare Exception
        if type(error) is not Exception and not isinstance(
            error, RuntimeError | OSError | ValueError
        ):
            raise
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ResourceError(
            f"Ray did not start on this machine ({line}). The machine may be too busy, or short of"
            " memory: end other work and run the same command again; what is done is kept"
        ) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    for file in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread or a child has ended meanwhile
            for pid in map(int, file.read_text().split()):
                name = Path(f"/proc/{pid}/comm").read_text().strip()
                if name in ("gcs_server", "raylet"):
                    _daemons[name] = pid


def require_daemons() -> None:
    """Raise `ResourceError` where a process has ended without which the Ray that this process
    started does nothing. Ray itself ends this process then, within a minute and without a reason.
    """
    for name, pid in _daemons.items():
        try:
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            ended = True
        if ended:
            raise ResourceError(
                f"Ray's process {name} has ended, perhaps killed for want of memory: run the same"
                " command again; what is done is kept"
            )


def _short_name(scratch: str) -> str:
    """Give the scratch folder of this machine a short name, since a socket's path has at most 107
    bytes. Raises `ResourceError` where that cannot be, or the folder has no room for Ray's files.
    """
    link = ScratchFolders.link(scratch)
    try:
        link.symlink_to(scratch)
    except OSError as error:
        raise ResourceError(
            f"{link}: {error.strerror}; Ray needs a short name there for its sockets"
        ) from error
    free = shutil.disk_usage(scratch).free
    if free < _ROOM:
        raise ResourceError(
            f"{scratch}: {free >> 20} MiB are free, and Ray needs {_ROOM >> 20} MiB; make"
            " room, or name another folder with TMPDIR"
        )
    return f"{link}/ray"  # Ray opens it to everybody, but not what it is in


def _require_listener(address: str) -> None:
    """Raise `ResourceError` where nothing listens at ``host:port`` for `_PATIENCE` seconds: Ray
    itself would try for minutes, and print a line per try.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():  # such as `auto`, which Ray looks up at once
        return
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
        except (OSError, OverflowError) as error:
            if time.monotonic() >= end:
                raise _no_cluster(address, error) from error
            time.sleep(_PAUSE)
        else:
            return


def _no_cluster(address: str, error: Exception) -> ResourceError:
    return ResourceError(
        f"no Ray cluster answers at {address}: {error}. Start one (ray up, ray start --head), or"
        " leave out --address"
    )


def require_token() -> None:
    """Write the token of Ray's clusters into a file that only the user can read: Ray would make one
    that all can. A cluster that Ray starts here answers to who knows it, unless `RAY_AUTH_MODE`
    says otherwise.
    """
    if os.environ.keys() & {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}:
        return
    file, token = Path("~/.ray/auth_token").expanduser(), secrets.token_hex(32)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if file.exists():
            file.chmod(0o600)
            return
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(token)
    except OSError:  # a home that cannot be written
        os.environ["RAY_AUTH_TOKEN"] = token


LIMIT = 120.0  # seconds within which a machine must have started a worker and answered
GONE = 60.0
"""Seconds of silence, three signs of life, after which a holder counts as dead that its host does
not know: it is in another container with the same name, or the host was started anew.
"""
_SOON = 30.0  # seconds for an answer of who waits for a lock


def ask(remote: Any, nodes: Iterable[str], *given: object, seconds: float = LIMIT) -> Any:
    """Call a remote function on each of these nodes. Return the answers by node, an error of Ray
    where there is one; who has not answered in time is left out.
    """
    calls = {
        remote.options(
            num_cpus=0,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote(*given): node
        for node in nodes
    }
    done, _ = ray.wait(list(calls), num_returns=len(calls), timeout=seconds) if calls else ([], [])
    return {calls[call]: _answer(call) for call in done}


def _answer(call: Any) -> Any:
    try:
        return ray.get(call)
    except ray.exceptions.RayError as error:
        return error


def patience(holder: Holder) -> float:
    """Return the seconds of silence after which a holder of a lock counts as dead: 0 where its own
    machine reports that it is, or Ray that its machine has left the cluster. Where only the network
    was cut it may still work; it then finds at its next sign of life that it has lost the lock.
    """
    if not ray.is_initialized():
        return Locks.EXPIRY
    nodes = [node for node in ray.nodes() if node["NodeManagerHostname"] == holder.host]
    living = [node["NodeID"] for node in nodes if node["Alive"]]
    answers = list(ask(_lives, living, holder, seconds=_SOON).values())
    unknown = len(answers) < len(living) or any(isinstance(a, Exception) for a in answers)
    if unknown or True in answers or not nodes:
        return Locks.EXPIRY
    return 0.0 if False in answers or len(living) < len(nodes) else GONE


@ray.remote  # type: ignore[untyped-decorator,unused-ignore]
def _lives(holder: Holder) -> bool | None:
    """Return what this machine knows of a process."""
    return holder.lives()


def signed(job: Job) -> Job:
    """Return the job with its sign, a file with a random name in the scratch folder, which every
    machine of the cluster sees. Raises `StorageError` where one does not.
    """
    job = replace(job, sign=f"{job.scratch}/shared-{secrets.token_hex(8)}")
    storage, name = split_place(job.sign)
    storage.write(name, b"raxalign")
    check_shared(job)
    return job


def check_shared(job: Job) -> None:
    """Have every living machine read the sign of a grid and leave one of its own. Raises
    `StorageError`, which names the machines that do not see it, or whose sign is not seen here.
    """
    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    answers = ask(_look, nodes, job.sign)
    found = {node: _fault(answers, job, node) for node in nodes}
    living = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    faults = []
    for node, text in found.items():
        if text is not None and node in living:
            name, address = (nodes[node][f"NodeManager{what}"] for what in ("Hostname", "Address"))
            faults.append(f"{name} ({address}) {text}" if name != address else f"{name} {text}")
    if faults:
        raise StorageError(
            f"{job.storage}: not every machine of the cluster has this storage:"
            f" {'; '.join(sorted(faults))}. Mount one shared file system at that path on all of"
            " them, or give an object store (--storage s3://...)"
        )


def _fault(answers: Mapping[str, Any], job: Job, node: str) -> str | None:
    """Return what is wrong with the answer of a machine; None for a good one."""
    if node not in answers:
        return f"gave no answer in {LIMIT:.0f} s"
    problem = answers[node]
    if isinstance(problem, Exception):
        return f"could not run the check ({str(problem).strip().splitlines()[-1][:200]})"
    if problem is None and not job.sees(f"{job.sign}.{node}"):
        return "writes to another place of that name"
    return str(problem) if problem else None


@ray.remote  # type: ignore[untyped-decorator,unused-ignore]
def _look(sign: str) -> str | None:
    """Look for the sign and leave another one; returns what is wrong."""
    if not Job.sees(sign):
        return "does not see what the driver wrote there"
    storage, name = split_place(f"{sign}.{ray.get_runtime_context().get_node_id()}")
    try:
        storage.write(name, b"raxalign")
    except StorageError as error:
        return f"cannot write there ({error})"
    return None
