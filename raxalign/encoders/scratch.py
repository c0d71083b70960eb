"""A small BERT made from the grid's own text, for when nothing can be downloaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, final

from raxalign.encoders.base import EncoderInputs, EncoderKind
from raxalign.encoders.models.folder import Footprint, footprint_of
from raxalign.encoders.models.sentence_config import SentenceConfig
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.training.params import ScratchParams
from raxalign.errors import RaxalignError
from raxalign.options.sources import LocalFile, Source
from raxalign.train.runtime import Runtime


@final
class Scratch(EncoderKind):
    """A BERT with its own WordPiece vocabulary or a given one, trained by masked language modelling
    on the concatenated monolingual text of all languages, with no parallel signal (the set-up of
    Liu et al. 2020 and K et al. 2020, made small).

    Data: monolingual text of all languages (`text`), and a vocabulary if one is named.

    Relations: `transformer` reads an encoder that is trained already; choose this one to control
    what an encoder has seen. `static` vectors cost much less.

    Example:
        encoder:
          kind: scratch
          layers: 4
          hidden_size: 256
          vocab_size: 8_000
          steps: 20_000
        text: {source: moses, path: "wikipedia/{lang}-{pivot}"}
    """

    VERSION: ClassVar[int] = 3
    papers = ("devlin2019",)
    family: ClassVar[str] = "transformer"
    needs_text: bool = True

    Params = ScratchParams
    params: ScratchParams

    def sources(self) -> Mapping[str, Source]:
        """The vocabulary, where it is given."""
        given = self.params.vocabulary
        return {} if given is None else {"vocabulary": LocalFile(Path(given))}

    def depth(self, known: Callable[[str], str | None]) -> int:  # noqa: ARG002
        """`layers`."""
        return self.params.layers

    def unpooled(self, pooling: str, known: Callable[[str], str | None]) -> Sequence[str]:  # noqa: ARG002
        """Only `own` is lacking."""
        return SentenceConfig.lacking(self.label(), pooling, None, causal=False)

    def footprint(self, known: Callable[[str], str | None]) -> Footprint:  # noqa: ARG002
        """By its options; a vocabulary that is trained counts as full."""
        own = self.params
        sizes = (own.layers, own.hidden_size, own.intermediate, own.vocab_size, own.positions)
        return footprint_of(*sizes)

    def build(self, inputs: EncoderInputs, runtime: Runtime, folder: Path) -> Mapping[str, object]:
        """Train the model, and its vocabulary unless one is given, and write a Hugging Face
        masked-LM folder. Raises `RaxalignError` where there is no text.
        """
        from raxalign.encoders.training.masked_lm import pretrain

        vocabulary = inputs.locations.get("vocabulary")
        given = Path(vocabulary) if vocabulary else None
        return pretrain(self.params, inputs.text, given, runtime, folder)

    def load(self, inputs: EncoderInputs, device: str) -> TransformerEncoder:
        """The encoder that `build` left in ``inputs.folder``."""
        if inputs.folder is None:
            raise RaxalignError("a scratch encoder has to be built before it is loaded")
        return TransformerEncoder.from_folder(
            Path(inputs.folder).absolute(), device=device, base=inputs.base_precision
        )
