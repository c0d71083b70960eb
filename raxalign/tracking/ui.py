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
from raxalign.store.storage import Storage
from raxalign.tracking.client import Page, Target
from raxalign.tracking.recorder import Recorder

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
    target, of = Target.of(storage, uri), f"tags.`{_TRIAL}` = '{trial}'"
    with target.reported():
        client = target.connect()
        places = [experiment.experiment_id for experiment in client.search_experiments()]
        runs = [run for place in places for run in client.every_run(place, of)]
    if not runs:
        raise RaxalignError(
            f"--register: {target.uri} has no run of this trial: `raxalign sync` copies the results"
            " of its grid; then export it again"
        )
    with target.reported(), quiet():
        return _log(folder, trial, name, target.uri, max(runs, key=lambda run: run.info.start_time))


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


def _named(port: int) -> dict[str, str]:
    """Return the settings of a server that lets browsers call this machine `_NAME` too."""
    names = [name for own in (*_LOOPBACK, _NAME) for name in (own, f"{own}:*")]
    return {
        "MLFLOW_SERVER_ALLOWED_HOSTS": ",".join(names),
        "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": f"http://{_NAME}:{port},http://{_NAME}:*",
    }


def _tell_addresses(target: Target, server: str, other: str) -> None:
    """Print where the grids are, the latest first: the bare address of a server opens MLflow's
    pages on language-model applications. `other` is the server's address without a name, if any.
    """
    same = f"; {other} is the same, for browsers that do not know the name" if other else ""
    to_stderr(f"MLflow UI: {server} (Ctrl-C ends it{same})")
    grids = Page.of_grids(target.connect()) if target.database else {}
    for name in list(grids)[:_MOST]:
        to_stderr(f"  {name}: {server}/{grids[name].address()}")
    if len(grids) > _MOST:
        to_stderr(f"  and {len(grids) - _MOST} more: {server}/{Page.LIST}")


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
    target = _store(storage, uri)
    plain, named = f"http://{host}:{port}", dict[str, str]()
    if host in _LOOPBACK and not _named(port).keys() & os.environ.keys():
        named = _named(port)
    _tell_addresses(target, f"http://{_NAME}:{port}" if named else plain, plain if named else "")
    place = ["--host", host, "--port", str(port)]
    try:
        command = [sys.executable, "-m", "mlflow", "server", *place, "--workers", "1"]
        # The URI is not on the command line, which every user of the machine can read. Jobs are
        # for language-model applications, and their processes would outlive the server.
        more = {
            "MLFLOW_BACKEND_STORE_URI": target.uri,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        # uvicorn imports from the working directory, unless it is given another place
        library = shlex.quote(sysconfig.get_path("stdlib"))
        given = os.environ.get("MLFLOW_UVICORN_OPTS", "")
        options = {"MLFLOW_UVICORN_OPTS": f"--app-dir {library} {given}"}
        return attended(command, child_environment({**named, **more, **options}))
    except KeyboardInterrupt:
        return 0


def _store(storage: Storage, uri: str | None) -> Target:
    """Return the tracking store to show, without runs of dead drivers."""
    if uri is not None and uri.startswith(("http://", "https://")):
        raise RaxalignError(
            f"the runs are on the MLflow server {uri}, which shows them itself: open that address"
            " in a browser (MLFLOW_TRACKING_URI names it)"
        )
    target = Target.of(storage, uri)
    if (database := target.database) is not None:
        if not database.exists():
            raise RaxalignError(
                f"{database}: no runs are there yet: run a grid first, or name its storage with"
                " --storage; `raxalign sync FILE` copies the runs of a grid that another machine"
                " has run"
            )
        with target.reported():
            Recorder.end_dead(target)
    return target


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
