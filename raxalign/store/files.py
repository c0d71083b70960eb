"""The files at a root, a folder or an object store. An object store, through fsspec, has no rename:
files go first and the marker last, and readers copy to a local cache.

Files of a folder lie under a name made from their contents. So two processes that make the same key
with other bytes (a word aligner without a seed does) do not overwrite each other's, and the marker
always names the files that belong to it.

Small objects that seldom change, manifests and results, are read once per machine: it keeps what it
has read under the stamp that a listing shows of the original. A copy counts only while the original
has that stamp.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from raxalign.errors import DependencyError, StorageError
from raxalign.printing import to_stderr
from raxalign.store.alive import discard, temporary_name
from raxalign.store.disk import Cache, Files, PosixFiles, Published
from raxalign.waits import within

T = TypeVar("T")
_STALL = 60.0  # seconds
FEW = 8  # objects that are asked for one by one; for more, their folder is listed
_TOPS = ("artifacts", "ledger")  # below these an object is seldom written again

# seconds before each repetition, and how long they may take together
WAITS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
PATIENCE = 300.0
# how often botocore makes a request, and s3fs has it made: both hide which blips there are
REQUESTS = 2
_BLIPS = {errno.EBUSY, errno.EIO, errno.EREMOTEIO, errno.EPIPE, errno.ENETUNREACH}
_BLIPS |= {errno.EHOSTUNREACH, errno.ENETDOWN, errno.ETIMEDOUT, errno.ECONNRESET}
# of botocore, aiohttp, fsspec and the clients of other stores, none of which is always installed
_BLIP_NAMES = {"HTTPClientError", "EndpointConnectionError", "IncompleteReadError"}
_BLIP_NAMES |= {"ClientPayloadError", "ClientConnectionError", "FSTimeoutError", "RetryError"}
_BLIP_NAMES |= {"ResponseStreamingError", "ServerTimeoutError", "ServiceRequestError"}
_BLIP_STATUSES = {408, 409, 425, 429, *range(500, 600)}
_BUGS = (TypeError, AttributeError, AssertionError, NameError)
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError")
_NO_BUCKET = "bucket does not exist"
# without folders: to make a parent folder there is to make the bucket
_FLAT = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "obs", "tos"}
_S3 = {"s3", "s3a"}
_FORMS = ("file:///folder", "s3://bucket/folder", "gs://bucket/folder", "abfs://container/folder")


def files_of(root: str, waits: Sequence[float] | None = None) -> Files:
    """Return the files at a root: a folder, ``file://``, or another URL that fsspec knows, with the
    seconds before each repetition of a request (None: about a minute together).
    """
    if "://" not in root or root.startswith("file://"):
        return PosixFiles(root.removeprefix("file://"))
    return ObjectFiles(root, waits)


def split_place(place: str) -> tuple[Files, str]:
    """Return the files at the folder of a file, and the file's name there."""
    folder, _, name = place.rpartition("/")
    return files_of(folder), name


class ObjectFiles(Files):
    """A URL such as ``s3://bucket/folder`` or ``memory://folder``."""

    def __init__(self, root: str, waits: Sequence[float] | None = None) -> None:
        self.root = root.rstrip("/")
        self._connection = _Connection(self.root, waits)
        self._files, self._base = self._connection.files, self._connection.base
        self.local = Cache.folder_of(self.root)
        self._cache = Cache(self.local)

    def existing(self, paths: Sequence[str]) -> set[str]:
        """List the folder that all of them are in; a few are asked for one by one."""
        wanted = set(paths)
        if len(wanted) <= FEW:
            full = {path: self._full(path) for path in wanted}
            asks = {p: partial(self._files.exists, name) for p, name in full.items()}
            return {path for path, ask in asks.items() if self._ask(path, "look for", ask)}
        top = os.path.commonpath(wanted)
        return {found for name in self._list(top) if (found := _join(top, name)) in wanted}

    def names(self, top: str) -> dict[str, int]:
        """One flat listing."""
        return {name: info["size"] for name, info in self._list(top).items()}

    def read(self, path: str) -> bytes:
        """Return a file's bytes, by one request."""
        name, options = self._full(path), self._connection.reading
        try:
            return self._bring(path, "read", lambda: bytes(self._files.cat_file(name, **options)))
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.root}/{path}") from None

    def read_many(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return all at once, where the file system can. Of many objects, those are not read that
        this machine has read under the stamp that a listing shows now.
        """
        if len(paths) <= FEW:
            return self._read_all(paths)
        there = self._stamps(os.path.commonpath(paths))
        stamps = {path: there[path] for path in paths if path in there}
        found = self._cache.remembered(stamps)
        new = self._read_all([path for path in stamps if path not in found])
        lasting = {path: data for path, data in new.items() if path.partition("/")[0] in _TOPS}
        self._cache.remember(stamps, lasting)
        found |= new
        return {path: found[path] for path in stamps if path in found}

    def _read_all(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of those objects that exist; they are read at the same time."""
        names, found = {self._full(path): path for path in paths}, dict[str, bytes]()
        top, cat = os.path.commonpath(paths) if paths else "", self._files.cat

        def request() -> None:
            left = [name for name, path in names.items() if path not in found]
            call = partial(cat, left, on_error="return", **self._connection.reading)
            answers = self._limited(top, call) if left else {}
            for name, answer in answers.items():
                if not isinstance(answer, Exception):
                    found[names[name]] = bytes(answer)
            errors = [answer for answer in answers.values() if isinstance(answer, Exception)]
            for error in errors:
                if _is_blip(error) or not isinstance(error, FileNotFoundError):
                    raise error

        self._ask(top, "read", request)
        return found

    def _stamps(self, top: str) -> dict[str, str | None]:
        """Return what changes when an object is written again, for each object below a folder, by
        its path; None where the store shows nothing like it.
        """
        found = {}
        for name, info in self._list(top).items():
            shown = [info.get(key) for key in ("ETag", "etag", "md5Hash", "mtime")]
            known = next((value for value in shown if value), None)
            found[_join(top, name)] = f"{info.get('size')} {known}" if known else None
        return found

    def modified(self, path: str) -> float:
        """Return when the store took the object."""
        name = self._full(path)
        return self._ask(path, "look for", lambda: float(self._files.modified(name).timestamp()))

    def write(self, path: str, data: bytes | Path) -> None:
        """One request, which object stores do whole or not at all; for a large file several parts
        that become visible together.
        """
        if isinstance(data, Path):
            self._put(path, lambda name: self._files.put_file(str(data), name))
        else:
            self._put(path, lambda name: self._files.pipe_file(name, data))

    def create(self, path: str, data: bytes) -> bool:
        """One request on a condition. After a blip the request may be made twice: what is there
        then may be our own.
        """
        try:
            self._put(path, lambda name: self._files.pipe_file(name, data, mode="create"))
        except FileExistsError:
            with suppress(FileNotFoundError):
                return self.read(path) == data
            return False
        return True

    def download(self, path: str, file: Path) -> None:
        """Copy the object. Each request has a file of its own: one that was given up may go on."""

        def request() -> Path:
            own = file.with_name(temporary_name(file.name))
            try:
                self._files.get_file(self._full(path), str(own))
            except BaseException:
                own.unlink(missing_ok=True)
                raise
            return own

        self._bring(path, f"copy to {file}", request).replace(file)

    def delete(self, path: str) -> None:
        """Delete a file."""
        with suppress(FileNotFoundError):
            self._ask(path, "delete", lambda: self._files.rm_file(self._full(path)))

    def _publish(self, staged: Path, path: str, published: Published) -> bool:
        """Upload the files, then create the marker, which the second of two processes cannot."""
        marker, data = published.marker, published.data
        if self.existing([f"{path}/{marker}"]):
            return False
        there = f"{path}/{published.folder}"
        for parent, _, names in os.walk(staged):
            for file in (Path(parent, name) for name in names):
                name = file.relative_to(staged).as_posix()
                if name != marker:
                    self.write(f"{there}/{name}", file)
        if not self.create(f"{path}/{marker}", data):
            return False
        self._cache.add(staged, self._cache.place(path, data), lambda folder: None)  # noqa: ARG005
        return True

    def fetch(
        self, path: str, published: Published, problem: Callable[[Path], str | None]
    ) -> tuple[Path, str | None]:
        """Return the cached copy if that is whole, else a new one; only bytes that this process has
        just copied can show that the original is damaged.
        """
        cached = self._cache.place(path, published.data)
        if self._cache.use(cached) and problem(cached) is None:
            return cached, None
        there = f"{path}/{published.folder}"
        with self._staging(path) as staged:
            for name in published.files:
                with StorageError.at(str(staged), "make a folder"):
                    (staged / name).parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):
                    self.download(f"{there}/{name}", staged / name)
            with StorageError.at(str(staged), "write"):
                (staged / published.marker).write_bytes(published.data)
            found = problem(staged)
            if found is None:
                self._cache.add(staged, cached, problem)
        return cached, found

    def _set_aside(self, path: str, marker: str, name: str, seen: bytes | None) -> str | None:
        """Move the marker; the files stay and are written over when the folder is made again.

        Between looking and deleting another process may have made the folder again (no object store
        of fsspec's deletes on a condition): its marker is then lost and the folder made once more.
        """
        there = None
        with suppress(FileNotFoundError):
            there = self.read(f"{path}/{marker}")
        if there is None or there != seen:
            return None
        targets = (f"damaged/{name}-{number}" for number in itertools.count(1))
        target = next(free for free in targets if not self.existing([f"{free}/{marker}"]))
        self.write(f"{target}/{marker}", there)
        self.delete(f"{path}/{marker}")
        discard(self._cache.place(path, there))
        return f"{self.root}/{target}"

    def remove(self, path: str, marker: str = "") -> None:
        """The marker, then everything else, then the copy."""
        if marker:
            self.delete(f"{path}/{marker}")
        with suppress(FileNotFoundError):
            self._ask(path, "delete", lambda: self._files.rm(self._full(path), recursive=True))
        discard(self.local / path)

    def marked(self, top: str, depth: int, marker: str) -> Iterator[str]:
        """Yield one flat listing: level by level would be a request per folder."""
        for name in sorted(self._list(top)):
            folder, _, last = name.rpartition("/")
            if last == marker and len(folder.split("/")) == depth:
                yield f"{top}/{folder}"

    def _full(self, path: str) -> str:
        return f"{self._base}/{path}"

    def _ask(self, path: str, doing: str, request: Callable[[], T]) -> T:
        return self._connection.ask(f"{self.root}/{path}", doing, request)

    def _bring(self, path: str, doing: str, request: Callable[[], T]) -> T:
        """Make a request that reads, which ends where its content does not come."""
        return self._ask(path, doing, lambda: self._limited(path, request))

    def _limited(self, path: str, request: Callable[[], T]) -> T:
        """Return what a request returns. One that is given up goes on: it changes nothing that
        another one has.
        """
        return within(_STALL, f"{self.root}/{path}", request, steady=True)

    def _put(self, path: str, write: Callable[[str], object]) -> None:
        """Make a request that writes, after the folders above where the store has folders. What is
        missing then is the bucket, which is never made.
        """
        name = self._full(path)

        def request() -> None:
            if not self._connection.flat:
                with suppress(OSError):  # who may only write below a prefix does not need it
                    self._files.makedirs(name.rpartition("/")[0], exist_ok=True)
            write(name)

        self._ask(path, "write", request)

    def _list(self, top: str) -> dict[str, dict[str, Any]]:
        """Return what is known of each object below a folder, by its path from there. S3 is asked
        by a prefix, since s3fs asks twice more whether an empty folder is an object.
        """
        folder = self._full(top).rstrip("/")
        start = f"{folder.lstrip('/')}/"
        above, _, name = folder.rpartition("/")
        by_prefix = {"prefix": f"{name}/"} if self._connection.reading and above else {}
        find = partial(self._files.find, above if by_prefix else folder, detail=True, **by_prefix)
        found = ((name.lstrip("/"), info) for name, info in self._ask(top, "list", find).items())
        return {name.removeprefix(start): info for name, info in found if name.startswith(start)}


def _join(top: str, name: str) -> str:
    return f"{top}/{name}" if top else name


class _Connection:
    """The file system of a URL and the path in it.

    Nothing is remembered of listings: what another machine has written is seen at once.
    """

    def __init__(self, root: str, waits: Sequence[float] | None = None) -> None:
        self.root, self._waits = root, waits
        self.files, self.base = _open(root)
        protocol = self.files.protocol
        protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        self.flat = bool(protocols & _FLAT)
        # without it each read is two requests, the first one for the size
        self.reading: dict[str, Any] = {"max_concurrency": 1} if protocols & _S3 else {}

    def ask(self, place: str, doing: str, request: Callable[[], T]) -> T:
        """Return the answer to a request, which is made again after a blip.

        Args:
            place: The URL that the request is about, for messages.
            doing: What is done there, for messages (``read``).
            request: Makes the request.

        Raises:
            StorageError: The request was refused, not answered, or there is no such bucket.
            FileNotFoundError: There is no such object.
            FileExistsError: There is one already.
        """
        left = list(WAITS if self._waits is None else self._waits)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return request()
            except (FileNotFoundError, FileExistsError) as error:
                if _NO_BUCKET in str(error):
                    raise self._missing_bucket() from error
                raise
            except (StorageError, *_BUGS):
                raise
            # every file system of fsspec has exceptions of its own
            except Exception as error:
                if not left or time.monotonic() > end or not _is_blip(error):
                    raise self._message(error, place, doing) from error
                seconds = left.pop(0)
                if len(left) == len(WAITS) - 3:
                    to_stderr(
                        f"{self.root} does not answer ({_short(error)}); trying again for"
                        f" {seconds + sum(left):.0f} s"
                    )
                # machines that lost a store at the same time do not return at the same time
                time.sleep(seconds * random.uniform(0.7, 1.0))

    def _message(self, error: Exception, place: str, doing: str) -> StorageError:
        if type(error).__name__ in _NO_CREDENTIALS:
            what, remedy = (
                "no credentials were found",
                "Set them as the store's own tools read them: for S3 AWS_ACCESS_KEY_ID and"
                " AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or the machine's role",
            )
        elif isinstance(error, PermissionError):
            what, remedy = (
                "the store refused it",
                "Check the credentials, and that they may list, read, write and delete below"
                f" {self.root}",
            )
        elif _is_blip(error):
            what, remedy = (
                "the store does not answer",
                "Check the network and the endpoint (for S3 AWS_ENDPOINT_URL and the region), and"
                " run the same command again",
            )
        else:
            return StorageError.of(error, place, doing)
        return StorageError(f"{place}: cannot {doing}: {what} ({_short(error)}). {remedy}")

    def _missing_bucket(self) -> StorageError:
        scheme, _, rest = self.root.partition("://")
        bucket = f"{scheme}://{rest.partition('/')[0]}"
        how = f"`aws s3 mb {bucket}`" if scheme in _S3 else "the tools of its store"
        return StorageError(
            f"{self.root}: there is no bucket {bucket}. raxalign never makes one: check the name"
            f" and the endpoint, or make it with {how}"
        )


def _is_blip(error: BaseException) -> bool:
    """Return whether a request may be answered when it is made again: a timeout, a connection that
    was lost, a store that is too busy or has an error of its own (HTTP 5xx).
    """
    names = {base.__name__ for base in type(error).__mro__}
    if isinstance(error, TimeoutError | ConnectionError) or names & _BLIP_NAMES:
        return True
    status = _status(error)
    if status is not None:
        return status in _BLIP_STATUSES
    return isinstance(error, OSError) and error.errno in _BLIPS


def _status(error: BaseException) -> int | None:
    """Return the HTTP status behind an error, where the error or its cause has one."""
    response = getattr(error.__cause__, "response", None)
    metadata = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
    known = (metadata.get("HTTPStatusCode"), *(getattr(error, n, None) for n in ("code", "status")))
    return next((int(str(code)) for code in known if str(code or "").isdigit()), None)


def _short(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def _open(root: str) -> tuple[Any, str]:
    """Return the file system and the path of a URL."""
    import fsspec

    scheme = root.partition("://")[0]
    options: dict[str, Any] = {"use_listings_cache": False}
    if scheme in _S3:
        settings = {"connect_timeout": 10, "read_timeout": 30, "max_pool_connections": 32}
        retries = {"mode": "standard", "total_max_attempts": REQUESTS}
        options["config_kwargs"] = {**settings, "retries": retries}
    try:
        files, base = fsspec.url_to_fs(root, **options)
    except ImportError as error:
        extra = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}.get(scheme)
        remedy = f"pip install 'raxalign[{extra}]'" if extra else str(error)
        raise DependencyError(
            f"{root}: {scheme}:// needs a library that is not installed: {remedy}"
        ) from error
    except (ValueError, OSError) as error:
        raise StorageError(
            f"{root}: is not a storage ({error}). Give a folder, or a URL of the form"
            f" {', '.join(_FORMS)}, or of another file system of fsspec that can be written"
        ) from error
    if scheme in _S3:
        files.retries = REQUESTS
    return files, base.rstrip("/")
