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
from raxalign.tracking.registry import KIND, PARENT, search
from raxalign.tracking.turns import Turns


def end_dead_runs(uri: str) -> int:
    """End the runs of drivers that died, in all experiments; returns how many there were."""
    client, ended = connect(uri), 0
    with Turns(uri).take():
        for experiment in client.search_experiments():
            name, parents = experiment.experiment_id, dict[str, bool]()
            for run in list(search(client, name, "attributes.status = 'RUNNING'")):
                if KIND not in run.data.tags:
                    continue
                parent = run.data.tags.get(PARENT, run.info.run_id)
                if parent not in parents:
                    parents[parent] = _held(client, parent)
                if not parents[parent]:
                    client.set_terminated(run.info.run_id, "KILLED")
                    ended += 1
    return ended


def _held(client: Any, parent: str) -> bool:
    """Whether a living driver has signed on at a parent run; nobody has where it is gone."""
    from mlflow.exceptions import MlflowException

    try:
        return bool(living(client.get_run(parent).data.tags))
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return False
        raise


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
    place = ["--host", host, "--port", str(port)]
    sys.stderr.write(f"MLflow UI: http://{host}:{port} (Ctrl-C ends it)\n")
    try:
        command = [sys.executable, "-m", "mlflow", "server", *place]
        # Not on the command line, which every user of the machine can read.
        environment = {**os.environ, "MLFLOW_BACKEND_STORE_URI": uri}
        return attended(command, environment)
    except KeyboardInterrupt:
        return 0


def attended(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a server until it ends, and end it with all its processes when this process is told to.

    Returns:
        The exit code of the server.

    Raises:
        KeyboardInterrupt: this process was told to end; no process of the server is left.
    """

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    server = None
    before = signal.signal(signal.SIGTERM, end)  # First: a signal may come as the server starts.
    try:
        server = subprocess.Popen(command, env=environment, start_new_session=True)
        return server.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
        if server is not None:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            server.wait()
