"""The contract of a method: an encoder and its inputs in, an aligned encoder out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from raxalign.corpora.readers.dictionary import DictionaryFile
from raxalign.corpora.readers.inspection import FileRead
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.vectors import SentencePooling
from raxalign.measured import Motion
from raxalign.options.params import BaseParams, PlugIn
from raxalign.options.sources import Source
from raxalign.train.runtime import Runtime


@dataclass(frozen=True)
class Needs:
    """What `align` reads. `links` are word pairs of the trial's own sentences (with their bitext),
    `bitext` the sentence pairs alone, `text` monolingual text of every language and the pivot.
    `dev` is the dev part of the corpus: as word pairs with `links`, else as sentence pairs. Outside
    files (dictionaries) are declared by `sources` instead. `head` is the encoder's masked-LM head,
    which predicts words. `pieces` says that training data is read by `Pieces.of_column`, so that
    the pieces of much text are made before, once for all that read it by the same tokenizer.
    """

    bitext: bool = False
    links: bool = False
    text: bool = False
    dev: bool = False
    head: bool = False
    pieces: bool = False


@dataclass(frozen=True)
class Effect:
    """What aligning changes: `weights` (a task's training starts from them), `inside` (an inside
    transform, which a task's training flows through), `pivot` (the pivot's representations move, so
    that a task trained on the pivot trains on something else for each language; without it, and
    without `weights`, a task trained on another language is evaluated through the inverse of its
    transforms, and steps of unit length have none). `inside_layers`
    says where an inside transform is, as the option has it: a training that reads the pivot alone,
    and so nothing of the transform, depends on that alone, as the blocks up to there stay as they
    are (empty: not known).

    What trains weights may do so with `dropout`, whose masks depend on how the global batches are
    divided, so that the number of parts (`run.workers`) is in the key; by `adapters`, beside which
    the encoder's own weights may be held in bfloat16 (`run.base_precision`); and together with a
    task of the grid (`with_task`, how; None: alone).

    What trains the vectors of sentences does so by a `pooling`, by which `pooling: own` of tasks
    then reads them (None: it trains others, or none).

    `motion` is how readouts move the vectors of one language together. Values that such a motion
    leaves as they are, are not results of the method.
    """

    weights: bool = False
    inside: bool = False
    pivot: bool = False
    inside_layers: str = ""
    dropout: bool = True
    adapters: bool = False
    with_task: Any = None
    pooling: SentencePooling | None = None
    motion: Motion = "any"


@dataclass(frozen=True)
class Acts:
    """Where in an encoder aligning changes what is read: `readouts` are the layers whose vectors
    are mapped when they are read, `stream_from` the lowest layer that is itself another, as are
    then all above it (None: the stream stays as it is).
    """

    readouts: frozenset[int] = frozenset()
    stream_from: int | None = None


@dataclass(frozen=True)
class MethodInputs:
    """What `needs` and `sources` asked for. `pairs`, `bitext`, `text` and `dev` map each language
    to a folder (`datasets.load_from_disk`); `files` maps the name of a source and then a language
    to a path. `languages` leaves the pivot out.
    """

    languages: tuple[str, ...]
    pivot: str
    pairs: Mapping[str, Path] = field(default_factory=dict)
    bitext: Mapping[str, Path] = field(default_factory=dict)
    text: Mapping[str, Path] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)
    dev: Mapping[str, Path] = field(default_factory=dict)


class Method(PlugIn):
    """A way of aligning. Subclasses are final, one per file, and import torch only inside functions
    or lazily.

    What the plan asks (`needs`, `canonical`, `has_chance`, `effect`, `acts`, `sources`) is answered
    without torch.
    """

    accepts: ClassVar[frozenset[str]] = frozenset({"transformer"})
    reference: ClassVar[str]
    is_baseline: ClassVar[bool] = False
    """Whether it leaves the encoder as it is, so that other methods are compared with it."""
    fits_alone: ClassVar[bool] = False
    """Whether each language has readouts of its own, which depend on no other language, so that
    those of several are what `align` makes for one at a time.
    """
    per_language: ClassVar[tuple[str, ...]] = ()
    """Numeric params whose value can be chosen for each language, because a language's results
    depend on no other language's value.
    """

    class Params(BaseParams):
        """The options of the method."""

    @abstractmethod
    def needs(self) -> Needs:
        """Which of bitext, links and text `align` reads."""

    def canonical(self) -> dict[str, Any]:
        """Return the params (YAML names, defaults filled in, no paths) without idle ones."""
        given, idle = self.params.identity(), self.idle()
        return {name: value for name, value in given.items() if name not in idle}

    def idle(self) -> set[str]:
        """Return the params (YAML names) that others' values make idle."""
        return set()

    def shown(self) -> dict[str, Any]:
        """Return the params as tables show them: the canonical ones. The plan adds the names of
        files (`BaseParams.names_of_paths`).
        """
        return dict(self.canonical())

    def has_chance(self) -> bool:
        """Return whether the seed can change the result."""
        return False

    def effect(self) -> Effect:
        """Return what aligning changes."""
        return Effect()

    def acts(self, n_layers: int) -> Acts:
        """Where aligning changes an encoder with `n_layers` blocks: everywhere, unless a method
        overrides this.

        An evaluation that reads nothing of this is not run. Raises `RaxalignError` where the params
        name layers that the encoder does not have.
        """
        return Acts(stream_from=0)

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Outside files that `align` reads for one language, param name -> source."""
        return {}

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Read the outside files that `align` will read, as it reads them, before anything is
        trained, and yield what was found in each: here, the dictionaries among the `sources`.
        """
        sources = {lang: self.sources(lang, pivot) for lang in languages}
        swap = bool(getattr(self.params, "swap", False))
        return DictionaryFile.inspected(sources, pivot, swap=swap)

    @abstractmethod
    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:
        """Return the aligned encoder. Trained methods change `encoder` in place, so that the caller
        passes a fresh one.
        """
