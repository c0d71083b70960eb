"""Data from outside the storage: what a plug-in names, and what its identity is made of.

A param that holds a path is declared ``DataPath`` (or ``DataPath | None``). Relative paths are made
absolute against the grid file's folder when the grid is read; they may hold ``{lang}`` and
``{pivot}``, in capitals for codes in capitals. A path of a task (``TaskPath``) may also hold
``{source}``, the language that is trained on. A path never enters a key: its file's digest does.

Whether the name of an encoder or a data set is a folder is decided there too, and nowhere else: a
folder is stored as an absolute path, and whatever is not absolute is a name on the hub. Workers
have another working directory, so that nobody asks it again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import ValidationInfo
from pydantic_core import CoreSchema, core_schema

_PLACEHOLDERS = ("{lang}", "{pivot}")
_SOURCE = "{source}"  # of a path of a task: the language that is trained on
_SIDE = "{side}"  # of a path that stands for the files of both sides
_PATH_STARTS = ("/", "./", "../", "~")
_OF_PROGRAMS = frozenset({".git", ".cache"})
_PIN = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True)
class PathMarker:
    """Marks a string param as a path; `is_prefix` where it is completed before it is opened, by the
    code of a side at its end or in place of ``{side}``; `of_task` where it may hold ``{source}``.
    """

    is_prefix: bool = False
    of_task: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Make paths absolute where the context of the validation names a folder."""

        def in_folder(path: str, info: ValidationInfo) -> str:
            folder = (info.context or {}).get("folder")
            return path if folder is None else self.resolve(path, folder)

        return core_schema.with_info_after_validator_function(in_folder, handler(source))

    def resolve(self, path: str, folder: Path) -> str:
        """Return a path made absolute; templates and URLs are kept. Raises `ValueError` with what
        is wrong and what would be right.
        """
        if not path.strip():
            raise ValueError("an empty path", "name a file, or leave it out")
        codes = (*_PLACEHOLDERS, *((_SOURCE,) if self.of_task else ()))
        known, left = (*codes, *((_SIDE,) if self.is_prefix else ())), path
        for placeholder in (*known, *map(str.upper, codes)):
            left = left.replace(placeholder, "")
        if "{" in left or "}" in left:
            told, capitals = (" and ".join(names) for names in (known, map(str.upper, codes)))
            remedy = f"paths may hold {told}; {capitals} are in capitals"
            raise ValueError(f"unknown placeholder in {path!r}", remedy)
        return absolute(path, folder)


@dataclass(frozen=True)
class HubMarker(PathMarker):
    """Marks a string param as a name on the hub, or a folder in its place. Tables of options call
    it a `noun`.
    """

    noun: str = "a name or a path"

    def resolve(self, path: str, folder: Path) -> str:
        """Return the name, made an absolute path where it is a folder: it begins with ``/``,
        ``./``, ``../`` or ``~``, or it exists in `folder`.
        """
        is_folder = path.startswith(_PATH_STARTS) or (path.strip() and (folder / path).is_dir())
        return absolute(path, folder) if is_folder else path


DataPath = Annotated[str, PathMarker()]
TaskPath = Annotated[str, PathMarker(of_task=True)]
DataPrefix = Annotated[str, PathMarker(is_prefix=True)]
EncoderName = Annotated[str, HubMarker(noun="an encoder")]
"""An encoder, named as under a grid's `encoder`. Its stage enters the key, its name does not."""
HubName = Annotated[str, HubMarker()]
"""A data set of the hub, or a local copy of its repository. Its sources enter the key."""


@dataclass(frozen=True)
class LocalFile:
    """A file whose SHA-256 is its identity. Its path is absolute."""

    path: Path

    @classmethod
    def within(cls, folder: Path, name: str) -> dict[str, LocalFile]:
        """Return each file of a folder as ``name/its path there``, also of folders that it links
        to, but not what git and the hub's client keep there. A folder that is missing or empty
        stands for itself, so that the plan reports it.
        """
        found, seen = dict[str, LocalFile](), set[str]()
        for top, folders, files in os.walk(folder, followlinks=True):
            seen.add(os.path.realpath(top))
            folders[:] = [
                own
                for own in sorted({*folders} - _OF_PROGRAMS)
                if os.path.realpath(Path(top, own)) not in seen
            ]
            paths = (Path(top, own) for own in sorted(files))
            found |= {f"{name}/{p.relative_to(folder).as_posix()}": cls(p) for p in paths}
        return found or {name: cls(folder)}


@dataclass(frozen=True)
class RemoteData:
    """Data that is fetched: its `name` (``opus:Europarl/v8/de-en``), and `pin`, a commit or
    SHA-256 from the YAML file.

    Without a pin the identity is looked up in ``<grid>.lock`` by name, and is unresolved until
    something has written it there. A pin that is not a digest, such as a branch, says what to look
    up and not what is read: it becomes a part of the name (``hub:NAME@main``).

    Attributes:
        look_up: finds the revision or SHA-256 that it has now, given the folder of downloads, and
            fetches what has no other identity (None: its pin is all that there is).
        parts: the files that it stands for, to be fetched before there is no network, each a
            `raxalign.corpora.readers.repository.Remote`.
    """

    name: str
    pin: str | None = None
    look_up: Callable[[Path], str] | None = field(default=None, compare=False, repr=False)
    parts: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.pin is not None and not _PIN.fullmatch(self.pin):
            if self.pin and f"@{self.pin}" not in self.name:
                object.__setattr__(self, "name", f"{self.name}@{self.pin}")
            object.__setattr__(self, "pin", None)


Source = LocalFile | RemoteData


def looked_up(sources: Mapping[str, Source], downloads: Path) -> dict[str, str]:
    """Look up the revision or SHA-256 that remote sources have now, by their names. Raises
    `TransientError` where the network fails and `DataError` where there is no such data, or it is
    not what its pin says.
    """
    remote = [source for source in sources.values() if isinstance(source, RemoteData)]
    return {source.name: source.look_up(downloads) for source in remote if source.look_up}


def expand_path(template: str, *, lang: str, pivot: str) -> Path:
    """Return the path of a template for one language: ``dict/{lang}-{pivot}.txt`` ->
    ``dict/de-en.txt``, ``train_{LANG}.tsv`` -> ``train_DE.tsv``. A task calls the language that it
    is trained on its pivot, so that ``{source}`` is the same.
    """
    codes = {"lang": lang, "pivot": pivot, "source": pivot}
    for name, code in codes.items():
        template = template.replace(f"{{{name}}}", code)
        template = template.replace(f"{{{name.upper()}}}", code.upper())
    return Path(template)


def differs_by_language(template: str) -> bool:
    """Check whether a template names another file for each language."""
    return "{lang}" in template or "{LANG}" in template


def absolute(path: str, folder: Path) -> str:
    """Return a path made absolute against a folder; ``~`` is the home folder, URLs are kept."""
    if "://" in path:
        return path
    return os.path.normpath(folder / Path(path).expanduser())
