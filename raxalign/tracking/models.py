"""Exported encoders in MLflow, as models of its own flavour `sentence_transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raxalign.encoders.models.loading import quiet
from raxalign.errors import RaxalignError
from raxalign.store.storage import Storage
from raxalign.tracking.client import connect, default_uri, reported
from raxalign.tracking.recorder import search

_TRIAL = "raxalign.trial_key"


def register(folder: Path, trial: str, name: str, storage: Storage, uri: str | None) -> str:
    """Log the folder that a trial was exported to as a model of the trial's run, and register it as
    the next version of the model `name`; return that version. `uri` is the tracking store's (None:
    the database in the storage). Raises `RaxalignError` where sentence-transformers does not open
    the folder, or the store has no run of the trial; `TrackingError` where it does not answer.
    """
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
