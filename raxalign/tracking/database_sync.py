"""The database of runs on an object store: a file of one machine while it is written, and a copy in
the storage, which the next machine goes on from.

The storage's copy wins: a driver that finds that another machine has copied its database meanwhile
takes that one, sets its own aside with a message, and copies the runs of its grid into it again,
from the ledger. So nothing is overwritten in silence, and no result is lost.
"""

from __future__ import annotations

import fcntl
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from raxalign.errors import RaxalignError, StorageError
from raxalign.printing import to_stderr
from raxalign.store.lease import lease
from raxalign.store.mirror import Mirror
from raxalign.store.storage import Storage
from raxalign.tracking.client import Target, default_uri

DATABASE, ARTIFACTS, _PLACE = "mlflow.db", "mlartifacts", "place.txt"
_LOCATIONS = (("experiments", "artifact_location"), ("runs", "artifact_uri"))


@contextmanager
def carried(target: Target, again: Callable[[], object]) -> Iterator[None]:
    """Have the newest database on this machine during the block, and copy it to the storage after
    it, where runs go to the database of an object store; do nothing where they go elsewhere.

    A copy that fails is a message, as a tracking store that does not answer is one.

    Args:
        target: Where runs go.
        again: Brings the runs of this grid to the database once more.
    """
    local = target.storage.local
    if not target.storage.is_remote or target.uri != default_uri(target.storage):
        yield
        return
    copy = Copy(target.storage, local)
    try:
        copy.fetch()
    except StorageError as error:
        to_stderr(f"warning: the tracking store was not fetched: {error}")
    with copy.in_use():
        yield
    try:
        copy.push(again)
    except RaxalignError as error:
        to_stderr(
            f"warning: the tracking store was not copied to the storage: {error}; every result is"
            " in the ledger: `raxalign sync` copies it later"
        )


class Copy:
    """The database in the machine's folder of an object store, and its copy in the storage."""

    def __init__(self, storage: Storage, local: Path) -> None:
        self._storage, self._local = storage, local
        self._mirror = Mirror(storage, "tracking")
        self._database = local / DATABASE
        self._mark, self._users = local / ".mlflow.copied", local / ".mlflow.users"

    def fetch(self) -> bool:
        """Take the storage's copy where this machine has not seen it; returns whether it did.

        Raises `StorageError` where another process of this machine writes to the database: it then
        stays. A damaged copy is passed over.
        """
        version = self._mirror.version()
        seen = self._mark.read_text() if self._mark.exists() and self._database.exists() else None
        if version is None or seen == version:
            return False
        self._local.mkdir(parents=True, exist_ok=True)
        with self._users.open("w") as users:
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StorageError(
                    f"{self._mirror.place}: another machine has copied its runs there, and a grid"
                    " that runs on this one writes to its own database"
                ) from None
            return self._take()

    def push(self, again: Callable[[], object]) -> None:
        """Copy the database to the storage. Raises `RaxalignError` where that cannot be done."""
        if not self._database.exists():
            return
        with lease(self._storage, "tracking") as held:
            if self.fetch():
                again()
            with tempfile.TemporaryDirectory(prefix="raxalign-") as folder:
                snapshot, place = Path(folder, DATABASE), Path(folder, _PLACE)
                _copy_database(self._database, snapshot)
                place.write_text(str(self._local))
                artifacts = self._local / ARTIFACTS
                files = {
                    f"{ARTIFACTS}/{path.relative_to(artifacts).as_posix()}": path
                    for path in sorted(artifacts.rglob("*"))
                    if path.is_file()
                }
                held.check()
                version = self._mirror.push({DATABASE: snapshot, _PLACE: place, **files})
            self._mark.write_text(version)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep other processes of this machine from replacing the database during the block."""
        self._local.mkdir(parents=True, exist_ok=True)
        with self._users.open("w") as users:
            fcntl.flock(users, fcntl.LOCK_SH)
            yield

    def _take(self) -> bool:
        """Fetch the copy, set this machine's database aside, and put the copy's rows in its place;
        the paths of artifacts become those of this machine.
        """
        with tempfile.TemporaryDirectory(prefix="raxalign-") as folder:
            fetched = Path(folder, "copy")
            version = self._mirror.pull(fetched)
            if version is None:
                return False
            self._set_aside()
            before = (fetched / _PLACE).read_text()
            with closing(sqlite3.connect(fetched / DATABASE)) as database, database:
                for table, column in _LOCATIONS:
                    database.execute(
                        f"UPDATE {table} SET {column} = replace({column}, ?, ?)",  # noqa: S608
                        (before, str(self._local)),
                    )
            if (fetched / ARTIFACTS).exists():
                shutil.copytree(fetched / ARTIFACTS, self._local / ARTIFACTS, dirs_exist_ok=True)
            _copy_database(fetched / DATABASE, self._database)
        self._mark.write_text(version)
        return True

    def _set_aside(self) -> None:
        """Keep this machine's database under another name."""
        if not self._database.exists():
            return
        numbers = range(1, 1000)
        names = (self._database.with_name(f"mlflow-{number}.db") for number in numbers)
        aside = next(name for name in names if not name.exists())
        _copy_database(self._database, aside)
        to_stderr(
            f"the tracking store of {self._storage} was written from another machine, and is used"
            f" now; this machine's is kept as {aside}. Runs of other grids that are in it alone:"
            " `raxalign sync` copies them from the ledger"
        )


def _copy_database(source: Path, target: Path) -> None:
    """Copy a database that others may have open, into one that others may have open."""
    with closing(sqlite3.connect(source)) as read, closing(sqlite3.connect(target)) as write:
        read.backup(write)
