"""The content of a grid file, as values: names checked, options filled in, paths absolute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from raxalign.catalog import PluginFile
from raxalign.config._validate import SearchedMethod
from raxalign.config.axes import Axis
from raxalign.config.claims import Claim
from raxalign.config.search import Search
from raxalign.options.params import BaseParams
from raxalign.options.run import RunConfig
from raxalign.options.sources import EncoderName

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


@dataclass(frozen=True)
class EncoderSpec:
    """An encoder: its kind and options; `label`, its name in tables, is different for each."""

    kind: str
    params: BaseParams
    label: str


@dataclass(frozen=True)
class CorpusSpec:
    """A source of sentence pairs or text: the corpus's kind and options."""

    kind: str
    params: BaseParams


class PieceLimits(BaseParams):
    """Which training pairs are taken, by the pieces that the tokenizer of `encoder` makes of them:
    `min_pieces` or more on each side, and `max_pieces` or less on both together (0: no limit).
    Special pieces do not count.
    """

    encoder: EncoderName
    min_pieces: int = Field(1, ge=1)
    max_pieces: int = Field(0, ge=0)


class Split(BaseParams):
    """`split`: the last `test` lines of a corpus, and the `dev` lines before those."""

    test: int = Field(1024, ge=1)
    """Number of lines."""
    dev: int = Field(1024, ge=0)
    """Number of lines."""


class CorpusSettings(BaseParams):
    """What the `corpus` section holds besides the options of its source.

    `split: files` takes dev and test whole from files of their own, and training from the end of
    its file. `training_from: start` takes training from the beginning of the corpus instead.
    Training pairs with a side of more than `max_words` words are dropped: 128 words, or 512
    characters of a script without spaces, are about what an encoder of 128 to 512 pieces reads.
    `max_basic_tokens` limits the tokens of BERT's basic tokeniser in the same way. `pieces` leaves
    out training pairs before they are counted. `segmentation` is for languages without spaces.
    """

    split: Split | Literal["files"] = Split()
    overlap: Literal["drop", "keep"] = "drop"
    shortage: Literal["refuse", "use-all"] = "refuse"
    training_from: Literal["end", "start"] = "end"
    max_words: int = Field(128, ge=1)
    max_basic_tokens: int | None = Field(None, ge=1)
    pieces: PieceLimits | None = None
    segmentation: Literal["characters", "words"] = "characters"


class PairsSettings(BaseParams):
    """What the `pairs` section holds besides the options of its word aligner.

    `draws` is for a word aligner without a seed: links of training per seed, or once for all.
    """

    symmetrization: Symmetrization = "intersection"
    one_to_one: OneToOne = True
    align_on: Literal["own", "largest"] = "own"
    draws: Literal["per-run", "once"] = "per-run"


class PairsSpec(PairsSettings):
    """How word pairs are made: the word aligner's kind and options, and what its links undergo."""

    kind: str
    params: BaseParams


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
    """A task of a grid file. `lines` are those of the task (under the empty name) and of each
    option (``data.train``).
    """

    name: str  # that metrics carry
    kind: str
    params: BaseParams
    languages: tuple[str, ...] | None = None  # of the grid's (None: all)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)
    metrics: tuple[MetricSpec, ...] = ()  # computed from its predictions, part of no key
    unseen: tuple[str, ...] = ()  # languages besides these, which no method aligns

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
    """A grid file that was read and found good. A point is excluded for which all entries of one
    mapping of `exclude` hold, of which each may have several values. What `plugins` make carries
    their digests in its kind.
    """

    path: Path
    text_of_file: str = field(repr=False)
    name: str
    pivot: str
    encoders: tuple[EncoderSpec, ...]
    together: bool  # one model for all languages, else one trial per language, or per set
    languages: tuple[str, ...]
    corpora: Mapping[str, CorpusSpec] = field(hash=False)  # by language, those `outside` too
    corpus: CorpusSettings  # what they share
    text: CorpusSpec | None  # monolingual; None: the training sides of the bitext
    pairs: PairsSpec
    sentences: tuple[int, ...]
    seeds: tuple[int, ...]
    methods: tuple[MethodSpec, ...]
    tasks: tuple[TaskSpec, ...]
    exclude: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    published: tuple[str, ...] = ()
    plugins: tuple[PluginFile, ...] = ()  # files outside the package that the grid names
    run: RunConfig = field(default_factory=RunConfig)  # never part of a key
    search: Search | None = None  # how the params of searched methods are chosen
    claims: tuple[Claim, ...] = ()  # what the grid is expected to show
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)  # by name
    outside: tuple[str, ...] = ()  # languages that no method aligns, of tasks with the corpus
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)  # of sections

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The languages of one trial each."""
        if self.sets:
            return tuple(self.sets.values())
        return (self.languages,) if self.together else tuple((lang,) for lang in self.languages)

    def set_of(self, languages: tuple[str, ...]) -> dict[str, str]:
        """Return the name of the set of these languages as a param; nothing without sets."""
        name = next((name for name, found in self.sets.items() if found == languages), None)
        return {} if name is None else {Axis.LANGUAGES.value: name}
