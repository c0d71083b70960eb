"""Data from outside the storage: what a plug-in names, and what its identity is made of.

A param that holds a path is declared ``DataPath`` (or ``DataPath | None``). Relative paths are made
absolute against the grid file's folder when the grid is read; they may hold ``{lang}`` and
``{pivot}``, in capitals for codes in capitals. A path never enters a key: its file's digest does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated


@dataclass(frozen=True)
class PathMarker:
    """Marks a string param as a path; `is_prefix` where it is completed before it is opened, by the
    code of a side at its end or in place of ``{side}``.
    """

    is_prefix: bool = False


@dataclass(frozen=True)
class EncoderMarker(PathMarker):
    """Marks a string param as the name of an encoder: a folder, a hub name or a kind of encoder."""


DataPath = Annotated[str, PathMarker()]
DataPrefix = Annotated[str, PathMarker(is_prefix=True)]
EncoderName = Annotated[str, EncoderMarker()]
"""An encoder, named as under a grid's `encoder`. Its stage enters the key, its name does not."""


@dataclass(frozen=True)
class LocalFile:
    """A file whose SHA-256 is its identity."""

    path: Path


@dataclass(frozen=True)
class RemoteData:
    """Data that is fetched: its `name` (``opus:Europarl/v8/de-en``), and `pin`, a revision or
    SHA-256 from the YAML file.

    Without a pin the identity is looked up in ``<grid>.lock`` by name, and is unresolved until
    something has written it there.
    """

    name: str
    pin: str | None = None


Source = LocalFile | RemoteData


def expand_path(template: str, *, lang: str, pivot: str) -> Path:
    """Return the path of a template for one language: ``dict/{lang}-{pivot}.txt`` ->
    ``dict/de-en.txt``, ``train_{LANG}.tsv`` -> ``train_DE.tsv``.
    """
    capitals = template.replace("{LANG}", lang.upper()).replace("{PIVOT}", pivot.upper())
    return Path(capitals.replace("{lang}", lang).replace("{pivot}", pivot))


def differs_by_language(template: str) -> bool:
    """Check whether a template names another file for each language."""
    return "{lang}" in template or "{LANG}" in template
