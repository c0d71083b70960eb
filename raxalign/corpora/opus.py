"""Corpora of OPUS (opus.nlpl.eu), downloaded in Moses format."""

from __future__ import annotations

import glob
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from http.client import HTTPException, HTTPResponse
from itertools import count
from pathlib import Path
from typing import IO, Any, ClassVar
from urllib.error import HTTPError
from urllib.parse import quote, unquote
from urllib.request import Request, urlopen

from pydantic import Field, model_validator

from raxalign.corpora.base import Corpus, CorpusInputs, SentencePair
from raxalign.corpora.readers.codes import own_code
from raxalign.corpora.readers.lines import read_parallel, refuse_growth
from raxalign.corpora.readers.repository import Remote
from raxalign.errors import DataError, StorageError, TransientError
from raxalign.languages import language
from raxalign.options.params import Removed
from raxalign.options.sources import RemoteData
from raxalign.store.alive import turn
from raxalign.store.key import file_digest
from raxalign.waits import retry_after, wait, within

_BASE_URL = "https://object.pouta.csc.fi"
_HTTP = ("http://", "https://")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*)")
_KNOWN_VERSIONS = """Books=v1 DGT=v2019 ECB=v1 EMEA=v3 EUbookshop=v2 Europarl=v8
GlobalVoices=v2018q4 GNOME=v1 JRC-Acquis=v3.0 KDE4=v2 MultiUN=v1 OpenSubtitles=v2018 QED=v2.0a
SETIMES=v2 Tanzil=v1 Tatoeba=v2023-04-12 TED2020=v1 UNPC=v1.0 WikiMatrix=v1 wikimedia=v20230407"""
_VERSIONS = dict(known.split("=") for known in _KNOWN_VERSIONS.split())


class Opus(Corpus):
    """One corpus of OPUS, or several joined in order (``Europarl+EUbookshop``), from its server or
    a mirror of it.

    Relations: `hub` has corpora of OPUS that were published there, as OPUS-100; `moses` reads files
    of OPUS that you have.

    Example:
        corpus:
          source: opus
          corpus: Europarl+EUbookshop
          split: {test: 1024, dev: 1024}
    """

    VERSION: ClassVar[int] = 1
    papers = ("tiedemann2012", "corpus=Europarl koehn2005")
    licence: ClassVar[str] = "that of the corpus, see opus.nlpl.eu"

    class Params(Corpus.Params):
        """`version` and `sha256` are one string for one corpus, or a mapping by corpus.

        The environment variable RAXALIGN_OPUS_URL names another server, or a local folder of the
        same layout. `sha256` is not part of the identity: the file's digest replaces it.
        """

        removed: ClassVar[Mapping[str, Removed]] = {
            "base_url": Removed(
                "leave it out, and set the environment variable RAXALIGN_OPUS_URL", default=None
            )
        }

        corpus: str = Field(min_length=1)
        """Name of the corpus in OPUS, or several names joined by `+`."""
        version: str | dict[str, str] = Field(default_factory=dict)
        """Version of the corpus, which may be left out for well-known ones."""
        sha256: str | dict[str, str] = Field(default_factory=dict)
        """SHA-256 that the downloaded zip file must have."""
        codes: dict[str, str] = Field(default_factory=dict)
        """OPUS's own codes for languages, by language (`{zh: zh_cn}` in OpenSubtitles), where they
        differ from those of the grid.
        """

        @model_validator(mode="after")
        def _names_and_versions_are_known(self) -> Opus.Params:
            if missing := [name for name in self.names if name not in self.versions]:
                known = ", ".join(_VERSIONS)
                raise ValueError(
                    f"give the `version` of {' and '.join(missing)}, as v1 (it may be left out for"
                    f" {known})"
                )
            for field in ("version", "sha256"):
                value = getattr(self, field)
                if isinstance(value, str) and len(self.names) > 1:
                    raise ValueError(
                        f"`corpus` names several corpora ({self.corpus}): give `{field}` as a"
                        " mapping by corpus"
                    )
                if strange := self._by_corpus(value).keys() - set(self.names):
                    raise ValueError(
                        f"`{field}` has {', '.join(sorted(strange))}, which `corpus` does not name"
                    )
            named = {"corpus": self.names, "version": self.versions.values()}
            for what, given in {**named, "codes": self.codes.values()}.items():
                for name in given:  # names become parts of URLs and of places in the storage
                    if not _NAME.fullmatch(name):
                        raise ValueError(f"`{what}` {name!r} is not a name that OPUS can have")
            return self

        @property
        def names(self) -> tuple[str, ...]:
            """The corpora in order."""
            return tuple(name.strip() for name in self.corpus.split("+"))

        def _by_corpus(self, value: str | dict[str, str]) -> dict[str, str]:
            return {self.names[0]: value} if isinstance(value, str) else value

        @property
        def versions(self) -> dict[str, str]:
            """Version by corpus, of those that have one."""
            found = {**_VERSIONS, **self._by_corpus(self.version)}
            return {name: found[name] for name in self.names if found.get(name)}

        @property
        def pins(self) -> dict[str, str]:
            """SHA-256 by corpus."""
            return {name: pin.lower() for name, pin in self._by_corpus(self.sha256).items()}

        def identity(self) -> dict[str, Any]:
            """Return the corpora, their versions and language codes."""
            return {"corpus": list(self.names), "version": self.versions, "codes": self.codes}

    params: Params

    def sources(self, lang: str, pivot: str) -> Mapping[str, RemoteData]:
        """Return one zip file per corpus, by the name of the corpus."""
        pair = self._pair(lang, pivot)
        return {name: self._zip_file(name, pair) for name in self.params.names}

    def _zip_file(self, name: str, pair: str) -> RemoteData:
        """Return a zip file; to look up its SHA-256 is to download it, unless it is that of a local
        mirror.
        """
        named, pin = f"opus:{name}/{self.params.versions[name]}/{pair}", self.params.pins.get(name)
        file = HttpFile(named, *self._source(name, pair))
        parts = (file,) if file.url.startswith(_HTTP) else ()
        return RemoteData(named, pin, lambda to: self._place(name, pair, to, pin)[1], parts)

    def read(self, lang: str, pivot: str, inputs: CorpusInputs) -> Iterator[SentencePair]:
        """Yield the sentence pairs of all corpora in order, streamed from the zip files (downloaded
        first where they are not there).
        """
        pair, numbers = self._pair(lang, pivot), count()
        for name in self.params.names:
            planned = inputs.digests.get(name, "")  # not a digest where the plan had none yet
            expected = self.params.pins.get(name) or (planned if len(planned) == 64 else None)
            path, _ = self._place(name, pair, inputs.downloads, expected)
            members = [f"{name}.{pair}.{self._code(code)}" for code in (lang, pivot)]
            with _opened(path, members) as (source, target):
                for read in read_parallel(
                    (source, f"{path}/{members[0]}"), (target, f"{path}/{members[1]}")
                ):
                    yield SentencePair(next(numbers), read.source, read.target)

    def _code(self, lang: str) -> str:
        return opus_code(lang, self.params.codes)

    def _pair(self, lang: str, pivot: str) -> str:
        """OPUS names a language pair in alphabetical order."""
        return "-".join(sorted((self._code(lang), self._code(pivot))))

    def _source(self, name: str, pair: str) -> tuple[str, str]:
        """The address of a zip file, or its path in a mirror, and its place among downloads."""
        version = self.params.versions[name]
        base = os.environ.get("RAXALIGN_OPUS_URL") or _BASE_URL
        remote = f"{base.rstrip('/')}/OPUS-{name}/{version}/moses/{pair}.txt.zip"
        return remote, f"opus/{name}/{version}/{pair}.txt.zip"

    def _place(self, name: str, pair: str, downloads: Path, sha256: str | None) -> tuple[Path, str]:
        """The place of a zip file (downloaded, unless the mirror is a folder) and its SHA-256."""
        remote, place = self._source(name, pair)
        if remote.startswith(_HTTP):
            local = place_of(downloads / place, sha256)
            return local, download(remote, local, sha256=sha256)
        path = Path(remote)
        if not path.is_file():
            raise DataError(path, "there is no such file in the local mirror of OPUS")
        return path, checked(path, remote, sha256)


def opus_code(lang: str, codes: Mapping[str, str]) -> str:
    """Return what OPUS calls a language: by `codes`; else the grid's code where it is one part of
    two letters, or the shortest code with ``_`` (``de`` for ``deu_Latn``, ``pt_br``, ``zh_tw``).
    """
    given = own_code(lang, codes)
    if given != lang or len(lang) == 2:
        return given
    tag = language(lang).tag
    return {"zh-Hant": "zh_tw"}.get(tag, tag.lower().replace("-", "_"))


@contextmanager
def _opened(path: Path, members: list[str]) -> Iterator[list[IO[bytes]]]:
    """Two members of a zip file as streams; damage, found at whichever byte, is a `DataError`."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member in members:
                if member not in archive.namelist():
                    fault = f"has no {member}; it has {', '.join(archive.namelist())}"
                    remedy = "`codes` may name OPUS's own language code"
                    raise DataError(path, fault, remedy=remedy)
                found = archive.getinfo(member)
                refuse_growth(f"{path}/{member}", found.compress_size, found.file_size)
            with archive.open(members[0]) as source, archive.open(members[1]) as target:
                yield [source, target]
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        remedy = "Remove it, so that it is downloaded again"
        raise DataError(path, f"the zip file is damaged ({error})", remedy=remedy) from error


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
