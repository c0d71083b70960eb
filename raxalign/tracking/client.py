"""The client of a tracking store: where runs go, how it is reached, what it says when it fails; and
the pages of its experiments.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlparse

from raxalign.catalog import PluginFault
from raxalign.errors import RaxalignError
from raxalign.store.alive import turn
from raxalign.store.key import digest
from raxalign.store.lease import Held, Holder, Locks
from raxalign.store.storage import Storage
from raxalign.waits import within

_SQLITE = "sqlite:///"
_PLACES = "mlartifacts"  # the folder of artifacts beside a database
_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # what was sent twice may have been done twice
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # seconds of one step
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # stdout is for results
}
_STEPS = 6  # such times are the limit of a whole call
_RATE = 2.5e5  # bytes of a folder per second, for which an upload has more time
_LIBRARIES = frozenset(
    (
        *("mlflow", "sqlalchemy", "alembic", "sqlite3", "psycopg2", "pymysql", "requests"),
        *("urllib3", "boto3", "botocore", "google", "azure", "databricks"),
    )
)
"""What defines the errors of MLflow's client, and of what it reaches other places by."""
_DOWN = ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "IO_ERROR", "BAD_REQUEST")
"""MLflow's codes for no answer and for a broken database; with any other one it has answered."""
_STATES = {
    "UNAUTHENTICATED|PERMISSION_DENIED|error code 40[13]": (
        "refuses access",
        "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, or"
        " have the server allow this address",
    ),
    "valid JSON|Failed to parse|redirects|BadStatusLine": (
        "does not answer as MLflow does",
        "see what is at that address (a login page, a proxy, another program)",
    ),
    "not a database|malformed": (
        "is a damaged database",
        "move its file away",
    ),
    "out-of-date database": (
        "is a database of another version of MLflow",
        "install that version, or upgrade an older database by `mlflow db upgrade`",
    ),
    "filesystem tracking backend": (
        "is a folder, which MLflow no longer writes",
        "name a database (sqlite:////PATH/mlflow.db) or a server (http://HOST:5000)",
    ),
}
"""What errors of a store say, what that means, and what to do."""

NOTES = ("mlflow.note.content", "raxalign.note")
"""The tags of a description, and of a digest of the one that raxalign wrote last."""
_LONGEST = 4900  # characters of a tag of an experiment; MLflow takes 5,000
_WORKFLOW = "workflowType=machine_learning"  # else MLflow opens pages on language models


class TrackingError(RaxalignError):
    """Runs were not copied to the tracking store; results are safe, `raxalign sync` copies them."""


class TrackingHeld(TrackingError):
    """Another driver copies the runs of the same grid."""


class Client:
    """A client of MLflow that gives up soon: results are in the ledger, so a server that is down is
    not worth waiting for. Each call has one limit of time for all that it does.
    """

    def __init__(self, uri: str) -> None:
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        from mlflow import MlflowClient
        from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_TIMEOUT

        for name in ("mlflow", "alembic", "urllib3"):  # failures are raised, and reported once
            logging.getLogger(name).setLevel(logging.CRITICAL)
        if (database := _database_of(uri)) is not None:
            _make_database(database)
        self._what = f"the tracking store at {uri}"
        self._limit = _STEPS * float(MLFLOW_HTTP_REQUEST_TIMEOUT.get())
        self._client = within(self._limit, self._what, lambda: MlflowClient(tracking_uri=uri))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*given: Any, **named: Any) -> Any:
            files = Path(given[1]).rglob("*") if name.endswith("artifacts") else ()
            more = sum(file.stat().st_size for file in files) / _RATE
            return within(self._limit + more, self._what, lambda: method(*given, **named))

        return call

    def every_run(self, experiment: str, condition: str) -> Iterator[Any]:
        """Yield all runs of an experiment for which a condition holds, page by page."""
        token = None
        while True:
            page = self.search_runs([experiment], condition, max_results=1000, page_token=token)
            yield from page
            token = page.token
            if not token:
                return


@dataclass(frozen=True)
class Target:
    """Where runs go: a tracking URI, the storage, and the grid file's text, which is kept."""

    uri: str
    storage: Storage
    grid_text: str = ""

    @classmethod
    def of(cls, storage: Storage, uri: str | None = None, grid_text: str = "") -> Target:
        """Return the target at a URI; None: the database in the storage, of a bucket in the
        machine's folder.
        """
        uri = uri or _uri_of(storage.local.absolute() / "mlflow.db")
        return cls(uri, storage, grid_text)

    @property
    def database(self) -> Path | None:
        """The file of the database; None for a server."""
        return _database_of(self.uri)

    @property
    def moved_from(self) -> Path | None:
        """The folder that the database of a storage was made in, where that is another one."""
        return None if self.database is None else _former_place(self.database)

    def connect(self) -> Client:
        """Return a client of the store."""
        return Client(self.uri)

    def set_moved_aside(self) -> None:
        """Set a database aside that came with a storage from another folder. Who opens the store
        copies again what the ledger has.
        """
        if (database := self.database) is None or _former_place(database) is None:
            return
        kept = database.with_name(f"{database.name}.moved-{secrets.token_hex(3)}")
        with turn(_lock(database)):
            if (former := _former_place(database)) is None:  # another process has done it
                return
            database.rename(kept)
        for marker in (database.parent / "tracked").glob("*"):
            marker.unlink(missing_ok=True)
        warnings.warn(
            f"{database}: run `raxalign sync FILE` for each other grid of this storage. The"
            f" database was made in {former} and is kept as {kept.name}, with its registered models"
            " and notes",
            stacklevel=2,
        )

    def identity(self) -> str:
        """Return what tells the runs of the storage from those of others, wherever it is moved."""
        files = self.storage.files
        if not files.existing(["storage-id"]):
            files.create("storage-id", secrets.token_hex(8).encode())
        found = files.read("storage-id").decode("ascii", "replace")
        if re.fullmatch("[0-9a-f]{16}", found):
            return found
        raise TrackingError(
            f"{self.storage}/storage-id: is damaged; delete it, and then run `raxalign sync`: a new"
            " one is made, and runs that are in a tracking store already count as those of another"
            " storage"
        )

    @contextmanager
    def only_writer(self, name: str, values: str = "") -> Iterator[Held]:
        """Be the one process that writes the runs of a grid of this storage, until the block ends.
        Grids of one name are told apart by a digest of what they compute (`values`).

        Raises `TrackingHeld` where another one is, and lives: its own machine knows that, and for
        others a sign of life within three minutes tells it.
        """
        since = time.monotonic()

        def patience(holder: Holder) -> float:
            if holder.lives() or time.monotonic() - since > Locks.EXPIRY + 2 * Locks.ASK:
                told = f"another driver, on {holder.host}, copies the runs of"
                raise TrackingHeld(
                    f"{told} {name} to {self.uri}. At its end it copies all results of the ledger;"
                    " if it is killed before, run `raxalign sync`"
                    if holder.purpose in ("", values)
                    else f"{told} another grid that is called {name} too to {self.uri}, and only"
                    " these: run `raxalign sync` on this one when it has ended, or give one of the"
                    " two another `name:`"
                )
            return Locks.EXPIRY

        lock = self.writer_lock(name)
        with self.storage.locks.hold(lock, patience=patience, purpose=values) as held:
            yield held

    def writer_lock(self, name: str) -> str:
        """Return the name of the lock of who writes the runs of a grid."""
        return f"runs/{digest([self.uri, name])[:16]}"

    def page(self, client: Any, name: str) -> Page:
        """Return the page of the experiment of a grid, which is made where there is none. Raises
        `TrackingError` where it was deleted.
        """
        from mlflow.exceptions import MlflowException

        database = self.database
        place = (database.absolute().parent / _PLACES).as_uri() if database is not None else None
        found = client.get_experiment_by_name(name)
        if found is None:
            try:
                made = client.create_experiment(name, place, Page.KIND)
                return Page(client, str(made), Page.KIND)
            except MlflowException:
                found = client.get_experiment_by_name(name)  # another driver may have made it
                if found is None:
                    raise
        if found.lifecycle_stage == "deleted":
            command = f"MLFLOW_TRACKING_URI='{self.uri}' mlflow" if database else "mlflow"
            raise TrackingError(
                f"the experiment {name} was deleted in MLflow, so that no runs are copied; every"
                f" result is in the ledger. Restore it ({command} experiments restore"
                f" --experiment-id {found.experiment_id}), or give the grid another `name:`; then"
                " run `raxalign sync`"
            )
        return Page(client, str(found.experiment_id), found.tags)

    @staticmethod
    def has_caused(error: Exception) -> bool:
        """Return whether an error is that of a tracking store or of the way there: of MLflow's
        client, of a library that it reaches databases, servers and artifacts by, or of the
        operating system.

        What Python itself raises (KeyError) and what raxalign raises are errors on this side.
        """
        library = type(error).__module__.partition(".")[0]
        return isinstance(error, OSError | ImportError) or library in _LIBRARIES

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Raise what fails in the block as a `TrackingError` that says whose error it is."""
        try:
            yield
        except TrackingError:
            raise
        except Exception as error:
            raise TrackingError(self.not_copied(error)) from error

    def not_copied(self, error: Exception | None) -> str:
        """Return the message for runs that were not copied: the store accepts nothing, or the
        `error` is one of this side.
        """
        text = str(error or "").strip()
        _, caused, said = next(iter(text.splitlines()), "").rpartition("Caused by ")
        said = said.removesuffix(")") if caused else said
        why = f" ({type(error).__name__}: {said[:200]})" if error else ""
        if error is not None and not self.has_caused(error):
            found = str(error) if isinstance(error, RaxalignError) else PluginFault.blamed(error)
            return (
                f"runs were not copied to the tracking store at {self.uri}:"
                f" {found or f'a bug in raxalign{why}'}; every result is in the ledger"
            )
        answered = getattr(error, "error_code", _DOWN[0]) not in _DOWN
        usual = ("refuses the runs" if answered else "does not answer", "mend that")
        known = (told for signs, told in _STATES.items() if re.search(signs, text))
        state, remedy = next(known, usual)
        return (
            f"the tracking store at {self.uri} {state}{why}; every result is in the ledger:"
            f" {remedy}, then run `raxalign sync`"
        )


class Page:
    """The page of one `experiment`, whose `tags` were read; `view` is what it opens with."""

    LANGUAGES, CELLS, TRIALS = "languages", "cells", "trials"
    """The keys of its views."""
    VIEW: ClassVar = "mlflow.sharedViewState."
    """How the tags of views begin, before their keys."""
    LIST: ClassVar = f"#/experiments?{_WORKFLOW}"
    """The address of all experiments on a server."""
    KIND: ClassVar = {"mlflow.experimentKind": "custom_model_development"}
    """The tag of an experiment of model training."""

    def __init__(
        self, client: Any, experiment: str, tags: Mapping[str, str], view: str = LANGUAGES
    ) -> None:
        self.experiment = experiment
        self._client, self._tags, self._view = client, dict(tags), view

    @classmethod
    def of_grids(cls, client: Any) -> dict[str, Page]:
        """Return the pages of all grids that have values, by their names; the latest first. What an
        older version wrote has a view of cells alone.
        """
        found = sorted(client.search_experiments(), key=lambda entry: -entry.last_update_time)
        return {
            entry.name: cls(client, entry.experiment_id, entry.tags, view)
            for entry in found
            for view in (cls.CELLS, cls.LANGUAGES)
            if cls.VIEW + view in entry.tags
        }

    def address(self, view: str = "", *, charts: bool = False) -> str:
        """Return the address of a view on a server, in MLflow's pages for model training."""
        shown = f"{view or self._view}{'&compareRunsMode=CHART' if charts else ''}"
        return f"#/experiments/{self.experiment}/runs?viewStateShareKey={shown}&{_WORKFLOW}"

    def describe(self, answer: str, run: str | None) -> None:
        """Write the description: what the results show, and links, to the files of the grid that a
        `run` has too. One that a person has written stays.
        """
        links = [
            f"[Best by language]({self.address()})",
            f"[charts]({self.address(charts=True)})",
            f"[by size]({self.address(self.CELLS)})",
            f"[every trial]({self.address(self.TRIALS)})",
        ]
        if run:
            files = f"#/experiments/{self.experiment}/runs/{run}/artifacts"
            links.append(f"[grid file, plan, comparisons and report]({files})")
        text = f"{answer}\n\n{' · '.join(links)}\n\nHow to read it: docs/how-to/mlflow.md".strip()
        self.set(noted(self._tags, text))

    def set(self, tags: Mapping[str, str]) -> None:
        """Set tags of the experiment, as far as they are others than before."""
        for name, value in tags.items():
            if len(value) <= _LONGEST and self._tags.get(name) != value:
                self._client.set_experiment_tag(self.experiment, name, value)
                self._tags[name] = value


def noted(there: Mapping[str, str], text: str) -> dict[str, str]:
    """Return the tags that describe a run or an experiment, which has the tags that are `there`;
    none where a person has written a description, or for no text.
    """
    now, text = there.get(NOTES[0]), text[:_LONGEST]
    if not text or (now and digest(now) != there.get(NOTES[1])):
        return {}
    return dict(zip(NOTES, (text, digest(text)), strict=True))


def _uri_of(database: Path) -> str:
    return _SQLITE + str(database).replace("%", "%25").replace("?", "%3F")


def _database_of(uri: str) -> Path | None:
    path = uri.removeprefix(_SQLITE).partition("?")[0]
    return Path(unquote(path)) if uri.startswith(_SQLITE) else None


def _former_place(database: Path) -> Path | None:
    """The folder that the database of a storage was made in, where that is another one: it would
    write artifacts there, since MLflow keeps absolute places.
    """
    found: list[tuple[str]] = []
    if database.exists() and (database.parent / "plans").is_dir():
        with suppress(sqlite3.Error), closing(sqlite3.connect(database)) as opened:
            found = opened.execute("SELECT artifact_location FROM experiments").fetchall()
    paths = (Path(unquote(urlparse(p).path)) if "://" in p else Path(p) for (p,) in found)
    others = (p.parent for p in paths if p.name == _PLACES)
    return next((p for p in others if p.resolve() != database.parent.resolve()), None)


def _lock(database: Path) -> Path:
    return database.with_name(f".{database.name}.lock")


def _make_database(path: Path) -> None:
    """Make the database in one process, under another name first: MLflow would take half-made
    tables for those of an old version.
    """
    if former := _former_place(path):
        raise TrackingError(
            f"{path}: run `raxalign sync FILE`, which copies the runs of a grid again: the database"
            f" was made in {former}"
        )
    if path.exists():
        return
    from mlflow import MlflowClient

    path.parent.mkdir(parents=True, exist_ok=True)
    with turn(_lock(path)):
        if path.exists():
            return
        partial = path.with_name(f".{path.name}.new")
        partial.unlink(missing_ok=True)
        partial.touch()  # SQLite would keep the group from writing, whatever the umask says
        MlflowClient(tracking_uri=_uri_of(partial)).search_experiments()
        partial.rename(path)
