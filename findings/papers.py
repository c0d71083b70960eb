"""What papers say, and within which range they say it: `papers.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from ruamel.yaml import YAML

from raxalign.store.key import digest

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Range:
    """What a sentence of a paper is about. Languages and options are compared with those of the
    grid's file, encoders and numbers of sentence pairs with those of each difference.
    """

    encoder: tuple[str, ...]
    languages: tuple[str, ...]
    sentences: tuple[int, int] | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def left_by(self, grid: Mapping[str, Any], encoder: str, sentences: int | None) -> list[str]:
        """Return in what a difference on an encoder is outside the range."""
        found = [] if encoder in self.encoder else ["encoder"]
        if self.sentences is not None:
            low, high = self.sentences
            found += [] if sentences is not None and low <= sentences <= high else ["sizes"]
        (languages,) = grid["languages"].values()
        found += [] if set(languages) <= set(self.languages) else ["languages"]
        written = {**grid["methods"], **grid["tasks"]}
        for name, options in self.options.items():
            found += [
                f"`{option}` of `{name}`"
                for option, value in options.items()
                if (written.get(name) or {}).get(option) != value
            ]
        return found


@dataclass(frozen=True)
class PaperClaim:
    """A sentence of a paper in our words, with the place and the few words that are quoted, and the
    claims of a grid that ask it.
    """

    paper: str
    place: str
    says: str
    quote: str
    measured: str
    grid: str
    claims: tuple[str, ...]
    range: Range
    differs: str


@dataclass(frozen=True)
class NotAsked:
    """What a paper says that is not asked here, and why."""

    paper: str
    why: str


@dataclass(frozen=True)
class Papers:
    """All of `papers.yaml`."""

    claims: tuple[PaperClaim, ...]
    not_asked: tuple[NotAsked, ...]

    @classmethod
    def read(cls) -> Papers:
        """Read `papers.yaml`."""
        return TypeAdapter(cls).validate_python(_read(HERE / "papers.yaml"))


GRIDS: Mapping[str, Path] = {
    path.stem: path
    for path in (
        HERE.parent / "grids" / "published-encoder.yaml",
        *(HERE / f"{name}.yaml" for name in ("other-layer", "other-text", "other-aligner")),
        *(HERE / f"{name}.yaml" for name in ("cao", "kulshreshtha", "transfer", "liu")),
    )
}
"""The files of the grids by name, those first whose results answer most per hour."""


def grid_file(name: str) -> Mapping[str, Any]:
    """Return the content of a grid's file."""
    return _read(GRIDS[name])


def grid_digest(name: str) -> str:
    """Return a digest of what a grid's file has, its comments left out."""
    return digest(grid_file(name))


def _read(path: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = YAML(typ="safe").load(path)
    return found
