"""A storage on a file system: folders are made in a temporary sibling, synced, and published by one
rename.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from raxalign.errors import StorageError
from raxalign.store._faults import storage_error, told
from raxalign.store._filesystem import Files, Problem, Published, make_folders, sync
from raxalign.store.alive import PREFIX, abandoned_below, discard, temporary_name

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class PosixFiles(Files):
    """A local or shared folder; relative paths are taken from the working directory of the
    moment.
    """

    def __init__(self, root: str) -> None:
        self.local = Path(root).expanduser().absolute()
        self.root = str(self.local)

    def exists(self, path: str) -> bool:
        """Return whether the path exists, by one stat."""
        # called for every stage of a plan
        return os.path.isfile(f"{self.root}/{path}")  # noqa: PTH113

    def names(self, top: str) -> dict[str, int]:
        """Walk the folder; temporaries are left out."""
        found = {}
        for parent, folders, names in os.walk(self.local / top):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(name for name in names if not name.startswith(PREFIX)):
                file = Path(parent, name)
                with suppress(FileNotFoundError):
                    found[file.relative_to(self.local / top).as_posix()] = file.stat().st_size
        return found

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        try:
            return (self.local / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(self.place(path)) from None
        except OSError as error:
            raise storage_error(error, self.place(path), "read") from error

    def read_many(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Read one file after the other: threads gain nothing on small files in the page cache."""
        found = {}
        for path in paths:
            with suppress(FileNotFoundError):
                found[path] = self.read(path)
        return found

    def modified(self, path: str) -> float:
        """Return its time of modification, by the clock of who serves the file system."""
        with told(self.place(path), "read"):
            return (self.local / path).stat().st_mtime

    def write(self, path: str, data: bytes) -> None:
        """Write a temporary sibling, then rename it over what may be there."""
        with told(self.place(path), "write"), self._partial(path) as partial:
            _write(partial, data)
            partial.rename(self.local / path)

    def create(self, path: str, data: bytes) -> bool:
        """Write a temporary sibling, then link it: of several links with one name one is made. NFS
        sends a request again whose answer is lost, and then finds the link that it has made.
        """
        with told(self.place(path), "write"), self._partial(path) as partial:
            _write(partial, data)
            try:
                os.link(partial, self.local / path)
            except FileExistsError:
                with suppress(FileNotFoundError):
                    return partial.samefile(self.local / path)
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                with suppress(FileExistsError):
                    _write(self.local / path, data)
                    return True
                return False
        return True

    def upload(self, file: Path, path: str) -> None:
        """Copy to a temporary sibling, then rename it."""
        with told(self.place(path), "write"), self._partial(path) as partial:
            shutil.copyfile(file, partial)
            sync(partial)
            partial.rename(self.local / path)

    def download(self, path: str, file: Path) -> None:
        """Copy the file."""
        try:
            shutil.copyfile(self.local / path, file)
        except FileNotFoundError:
            raise FileNotFoundError(self.place(path)) from None
        except OSError as error:
            raise storage_error(error, self.place(path), f"copy to {file}") from error

    def delete_all(self, top: str) -> None:
        """Remove the tree."""
        with told(self.place(top), "delete"), suppress(FileNotFoundError, NotADirectoryError):
            shutil.rmtree(self.local / top)

    @contextmanager
    def _partial(self, path: str) -> Iterator[Path]:
        """A temporary sibling of a file, which is gone at the end; its folder is then synced."""
        target = self.local / path
        make_folders(target.parent)
        partial = target.with_name(temporary_name(target.name))
        try:
            yield partial
        finally:
            discard(partial)
        sync(target.parent)

    def delete(self, path: str) -> None:
        """Delete a file."""
        with told(self.place(path), "delete"), suppress(FileNotFoundError, NotADirectoryError):
            (self.local / path).unlink()

    # a rename needs no version
    def publish(self, staged: Path, path: str, marker: str, version: str) -> bool:  # noqa: ARG002
        """Sync every file and folder, rename, sync the parent."""
        target = self.local / path
        with told(self.place(path), "publish"):
            sync_tree(staged)
            while True:
                try:
                    staged.rename(target)
                except OSError as error:
                    if error.errno not in _TAKEN:
                        raise
                    if self.exists(f"{path}/{marker}"):
                        return False
                    # a folder that we did not publish
                    self.set_aside(path, marker, path.replace("/", "-"), None)
                    continue
                sync(target.parent)
                return True

    # nothing is copied
    def fetch(self, path: str, published: Published, problem: Problem) -> tuple[Path, str | None]:  # noqa: ARG002
        """Return the published folder itself."""
        folder = self.local / path
        return folder, problem(folder)

    def set_aside(self, path: str, marker: str, name: str, seen: bytes | None) -> str | None:
        """Move the folder by one rename."""
        source, there = self.local / path, None
        with suppress(FileNotFoundError):
            there = self.read(f"{path}/{marker}")
        if there != seen:
            return None
        with told(self.place(path), "set aside"):
            make_folders(self.local / "damaged")
            for number in itertools.count(1):
                target = self.local / "damaged" / f"{name}-{number}"
                if target.exists():
                    continue
                try:
                    source.rename(target)
                except FileNotFoundError:
                    return None
                except OSError as error:
                    if error.errno not in _TAKEN:
                        raise
                    continue
                break
        return str(target)

    def remove(self, path: str, marker: str) -> None:  # noqa: ARG002
        """Rename to a temporary, which no reader sees, and remove that."""
        target = self.local / path
        doomed = target.with_name(temporary_name(target.name))
        with told(self.place(path), "remove"):
            try:
                target.rename(doomed)
            except (FileNotFoundError, NotADirectoryError):
                return
            shutil.rmtree(doomed)

    def marked(self, top: str, depth: int, marker: str) -> Iterator[str]:
        """Scan the folders level by level; names with a leading dot are temporaries."""
        if depth == 0:
            if self.exists(f"{top}/{marker}"):
                yield top
            return
        try:
            with os.scandir(self.local / top) as entries:
                names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise storage_error(error, self.place(top), "list") from error
        for name in names:
            yield from self.marked(f"{top}/{name}", depth - 1, marker)

    def abandoned(self) -> list[Path]:
        """Look at every temporary name below the root."""
        return abandoned_below(self.local)

    def check_writable(self) -> None:
        """Also creates the root."""
        name = temporary_name("writable")
        try:
            self.write(name, b"raxalign")
        except StorageError as error:  # what the test file is called means nothing to a user
            raise StorageError(str(error).replace(f"/{name}", "")) from error
        if self.read(name) != b"raxalign":
            raise StorageError(f"{self.root}: a test file could not be read back")
        self.delete(name)


def _write(file: Path, data: bytes) -> None:
    with file.open("xb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())


def sync_tree(folder: Path) -> None:
    """Fsync every file and folder of a tree."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync(Path(parent, name))
        sync(Path(parent))
