"""What readouts that are fitted on monolingual text have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from pydantic import Field

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.encoders.models.vectors import Layers, Pooling, parse_layers
from raxalign.lazy import torch
from raxalign.methods.base import Acts, Effect, Method, MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.statistics.moments import TextMoments, WordReading, text_moments
from raxalign.options.params import Removed
from raxalign.train.runtime import Runtime


class TextMethod(Method):
    """Maps the vectors of every language and the pivot by statistics over the words of its text."""

    accepts = frozenset({"transformer", "static"})
    gram: ClassVar[bool] = False
    """Whether moments have products of coordinates."""

    class Params(Method.Params):
        """Statistics are over the words of the sentences that are read."""

        layers: Layers = Field("last", description=wording.LAYERS_MAPPED)
        pooling: Pooling = Field("last", description=wording.WORD_POOLING)
        max_sentences: int | None = Field(10_000, ge=1)
        """Number of sentences of each language that are read, from the beginning of its text (none:
        all).
        """
        removed: ClassVar = {
            "sample_seed": Removed(
                "leave it out: the first `max_sentences` sentences are read", default=None
            )
        }

    params: Params

    def needs(self) -> Needs:
        """Monolingual text."""
        return Needs(text=True)

    def effect(self) -> Effect:
        """Readouts, of the pivot too."""
        return Effect(pivot=True)

    def acts(self, n_layers: int) -> Acts:
        """Readouts of `layers`."""
        return Acts(readouts=frozenset(parse_layers(self.params.layers, n_layers)))

    def word_reading(self, encoder: Encoder) -> WordReading:
        """Return how the text of each language is read, as the params say."""
        params = self.params
        layers = parse_layers(params.layers, encoder.n_layers)
        return WordReading(encoder, layers, params.pooling, params.max_sentences)

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:  # noqa: ARG002
        """Return the encoder with a map for each language and layer, fitted on the language alone.
        Raises `RaxalignError` for text without words.
        """
        reading = self.word_reading(encoder)
        transforms, notes = [], {}
        for lang in (*inputs.languages, inputs.pivot):
            moments = text_moments(reading, inputs, lang, gram=self.gram)
            transforms += [
                Transform(lang, layer, steps=(step,))
                for layer, step in zip(reading.layers, self.maps(moments), strict=True)
            ]
            notes[lang] = {"words": moments.count}
        return AlignedEncoder(encoder, tuple(transforms), notes=notes)

    def maps(self, moments: TextMoments) -> Iterable[Affine]:
        """Return the map of each layer by the moments of one language."""
        raise NotImplementedError(f"{type(self).__name__} has no map for each language by itself")


class JointTextMethod(TextMethod):
    """Maps the vectors of every language and the pivot by one map per layer, the same for all."""

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:  # noqa: ARG002
        """Return the encoder with one map per layer, for every language. Raises `RaxalignError` for
        text without words.
        """
        languages = (*inputs.languages, inputs.pivot)
        reading = self.word_reading(encoder)
        found = [text_moments(reading, inputs, lang, gram=self.gram) for lang in languages]
        transforms = [
            Transform(lang, layer, steps=(step,))
            for layer, step in zip(reading.layers, self.joint_maps(found), strict=True)
            for lang in languages
        ]
        notes = {lang: {"words": one.count} for lang, one in zip(languages, found, strict=True)}
        return AlignedEncoder(encoder, tuple(transforms), notes=notes)

    @abstractmethod
    def joint_maps(self, found: Sequence[TextMoments]) -> Iterable[Affine]:
        """Return the map of each layer by the moments of all languages, the pivot's last."""


def without_span(basis_HR: torch.Tensor) -> torch.Tensor:
    """Return I - B B^T (H, H), which takes the span of orthonormal columns out of a vector."""
    identity = torch.eye(len(basis_HR), dtype=basis_HR.dtype, device=basis_HR.device)
    projection: torch.Tensor = identity - basis_HR @ basis_HR.T
    return projection
