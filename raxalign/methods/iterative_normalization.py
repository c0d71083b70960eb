"""Vectors of length one and mean zero at the same time, in each language."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, final

from pydantic import Field

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Affine, Transform, Unit
from raxalign.lazy import torch
from raxalign.methods.base import MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.readouts import Direction, TextMethod
from raxalign.methods.families.word_vectors import Moments, WordReading
from raxalign.options.params import Removed
from raxalign.pairing.build import WordPairs
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

    Data: monolingual text of each language and the pivot, read once per round; with `rotate` also
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
        chains: dict[str, Chains] = {}
        notes: dict[str, dict[str, object]] = {}
        for lang in (*inputs.languages, inputs.pivot):
            chains[lang], words = self._normalised(reading, inputs, lang)
            notes[lang] = {"words": words}
        transforms = [
            Transform(lang, layer, steps=steps)
            for lang, chain in chains.items()
            for layer, steps in zip(reading.layers, chain, strict=True)
        ]
        if self.params.rotate:
            for lang in inputs.languages:
                found, facts = self._rotations(reading, inputs, lang, chains)
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
            moments = reading.text_moments(inputs, lang, before=partial(stepped, chains=chains))
            chains = [
                (*chain, Affine(mean), Unit())
                for chain, mean in zip(chains, moments.means(), strict=True)
            ]
            words = moments.count
        return chains, words

    def _rotations(
        self, reading: WordReading, inputs: MethodInputs, lang: str, chains: dict[str, Chains]
    ) -> tuple[list[Transform], dict[str, object]]:
        """Return the rotations of one language, or of the pivot toward it, after the steps of both;
        and what they rest on, for the notes.
        """
        pivot, to_pivot = inputs.pivot, self.params.direction == "to-pivot"
        after = (
            (stepped(src_PLH, chains[lang]), stepped(tgt_PLH, chains[pivot]))
            for src_PLH, tgt_PLH in reading.linked(
                WordPairs.read(inputs.pairs[lang]).table, lang, pivot
            )
        )
        moved_first = (pair if to_pivot else pair[::-1] for pair in after)
        missing = (
            f"iterative_normalization: there are no word pairs for {lang}-{pivot}; look at its"
            " corpus or its links"
        )
        moments = Moments.of(reading, moved_first, missing)
        moved, toward = (lang, None) if to_pivot else (pivot, lang)
        readouts = [
            Transform(moved, layer, steps=(step,), toward=toward)
            for layer, step in zip(reading.layers, moments.rotations(), strict=True)
        ]
        rests = moments.support(moments.crosses(), centred=moments.crosses())
        return readouts, {"pairs": moments.count, **rests}


def stepped(vectors_NLH: torch.Tensor, chains: Chains) -> torch.Tensor:
    """Return vectors in float64 after the steps of each layer."""
    columns = list(vectors_NLH.double().unbind(dim=1))
    for place, chain in enumerate(chains):
        for step in chain:
            columns[place] = step(columns[place])
    return torch.stack(columns, dim=1)
