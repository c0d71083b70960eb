"""Where and how to run a grid. Only `precision`, `base_precision`, `compile` and, under dropout,
the `workers` of the file can change a result, and they enter keys where they are not the default.
Flags and the environment enter no key; they override the rest, and how many workers there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal, Self, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from raxalign.errors import RaxalignError
from raxalign.options.params import BaseParams
from raxalign.options.sources import absolute

DEFAULT_STORAGE = ".raxalign"
Keep = Literal["all", "none"]
_TRACKING = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "file", "databricks", "uc")
"""Schemes of the tracking stores of MLflow."""
_BUCKETS = ("s3", "s3a", "gs", "gcs")
_BARE = re.compile(r"https?:(?!//[^/])|[^/:]+:\d+(/|$)")
_IN_MEMORY = re.compile(r"^/*(\?|$)|:memory:|mode=memory")
_USER = re.compile(r"(?!arn:)[^/]*[:@]")
Precision = Literal["fp32", "tf32", "bf16"]
"""How products inside an encoder are computed, with float32 weights in every case: in float32, or
with operands that are rounded to TensorFloat-32 or bfloat16.
"""
BasePrecision = Literal["fp32", "bf16"]
"""How weights of an encoder are held that nothing trains, or adapters in their place."""

Checkpointing = Literal["auto", "always", "never"]
"""When the backward pass computes activations again instead of keeping them: once memory has run
out, in every step, or in none.
"""


class RunConfig(BaseParams):
    """The `run` section of a grid file.

    `workers` train one trial together: into as many shares, each with masks of its own, the batches
    of trainings with dropout are divided, also where the flag `--workers` has another number of
    workers compute them. Each has `gpus_per_worker` (None: one where there are GPUs) and
    `threads`; `precision` is that of encoders, whose weights are held in `base_precision` where
    nothing trains them, and whose blocks run as torch.compile makes them where `compile` is set;
    `activation_checkpointing` says how trainings save memory; `checkpoint_minutes` is the time
    between two checkpoints of a training; `concurrency` limits how many trials run at once
    (computed from the cluster where it is not given); `cache_gib` limits the copies of an object
    store that each machine keeps; `max_failures` is how often a lost worker is replaced without
    progress in between; `storage` is a folder or a URL (empty: not given, which `effective` turns
    into the default); `address` is a Ray cluster's; `tracking_uri` an MLflow server's; `keep` says
    which trained weights stay in the storage once the evaluations that need them are done (see
    `raxalign.values.retention`).
    """

    workers: int = Field(1, ge=1)
    gpus_per_worker: float | None = Field(None, ge=0, allow_inf_nan=False)
    precision: Precision = "fp32"
    base_precision: BasePrecision = "fp32"
    compile: bool = False
    activation_checkpointing: Checkpointing = "auto"
    checkpoint_minutes: float = Field(10.0, gt=0, allow_inf_nan=False)
    threads: int = Field(1, ge=1)
    storage: str = ""
    max_failures: int = Field(2, ge=0)
    concurrency: int | None = Field(None, ge=1)
    tracking_uri: str | None = Field(None, min_length=1)
    address: str | None = Field(None, min_length=1)
    keep: Keep = "all"
    cache_gib: float = Field(50.0, gt=0, allow_inf_nan=False)

    @field_validator("storage")
    @classmethod
    def _is_a_place(cls, storage: str, info: ValidationInfo) -> str:
        """Make it absolute where the context of the validation names a folder."""
        folder = (info.context or {}).get("folder")
        return _storage_root(storage, folder) if storage and folder is not None else storage

    @field_validator("tracking_uri")
    @classmethod
    def _is_known(cls, uri: str | None) -> str | None:
        if uri is not None and (problem := _unknown_tracking(uri)):
            raise ValueError(problem)
        return uri

    @model_validator(mode="after")
    def _computes_on_gpus(self) -> Self:
        if self.precision == "tf32" and self.gpus_per_worker == 0:
            raise ValueError(
                "precision: tf32 requires GPUs, and `gpus_per_worker: 0` gives the workers none",
                "write fp32 or bf16, or give each worker a GPU",
            )
        return self


def effective(
    run: RunConfig,
    *,
    storage: str | None = None,
    address: str | None = None,
    workers: int | None = None,
    keep: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> RunConfig:
    """Return how a grid is run: flags come first, then the environment, the file and the defaults.

    `storage` to `keep` are flags, and `environ` has `RAXALIGN_STORAGE`, `MLFLOW_TRACKING_URI` and
    `RAXALIGN_CACHE_GIB`. Raises `RaxalignError` where a flag or a variable is impossible.
    """
    environ = environ or {}
    if workers is not None and workers < 1:
        raise RaxalignError(f"--workers {workers}: a trial needs at least 1 worker")
    if keep is not None and keep not in get_args(Keep):
        raise RaxalignError(f"--keep {keep}: write {', '.join(get_args(Keep))}")
    tracking = environ.get("MLFLOW_TRACKING_URI")
    if tracking and (problem := _unknown_tracking(tracking)):
        raise RaxalignError(f"MLFLOW_TRACKING_URI: {problem}")
    place = storage or environ.get("RAXALIGN_STORAGE") or run.storage or DEFAULT_STORAGE
    try:
        root = _storage_root(place, Path.cwd())
    except ValueError as error:
        raise RaxalignError(f"storage {'; '.join(error.args)}") from error
    changes = {
        "storage": root,
        "tracking_uri": tracking or run.tracking_uri,
        "address": address or run.address,
        "workers": run.workers if workers is None else workers,
        "keep": run.keep if keep is None else keep,
        "cache_gib": _gib(environ.get("RAXALIGN_CACHE_GIB")) or run.cache_gib,
    }
    return run.model_copy(update=changes)


def _unknown_tracking(uri: str) -> str:
    """Return what is wrong with a tracking URI; nothing where MLflow, or a library that is
    installed for it, knows its scheme.
    """
    scheme, _, place = uri.partition(":")
    scheme = scheme.partition("+")[0]
    if _BARE.match(uri):
        return f"{uri}: names no server; write http://HOST:PORT, for example http://localhost:5000"
    if scheme == "sqlite" and _IN_MEMORY.search(place):
        return f"{uri}: is gone when the command ends; write sqlite:////PATH/mlflow.db"
    if "://" not in uri or scheme in _TRACKING:
        return ""
    if any(entry.name == scheme for entry in entry_points(group="mlflow.tracking_store")):
        return ""
    shown = ", ".join(f"{name}://" for name in _TRACKING)
    return f"{uri}: there is no tracking store {scheme}://; there are {shown}"


def _gib(text: str | None) -> float | None:
    """Read `RAXALIGN_CACHE_GIB`."""
    try:
        found = float(text) if text else None
    except ValueError:
        found = 0.0
    if found is not None and not 0 < found < float("inf"):
        raise RaxalignError(f"RAXALIGN_CACHE_GIB={text}: must be a positive number of GiB")
    return found


def _storage_root(storage: str, folder: Path) -> str:
    """Return a storage root as the store takes it: an absolute path, or a URL without a final
    slash. Raises `ValueError` for a URL that names no bucket, and for a user in one of a bucket.
    """
    scheme, url, place = storage.partition("://")
    if url and not place.strip("/"):
        form = "/folder" if scheme == "file" else "bucket/folder"
        raise ValueError(f"{storage}: names no place", f"write {scheme}://{form}")
    if scheme in _BUCKETS and _USER.match(place):
        raise ValueError(
            f"{scheme}://***: a user or a key in the URL of a bucket is not read",
            f"write {scheme}://bucket/folder, and set credentials as the store's own tools read"
            " them (for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE)",
        )
    if storage.startswith("file://"):
        return absolute(storage.removeprefix("file://"), Path("/"))
    return storage.rstrip("/") if "://" in storage else absolute(storage, folder)
