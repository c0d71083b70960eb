"""The contract of encoders: hidden states of a batch, and vectors of words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from raxalign.corpora.readers.repository import Remote
from raxalign.encoders.models.folder import Footprint
from raxalign.encoders.models.vectors import Pooling, WordLists, WordVectors
from raxalign.errors import RaxalignError
from raxalign.lazy import torch
from raxalign.options.params import BaseParams, PlugIn
from raxalign.options.run import BasePrecision, Precision
from raxalign.options.sources import Source
from raxalign.train.runtime import Runtime


class Encoder(ABC):
    """Something that turns words in their sentences into vectors. `family` is what methods and
    tasks `accept`; `compiled` says whether the blocks of a transformer are; `base_precision` is how
    its weights are held, which nothing trains where that is not float32.
    """

    family: ClassVar[str]
    precision: Precision = "fp32"
    base_precision: BasePrecision = "fp32"
    compiled: bool = False
    hidden_size: int
    n_layers: int
    device: str

    @abstractmethod
    def iter_words(
        self, sentences: WordLists, lang: str, *, layers: tuple[int, ...], pooling: Pooling
    ) -> Iterator[tuple[Sequence[int], WordVectors]]:
        """Word vectors batch by batch, longest sentences first: (indices of sentences, vectors)."""

    def words(
        self, sentences: WordLists, lang: str, *, layers: tuple[int, ...], pooling: Pooling
    ) -> WordVectors:
        """Vectors of all words, in input order (assembled from `iter_words`)."""
        batches = self.iter_words(sentences, lang, layers=layers, pooling=pooling)
        return WordVectors.assembled(sentences, batches, len(layers), self.hidden_size)

    def refuse_infinite(self, vectors: torch.Tensor, lang: str) -> None:
        """Raise `RaxalignError` where vectors of a language are NaN or infinite."""
        if not torch.isfinite(vectors.detach().sum()):
            raise RaxalignError(
                f"the encoder gives vectors with NaN or infinite values for sentences of {lang}:"
                " its weights are too large, as after a training run that diverged. Train it"
                " again with a smaller `learning_rate`"
            )

    @abstractmethod
    def save(self, folder: Path | str) -> None:
        """Write the encoder in the format that others open (Hugging Face, word2vec)."""


@dataclass(frozen=True)
class EncoderInputs:
    """What building or loading may read: `text`, a folder per language where `needs_text`; the
    `locations` of the `sources` and their `revisions`, as in the key; the `folder` that was built;
    the `base_precision` in which the weights of a transformer are to be held.
    """

    text: Mapping[str, Path] = field(default_factory=dict)
    locations: Mapping[str, str] = field(default_factory=dict)
    revisions: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    base_precision: BasePrecision = "fp32"


class EncoderKind(PlugIn):
    """A kind of encoder: its sources, how it is built (once) and loaded. One final class each."""

    family: ClassVar[str]
    by_name: ClassVar[bool] = False
    """Whether a name in a grid file that is not a kind means this kind with that `name`."""
    needs_text: bool = False

    class Params(BaseParams):
        """The options of the encoder."""

    def sources(self) -> Mapping[str, Source]:
        """Outside data (a folder's files, a hub name), by name."""
        return {}

    def fetch(self) -> Mapping[str, str]:
        """Look up what outside data without a pin is now: source name -> revision. Raises
        `TransientError` where that cannot be reached.
        """
        return {}

    def remotes(self) -> Iterable[Remote]:
        """Return what is read from outside, so that it can be fetched ahead."""
        return ()

    def depth(self, known: Callable[[str], str | None]) -> int | None:
        """The number of the encoder's blocks, where it is known without opening it (None: not yet).
        `known` gives by name what was looked up by `fetch` and `fetch_config`.
        """
        return None

    def has_head(self, known: Callable[[str], str | None]) -> bool | None:
        """Whether the encoder predicts words by a masked-LM head, where it is known without opening
        it (None: not yet). `known` is that of `depth`.
        """
        return True

    def unpooled(self, pooling: str, known: Callable[[str], str | None]) -> Sequence[str]:
        """Why there are no vectors of sentences by a `pooling`, and what to do; nothing where there
        are, or where it is not known without opening the encoder. `known` is that of `depth`.
        """
        return ()

    def fetch_config(self, known: Callable[[str], str | None]) -> Mapping[str, str]:
        """Look up, as `fetch`, by what `depth`, `has_head` and `unpooled` are known of outside
        data.
        """
        return {}

    def footprint(self, known: Callable[[str], str | None]) -> Footprint | None:
        """The number of the encoder's parameters and its width, for estimates of disk space, where
        they are known without opening it (None: not yet). `known` is that of `depth`.
        """
        return None

    def check(self) -> list[str]:
        """Faults that only a look at the data shows, as messages."""
        return []

    def check_machine(self) -> list[str]:
        """What this machine lacks to run the encoder; those of the workers may have it."""
        return []

    def label(self) -> str:
        """The name in tables."""
        return type(self).__name__.lower()

    def build(self, inputs: EncoderInputs, runtime: Runtime, folder: Path) -> Mapping[str, object]:
        """Make the encoder from text into `folder`, where `needs_text`. Returns the notes."""
        raise NotImplementedError(f"{type(self).__name__} is loaded, not built")

    @abstractmethod
    def load(self, inputs: EncoderInputs, device: str) -> Encoder:
        """The encoder, on a device, in eval mode."""
