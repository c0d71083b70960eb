"""Files from HTTP servers: resumed where they were cut off, checked, and in place only when
whole.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from raxalign.errors import DataError, StorageError, TransientError
from raxalign.store.key import file_digest
from raxalign.store.lock import turn

_BLOCK = 1 << 18
_TIMEOUT = 60.0
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses that another try may mend


def download(
    url: str, target: Path, *, sha256: str | None = None, attempts: int = 5, pause: float = 1.0
) -> str:
    """Fetch a file, unless it is there, and return its SHA-256.

    What has arrived is in `<target>.part` and survives a kill: the next call asks the server for
    the rest, as long as it says that the file is still the same. Processes that fetch the same file
    take turns. After `attempts` tries in a row without a byte (pauses between them double from
    `pause` seconds) a `TransientError` is raised. A file that does not exist, or is not the one of
    `sha256`, is a `DataError`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with turn(target.with_name(target.name + ".lock")):
        if target.is_file():
            return _checked(target, url, sha256)
        part = _Part(target)
        resumed = _complete(url, part, attempts, pause)
        found = file_digest(part.path)
        if (
            sha256 is not None and found != sha256 and resumed
        ):  # the pieces may be of different files
            part.discard()
            _complete(url, part, attempts, pause)
            found = file_digest(part.path)
        if sha256 is not None and found != sha256:
            part.discard()
            raise _wrong(url, sha256, found)
        part.path.replace(target)
        part.discard()
        return found


class _Part:
    """A file on its way: the bytes so far, and the state of the server's file that they come
    from.
    """

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(target.name + ".part")
        self._about = target.with_name(target.name + ".part.json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def validator(self) -> str | None:
        """The entity tag or date of the server's file, if a whole record of it is there."""
        try:
            found = json.loads(self._about.read_text(encoding="utf-8"))["validator"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if isinstance(found, str) else None

    def begin(self, validator: str | None) -> None:
        """Start over with another state of the file."""
        self.discard()
        self._about.write_text(json.dumps({"validator": validator}), encoding="utf-8")

    def append(self, block: bytes) -> None:
        try:
            with self.path.open("ab") as file:
                file.write(block)
        except OSError as error:
            raise StorageError(f"{self.path}: cannot be written ({error.strerror})") from error

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self._about.unlink(missing_ok=True)


def _complete(url: str, part: _Part, attempts: int, pause: float) -> bool:
    """Fetch until the file is whole; returns whether any of it was resumed."""
    resumed, failures = part.size > 0, 0
    while True:
        before = part.size
        try:
            if _fetch_rest(url, part):
                return resumed
            problem = "the connection was cut"
        except HTTPError as error:
            if error.code not in _AGAIN:
                raise DataError(
                    url,
                    f"the server answers {error.code} {error.reason}",
                    remedy="Check the corpus, version and languages",
                ) from error
            problem = f"the server answers {error.code} {error.reason}"
        except (OSError, HTTPException) as error:
            problem = str(getattr(error, "reason", None) or error) or type(error).__name__
        grown = part.size > before
        resumed, failures = resumed or grown, 0 if grown else failures + 1
        if failures >= attempts:
            raise TransientError(
                f"{url}: {problem} ({attempts} tries). What has arrived is kept; run again to go on"
            )
        if not grown:
            time.sleep(pause * 2 ** (failures - 1))


def _fetch_rest(url: str, part: _Part) -> bool:
    """One request; returns whether the file is whole. Raises `HTTPError` and `OSError` as urllib
    does.
    """
    request, validator = (
        Request(url, headers={"User-Agent": "raxalign"}),  # noqa: S310
        part.validator,
    )
    have = part.size if validator else 0
    if have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", str(validator))
    try:
        response: HTTPResponse = urlopen(request, timeout=_TIMEOUT)  # noqa: S310
    except HTTPError as error:
        if (
            have and error.code == 416
        ):  # nothing after what is there: whole, or the server's file is shorter now
            if error.headers.get("Content-Range", "").rpartition("/")[2] == str(have):
                return True
            part.discard()
            return False
        raise
    with response:
        start, total = _span(response.headers, response.status)
        if response.status != 206:
            part.begin(_strong_validator(response.headers))
        elif start != have:
            part.discard()
            return False
        while block := response.read(_BLOCK):
            part.append(block)
    return total is None or part.size == total


def _span(headers: Mapping[str, str] | Any, status: int) -> tuple[int, int | None]:
    """The position in the file at which the answer begins, and the file's size if the server gives
    it.
    """
    if status == 206:
        span, _, total = (
            headers.get("Content-Range", "bytes 0-/*").removeprefix("bytes ").partition("/")
        )
        return int(span.partition("-")[0]), int(total) if total.isdigit() else None
    length = headers.get("Content-Length")
    return 0, int(length) if length else None


def _strong_validator(headers: Mapping[str, str] | Any) -> str | None:
    tag = headers.get("ETag")
    if tag and not tag.startswith("W/"):
        return str(tag)
    modified = headers.get("Last-Modified")
    return str(modified) if modified else None


def _checked(path: Path, url: str, sha256: str | None) -> str:
    found = file_digest(path)
    if sha256 is not None and found != sha256:
        raise _wrong(f"{path} (from {url})", sha256, found)
    return found


def _wrong(what: str, expected: str, found: str) -> DataError:
    return DataError(
        what,
        f"the SHA-256 is {found}, not {expected}",
        remedy="The file has changed, or the pin is of another file",
    )
