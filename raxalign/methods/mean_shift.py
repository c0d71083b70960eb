"""Inside the encoder, vectors are moved by the difference of the languages' means."""

from __future__ import annotations

from typing import final

from pydantic import Field

from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.token_means import Reading
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.encoders.models.vectors import Block, parse_layers
from raxalign.methods.base import Acts, Effect, Method, MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.readouts import Direction
from raxalign.train.runtime import Runtime


@final
class MeanShift(Method):
    """Add to every token of a language, after one block of the encoder, the difference between the
    pivot's mean vector and the language's.

    Formula: h -> h + α (R_pivot - R_lang) after block l, for tokens of the language, specials
    included; the blocks above read the sum. R is the mean over the language's text of what leaves
    block l.

    Data: monolingual text of each language and the pivot, no translations. Running text is cut into
    blocks of `block_size` subword tokens, or as many as the encoder has positions for, with special
    tokens around each; the mean of each block's mean is taken. A task that is fine-tuned afterwards
    leaves the blocks up to l alone, so that the means stay true.

    Reference: Liu et al. (2020, §4); for the means their published code.

    Relations: `centering` moves the vectors that are read and not the states inside the encoder;
    choose this one for what the blocks above or the masked-LM head read, as in the task
    `token_translation`.

    Example:
        methods:
          none: {}
          mean_shift: {layers: 6, alpha: [0.5, 1.0]}
    """

    VERSION = 1
    reference = "Liu et al. 2020"
    papers = ("liu2020",)
    per_language = ("alpha",)

    class Params(Reading, Method.Params):
        """The mean of a language is that of its blocks."""

        layers: Block = "last"
        """Block after which tokens are shifted, l in the formula: `last` or one number from 1 on.
        """
        alpha: float = Field(1.0, allow_inf_nan=False)
        """Factor of the shift, α in the formula (0: nothing changes)."""
        direction: Direction = Field("to-pivot", description=wording.DIRECTION)

    params: Params

    def needs(self) -> Needs:
        """Monolingual text."""
        return Needs(text=True)

    def effect(self) -> Effect:
        """An inside transform; of the pivot, one for each language, where that is what moves."""
        return Effect(
            inside=True, pivot=self.params.direction == "to-other", inside_layers=self.params.layers
        )

    def acts(self, n_layers: int) -> Acts:
        """The stream from `layers` on; with `alpha` 0 nothing, but that a task's training leaves
        the blocks up to there alone (`effect`).
        """
        (layer,) = parse_layers(self.params.layers, n_layers, blocks=True)
        return Acts(stream_from=layer if self.params.alpha else None)

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:  # noqa: ARG002
        """Return the encoder with its shifts. Raises `RaxalignError` for text without words."""
        (layer,) = parse_layers(self.params.layers, encoder.n_layers, blocks=True)
        means = {
            lang: self.params.means(encoder, inputs.text[lang], lang, (layer,))
            for lang in (*inputs.languages, inputs.pivot)
        }
        pivot, transforms = inputs.pivot, []
        for lang in inputs.languages:
            shift = self.params.alpha * (means[pivot].means_LH[0] - means[lang].means_LH[0])
            if self.params.direction == "to-pivot":
                transforms.append(Transform(lang, layer, "inside", (Affine(shift=shift),)))
            else:
                transforms.append(
                    Transform(pivot, layer, "inside", (Affine(shift=-shift),), toward=lang)
                )
        notes = {lang: {"rows": mean.rows, "tokens": mean.tokens} for lang, mean in means.items()}
        return AlignedEncoder(encoder, tuple(transforms), notes=notes)
