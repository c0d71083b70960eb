"""Word aligners that compare the vectors of one layer of an encoder."""

from __future__ import annotations

from typing import Annotated

from raxalign.encoders.models.vectors import Layer, parse_layers
from raxalign.errors import RaxalignError
from raxalign.options.params import LATER
from raxalign.options.sources import EncoderName
from raxalign.pairing.aligners.base import WordAligner
from raxalign.running import Spacing


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
        is divided into pieces by itself, as in the program of the authors.
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
