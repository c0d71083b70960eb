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
from raxalign.store._filesystem import Problem, Published, Storage
from raxalign.store._temporary import PREFIX, discard, is_abandoned, sign_of_life, temporary_name

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
_TEMPORARY = (f"{PREFIX}*", f"ledger/{PREFIX}*", f"failures/{PREFIX}*", f"artifacts/*/*/{PREFIX}*")


class PosixStorage(Storage):
    """A local or shared folder; relative paths are taken from the working directory of the
    moment.
    """

    def __init__(self, root: str) -> None:
        self._root = Path(root).expanduser().absolute()
        self.root = str(self._root)

    def place(self, path: str) -> str:
        """Return the absolute path."""
        return f"{self.root}/{path}"

    def exists(self, path: str) -> bool:
        """Return whether the path exists, by one stat."""
        # called for every stage of a plan
        return os.path.isfile(f"{self.root}/{path}")  # noqa: PTH113

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        try:
            return (self._root / path).read_bytes()
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

    def write(self, path: str, data: bytes) -> None:
        """Write a temporary sibling, then rename it over what may be there."""
        target = self._root / path
        partial = target.with_name(temporary_name(target.name))
        with told(self.place(path), "write"):
            make_folders(target.parent)
            try:
                with partial.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                partial.rename(target)
            finally:
                discard(partial)
            _sync(target.parent)

    def delete(self, path: str) -> None:
        """Delete a file."""
        with told(self.place(path), "delete"), suppress(FileNotFoundError, NotADirectoryError):
            (self._root / path).unlink()

    @contextmanager
    def staging(self, path: str) -> Iterator[Path]:
        """A sibling, so that publishing stays within one file system."""
        target = self._root / path
        folder = target.with_name(temporary_name(target.name))
        with told(self.place(path), "make a folder"):
            make_folders(target.parent)
            folder.mkdir()
        try:
            with sign_of_life(folder):
                yield folder
        finally:
            discard(folder)

    # a rename needs no version
    def publish(self, staged: Path, path: str, marker: str, version: str) -> bool:  # noqa: ARG002
        """Sync every file and folder, rename, sync the parent."""
        target = self._root / path
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
                    self.set_aside(
                        path, marker, path.replace("/", "-"), None
                    )  # a folder that we did not publish
                    continue
                _sync(target.parent)
                return True

    # nothing is copied
    def fetch(self, path: str, published: Published, problem: Problem) -> tuple[Path, str | None]:  # noqa: ARG002
        """Return the published folder itself."""
        folder = self._root / path
        return folder, problem(folder)

    def sizes(self, path: str, version: str, files: Sequence[str]) -> dict[str, int]:  # noqa: ARG002
        """Return the sizes, by one stat per file."""
        found = {}
        for name in files:
            with suppress(OSError):
                found[name] = (self._root / path / name).stat().st_size
        return found

    def set_aside(self, path: str, marker: str, name: str, seen: bytes | None) -> str | None:
        """Move the folder by one rename."""
        source, there = self._root / path, None
        with suppress(FileNotFoundError):
            there = self.read(f"{path}/{marker}")
        if there != seen:
            return None
        with told(self.place(path), "set aside"):
            make_folders(self._root / "damaged")
            for number in itertools.count(1):
                target = self._root / "damaged" / f"{name}-{number}"
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
        target = self._root / path
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
            with os.scandir(self._root / top) as entries:
                names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise storage_error(error, self.place(top), "list") from error
        for name in names:
            yield from self.marked(f"{top}/{name}", depth - 1, marker)

    def files(self, top: str) -> dict[str, int]:
        """Walk the tree; what goes away meanwhile is left out."""
        found = {}
        for parent, _, names in os.walk(self._root / top):
            for name in names:
                path = Path(parent, name)
                with suppress(OSError):
                    found[path.relative_to(self._root).as_posix()] = path.lstat().st_size
        return found

    def abandoned(self) -> list[Path]:
        """Look at every temporary name below the root."""
        return [
            path
            for pattern in _TEMPORARY
            for path in self._root.glob(pattern)
            if is_abandoned(path)
        ]

    def sweep(self) -> int:
        """Look at every temporary name below the root."""
        abandoned = self.abandoned()
        for path in abandoned:
            discard(path)
        return len(abandoned)

    def check_writable(self) -> None:
        """Also creates the root."""
        name = temporary_name("writable")
        self.write(name, b"raxalign")
        if self.read(name) != b"raxalign":
            raise StorageError(f"{self.root}: a test file could not be read back")
        self.delete(name)


def make_folders(folder: Path) -> None:
    """``mkdir -p`` that survives a power cut."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folders(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir()
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    _sync(folder.parent)


def sync_tree(folder: Path) -> None:
    """Fsync every file and folder of a tree."""
    for parent, _, names in os.walk(folder):
        for name in names:
            _sync(Path(parent, name))
        _sync(Path(parent))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some shared file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)
