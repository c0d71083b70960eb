"""The MLflow UI on a storage's runs, and exported encoders in it, as models of MLflow's own flavour
`sentence_transformers`.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from raxalign.children import child_environment
from raxalign.errors import RaxalignError
from raxalign.printing import to_stderr
from raxalign.store.alive import endings
from raxalign.store.lease import living
from raxalign.store.storage import Storage
from raxalign.tracking.client import (
    connect,
    database_of,
    default_uri,
    identity_of,
    reported,
    writer_lock,
)
from raxalign.tracking.recorder import KIND, STORAGE, search
from raxalign.tracking.runs import LIST, VIEW, address

_TRIAL = "raxalign.trial_key"


def register(folder: Path, trial: str, name: str, storage: Storage, uri: str | None) -> str:
    """Log the folder that a trial was exported to as a model of the trial's run, and register it as
    the next version of the model `name`; return that version. `uri` is the tracking store's (None:
    the database in the storage). Raises `RaxalignError` where sentence-transformers does not open
    the folder, or the store has no run of the trial; `TrackingError` where it does not answer.
    """
    from raxalign.encoders.models.loading import quiet

    if not (folder / "modules.json").exists():
        raise RaxalignError(
            "--register: MLflow opens models by sentence-transformers, which does not open"
            f" it; `mlflow artifacts log-artifacts --local-dir {folder} --run-id ID` copies it"
        )
    if uri is None and storage.is_remote:
        raise RaxalignError(
            "--register: with an object store as storage a server is needed (MLFLOW_TRACKING_URI)"
        )
    uri, of = uri or default_uri(storage), f"tags.`{_TRIAL}` = '{trial}'"
    with reported(uri):
        client = connect(uri)
        runs = [r for e in client.search_experiments() for r in search(client, e.experiment_id, of)]
    if not runs:
        raise RaxalignError(
            f"--register: {uri} has no run of this trial: `raxalign sync` copies the results of its"
            " grid; then export it again"
        )
    with reported(uri), quiet():
        return _log(folder, trial, name, uri, max(runs, key=lambda run: run.info.start_time))


def _log(folder: Path, trial: str, name: str, uri: str, run: Any) -> str:
    import mlflow
    from sentence_transformers import SentenceTransformer

    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment(experiment_id=run.info.experiment_id)
    made = mlflow.sentence_transformers.log_model(
        # the code in the folder is that which the export has just written
        SentenceTransformer(str(folder), device="cpu", trust_remote_code=True),
        name="encoder",
        registered_model_name=name,
        run_id=run.info.run_id,
        params=dict(run.data.params),
        tags={_TRIAL: trial},
        pip_requirements=mlflow.sentence_transformers.get_default_pip_requirements(),
    )
    return str(made.registered_model_version)


_MOST = 10  # experiments whose addresses are printed
_LOOPBACK = ("127.0.0.1", "localhost")
_NAME = "raxalign.localhost"
"""A name of this machine in browsers. At 127.0.0.1 and localhost MLflow opens its Assistant, which
leaves the metrics no room on a screen of 1366 pixels; at another name it does not.
"""


def end_dead_runs(uri: str, storage: Storage) -> int:
    """End the runs of the storage's drivers that died, in all experiments of a tracking store;
    returns how many there were. Living drivers hold the locks of their grids in the storage.
    """
    client, written, ended, own = connect(uri), living(storage, "runs"), 0, identity_of(storage)
    for experiment in client.search_experiments():
        if writer_lock(uri, experiment.name) in written:
            continue
        for run in search(client, experiment.experiment_id, "attributes.status = 'RUNNING'"):
            if KIND in run.data.tags and run.data.tags.get(STORAGE, own) == own:
                client.set_terminated(run.info.run_id, "KILLED")
                ended += 1
    return ended


def _named(port: int) -> dict[str, str]:
    """Return the settings of a server that lets browsers call this machine `_NAME` too."""
    names = [name for own in (*_LOOPBACK, _NAME) for name in (own, f"{own}:*")]
    return {
        "MLFLOW_SERVER_ALLOWED_HOSTS": ",".join(names),
        "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": f"http://{_NAME}:{port},http://{_NAME}:*",
    }


def _tell_addresses(uri: str, server: str, other: str) -> None:
    """Print where the grids are, the latest first: the bare address of a server opens MLflow's
    pages on language-model applications. `other` is the server's address without a name, if any.
    """
    same = f"; {other} is the same, for browsers that do not know the name" if other else ""
    to_stderr(f"MLflow UI: {server} (Ctrl-C ends it{same})")
    if database_of(uri) is None:
        return
    found = sorted(connect(uri).search_experiments(), key=lambda entry: -entry.last_update_time)
    grids = [entry for entry in found if VIEW in entry.tags]
    for entry in grids[:_MOST]:
        to_stderr(f"  {entry.name}: {server}/{address(entry.experiment_id)}")
    if len(grids) > _MOST:
        to_stderr(f"  and {len(grids) - _MOST} more: {server}/{LIST}")


def serve(storage: Storage, host: str, port: int, uri: str | None = None) -> int:
    """Run the MLflow UI on a storage's runs until it is ended; returns the exit code of the server.
    Raises `RaxalignError` where there are no runs yet, a server has them, or the port is taken.

    Args:
        storage: the storage.
        host: the address to listen on.
        port: the port to listen on.
        uri: the tracking store (None: the database in the storage, or in this machine's folder of
            an object store).
    """
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        raise RaxalignError(
            f"{host}:{port}: {error.strerror or error}; choose another port, for example `raxalign"
            f" ui --port {port + 1}`"
        ) from error
    uri = _store(storage, uri)
    plain, named = f"http://{host}:{port}", dict[str, str]()
    if host in _LOOPBACK and not _named(port).keys() & os.environ.keys():
        named = _named(port)
    _tell_addresses(uri, f"http://{_NAME}:{port}" if named else plain, plain if named else "")
    place = ["--host", host, "--port", str(port)]
    try:
        command = [sys.executable, "-m", "mlflow", "server", *place, "--workers", "1"]
        # The URI is not on the command line, which every user of the machine can read. Jobs are
        # for language-model applications, and their processes would outlive the server.
        more = {"MLFLOW_BACKEND_STORE_URI": uri, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        # uvicorn imports from the working directory, unless it is given another place
        library = shlex.quote(sysconfig.get_path("stdlib"))
        given = os.environ.get("MLFLOW_UVICORN_OPTS", "")
        options = {"MLFLOW_UVICORN_OPTS": f"--app-dir {library} {given}"}
        return attended(command, child_environment({**named, **more, **options}))
    except KeyboardInterrupt:
        return 0


def _store(storage: Storage, uri: str | None) -> str:
    """Return the tracking store to show, without runs of dead drivers."""
    if uri is not None and uri.startswith(("http://", "https://")):
        raise RaxalignError(
            f"the runs are on the MLflow server {uri}, which shows them itself: open that address"
            " in a browser (MLFLOW_TRACKING_URI names it)"
        )
    uri = default_uri(storage) if uri is None else uri
    if (database := database_of(uri)) is not None:
        if not database.exists():
            raise RaxalignError(
                f"{database}: no runs are there yet: run a grid first, or name its storage with"
                " --storage; `raxalign sync FILE` copies the runs of a grid that another machine"
                " has run"
            )
        with reported(uri):
            end_dead_runs(uri, storage)
    return uri


def attended(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a server until it ends, and return its exit code; end it with all its processes, and
    raise `KeyboardInterrupt`, when this process is told to end.
    """
    server: subprocess.Popen[bytes] | None = None
    told = False

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal told
        told = True
        if server is not None:  # else it is about to start, and ends as soon as it is known
            raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in endings()}
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
