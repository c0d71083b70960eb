"""Centring: each language's mean vector is taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from raxalign.encoders.base import parse_layers
from raxalign.methods._text_moments import TextParams, text_moments
from raxalign.methods.base import Effect, Method, MethodInputs, Needs

if TYPE_CHECKING:
    from raxalign.encoders._aligned import AlignedEncoder
    from raxalign.encoders.base import Encoder
    from raxalign.train.runtime import Runtime


@final
class Centering(Method):
    """Subtract from each vector the mean vector of its language, the pivot's too.

    Formula: x -> x - μ, for each layer, where μ is the mean over the words of the language's text.

    Data: monolingual text of each language and the pivot, no translations.

    Reference: Libovický et al. (2020).
    """

    VERSION = 1
    accepts = frozenset({"transformer", "static"})
    reference = "Libovický et al. 2020"

    class Params(TextParams):
        """The means are over the words of the first `max_sentences` sentences of each language (None: of all)."""

    params: Params

    def needs(self) -> Needs:
        """Monolingual text."""
        return Needs(text=True)

    def effect(self) -> Effect:
        """Readouts, of the pivot too."""
        return Effect(pivot=True)

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:  # noqa: ARG002
        """The encoder with a shift for each language and layer. Raises `RaxalignError` for text without words."""
        from raxalign.encoders._aligned import Affine, AlignedEncoder, Transform

        layers = parse_layers(self.params.layers, encoder.n_layers)
        transforms, notes = [], {}
        for lang in (*inputs.languages, inputs.pivot):
            moments = text_moments(encoder, inputs, lang, layers, self.params.pooling, self.params.max_sentences)
            transforms += [Transform(lang, layer, steps=(Affine(mean),)) for layer, mean in zip(layers, moments.means(), strict=True)]
            notes[lang] = {"words": moments.count}
        return AlignedEncoder(encoder, tuple(transforms), notes=notes)
