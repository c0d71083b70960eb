"""The ledger: one entry per evaluation, the truth about what is done. It also keeps why trials
failed.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from raxalign.errors import DamagedArtifact, RaxalignError, StorageError
from raxalign.lazy import pa, pq
from raxalign.store.artifacts import FileEntry
from raxalign.store.disk import Files, Published
from raxalign.store.files import files_of
from raxalign.store.key import checked, digest, is_name
from raxalign.store.sealed import FORM, recorded, seal, unseal

FOLDER = "looks"


@dataclass(frozen=True)
class EarlierLook:
    """A look before the present one: the number of runs of a side, when it was, and at which
    languages (None where an earlier version did not keep them).
    """

    runs: int
    when: str
    languages: frozenset[str] | None


_Count = Annotated[int, Field(ge=1)]


@recorded
class _Looked:
    """Comparisons that were tested at one time: the digest of the runs behind each, how many these
    were, and their languages, which earlier versions did not keep.
    """

    when: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT[\d:.+]+$")]
    tested: Mapping[str, tuple[str, _Count] | tuple[str, _Count, list[str]]]


class Looks:
    """The records ``<root>/looks/<digest>.json``, which nothing changes or removes. The same
    comparisons with the same runs are one look, by whatever command and however often.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    def take(
        self, tested: Mapping[str, tuple[str, int, list[str]]]
    ) -> dict[str, tuple[EarlierLook, ...]]:
        """Return the earlier looks at each comparison, oldest first, and record those at which it
        is tested with runs that no look had. `tested` has the digest and the number of its runs,
        and its languages.
        """
        known: dict[str, dict[str, EarlierLook]] = {name: {} for name in tested}
        for look in sorted(self._read(), key=lambda look: look.when):
            for name in look.tested.keys() & tested.keys():
                runs, count, *more = look.tested[name]
                langs = frozenset(more[0]) if more else None
                known[name].setdefault(runs, EarlierLook(count, look.when, langs))
        if new := {name: entry for name, entry in tested.items() if entry[0] not in known[name]}:
            self._write(new)
        return {
            name: tuple(known[name][each] for each in takewhile(runs.__ne__, known[name]))
            for name, (runs, *_) in tested.items()
        }

    def _read(self) -> Iterator[_Looked]:
        names = sorted(name for name in self._files.names(FOLDER) if "/" not in name)
        paths = [f"{FOLDER}/{name}" for name in names if name.endswith(".json")]
        for path, data in self._files.read_many(paths).items():
            try:
                yield unseal(data, _Looked)
            except ValueError as error:
                place = f"{self._files.root}/{path}"
                warnings.warn(f"{place}: this look does not count: it {error}", stacklevel=2)

    def _write(self, new: Mapping[str, tuple[str, int, list[str]]]) -> None:
        record = _Looked(datetime.now(UTC).isoformat(), dict(sorted(new.items())))
        try:
            self._files.create(f"{FOLDER}/{digest(record.tested)}.json", seal(asdict(record)))
        except StorageError as error:
            told = "this look at comparisons is not recorded, and later ones do not correct for it"
            warnings.warn(f"{told}: {error}", stacklevel=2)


EVALUATION = "evaluation.json"
PREDICTIONS, ARROW = "predictions.parquet", "predictions.arrow"
"""The predictions of an entry; those of earlier versions are Arrow IPC files."""
_Losses = Mapping[str, Annotated[list[FiniteFloat], Field(min_length=2, max_length=3)]]
_Two = Annotated[list[int], Field(min_length=2, max_length=2)]
_OPEN = ConfigDict(strict=True, extra="allow", defer_build=True)
"""Of what may have more fields than those that are read here."""


class _Score(BaseModel):
    model_config = FORM

    lang: str
    metric: str
    split: str
    value: float


class _Notes(BaseModel):
    """What the reports read of the notes of an evaluation."""

    model_config = _OPEN

    unknown: Mapping[str, FiniteFloat] = {}
    unknown_in_training: Mapping[str, Mapping[str, FiniteFloat]] = {}
    left_out: Mapping[str, Mapping[str, _Two]] = {}
    loss_not_lowered: _Losses = {}
    loss_still_falling: _Losses = {}
    cut_batches: list[str] = []
    not_as_trained: Mapping[str, str] = {}
    thin_support: Mapping[str, str] = {}


class _Evaluation(BaseModel):
    """The record of an evaluation."""

    model_config = _OPEN

    key: str
    predictions: FileEntry | None = Field(exclude=True)  # of earlier versions
    parquet: FileEntry | None = Field(None, exclude=True)
    scores: list[_Score]
    task: str = ""
    params: Mapping[str, Any] = {}
    languages: list[str] = []
    unseen: list[str] = []
    notes: _Notes = _Notes()
    versions: Mapping[str, str] = {}
    device: str = ""
    machine: str = ""
    seconds: FiniteFloat = 0.0
    created: Annotated[float, Field(ge=0, lt=4e9)] = 0.0


class _Failure(BaseModel):
    """Why a trial failed."""

    model_config = FORM

    message: str
    trace: str = ""
    bug: bool = False


class Ledger:
    """The results of a storage root.

    An entry is ``<root>/ledger/<key>/evaluation.json`` and ``predictions.parquet`` (of earlier
    versions ``predictions.arrow``, which stays); on an object store the predictions are below in a
    folder named by their digest. A folder without evaluation.json does not count. The record
    carries its own checksum and that of the predictions: an entry that does not match is set aside,
    and the evaluation counts as not done.
    """

    def __init__(self, root: str, files: Files | None = None) -> None:
        self.root = str(root)
        self._storage = files if files is not None else files_of(self.root)
        self.looks: Looks | None = Looks(self._storage)

    def without_looks(self) -> Ledger:
        """Return the ledger for what shows no verdict: its comparisons are not looks."""
        found = Ledger(self.root, self._storage)
        found.looks = None
        return found

    def has(self, key: str) -> bool:
        """Return whether an evaluation is done; cheap, does not look at its bytes."""
        return bool(self._storage.existing([f"{_path(key)}/{EVALUATION}"]))

    def keys(self) -> set[str]:
        """Return all evaluations that are done; one listing."""
        found = (path.rpartition("/")[2] for path in self._storage.marked("ledger", 1, EVALUATION))
        return {key for key in found if is_name(key)}

    def read(self, key: str) -> dict[str, Any]:
        """Return the record of an evaluation; StorageError where there is none, DamagedArtifact
        (and the entry is set aside) if it is damaged.
        """
        return self._read(key)[0].model_dump(exclude_unset=True)

    def read_many(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the records of those evaluations that exist; damaged ones are set aside with a
        warning that names them.
        """
        paths = {f"{_path(key)}/{EVALUATION}": key for key in keys}
        records = {}
        for path, data in self._storage.read_many(list(paths)).items():
            try:
                found = self._parse(paths[path], data)
                records[paths[path]] = found.model_dump(exclude_unset=True)
            except DamagedArtifact as error:
                warnings.warn(str(error), stacklevel=2)
        return records

    def write(self, key: str, record: Mapping[str, Any], predictions: pa.Table | None) -> None:
        """Add an entry, whole or not at all; where there is one already, that one stays.

        `record` is JSON with string keys, without fields called ``sha256``, ``predictions`` and
        ``parquet``; a `key` in it must be this one. Raises `RaxalignError` that names the score or
        the note which is NaN or infinite.
        """
        _refuse_infinite(record)
        if record.get("key", key) != key or record.keys() & {"predictions", "parquet"}:
            raise ValueError(f"{key}: a record has its own key, and no field called predictions")
        path, data = _path(key), None if predictions is None else _to_parquet(predictions)
        entry = None if data is None else FileEntry.of(data)
        # an earlier version, which requires `predictions`, finds none and no fault
        sealed = seal({"key": key, **record, "predictions": None, "parquet": entry and vars(entry)})
        try:
            unseal(sealed, _Evaluation)
        except ValueError as error:
            raise RaxalignError(f"{record.get('task', key)}: its record {error}") from error

        def fill(staged: Path) -> Published:
            with StorageError.at(f"{self._storage.root}/{path}", "write"):
                if data is not None:
                    (staged / PREDICTIONS).write_bytes(data)
                (staged / EVALUATION).write_bytes(sealed)
            return Published(EVALUATION, sealed, _version(entry), (PREDICTIONS,))

        self._storage.publish(path, fill)

    def predictions(self, key: str) -> pa.Table | None:
        """Return the predictions of an evaluation that has any. Raises `DamagedArtifact`."""
        found, seen = self._read(key)
        entry, name = (found.parquet, PREDICTIONS) if found.parquet else (found.predictions, ARROW)
        if entry is None:
            return None
        folder, problem = self._storage.fetch(
            _path(key),
            Published(EVALUATION, seen, _version(entry), (name,)),
            lambda place: entry.problem(place / name),
        )
        if problem is None:
            with StorageError.at(str(folder), "read"):
                data = pa.py_buffer((folder / name).read_bytes())
            try:
                return pa.ipc.open_file(data).read_all() if name == ARROW else _from_parquet(data)
            except (pa.ArrowException, OSError) as error:  # the bytes are those of the digest
                problem = f"is not a whole table ({error})"
        raise self._set_aside(key, f"{name} {problem}", seen)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each entry, by its key; one listing."""
        found = Counter[str]()
        for name, size in self._storage.names("ledger").items():
            found[name.partition("/")[0]] += size
        return found

    def fail(self, run: str, record: Mapping[str, Any]) -> None:
        """Keep why the run of a trial (`Trial.run`) failed, in place of an earlier reason."""
        self._storage.write(_failure(run), seal(record))

    def failure(self, run: str) -> dict[str, Any] | None:
        """Why a run failed the last time; None where nothing (readable) is known."""
        return self.failures([run]).get(run)

    def failures(self, runs: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return why runs failed the last time, for those of which something (readable) is known;
        on an object store by one listing.
        """
        paths = {_failure(run): run for run in runs}
        there = {f"failures/{name}" for name in self._storage.names("failures")}
        found = {}
        for path, data in self._storage.read_many(sorted(there & paths.keys())).items():
            with suppress(ValueError):
                record = unseal(data, _Failure, bare=True)
                found[paths[path]] = record.model_dump(exclude_unset=True)
        return found

    def clear_failure(self, run: str) -> None:
        """Forget a failure."""
        self._storage.delete(_failure(run))

    def _read(self, key: str) -> tuple[_Evaluation, bytes]:
        try:
            data = self._storage.read(f"{_path(key)}/{EVALUATION}")
        except FileNotFoundError:
            told = "there is no such evaluation. Run the grid again to make it"
            raise StorageError(f"{self._storage.root}/{_path(key)}: {told}") from None
        return self._parse(key, data), data

    def _parse(self, key: str, data: bytes) -> _Evaluation:
        try:
            found = unseal(data, _Evaluation)
            if found.key != key:
                raise ValueError(f"is that of {found.key}")
            return found
        except ValueError as error:
            raise self._set_aside(key, f"{EVALUATION} {error}", data) from error

    def _set_aside(self, key: str, problem: str, seen: bytes) -> DamagedArtifact:
        name, then = f"ledger-{key}", " and counts as not done"
        return self._storage.damaged(f"{_path(key)}/{EVALUATION}", name, problem, seen, then)


def _path(key: str) -> str:
    return f"ledger/{checked(key, 'an evaluation')}"


def _failure(run: str) -> str:
    return f"failures/{checked(run, 'a run')}.json"


def _refuse_infinite(record: Mapping[str, Any]) -> None:
    """Raise where a score or a note is not a finite number: a mean over it would be none either,
    and a table would hide it.
    """
    task = record.get("task", "")
    for score in record.get("scores", ()):
        if not math.isfinite(score["value"]):
            what = f"{task}/{score['lang']}/{score['metric']} ({score['split']})"
            raise RaxalignError(
                f"{what} is {score['value']}: this is not a result, and is not kept. The vectors or"
                " predictions behind it have values that are not numbers"
            )
    for place, value in _numbers("notes", record.get("notes", {})):
        if not math.isfinite(value):
            told = "this is not a result, and is not kept"
            raise RaxalignError(f"{task}: {place} is {value}: {told}")


def _numbers(place: str, value: object) -> Iterator[tuple[str, float]]:
    """The floats in nested notes, each with its place."""
    if isinstance(value, float):
        yield place, value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _numbers(f"{place}.{name}", part)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _numbers(f"{place}[{number}]", part)


def _version(entry: FileEntry | None) -> str:
    return digest(None if entry is None else entry.sha256)


def _to_parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def _from_parquet(data: pa.Buffer) -> pa.Table:
    table = pq.ParquetFile(pa.BufferReader(data)).read()
    table.validate(full=True)  # reading does not check that text is UTF-8
    return table
