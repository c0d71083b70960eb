"""The MLflow UI on a storage's runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from raxalign.errors import RaxalignError
from raxalign.store.files import is_remote, machine_folder
from raxalign.tracking.carried import Copy
from raxalign.tracking.client import SQLITE, connect, default_uri
from raxalign.tracking.drivers import living
from raxalign.tracking.page import LIST, VIEW, address
from raxalign.tracking.registry import KIND, search
from raxalign.tracking.turns import Turns

_MOST = 10  # experiments whose addresses are printed


def end_dead_runs(uri: str) -> int:
    """End the runs of drivers that died, in all experiments; returns how many there were."""
    client, ended = connect(uri), 0
    with Turns(uri).take():
        for experiment in client.search_experiments():
            name = experiment.experiment_id
            running = list(search(client, name, "attributes.status = 'RUNNING'"))
            ours = [run for run in running if KIND in run.data.tags]
            if not ours or _held(client, name):
                continue
            for run in ours:
                client.set_terminated(run.info.run_id, "KILLED")
                ended += 1
    return ended


def _held(client: Any, experiment: str) -> bool:
    """Whether a living driver has signed on at the run of the grid of an experiment."""
    grids = search(client, experiment, f"tags.`{KIND}` = 'grid'")
    return any(living(run.data.tags) for run in grids)


def _tell_addresses(uri: str, server: str) -> None:
    """Print where the grids are, the latest first: the bare address of a server opens MLflow's
    pages on language-model applications.
    """
    sys.stderr.write(f"MLflow UI: {server} (Ctrl-C ends it)\n")
    if not uri.startswith(SQLITE):
        return
    found = sorted(connect(uri).search_experiments(), key=lambda entry: -entry.last_update_time)
    grids = [entry for entry in found if VIEW in entry.tags]
    for entry in grids[:_MOST]:
        sys.stderr.write(f"  {entry.name}: {server}/{address(entry.experiment_id)}\n")
    if len(grids) > _MOST:
        sys.stderr.write(f"  and {len(grids) - _MOST} more: {server}/{LIST}\n")


def serve(root: str, host: str, port: int, uri: str | None = None) -> int:
    """Run the MLflow UI on a storage's runs until it is ended.

    Args:
        root: the storage root.
        host: the address to listen on.
        port: the port to listen on.
        uri: the tracking store (None: the database in the storage, which is fetched first where
            the storage is an object store).

    Returns:
        The exit code of the server.

    Raises:
        RaxalignError: the storage has no runs yet.
    """
    if uri is None:
        local = machine_folder(root)
        uri = default_uri(root, local)
        if is_remote(root):
            Copy(root, local).fetch()
    if uri.startswith(SQLITE):
        if not Path(uri.removeprefix(SQLITE)).exists():
            raise RaxalignError(
                f"{uri.removeprefix(SQLITE)}: no runs are there yet: run a grid first, or name its"
                " storage with --storage"
            )
        end_dead_runs(uri)
    _tell_addresses(uri, f"http://{host}:{port}")
    place = ["--host", host, "--port", str(port)]
    try:
        command = [sys.executable, "-m", "mlflow", "server", *place, "--workers", "1"]
        # The URI is not on the command line, which every user of the machine can read. Jobs are
        # for language-model applications, and their processes would outlive the server.
        more = {"MLFLOW_BACKEND_STORE_URI": uri, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        return attended(command, {**os.environ, **more})
    except KeyboardInterrupt:
        return 0


def attended(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a server until it ends, and end it with all its processes when this process is told to.

    Returns:
        The exit code of the server.

    Raises:
        KeyboardInterrupt: this process was told to end; no process of the server is left.
    """
    server: subprocess.Popen[bytes] | None = None
    told = False

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal told
        told = True
        if server is not None:  # else it is about to start, and ends as soon as it is known
            raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server = subprocess.Popen(command, env=environment, start_new_session=True)
        if told:
            raise KeyboardInterrupt
        return server.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if server is not None:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            server.wait()
