"""A storage on an object store, through fsspec: no rename, so files go first and the marker last;
readers copy to a local cache.

Files of a folder lie under a name made from their contents. So two processes that make the same key
with other bytes (a word aligner without a seed does) do not overwrite each other's, and the marker
always names the files that belong to it.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from raxalign.errors import DependencyError, StorageError
from raxalign.store._faults import storage_error, told
from raxalign.store._filesystem import Problem, Published, Storage
from raxalign.store._posix import make_folders
from raxalign.store._temporary import PREFIX, discard, is_abandoned, sign_of_life, temporary_name
from raxalign.store.key import digest

_FOLDER_NAME = 16  # hexadecimal digits of a version


class ObjectStorage(Storage):
    """A URL such as ``s3://bucket/folder`` or ``memory://folder``."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self._files, self._base = _connect(self.root)
        cache = (
            Path(os.environ.get("RAXALIGN_CACHE") or "~/.cache/raxalign").expanduser().absolute()
        )
        self._cache = cache / digest(self.root)[:16]

    def place(self, path: str) -> str:
        """Return the URL."""
        return f"{self.root}/{path}"

    def exists(self, path: str) -> bool:
        """Return whether the path exists, by one request."""
        with told(self.place(path), "look for"):
            return bool(self._files.exists(self._full(path)))

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        try:
            return bytes(self._files.cat_file(self._full(path)))
        except FileNotFoundError:
            raise FileNotFoundError(self.place(path)) from None
        except OSError as error:
            raise storage_error(error, self.place(path), "read") from error

    def read_many(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return all at once, where the file system can."""
        if not paths:
            return {}
        names = {self._full(path): path for path in paths}
        with told(self.root, "read"):
            answers = self._files.cat(list(names), on_error="return")
        found = {}
        for name, answer in answers.items():
            if isinstance(answer, FileNotFoundError):
                continue
            if isinstance(answer, Exception):
                raise storage_error(answer, self.place(names[name]), "read") from answer
            found[names[name]] = bytes(answer)
        return found

    def write(self, path: str, data: bytes) -> None:
        """One request, which object stores do whole or not at all."""
        with told(self.place(path), "write"):
            self._make_parents(self._full(path))
            self._files.pipe_file(self._full(path), data)

    def delete(self, path: str) -> None:
        """Delete a file."""
        with told(self.place(path), "delete"), suppress(FileNotFoundError):
            self._files.rm_file(self._full(path))

    @contextmanager
    def staging(self, path: str) -> Iterator[Path]:
        """In the local cache, next to the place of the copy."""
        target = self._cache / path
        folder = target.with_name(temporary_name(target.name))
        with told(str(folder), "make a folder"):
            make_folders(folder)
        try:
            with sign_of_life(folder):
                yield folder
        finally:
            discard(folder)

    def publish(self, staged: Path, path: str, marker: str, version: str) -> bool:
        """Upload the files, then create the marker, which the second of two processes cannot."""
        if self.exists(f"{path}/{marker}"):
            return False
        there = f"{self._full(path)}/{version[:_FOLDER_NAME]}"
        with told(self.place(path), "publish"):
            for parent, _, names in os.walk(staged):
                for file in (Path(parent, name) for name in names):
                    name = file.relative_to(staged).as_posix()
                    if name != marker:
                        self._make_parents(f"{there}/{name}")
                        self._files.put_file(str(file), f"{there}/{name}")
            self._make_parents(f"{self._full(path)}/{marker}")
            try:
                self._files.pipe_file(
                    f"{self._full(path)}/{marker}", (staged / marker).read_bytes(), mode="create"
                )
            except FileExistsError:
                return False
        with told(str(self._cache), "write"):
            self._keep(
                staged,
                self._cached(path, (staged / marker).read_bytes()),
                lambda folder: None,  # noqa: ARG005
            )
        return True

    def fetch(self, path: str, published: Published, problem: Problem) -> tuple[Path, str | None]:
        """Return the cached copy if that is whole, else a new one; only bytes that this process has
        just copied can show that the original is damaged.
        """
        cached = self._cached(path, published.data)
        if cached.exists() and problem(cached) is None:
            return cached, None
        there = f"{self._full(path)}/{published.version[:_FOLDER_NAME]}"
        with self.staging(path) as staged, told(self.place(path), f"copy into {self._cache}"):
            for name in published.files:
                (staged / name).parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):
                    self._files.get_file(f"{there}/{name}", str(staged / name))
            (staged / published.marker).write_bytes(published.data)
            found = problem(staged)
            if found is None:
                self._keep(staged, cached, problem)
        return cached, found

    def sizes(self, path: str, version: str, files: Sequence[str]) -> dict[str, int]:
        """Return the sizes, by one listing."""
        there = f"{self._full(path)}/{version[:_FOLDER_NAME]}"
        with told(self.place(path), "list"):
            found = self._files.find(there, detail=True)
        sizes = {
            name.lstrip("/").removeprefix(there.lstrip("/") + "/"): info["size"]
            for name, info in found.items()
        }
        return {name: sizes[name] for name in files if name in sizes}

    def set_aside(self, path: str, marker: str, name: str, seen: bytes | None) -> str | None:
        """Move the marker; the files stay and are written over when the folder is made again.

        Between looking and deleting another process may have made the folder again (no object store
        of fsspec's deletes on a condition): its marker is then lost and the folder made once more.
        """
        there = None
        with suppress(FileNotFoundError):
            there = self.read(f"{path}/{marker}")
        if there is None or there != seen:
            return None
        for number in itertools.count(1):
            target = f"damaged/{name}-{number}"
            if not self.exists(f"{target}/{marker}"):
                break
        self.write(f"{target}/{marker}", there)
        self.delete(f"{path}/{marker}")
        discard(self._cached(path, there))
        return self.place(target)

    def remove(self, path: str, marker: str) -> None:
        """The marker, then everything else, then the copy."""
        self.delete(f"{path}/{marker}")
        with told(self.place(path), "remove"), suppress(FileNotFoundError):
            self._files.rm(self._full(path), recursive=True)
        discard(self._cache / path)

    def marked(self, top: str, depth: int, marker: str) -> Iterator[str]:
        """Yield one flat listing: level by level would be a request a folder."""
        start = len(self._full("").lstrip("/"))
        with told(self.place(top), "list"):
            found = self._files.find(self._full(top))
        for name in sorted(found):
            folder, _, last = name.lstrip("/")[start:].rpartition("/")
            if last == marker and folder.count("/") == top.count("/") + depth:
                yield folder

    def files(self, top: str) -> dict[str, int]:
        """Return the sizes, by one listing."""
        start = len(self._full("").lstrip("/"))
        with told(self.place(top), "list"):
            found = self._files.find(self._full(top), detail=True)
        return {name.lstrip("/")[start:]: int(info["size"] or 0) for name, info in found.items()}

    def abandoned(self) -> list[Path]:
        """Look at the local cache."""
        return [path for path in self._cache.rglob(f"{PREFIX}*") if is_abandoned(path)]

    def sweep(self) -> int:
        """The local cache is where half-written things are; uploads without a marker are written
        over or go with `remove`.
        """
        abandoned = self.abandoned()
        for path in abandoned:
            discard(path)
        return len(abandoned)

    def check_writable(self) -> None:
        """Every file system of fsspec has exceptions of its own for missing credentials and
        buckets: all become messages.
        """
        name = temporary_name("writable")
        try:
            self.write(name, b"raxalign")
            kept = self.read(name)
            self.delete(name)
        except StorageError:
            raise
        except Exception as error:
            raise storage_error(error, self.root, "write") from error
        if kept != b"raxalign":
            raise StorageError(f"{self.root}: a test file could not be read back")

    def _full(self, path: str) -> str:
        return f"{self._base}/{path}"

    def _make_parents(self, name: str) -> None:
        """For those that have folders; who may only write below a prefix may not be allowed this,
        and does not need it.
        """
        with suppress(OSError):
            self._files.makedirs(name.rpartition("/")[0], exist_ok=True)

    def _cached(self, path: str, marker: bytes) -> Path:
        """The place of the copy. A folder that is made again has another marker, and so never
        replaces one that is in use.
        """
        return self._cache / path / hashlib.sha256(marker).hexdigest()[:_FOLDER_NAME]

    def _keep(self, staged: Path, cached: Path, problem: Problem) -> None:
        """Make a staged folder the cached copy, unless another process has put a whole one
        there.
        """
        with told(str(cached), "write"):
            make_folders(cached.parent)
            while True:
                try:
                    staged.rename(cached)
                except OSError:
                    if not cached.exists():
                        raise
                    if problem(cached) is None:
                        return
                    damaged = cached.with_name(temporary_name(cached.name))
                    with suppress(FileNotFoundError):
                        cached.rename(damaged)
                    discard(damaged)
                    continue
                return


def _connect(root: str) -> tuple[Any, str]:
    import fsspec

    try:
        files, base = fsspec.url_to_fs(root, use_listings_cache=False)
    except ImportError as error:
        scheme = root.partition("://")[0]
        extra = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}.get(scheme)
        remedy = f"pip install 'raxalign[{extra}]'" if extra else str(error)
        raise DependencyError(
            f"{root}: {scheme}:// needs a library that is not installed: {remedy}"
        ) from error
    except (ValueError, OSError) as error:
        raise StorageError(
            f"{root}: is not a storage that fsspec knows: {error}. Give a folder, or a URL such as"
            " s3://bucket/folder"
        ) from error
    return files, base.rstrip("/")
