"""Asking the Hugging Face Hub about datasets: the commit behind a name, rows, and what its refusals
mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from raxalign.errors import DataError, TransientError

if TYPE_CHECKING:
    from datasets import Dataset, DatasetBuilder


def dataset_revision(name: str, revision: str) -> str:
    """Returns the commit that a branch or tag of a dataset is at; raises `DataError` or
    `TransientError`.
    """
    from huggingface_hub import HfApi

    try:
        return str(HfApi().dataset_info(name, revision=revision).sha)
    except Exception as error:
        raise hub_error(name, error) from error


class MissingSplit(DataError):
    """A configuration of a dataset on the hub does not have the split."""


def load_rows(
    name: str, config: str | None, split: str, revision: str | None, cache: Path | None = None
) -> Dataset:
    """Returns the rows of a split of a dataset on the hub (or of a local copy of its repository),
    by default in the hub's own cache.

    A configuration that the repository does not describe is the folder of that name, as on the
    branches of converted parquet files (``refs/convert/parquet``:
    ``<config>/<split>/0000.parquet``, no README). Where there is no split `validation`, one called
    `dev` is it. Raises `MissingSplit`, other `DataError` and `TransientError`.
    """
    where = f"{name}/{config}:{split}" if config else f"{name}:{split}"
    try:
        builder = _builder(name, config, revision, str(cache / "hub") if cache else None)
        builder.download_and_prepare()
        there = [str(known) for known in builder.info.splits]
        split = "dev" if split == "validation" and split not in there and "dev" in there else split
        missing = [part for part in _parts(split) if part not in (*there, "all")]
        if not missing:
            return builder.as_dataset(split=split)
    except Exception as error:
        raise hub_error(where, error) from error
    told = f"has no split {' and '.join(missing)}; its splits are {', '.join(there)}"
    raise MissingSplit(
        f"hub:{where}",
        told,
        remedy="A split that is trained on, or that `selection` reads, must exist",
    )


def _parts(split: str) -> list[str]:
    """The names in an expression of splits.

    >>> _parts("train[:10%] + test")
    ['train', 'test']
    """
    return [part.partition("[")[0].strip() for part in split.split("+")]


def _builder(
    name: str, config: str | None, revision: str | None, cache: str | None
) -> DatasetBuilder:
    from datasets import load_dataset_builder

    try:
        return load_dataset_builder(name, config, revision=revision, cache_dir=cache)
    except ValueError as unknown:
        if config is None:
            raise
        try:
            return load_dataset_builder(name, data_dir=config, revision=revision, cache_dir=cache)
        except FileNotFoundError:
            raise unknown from None


def check_columns(where: str, table: Dataset, expected: Iterable[str]) -> None:
    """Raises `DataError` where a table lacks a column; `where` names dataset, configuration and
    split.
    """
    missing = [column for column in expected if column not in table.column_names]
    if missing:
        told = (
            f"has no column {' and '.join(missing)}; its columns are"
            f" {', '.join(table.column_names)}"
        )
        raise DataError(f"hub:{where}", told, remedy="Check `dataset` and the configuration")


def causes(error: BaseException) -> list[BaseException]:
    """Return an error and what it came from: libraries wrap the errors of the hub's client."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    return chain


def is_lost(error: BaseException) -> bool:
    """Return whether an error is that the hub was not reached. The hub's client lets errors of its
    HTTP library through, whose module has another name at times.
    """
    from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

    lost = (OfflineModeIsEnabled, LocalEntryNotFoundError, ConnectionError, TimeoutError)
    return isinstance(error, lost) or "TransportError" in [k.__name__ for k in type(error).__mro__]


def status_of(error: BaseException) -> int:
    """Return the status of an answer of the hub that is an error; 0 for another error."""
    from huggingface_hub.errors import HfHubHTTPError

    response = getattr(error, "response", None) if isinstance(error, HfHubHTTPError) else None
    status: int = getattr(response, "status_code", 0)
    return status


def hub_error(name: str, error: Exception) -> DataError | TransientError:
    """Refusals of the hub are about the data; that it cannot be reached is worth another try."""
    chain = causes(error)
    status = next(filter(None, map(status_of, chain)), 0)
    if status == 429 or status >= 500 or any(map(is_lost, chain)):
        return TransientError(
            f"hub:{name}: the Hugging Face Hub cannot be reached ({first_line(error)}). Go"
            " online, or read files of your own (`source: moses` or `tsv`)"
        )
    remedy = (
        "Check `dataset`, `config`, `split` and `revision`; gated datasets need a login (hf auth"
        " login)"
    )
    return DataError(f"hub:{name}", f"cannot be loaded ({first_line(error)})", remedy=remedy)


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message, or its name where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
