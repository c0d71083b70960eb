"""The content of a grid file, as values: every name is checked, every option is filled in, every
path is absolute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from raxalign.catalog import PluginFile
from raxalign.config._points import SearchedMethod
from raxalign.config.params import BaseParams
from raxalign.config.run import RunConfig
from raxalign.config.search import Search
from raxalign.config.sources import EncoderName

Symmetrization = Literal[
    "intersection",
    "union",
    "grow-diag",
    "grow-diag-final-and",
    "forward",
    "reverse",
    "atools-grow-diag",
    "atools-grow-diag-final",
    "atools-grow-diag-final-and",
]

OneToOne = bool | Literal["first"]

PARALLEL = "parallel"
"""The source of text that is not a corpus: the training sides of the bitext."""


@dataclass(frozen=True)
class EncoderSpec:
    """An encoder: its kind and options; `label` is its name in tables, different for every encoder
    of a grid.
    """

    kind: str
    params: BaseParams
    label: str


@dataclass(frozen=True)
class CorpusSpec:
    """A source of sentence pairs or text: the corpus's kind and options."""

    kind: str
    params: BaseParams


@dataclass(frozen=True)
class SplitSpec:
    """How many lines at the end of the corpus are test, and how many before those dev; with `files`
    both are all of a file of their own.
    """

    test: int = 1024
    dev: int = 1024
    files: bool = False


class PieceLimits(BaseParams):
    """Which training pairs are taken, by the pieces that the tokenizer of `encoder` makes of them:
    `min_pieces` or more on each side, and `max_pieces` or less on both together (0: no limit).
    Special pieces do not count.
    """

    encoder: EncoderName
    min_pieces: int = Field(1, ge=1)
    max_pieces: int = Field(0, ge=0)


@dataclass(frozen=True)
class TextSpec:
    """Monolingual text: `source` is ``parallel`` (the training sides), or a corpus's kind, and then
    `corpus` holds it with its options.
    """

    source: str = PARALLEL
    corpus: CorpusSpec | None = None


@dataclass(frozen=True)
class PairsSpec:
    """How word pairs are made: the word aligner's kind and options, and what is done with its two
    directions.
    """

    kind: str
    params: BaseParams
    symmetrization: Symmetrization = "intersection"
    one_to_one: OneToOne = True
    align_on: Literal["own", "largest"] = "own"


@dataclass(frozen=True)
class MethodSpec:
    """A method: the name that the grid gives it, its kind, and one value of its options for each
    point of the product of its lists. Where its options are `searched`, the points are the corners
    of the space, which are not run.
    """

    name: str
    kind: str
    points: tuple[BaseParams, ...]
    searched: SearchedMethod | None = field(default=None, hash=False)


@dataclass(frozen=True)
class MetricSpec:
    """A metric that is added to those of a task: its name in results, its kind and options."""

    name: str
    kind: str
    params: BaseParams


@dataclass(frozen=True)
class TaskSpec:
    """A task: the name that metrics carry, its kind and options; `languages` narrows the grid's
    (None: all). `metrics` are computed from its predictions and are part of no key.

    `lines` are those of the grid file: of the task (under the empty name) and of each option
    (``data.train``).
    """

    name: str
    kind: str
    params: BaseParams
    languages: tuple[str, ...] | None = None
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)
    metrics: tuple[MetricSpec, ...] = ()

    def line_of(self, message: str) -> int | None:
        """Return the line of the option with which a message begins (as ``data.train holds ...``),
        of what it lies in where it is not given, or else of the task; None where there was no file.
        """
        key = message.split(" ", 1)[0].rstrip(":,")
        while key and key not in self.lines:
            key = key.rpartition(".")[0]
        return self.lines.get(key)


@dataclass(frozen=True)
class Grid:
    """A grid file that was read and found good.

    `together`: one model for all `languages`, otherwise one trial per language. `exclude` are the
    points that are left out: a point for which all entries of one mapping hold (an entry's value
    may be a list of values). `run` is never part of a key. `plugins` are files outside the package
    that the grid names; what they make carries their digests in its kind. `search` is how the
    params of searched methods are chosen. `lines` are those of the file's sections.
    """

    path: Path
    text_of_file: str = field(repr=False)
    name: str
    pivot: str
    encoders: tuple[EncoderSpec, ...]
    together: bool
    languages: tuple[str, ...]
    corpora: Mapping[str, CorpusSpec] = field(hash=False)
    split: SplitSpec
    overlap: Literal["drop", "keep"]
    shortage: Literal["refuse", "use-all"]
    training_from: Literal["end", "start"]
    max_words: int
    segmentation: Literal["characters", "words"]
    text: TextSpec
    pairs: PairsSpec
    sentences: tuple[int, ...]
    seeds: tuple[int, ...]
    methods: tuple[MethodSpec, ...]
    tasks: tuple[TaskSpec, ...]
    exclude: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    published: tuple[str, ...] = ()
    plugins: tuple[PluginFile, ...] = ()
    run: RunConfig = field(default_factory=RunConfig)
    max_basic_tokens: int | None = None
    pieces: PieceLimits | None = None
    search: Search | None = None
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)

    def corpus_for(self, lang: str) -> CorpusSpec:
        """Return the corpus of a language, with what is overridden for it."""
        return self.corpora[lang]
