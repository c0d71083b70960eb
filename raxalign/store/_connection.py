"""A connection to an object store, through fsspec: the one place where its requests are made,
repeated after a blip, and turned into messages.
"""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from raxalign.errors import DependencyError, StorageError
from raxalign.printing import to_stderr
from raxalign.store._filesystem import storage_error

T = TypeVar("T")

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


class Connection:
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
                if not left or time.monotonic() > end or not is_blip(error):
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
        elif is_blip(error):
            what, remedy = (
                "the store does not answer",
                "Check the network and the endpoint (for S3 AWS_ENDPOINT_URL and the region), and"
                " run the same command again",
            )
        else:
            return storage_error(error, place, doing)
        return StorageError(f"{place}: cannot {doing}: {what} ({_short(error)}). {remedy}")

    def _missing_bucket(self) -> StorageError:
        scheme, _, rest = self.root.partition("://")
        bucket = f"{scheme}://{rest.partition('/')[0]}"
        how = f"`aws s3 mb {bucket}`" if scheme in _S3 else "the tools of its store"
        return StorageError(
            f"{self.root}: there is no bucket {bucket}. raxalign never makes one: check the name"
            f" and the endpoint, or make it with {how}"
        )


def is_blip(error: BaseException) -> bool:
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
