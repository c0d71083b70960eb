"""Corpora of OPUS (opus.nlpl.eu), downloaded in Moses format."""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any, ClassVar

from pydantic import Field, model_validator

from raxalign.corpora.base import Corpus, CorpusInputs, SentencePair
from raxalign.corpora.readers.codes import opus_code
from raxalign.corpora.readers.download import HttpFile, checked, download, place_of
from raxalign.corpora.readers.lines import read_parallel, refuse_growth
from raxalign.errors import DataError
from raxalign.options.params import Removed
from raxalign.options.sources import RemoteData

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
