"""Vectors of length one and mean zero at the same time, in each language."""

from __future__ import annotations

from typing import ClassVar, final

from pydantic import Field

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Affine, Transform, Unit
from raxalign.methods.base import MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.text import TextMethod
from raxalign.methods.families.word_map import Direction, moving_readout, no_pairs
from raxalign.methods.statistics.moments import (
    Moments,
    WordReading,
    linked_vectors,
    stepped,
    text_moments,
)
from raxalign.methods.statistics.procrustes import rotations, support
from raxalign.options.params import Removed
from raxalign.pairing.schema import read_pairs
from raxalign.train.runtime import Runtime

ROUNDS = 5
Chains = list[tuple[Unit | Affine, ...]]


@final
class IterativeNormalization(TextMethod):
    """Bring the vectors of each language to length one and centre them, again and again, so that
    both hold nearly; the pivot's too.

    Formula: five times [x -> x / ||x||, x -> x - μ], then x -> x / ||x||, for each layer; μ of
    each round is the mean over the words of the language's text as they are by then. With `rotate`,
    an orthogonal map over word pairs follows (rotation's formula).

    Data: monolingual text of each language and the pivot, read once a round; with `rotate` also
    linked words of the bitext.

    Reference: Zhang et al. (2019), who take five rounds.

    Relations: `centering` and `znorm` leave lengths different; choose this one with `rotate: true`
    in place of `rotation` where languages have vectors of different lengths and means, which no
    orthogonal map makes equal.

    Example:
        methods:
          none: {}
          iterative_normalization: {rotate: [false, true], layers: 8-12}
    """

    VERSION = 1
    reference = "Zhang et al. 2019"
    papers = ("zhang2019",)

    class Params(TextMethod.Params):
        """The means are over the words of the sentences that are read."""

        rotate: bool = False
        """Whether a rotation over word pairs follows, as in the method `rotation`."""
        direction: Direction = Field("to-pivot", description=wording.DIRECTION)
        removed: ClassVar = {"rounds": Removed("leave it out: there are five rounds", ROUNDS)}

    params: Params

    def needs(self) -> Needs:
        """Monolingual text, and word pairs for the rotation."""
        return Needs(text=True, links=self.params.rotate)

    def idle(self) -> set[str]:
        """The direction of no rotation."""
        return super().idle() if self.params.rotate else super().idle() | {"direction"}

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:  # noqa: ARG002
        """Return the encoder with a chain of steps for each language and layer. Raises
        `RaxalignError` for text without words, or no word pairs.
        """
        reading = self.word_reading(encoder)
        layers = reading.layers
        chains: dict[str, Chains] = {}
        notes: dict[str, dict[str, object]] = {}
        for lang in (*inputs.languages, inputs.pivot):
            chains[lang], words = self._normalised(reading, inputs, lang)
            notes[lang] = {"words": words}
        transforms = [
            Transform(lang, layer, steps=steps)
            for lang, chain in chains.items()
            for layer, steps in zip(layers, chain, strict=True)
        ]
        if self.params.rotate:
            for lang in inputs.languages:
                found, facts = self._rotations(encoder, inputs, lang, layers, chains)
                transforms += found
                notes[lang] |= facts
        return AlignedEncoder(encoder, tuple(transforms), notes=notes)

    def _normalised(
        self, reading: WordReading, inputs: MethodInputs, lang: str
    ) -> tuple[Chains, int]:
        """The steps of one language for each layer, and the number of its words."""
        chains: Chains = [(Unit(),)] * len(reading.layers)
        words = 0
        for _ in range(ROUNDS):
            moments = text_moments(reading, inputs, lang, before=chains)
            chains = [
                (*chain, Affine(mean), Unit())
                for chain, mean in zip(chains, moments.means(), strict=True)
            ]
            words = moments.count
        return chains, words

    def _rotations(
        self,
        encoder: Encoder,
        inputs: MethodInputs,
        lang: str,
        layers: tuple[int, ...],
        chains: dict[str, Chains],
    ) -> tuple[list[Transform], dict[str, object]]:
        """Return the rotations of one language, or of the pivot toward it, after the steps of both;
        and what they rest on, for the notes.
        """
        direction, pivot = self.params.direction, inputs.pivot
        to_pivot, pooling = direction == "to-pivot", self.params.pooling
        table = read_pairs(inputs.pairs[lang])
        after = (
            (stepped(src_PLH, chains[lang]), stepped(tgt_PLH, chains[pivot]))
            for src_PLH, tgt_PLH in linked_vectors(encoder, table, lang, pivot, layers, pooling)
        )
        moved_first = (pair if to_pivot else pair[::-1] for pair in after)
        missing = no_pairs("iterative_normalization", lang, pivot)
        moments = Moments.of(encoder, layers, moved_first, missing)
        readouts = [
            moving_readout(direction, lang, pivot, layer, (step,))
            for layer, step in zip(layers, rotations(moments), strict=True)
        ]
        rests = support(moments.count, moments.crosses(), centred=moments.crosses())
        return readouts, {"pairs": moments.count, **rests}
