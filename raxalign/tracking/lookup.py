"""The MLflow run of a trial, looked up without changing anything."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from raxalign.store.storage import Storage
from raxalign.tracking.client import SQLITE, connect, default_uri
from raxalign.tracking.registry import KEY


def run_of(storage: Storage, local: Path, experiment: str, key: str) -> Mapping[str, str] | None:
    """Return the id, the status and the place of a run; None where there is none.

    Args:
        storage: The storage.
        local: The machine's own folder of the storage.
        experiment: The name of the experiment.
        key: The key of the run.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI") or default_uri(storage, local)
    database = uri.removeprefix(SQLITE)
    if database != uri and not Path(database).exists():
        return None
    client = connect(uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        return None
    for run in client.search_runs([found.experiment_id], f"tags.`{KEY}` = '{key}'"):
        return {
            "run_id": run.info.run_id,
            "status": run.info.status,
            "experiment_id": found.experiment_id,
            "uri": uri,
        }
    return None
