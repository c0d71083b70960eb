"""The contract of a word aligner: sentences of words in, directed links out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from raxalign.corpora.readers.inspection import FileRead
from raxalign.corpora.text.words import Spacing
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.vectors import Layer, parse_layers
from raxalign.errors import RaxalignError
from raxalign.options.params import LATER, BaseParams, PlugIn
from raxalign.options.sources import EncoderName, Source

if TYPE_CHECKING:
    from raxalign.pairing.links import Links


@dataclass(frozen=True)
class AlignerInputs:
    """What a word aligner may use besides the words.

    `ids` are those of the sentence pairs in the corpus, `gold` the corpus's own links (None: it has
    none), `locations` the places of the aligner's `sources`; `work` is a scratch folder and
    `threads` the share of the cores. `own_words` is False where a tokeniser made the words. `lang`
    is the language of the source side, `pivot` that of the target side. `encoder` is the encoder
    that the aligner names, loaded on `device`; it is None for an aligner that names none.
    """

    ids: Sequence[int]
    gold: Links | None
    locations: Mapping[str, str]
    work: Path
    threads: int
    own_words: bool = True
    lang: str = ""
    pivot: str = ""
    encoder: Encoder | None = None
    device: str = "cpu"


class WordAligner(PlugIn):
    """Makes links in both directions. `forward` links were found by explaining target words by
    source words, `reverse` the other way; both are (source position, target position).
    """

    LOWERCASE: ClassVar = "Whether words are compared in lower case."
    """What the option `lowercase` of several word aligners is."""

    QUICKER: ClassVar[str] = ""
    """The kind of a word aligner that is much quicker, which `plan` names where this one takes most
    of the time."""

    STOCHASTIC: ClassVar[bool] = False
    """Whether two runs on the same sentences give different links, whatever the options. Each
    training run has links of its own then."""

    class Params(BaseParams):
        """The options of the word aligner."""

    def missing(self) -> list[str]:
        """Return what it needs and this machine lacks, as messages that say how to install it."""
        return []

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Outside data, by name (links from a file)."""
        return {}

    def read_files(self, lang: str, pivot: str) -> Iterator[FileRead]:
        """Read the local files among the `sources` of one language, before anything is made, and
        yield what was found in each.
        """
        return iter(())

    def encoder(self) -> str | None:
        """Return the encoder that the word aligner reads: a folder, a hub name or a kind of
        encoder, as a grid names one. None, the default, is for word aligners that read words alone.

        It is a param (`EncoderName`) of the word aligner and not the encoder of a trial, so that
        all encoders of a grid are tested on the same links.
        """
        return None

    def check_encoder(self, n_layers: int | None) -> list[str]:
        """Return the faults of the options with an encoder of `n_layers` blocks (None: not known
        before it is loaded), as messages that begin with the option's name.
        """
        return []

    @abstractmethod
    def align(
        self, src: Sequence[Sequence[str]], tgt: Sequence[Sequence[str]], inputs: AlignerInputs
    ) -> tuple[Links, Links]:
        """Link the words of n sentence pairs, of which no side is empty: forward and reverse links,
        each with one entry per sentence pair in input order. An aligner without directions returns
        the same links twice.
        """


class SimilarityAligner(WordAligner):
    """Links words by their vectors in the encoder of its option, whatever a grid's own `encoder`
    is: all encoders of a grid are tested on the same links.
    """

    class Params(WordAligner.Params):
        """The defaults are those of papers whose encoder has 12 layers."""

        encoder: EncoderName
        """Encoder whose vectors are compared: a folder, a hub name or a kind of encoder."""
        layer: Layer = "8"
        """Layer whose vectors are compared: `last` or one number."""
        spacing: Annotated[Spacing, LATER] = "language"
        """What divides the words of a sentence in the text that the encoder reads: the text itself,
        or what the language writes between given words (`language`), or `blanks`, so that each word
        is divided into subword tokens by itself, as in the program of the authors.
        """

    params: Params

    def encoder(self) -> str:
        """Return the option `encoder`."""
        return self.params.encoder

    def check_encoder(self, n_layers: int | None) -> list[str]:
        """Return a fault where the encoder does not have the layer."""
        try:
            if n_layers is not None:
                parse_layers(self.params.layer, n_layers)
        except RaxalignError as error:
            return [f"layer: {self.params.encoder}: {error}; choose one of them"]
        return []
