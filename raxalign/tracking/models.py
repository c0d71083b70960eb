"""Exported encoders in MLflow's model registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raxalign.errors import RaxalignError
from raxalign.store.files import is_remote, machine_folder
from raxalign.tracking.client import SQLITE, TrackingError, connect, default_uri, unanswered
from raxalign.tracking.registry import search

_FOLDER = "encoder"  # of the artifacts of a run


def register(folder: Path, name: str, trial: str, *, root: str, uri: str | None = None) -> str:
    """Register an exported encoder as the next version of a model; returns the version.

    In the database of a storage the version names the folder; to a server its files are copied, as
    artifacts of the trial's run.

    Args:
        folder: The exported encoder.
        name: The name of the model, which is made where there is none.
        trial: The key of the trial.
        root: The storage root.
        uri: The tracking store (None: the database in the storage).

    Raises:
        RaxalignError: The tracking store has no run of the trial.
        TrackingError: It does not answer.
    """
    if uri is None:
        uri = default_uri(root, machine_folder(root))
        if is_remote(root):
            raise RaxalignError(
                "--register: models are registered on a server (MLFLOW_TRACKING_URI) where the"
                " storage is an object store"
            )
    try:
        client = connect(uri)
        run = _run_of(client, trial)
        version = _next_version(client, uri, folder, name, run) if run is not None else None
    except Exception as error:
        raise TrackingError(unanswered(uri, error)) from error
    if version is None:
        raise RaxalignError(
            f"--register: {uri} has no run of this trial: `raxalign sync` copies the results of"
            " its grid; then export it again"
        )
    return version


def _run_of(client: Any, trial: str) -> Any | None:
    """Return the latest run of a trial in any experiment."""
    condition = f"tags.`raxalign.trial_key` = '{trial}'"
    experiments = client.search_experiments()
    found = [run for e in experiments for run in search(client, e.experiment_id, condition)]
    return max(found, key=lambda run: run.info.start_time, default=None)


def _next_version(client: Any, uri: str, folder: Path, name: str, run: Any) -> str:
    from mlflow.exceptions import MlflowException

    source = str(folder.absolute())
    if not uri.startswith(SQLITE):
        client.log_artifacts(run.info.run_id, source, _FOLDER)
        source = f"{run.info.artifact_uri}/{_FOLDER}"
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    tags = {"raxalign.trial_key": run.data.tags["raxalign.trial_key"]}
    made = client.create_model_version(name, source, run.info.run_id, tags=tags)
    return str(made.version)
