"""Exported encoders in MLflow: a logged model of their trial's run, and registered versions."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raxalign.errors import RaxalignError
from raxalign.lazy import np
from raxalign.provenance import versions
from raxalign.store.spool import GPU_HOURS, SYSTEM
from raxalign.store.storage import Storage
from raxalign.tracking import served
from raxalign.tracking.client import connect, default_uri, reported
from raxalign.tracking.registry import BATCH, search

_TRIAL, _VERSIONS = "raxalign.trial_key", "mlflow.modelVersions"
_NEEDS = ("raxalign", "torch", "transformers", "tokenizers", "numpy")


@dataclass(frozen=True)
class Exported:
    """An exported encoder in a folder: its trial's key, the pivot, and what was aligned with it."""

    folder: Path
    trial: str
    pivot: str
    languages: Sequence[str]


@dataclass(frozen=True)
class Registered:
    """A version of a registered model, and the logged model that it is."""

    version: str
    model: str


def register(
    exported: Exported, name: str, *, storage: Storage, uri: str | None = None
) -> Registered:
    """Log an exported encoder as a model of its trial's run, which `mlflow.pyfunc` loads, and
    register it as the next version of a model. An encoder that is logged already is not logged
    again.

    Args:
        exported: The encoder, whose files are copied to the tracking store.
        name: The name of the registered model, which is made where there is none.
        storage: The storage.
        uri: The tracking store (None: the database in the storage).

    Raises:
        RaxalignError: The tracking store has no run of the trial.
        TrackingError: It does not answer.
    """
    if uri is None:
        uri = default_uri(storage)
        if storage.is_remote:
            raise RaxalignError(
                "--register: models are registered on a server (MLFLOW_TRACKING_URI) where the"
                " storage is an object store"
            )
    with reported(uri):
        client, condition = connect(uri), f"tags.`{_TRIAL}` = '{exported.trial}'"
        experiments = client.search_experiments()
        runs = [run for e in experiments for run in search(client, e.experiment_id, condition)]
        latest = max(runs, key=lambda run: run.info.start_time, default=None)
        found = _next_version(client, exported, name, latest) if latest is not None else None
    if found is None:
        raise RaxalignError(
            f"--register: {uri} has no run of this trial: `raxalign sync` copies the results of"
            " its grid; then export it again"
        )
    return found


def _next_version(client: Any, exported: Exported, name: str, run: Any) -> Registered:
    from mlflow.exceptions import MlflowException

    model = _logged(client, run, "READY") or _log(client, exported, run)
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    made = client.create_model_version(
        name,
        model.artifact_location,
        run.info.run_id,
        tags={_TRIAL: exported.trial},
        model_id=model.model_id,
    )
    known = json.loads(model.tags.get(_VERSIONS, "[]"))
    known.append({"name": name, "version": str(made.version)})
    client.set_logged_model_tags(model.model_id, {_VERSIONS: json.dumps(known)})
    return Registered(str(made.version), str(model.model_id))


def _logged(client: Any, run: Any, status: str) -> Any | None:
    """Return a model that a run has logged as a whole (READY), or begun to (PENDING), or None."""
    found = client.search_logged_models(
        [run.info.experiment_id], f"source_run_id = '{run.info.run_id}'"
    )
    ours = (model for model in found if model.status == status)
    return next((model for model in ours if _TRIAL in model.tags), None)


def _log(client: Any, exported: Exported, run: Any) -> Any:
    """Log the model of a run: its files, the params of the run, and links to its metrics."""
    from mlflow.entities import LoggedModelOutput

    made = _logged(client, run, "PENDING") or client.create_logged_model(
        run.info.experiment_id,
        "encoder",
        source_run_id=run.info.run_id,
        tags={_TRIAL: exported.trial},
        params=dict(run.data.params),
        model_type="encoder",
    )
    try:
        with tempfile.TemporaryDirectory(prefix="raxalign-") as work:
            _write(Path(work) / "model", exported, run.info.run_id, made.model_id)
            client.log_model_artifacts(made.model_id, str(Path(work) / "model"))
        client.log_outputs(run.info.run_id, [LoggedModelOutput(made.model_id, step=0)])
        _link_metrics(client, run, made.model_id)
    except Exception:
        client.finalize_logged_model(made.model_id, "FAILED")
        raise
    return client.finalize_logged_model(made.model_id, "READY")


def _write(to: Path, exported: Exported, run: str, model: str) -> None:
    """Write the files of a model, which `mlflow.pyfunc` opens by `served`."""
    import mlflow
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec

    params = (served.LAYERS, ""), (served.POOLING, "mean"), (served.TOWARD, "")
    have = versions()
    mlflow.pyfunc.save_model(
        str(to),
        loader_module=served.__name__,
        data_path=str(exported.folder),
        mlflow_model=Model(run_id=run, model_id=model, model_uuid=model),
        model_config={"pivot": exported.pivot, "languages": list(exported.languages)},
        signature=ModelSignature(
            Schema([ColSpec("string", name) for name in (served.TEXT, served.LANGUAGE)]),
            Schema([TensorSpec(np.dtype(np.float32), (-1, -1))]),
            ParamSchema([ParamSpec(name, "string", default) for name, default in params]),
        ),
        pip_requirements=[f"{name}=={have[name].partition('+')[0]}" for name in _NEEDS],
        input_example=[{served.TEXT: "...", served.LANGUAGE: exported.pivot}],
        metadata={_TRIAL: exported.trial},
    )


def _link_metrics(client: Any, run: Any, model: str) -> None:
    """Link the results of a run to its model; curves stay with the run."""
    from mlflow.entities import Metric

    others = ("train/", SYSTEM, GPU_HOURS)
    number, linked = run.info.run_id, []
    for name in (name for name in run.data.metrics if not name.startswith(others)):
        last = max(client.get_metric_history(number, name), key=lambda m: m.timestamp)
        linked.append(Metric(name, last.value, last.timestamp, last.step, model, run_id=number))
    for first in range(0, len(linked), BATCH):
        client.log_batch(run.info.run_id, metrics=linked[first : first + BATCH])
