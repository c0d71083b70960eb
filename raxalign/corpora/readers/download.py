"""Files from HTTP servers: resumed where they were cut off, checked, in place only when whole."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote
from urllib.request import Request, urlopen

from raxalign.corpora.readers.remote import Remote
from raxalign.errors import DataError, StorageError, TransientError
from raxalign.store.alive import turn
from raxalign.store.key import file_digest
from raxalign.waits import retry_after, wait, within


@dataclass(frozen=True)
class HttpFile(Remote):
    """The file at a URL; `place` is where it lies among downloads."""

    url: str
    place: str

    def size(self, pin: str | None, downloads: Path) -> int:  # noqa: ARG002
        """Return what the server says; 0 where it does not say it."""
        return described(self.url)[0]

    def bring(self, pin: str | None, downloads: Path) -> int:
        """Download it, unless it is there; `pin` is its SHA-256."""
        target = place_of(downloads / self.place, pin)
        download(self.url, target, sha256=pin)
        return target.stat().st_size

    def renew(self, downloads: Path) -> None:
        """Download it again where the server may have another one now; the old one is kept."""
        renew(self.url, downloads / self.place)


_BLOCK = 1 << 16
_TIMEOUT = 60.0  # seconds for a request and its answer's head, and for each block of it
_CHECK = "Check the corpus, version and languages"
_OTHER = (
    "The file has changed (`raxalign grid --update-lock` takes the new one), or the pin is of"
    " another file"
)
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses that another try may mend


def download(
    url: str, target: Path, *, sha256: str | None = None, attempts: int = 5, pause: float = 1.0
) -> str:
    """Fetch a file, unless it is there, and return its SHA-256.

    What has arrived survives a kill: the next call asks the server for the rest, as long as it says
    that the file is still the same. Processes that fetch the same file take turns. After `attempts`
    tries in a row without a byte a `TransientError` is raised; pauses between them are as long as
    the server asks for (``Retry-After``), or double from `pause` seconds. A file that does not
    exist, or is not the one of `sha256`, is a `DataError`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with turn(target.with_name(target.name + ".lock")):
        if target.is_file():
            return checked(target, f"{target} (from {url})", sha256)
        part = _Part(target)
        resumed = _complete(url, part, attempts, pause)
        if resumed and sha256 not in (None, file_digest(part.path)):
            part.begin(None)  # the pieces may be of different files
            _complete(url, part, attempts, pause)
        try:
            found = checked(part.path, url, sha256)
        except DataError:
            part.begin(None)
            raise
        part.path.replace(target)
        return found


class _Part:
    """A file on its way: the bytes so far, under a name with the entity tag or date of the server's
    file that they come from (`validator`; None where the server gives neither).
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        found = sorted(target.parent.glob(f"{glob.escape(target.name)}.*.part"))
        name = found[0].name if found else f"{target.name}..part"
        self._name(unquote(name[len(target.name) + 1 : -len(".part")]) or None)

    def _name(self, validator: str | None) -> None:
        self.validator = validator
        written = quote(validator or "", safe="")
        self.path = self._target.with_name(f"{self._target.name}.{written}.part")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def begin(self, validator: str | None) -> None:
        """Start over with another state of the file."""
        self.path.unlink(missing_ok=True)
        self._name(validator)

    def append(self, block: bytes) -> None:
        try:
            with self.path.open("ab") as file:
                file.write(block)
        except OSError as error:
            raise StorageError(f"{self.path}: cannot be written ({error.strerror})") from error


def _complete(url: str, part: _Part, attempts: int, pause: float) -> bool:
    """Fetch until the file is whole; return whether any of it was resumed."""
    resumed, failures = part.size > 0, 0
    while True:
        before, seconds = part.size, pause * 2**failures
        try:
            if _fetch_rest(url, part):
                return resumed
            problem = "the connection was cut"
        except HTTPError as error:
            problem = f"the server answers {error.code} {error.reason}"
            if error.code not in _AGAIN:
                raise DataError(url, problem, remedy=_CHECK) from error
            asked = error.headers.get("Retry-After", "")
            seconds = retry_after(asked, seconds)
        except (OSError, HTTPException) as error:
            problem = str(getattr(error, "reason", None) or error) or type(error).__name__
        grown = part.size > before
        resumed, failures = resumed or grown, 0 if grown else failures + 1
        if failures >= attempts:
            raise TransientError(
                f"{url}: {problem} ({attempts} tries). What has arrived is kept; run again to go on"
            )
        if not grown:
            wait(seconds, url, problem, f"try {failures + 1} of {attempts}")


def _fetch_rest(url: str, part: _Part) -> bool:
    """Make one request; return whether the file is whole. Raises what urllib does."""
    request = Request(url, headers={"User-Agent": "raxalign"})  # noqa: S310
    have = part.size if part.validator else 0
    if have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", str(part.validator))
    try:
        response: HTTPResponse = within(_TIMEOUT, url, lambda: urlopen(request, timeout=_TIMEOUT))  # noqa: S310
    except HTTPError as error:
        if not have or error.code != 416:
            raise
        # nothing after what is there: the file is whole, or the server's is shorter now
        if error.headers.get("Content-Range", "").rpartition("/")[2] == str(have):
            return True
        part.begin(None)
        return False
    with response:
        start, total = _span(response.headers, response.status)
        if response.status != 206 or start != have:
            tag = response.headers.get("ETag")
            weak = not tag or tag.startswith("W/")
            part.begin(response.headers.get("Last-Modified") if weak else tag)
        if response.status == 206 and start != have:
            return False
        while block := within(_TIMEOUT, url, lambda: _block(response)):
            part.append(block)
    return total is None or part.size == total


def _block(response: HTTPResponse) -> bytes:
    """Read a block in steps: who gives it up closes the connection, which waits for a step."""
    block = b""
    while len(block) < _BLOCK and (step := response.read1(_BLOCK - len(block))):
        block += step
    return block


def renew(url: str, target: Path) -> None:
    """Fetch a file that is there again, where the server may have another one now: one of another
    size, or changed since. The old one stays beside it, for what is pinned to it (see `place_of`).
    Raises as `download`.
    """
    if not target.is_file():
        return
    size, changed = described(url)
    there = target.stat()
    if size == there.st_size and changed is not None and changed <= there.st_mtime:
        return
    fresh = target.with_name(f"new.{target.name}")
    with turn(target.with_name(f"renewal.{target.name}.lock")):
        fresh.unlink(missing_ok=True)  # of a process that was killed
        new = download(url, fresh)
        with turn(target.with_name(target.name + ".lock")):
            old = file_digest(target)
            if new != old:
                target.replace(_aside(target, old))
                fresh.replace(target)
        fresh.unlink(missing_ok=True)


def place_of(target: Path, sha256: str | None) -> Path:
    """Return where the file with a digest is: at `target`, or beside it since that was renewed."""
    old = _aside(target, sha256)
    return old if old.is_file() else target


def _aside(target: Path, sha256: str | None) -> Path:
    return target.with_name(f"{target.name}.{sha256}")


def described(url: str) -> tuple[int, float | None]:
    """Ask for the bytes of a file (0 where the server does not say), and when it was changed.
    Raises `DataError` where there is no such file, `TransientError` where the server does not
    answer.
    """
    request = Request(url, method="HEAD", headers={"User-Agent": "raxalign"})  # noqa: S310
    try:
        with within(_TIMEOUT, url, lambda: urlopen(request, timeout=_TIMEOUT)) as response:  # noqa: S310
            date = parsedate_tz(response.headers.get("Last-Modified"))
            length = int(response.headers.get("Content-Length") or 0)
            return length, mktime_tz(date) if date else None
    except HTTPError as error:
        problem = f"the server answers {error.code} {error.reason}"
        if error.code in _AGAIN:
            raise TransientError(f"{url}: {problem}. Try again later") from error
        raise DataError(url, problem, remedy=_CHECK) from error
    except (OSError, HTTPException) as error:
        raise TransientError(f"{url}: {getattr(error, 'reason', None) or error}") from error


def _span(headers: Mapping[str, str] | Any, status: int) -> tuple[int, int | None]:
    """The position in the file at which the answer begins, and the file's size if it is given."""
    if status == 206:
        given = headers.get("Content-Range", "bytes 0-/*").removeprefix("bytes ")
        span, _, total = given.partition("/")
        return int(span.partition("-")[0]), int(total) if total.isdigit() else None
    length = headers.get("Content-Length")
    return 0, int(length) if length else None


def checked(path: Path, what: str, sha256: str | None) -> str:
    """Return the SHA-256 of a file. Raises `DataError` where it is not the pinned one."""
    found = file_digest(path)
    if sha256 not in (None, found):
        problem = f"the SHA-256 is {found}, not {sha256}"
        raise DataError(what, problem, remedy=_OTHER)
    return found
