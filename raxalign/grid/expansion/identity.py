"""The identity of outside data: digests of local files, pins and locked revisions of remote."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar

from raxalign.errors import DataError, RaxalignError
from raxalign.languages import language, same_language
from raxalign.options.sources import LocalFile, RemoteData, Source
from raxalign.store.key import file_digest

_PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".7z", ".lz4", ".tgz")


class Identity:
    """Looks up digests while a plan is made, and remembers those of all local `files`, and what is
    missing or unresolved.

    `file_digests` gives the SHA-256 of a local file, `locked` the digest or revision of a remote
    name (None: not resolved yet).
    """

    UNRESOLVED: ClassVar = "unresolved:"
    """What stands before the name of remote data in place of its digest."""

    def __init__(
        self,
        file_digests: Callable[[Path], str] = file_digest,
        locked: Callable[[str], str | None] = lambda name: None,  # noqa: ARG005
    ) -> None:
        self._file_digests, self.locked = file_digests, locked
        self.files: dict[Path, str] = {}
        self.unresolved: dict[str, None] = {}
        self.missing: dict[Path, str] = {}

    def of(self, sources: Mapping[str, Source]) -> tuple[dict[str, str], dict[str, str]]:
        """Return (digests, locations) of some sources, by name. Raises `DataError` for a local file
        at a relative path: workers have another working directory.
        """
        digests, locations = {}, {}
        for name, source in sources.items():
            if isinstance(source, LocalFile):
                digests[name], locations[name] = self._file(source.path), str(source.path)
            else:
                found = source.pin or self.locked(source.name)
                if found is None:
                    self.unresolved[source.name] = None
                digests[name] = self.UNRESOLVED + source.name if found is None else found
                locations[name] = source.name
        return digests, locations

    def of_languages(
        self, sources: Mapping[str, Mapping[str, Source]]
    ) -> tuple[tuple[dict[str, str], dict[str, str]], dict[str, dict[str, str]]]:
        """Return ((digests, locations), params) of the sources of some languages, as stages have
        them: under ``name/language``.

        Remote data enters the key by its name too: a commit says which state of a repository is
        read, but not which of its files. Its revision is left out: the digest stands for it.
        """
        digests: dict[str, str] = {}
        locations: dict[str, str] = {}
        names: dict[str, str] = {}
        for lang, given in sources.items():
            found, places = self.of(given)
            digests |= {f"{name}/{lang}": value for name, value in found.items()}
            locations |= {f"{name}/{lang}": value for name, value in places.items()}
            names |= {
                f"{name}/{lang}": source.name.rpartition("@")[0] or source.name
                for name, source in given.items()
                if isinstance(source, RemoteData)
            }
        return (digests, locations), {"sources": names} if names else {}

    def _file(self, path: Path) -> str:
        if not path.is_absolute():
            told = "is relative to no grid file, so that it is not read"
            remedy = "Declare the option for a path as a `DataPath`, or give an absolute path"
            raise DataError(path, told, remedy=remedy)
        if path not in self.files:
            try:
                self.files[path] = self._file_digests(path)
            except OSError as error:
                self.missing[path] = (error.strerror or str(error)) + _near(path)
                self.files[path] = f"missing:{path}"
        return self.files[path]

    def refuse_missing(self) -> None:
        """Raise `DataError` that names every file that could not be read."""
        if not self.missing:
            return
        first, *others = self.missing.items()
        also = "".join(f"\n{path}: {problem}" for path, problem in others)
        remedy = "Paths in a grid file are relative to the grid file"
        raise DataError(first[0], f"{first[1]}{also}", remedy=remedy)

    @staticmethod
    def absent(path: Path) -> str:
        """Return the fault of a local file that a plan needs and that cannot be read."""
        fault = "cannot be read" if path.exists() else "there is no such file"
        return f"{path}: {fault}{_near(path)}"


def _near(path: Path) -> str:
    """Describe what is in place of a missing file: one with nearly its name, the file packed, or
    one that is called by another code of its language.
    """
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    except OSError:
        return "" if path.parent.is_dir() else f" (there is no folder {path.parent})"
    for name in names:
        if told := _other_codes(path.name, name):
            return f" (there is {name}: {told})"
    longer = sorted(name for name in names if name.startswith(f"{path.name}."))
    found = longer or get_close_matches(path.name, names, n=1, cutoff=0.8)
    if not found:
        return ""
    packed = f"{path.name}{Path(found[0]).suffix}" == found[0] and found[0].endswith(_PACKED)
    return f" (there is {found[0]}: decompress it)" if packed else f" (there is {found[0]})"


def _other_codes(wanted: str, there: str) -> str:
    """Return how languages are called in the name of a file that is there in place of one that
    differs by their codes alone; else nothing.
    """
    parts = [re.split(r"[-._]", name) for name in (wanted, there)]
    other = dict.fromkeys(pair for pair in zip(*parts, strict=False) if len(set(pair)) > 1)
    with suppress(RaxalignError):  # for a word that is not a code
        if len(parts[0]) == len(parts[1]) and all(same_language(*pair) for pair in other):
            return ", ".join(f"{language(own).name} is {known}, not {own}" for own, known in other)
    return ""
