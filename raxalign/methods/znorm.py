"""Standardisation: each coordinate has the mean 0 and the standard deviation 1 in each language."""

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
class Znorm(Method):
    """Standardise each coordinate of each vector by the mean and standard deviation that it has in its language, the pivot's too.

    Formula: x -> (x - μ) / σ, coordinate by coordinate, for each layer; a coordinate that never changes is only shifted.

    Data: monolingual text of each language and the pivot, no translations.

    Reference: Zhao et al. (2021).
    """

    VERSION = 1
    accepts = frozenset({"transformer", "static"})
    reference = "Zhao et al. 2021"

    class Params(TextParams):
        """Mean and deviation are over the words of the first `max_sentences` sentences of each language (None: of all)."""

    params: Params

    def needs(self) -> Needs:
        """Monolingual text."""
        return Needs(text=True)

    def effect(self) -> Effect:
        """Readouts, of the pivot too."""
        return Effect(pivot=True)

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:  # noqa: ARG002
        """The encoder with a shift and a scale for each language and layer. Raises `RaxalignError` for text without words."""
        from raxalign.encoders._aligned import Affine, AlignedEncoder, Transform

        layers = parse_layers(self.params.layers, encoder.n_layers)
        transforms, notes = [], {}
        for lang in (*inputs.languages, inputs.pivot):
            moments = text_moments(encoder, inputs, lang, layers, self.params.pooling, self.params.max_sentences)
            for layer, mean, deviation in zip(layers, moments.means(), moments.deviations(), strict=True):
                transforms.append(Transform(lang, layer, steps=(Affine(mean, deviation.reciprocal().diag()),)))
            notes[lang] = {"words": moments.count}
        return AlignedEncoder(encoder, tuple(transforms), notes=notes)
