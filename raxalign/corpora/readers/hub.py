"""Asking the Hugging Face Hub about datasets: the commit behind a name, rows, and what its refusals
mean.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from raxalign.corpora.readers.columns import read_records
from raxalign.corpora.readers.repository import (
    COMMIT,
    HubUse,
    Remote,
    Repository,
    first_line,
    is_gated,
    patiently,
)
from raxalign.errors import DataError, RaxalignError, TransientError

if TYPE_CHECKING:
    from datasets import Dataset, DatasetBuilder

_DATA_SETS = HubUse(
    "data set", "Check `dataset`.", "read files of your own (`source: moses` or `tsv`)"
)
_CSV = "csv"
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".7z", ".rar")


def dataset_revision(name: str, revision: str) -> str:
    """Return the commit of a dataset's branch or tag; a commit is its own. Raises `DataError` or
    `TransientError`.
    """
    if COMMIT.fullmatch(revision):
        return revision
    from huggingface_hub import HfApi

    with dataset_call(name):
        return str(patiently(name, lambda: HfApi().dataset_info(name, revision=revision)).sha)


class MissingSplit(DataError):
    """A configuration of a dataset on the hub does not have the split."""


def load_rows(
    name: str, config: str | None, split: str, revision: str | None, cache: Path | None = None
) -> Dataset:
    """Return the rows of a split of a dataset on the hub (or of a local copy of its repository, an
    absolute path), by default in the hub's own cache.

    A configuration that the repository does not describe is the folder of that name, as on the
    branches of converted parquet files (``refs/convert/parquet``:
    ``<config>/<split>/0000.parquet``, no README). Where there is no split `validation`, one called
    `dev` is it. Raises `MissingSplit`, other `DataError` and `TransientError`.
    """
    where = f"{name}/{config}:{split}" if config else f"{name}:{split}"
    with dataset_call(where):
        builder = prepared(name, config, revision, cache)
        there = [str(known) for known in builder.info.splits]
        split = "dev" if split == "validation" and split not in there and "dev" in there else split
        missing = [part for part in _parts(split) if part not in (*there, "all")]
        if not missing:
            return builder.as_dataset(split=split)
    told = f"has no split {' and '.join(missing)}; its splits are {', '.join(there)}"
    remedy = "A split that is trained on, or that `selection` reads, must exist"
    raise MissingSplit(f"hub:{where}", told, remedy=remedy)


def _parts(split: str) -> list[str]:
    """The names in an expression of splits.

    >>> _parts("train[:10%] + test")
    ['train', 'test']
    """
    return [part.partition("[")[0].strip() for part in split.split("+")]


def prepared(
    name: str, config: str | None, revision: str | None, cache: Path | None
) -> DatasetBuilder:
    """Return the builder of a configuration, whose rows are in `cache`. They are made of the files
    in the hub's cache where they are not there; what that lacks too is fetched. Nothing is asked of
    the hub where `revision` is a commit, and the rows or the files are there. That of a local copy
    is the digest of its files, so that rows of other ones are never taken for these.

    Raises `RaxalignError`, or what the libraries raise (see `hub_error`).
    """
    place = str(cache / "hub") if cache else None
    if Path(name).is_absolute():
        place = place and f"{place}/copies/{revision}"
        builder = _builder(name, config, None, place)
    else:
        repository, outline = _outlined(name, revision, cache)
        if outline is None:
            builder = _builder(name, config, repository.commit, place)
        else:
            builder = _builder(str(outline), config, None, place)
            if not _rows_of(builder).is_dir():  # its files are those of the repository
                found = repository.files(_paths(builder, outline))
                builder.config.data_files = {
                    split: [str(found[path]) for path in _within(files, outline)]
                    for split, files in builder.config.data_files.items()
                }
    if builder.name == _CSV:
        builder = _as_text(builder, place)
    builder.download_and_prepare()
    return builder


def _rows_of(builder: DatasetBuilder) -> Path:
    """The folder of the rows that are made of a configuration's files."""
    return Path(f"{builder.cache_dir}{'.text' if builder.name == _CSV else ''}")


def _as_text(builder: DatasetBuilder, cache: str | None) -> DatasetBuilder:
    """Return the builder of the rows of files in columns, which are read here, once: the datasets
    library loses lines after a quotation mark, and words such as NA.
    """
    from datasets import Dataset, DownloadManager, load_dataset_builder

    folder, config, manager = _rows_of(builder), builder.config, DownloadManager()
    parts = {str(split): str(folder / f"{split}.parquet") for split in config.data_files}
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as work:
            made, named = Path(work) / "rows", {"cut": config.sep, "names": config.names or ()}
            for split, given in config.data_files.items():
                files = manager.iter_files(manager.download_and_extract(list(given)))
                rows = [row for file in files for _, row in read_records(Path(file), **named)]
                Dataset.from_list(rows, builder.info.features).to_parquet(made / f"{split}.parquet")
            with suppress(OSError):  # another process has made them
                made.rename(folder)
    return load_dataset_builder("parquet", data_files=parts, cache_dir=cache)


def configuration_sizes(
    name: str, config: str | None, revision: str | None, cache: Path
) -> Mapping[str, int]:
    """Return the bytes of the files of a configuration by their paths. Raises as `load_rows`."""
    with dataset_call(f"{name}/{config}" if config else name):
        repository, outline = _outlined(name, revision, cache)
        if outline is None:
            return repository.sizes()
        sizes, read = repository.sizes(), _builder(str(outline), config, None, str(cache / "hub"))
        return {path: sizes[path] for path in _paths(read, outline)}


@dataclass(frozen=True)
class HubRows(Remote):
    """A configuration of a data set on the hub (None: its default one); `revision` is that of a
    data set without a pin.
    """

    dataset: str
    config: str | None
    revision: str

    def __str__(self) -> str:
        """Return its name with the configuration, which the name of a corpus lacks."""
        named = self.config is None or f"/{self.config}@" in self.name
        return self.name if named else f"hub:{self.dataset}/{self.config}@{self.revision}"

    def size(self, pin: str | None, downloads: Path) -> int:
        """Return the bytes of its files."""
        commit = pin or self.revision
        return sum(configuration_sizes(self.dataset, self.config, commit, downloads).values())

    def bring(self, pin: str | None, downloads: Path) -> int:
        """Fetch its files into the hub's cache, and make its rows of them."""
        with dataset_call(self.name.removeprefix("hub:")):
            prepared(self.dataset, self.config, pin or self.revision, downloads)
        return self.size(pin, downloads)

    def gated(self) -> bool:
        """Return whether the hub asks for a login."""
        with dataset_call(self.dataset):
            return is_gated(self.dataset, "dataset")


def _outlined(
    name: str, revision: str | None, cache: Path | None
) -> tuple[Repository, Path | None]:
    """A repository on the hub at its commit, and its outline; None where it has archives, which
    can only be read by their content.
    """
    from datasets import config as settings

    commit = dataset_revision(name, revision or "main")
    repository = Repository(name, commit, "dataset")
    folder = cache / "hub" if cache else Path(settings.HF_DATASETS_CACHE)
    outline = (folder / "outlines" / commit / name.replace("/", "--")).resolve()
    if not outline.is_dir() and any(path.endswith(_ARCHIVES) for path in repository.sizes()):
        return repository, None
    return repository, repository.outline(outline)


def _paths(builder: DatasetBuilder, outline: Path) -> list[str]:
    """The paths of all files of a configuration."""
    return [
        path for files in builder.config.data_files.values() for path in _within(files, outline)
    ]


def _within(files: Iterable[str], outline: Path) -> list[str]:
    return [Path(file).relative_to(outline).as_posix() for file in files]


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
    """Raise `DataError` for a table that lacks a column; `where` names dataset and split."""
    missing = [column for column in expected if column not in table.column_names]
    if missing:
        there = ", ".join(table.column_names)
        told = f"has no column {' and '.join(missing)}; its columns are {there}"
        raise DataError(f"hub:{where}", told, remedy="Check `dataset` and the configuration")


@contextmanager
def dataset_call(name: str) -> Iterator[None]:
    """Turn what the hub's client and the datasets library raise into the user's errors."""
    try:
        yield
    except RaxalignError:
        raise
    except Exception as error:
        raise hub_error(name, error) from error


def hub_error(name: str, error: Exception) -> DataError | TransientError:
    """Refusals of the hub are about the data; that it cannot be reached is worth another try."""
    problem = f"cannot be loaded ({first_line(error)})"
    unknown = DataError(
        f"hub:{name}", problem, remedy="Check `dataset`, `config`, `split` and `revision`"
    )
    return _DATA_SETS.explained(f"hub:{name}", error) or unknown
