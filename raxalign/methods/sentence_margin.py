"""Translation ranking with an additive margin: a sentence is nearer to its translation than to
other sentences (LaBSE; Feng et al. 2022).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

from pydantic import Field

from raxalign.encoders.models.sentence_config import SentencePooling
from raxalign.encoders.models.vectors import Layer, parse_layers
from raxalign.methods.base import MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.trained import Profiles, TrainedMethod, TrainedParams, losses
from raxalign.train.options import Clip, Epochs, Epsilon, LearningRate, Steps, Warmup

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.methods.objectives.sentence_margin import MarginOptions
    from raxalign.methods.rows.typed import SentenceRows
    from raxalign.train.runtime import Runtime

_PROFILES: Profiles = {
    "released": {
        "learning_rate": 1e-4,
        "batch_size": 4096,
        "steps": 500_000,
        "warmup": 5000,
        "pooling": "cls",
        "same_sentence": "keep",
        "max_length": 32,
        "eps": 1e-5,
        "clip": 100.0,
    },
    "sane": {
        "learning_rate": 5e-5,
        "batch_size": 32,
        "steps": 0,
        "warmup": 0.1,
        "pooling": "mean",
        "same_sentence": "mask",
        "max_length": 128,
        "eps": 1e-8,
        "clip": 0.0,
    },
}

_SAME_SENTENCE = (
    "Whether sentence pairs that have a sentence in common are negatives of one another (`keep`) or"
    " not (`mask`)."
)


@final
class SentenceMargin(TrainedMethod):
    """Train the encoder so that the vector of a sentence is nearer to its translation's, by a
    margin, than to any other sentence's.

    Formula: mean over the pairs i of the batch of -log e^(s (cos(x_i, y_i) - m)) / (e^(s (cos(x_i,
    y_i) - m)) + Σ_{j ≠ i} e^(s cos(x_i, y_j))), plus the same with x and y exchanged; m is the
    margin, s the scale.

    Data: the bitext; the sentence pairs of all languages are mixed, and are one another's
    negatives.

    `profile` fills in what is not given. `released` is the public training configuration of LaBSE:
    4,096 pairs per batch, 500,000 steps, 32 pieces per sentence, whose vector is that of [CLS].
    `sane` is for thousands of sentence pairs: 32 per batch, by epochs; the mean over pieces, which
    teaches every word and not [CLS] alone; and pairs that have a sentence in common are not
    negatives of one another (`same_sentence: mask`). Margin 0.3 and scale 100 are LaBSE's in both.

    Reference: Feng et al. (2022, LaBSE, §2.2); the margin is of Yang et al. (2019).
    """

    VERSION = 1
    reference = "Feng et al. 2022"
    papers = ("feng2022", "yang2019margin")
    profiles = _PROFILES

    class Params(TrainedParams):
        """Training is by AdamW."""

        profile: Literal["released", "sane"] = Field("sane", description=wording.PROFILE)
        margin: float = Field(
            0.3,
            ge=0,
            allow_inf_nan=False,
            description=(
                "Margin that is subtracted from the cosine of a translation, m in the formula."
            ),
        )
        scale: float = Field(
            100.0,
            gt=0,
            allow_inf_nan=False,
            description="Factor of the cosines, s in the formula: the inverse of a temperature.",
        )
        same_sentence: Literal["keep", "mask"] | None = Field(None, description=_SAME_SENTENCE)
        learning_rate: LearningRate[float | None] = None
        batch_size: int | None = Field(None, ge=1, description=wording.BATCH_OF_PAIRS)
        epochs: Epochs = 1
        steps: Steps[int | None] = None  # type: ignore[assignment]  # by profile
        warmup: Warmup[float | None] = None
        eps: Epsilon[float | None] = None  # type: ignore[assignment]  # by profile
        clip: Clip[float | None] = None  # type: ignore[assignment]  # by profile
        layers: Layer = Field("last", description=wording.LAYER_TRAINED)
        pooling: SentencePooling | None = Field(None, description=wording.SENTENCE_POOLING)
        max_length: int | None = Field(None, ge=3, description=wording.SENTENCE_LENGTH)

    params: Params

    def needs(self) -> Needs:
        """Sentence pairs."""
        return Needs(bitext=True, dev=self.selects(), pieces=True)

    def sentence_pooling(self) -> SentencePooling | None:
        """Return `pooling`, where the last layer is trained."""
        return self.resolved()["pooling"] if self.params.layers == "last" else None

    def train(
        self, encoder: TransformerEncoder, inputs: MethodInputs, runtime: Runtime
    ) -> Mapping[str, object]:
        """Train; notes count sentence pairs."""
        from raxalign.methods.objectives.sentence_margin import Margin
        from raxalign.methods.rows.typed import read_sentence_rows

        resolved = self.resolved()
        options = self._options(resolved, encoder.n_layers)

        def read(bitext: Mapping[str, Path]) -> SentenceRows:
            folders = [bitext[lang] for lang in inputs.languages]
            return read_sentence_rows(encoder, folders, resolved["max_length"])

        corpus = read(inputs.bitext)
        objective = Margin(encoder, corpus, options)

        def dev() -> tuple[Margin, int]:
            held_out = read(inputs.dev)
            return objective.on(held_out), len(held_out)

        fitted = self.fit(objective, len(corpus), runtime, "sentence_margin", dev)
        return {"sentences": len(corpus), **losses(fitted)}

    def _options(self, resolved: Mapping[str, Any], n_layers: int) -> MarginOptions:
        from raxalign.methods.objectives.sentence_margin import MarginOptions

        params = self.params
        (layer,) = parse_layers(params.layers, n_layers)
        return MarginOptions(
            layer,
            resolved["pooling"],
            params.margin,
            params.scale,
            mask_same_sentence=resolved["same_sentence"] == "mask",
        )
