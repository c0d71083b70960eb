"""Fine-tuning alignment: linked words are drawn together, and one side is held where it was (Cao et
al. 2020).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, final

from pydantic import Field

from raxalign.config.params import LATER
from raxalign.encoders.models.vectors import Layers, Pooling, parse_layers
from raxalign.methods.base import MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.trained import Profiles, TrainedMethod, TrainedParams, losses
from raxalign.methods.objectives.finetune import Alignment, AlignmentOptions, Norm, Reduction
from raxalign.methods.rows.linked_words import LinkedRows, read_linked_rows
from raxalign.train.options import Betas, Epochs, Epsilon, LearningRate, RateSchedule, Warmup

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.train.runtime import Runtime

_PROFILES: Profiles = {
    "paper": {
        "batch_size": 2,
        "align_target": "live",
        "reduction": "sum",
        "special_pairs": False,
        "part": 0,
        "shuffle": False,
    },
    "released": {
        "batch_size": 8,
        "align_target": "frozen",
        "reduction": "mean",
        "special_pairs": True,
        "part": 4,
        "shuffle": False,
    },
    "sane": {
        "batch_size": 8,
        "align_target": "frozen",
        "reduction": "mean",
        "special_pairs": True,
        "part": 0,
        "shuffle": True,
    },
}

_LAYERS = (
    "Layers over which the loss is summed: `last`, one number or a range such as `9-12` (0: the"
    " embeddings)."
)
_ALIGN_TARGET = (
    "What a word is drawn towards, g in the formula: the vector of the encoder in training"
    " (`live`), or that of its start (`frozen`)."
)
_REDUCTION = (
    "Whether distances are summed over words (`sum`), or averaged over words and, where they are"
    " squared, over coordinates (`mean`)."
)
_PART = (
    "Sentence pairs over which one mean is taken with `reduction: mean`; the means of a batch are"
    " then summed (0: one mean over the batch)."
)


@final
class Finetune(TrainedMethod):
    """Train the encoder so that linked words have the same vector, while the vectors of one side
    stay near those of the start.

    Formula: d(f(src word), g(tgt word)) over links + λ d(f(tgt word), f0(tgt word)) over words,
    where f0 is the frozen start and g is f0 (`align_target: frozen`) or f (`live`); d is the
    squared distance, or the distance (`norm: plain`); sums over `layers` and languages.

    Data: linked words of the bitext. With `direction: to-other` the pivot moves and the other
    language is held.

    `profile` fills in what is not given. `paper` is the printed formula: sums, live targets, words
    alone, 2 sentence pairs per batch. `released` is the circulating code: means over words and
    coordinates of parts of 4 sentence pairs, which are summed; frozen targets; [CLS] and [SEP]
    count as linked words; file order. `sane` is that without its accidents: means over the whole
    batch, so that words in parts with few links do not weigh more, and rows in random order. Frozen
    targets stay, since they have the same optimum and cannot shrink both sides together; so do
    [CLS] and [SEP], which classifiers read.

    Reference: Cao et al. (2020, §3.3); for layers, plain norm and both directions Kulshreshtha et
    al. (2020, Eq. 7-10).
    """

    VERSION = 1
    reference = "Cao et al. 2020; Kulshreshtha et al. 2020"
    papers = ("cao2020", "norm=plain kulshreshtha2020")
    profiles = _PROFILES

    class Params(TrainedParams):
        """Training is by AdamW."""

        profile: Literal["paper", "released", "sane"] = Field("sane", description=wording.PROFILE)
        reg_weight: float = Field(
            1.0,
            alias="lambda",
            ge=0,
            allow_inf_nan=False,
            description="Weight of the regulariser, λ in the formula.",
        )
        learning_rate: LearningRate[float] = 5e-5
        batch_size: int | None = Field(
            None, ge=1, description="Sentence pairs of each language per training step."
        )
        epochs: Epochs = 1
        warmup: Warmup[float] = 0.1
        schedule: Annotated[RateSchedule, LATER] = "constant"
        betas: Annotated[Betas, LATER] = "0.9 0.98"
        eps: Annotated[Epsilon[float], LATER] = 1e-9
        layers: Layers = Field("last", description=_LAYERS)
        pooling: Pooling = Field("last", description=wording.WORD_POOLING)
        direction: Literal["to-pivot", "to-other"] = Field(
            "to-pivot", description=wording.DIRECTION
        )
        norm: Norm = Field(
            "squared",
            description=(
                "The distance d in the formula: the Euclidean distance (`plain`) or its square"
                " (`squared`)."
            ),
        )
        align_target: Literal["live", "frozen"] | None = Field(None, description=_ALIGN_TARGET)
        reduction: Reduction | None = Field(None, description=_REDUCTION)
        special_pairs: bool | None = Field(
            None, description="Whether [CLS] and [SEP] of a sentence pair count as linked words."
        )
        part: int | None = Field(None, ge=0, description=_PART)
        shuffle: bool | None = Field(
            None,
            description=(
                "Whether sentence pairs are read in random order, rather than in that of the"
                " corpus."
            ),
        )
        max_length: int = Field(128, ge=3, description=wording.SENTENCE_LENGTH)

    params: Params

    def needs(self) -> Needs:
        """Word pairs."""
        return Needs(links=True, dev=self.selects(), pieces=True)

    def canonical(self) -> dict[str, Any]:
        """Return the resolved params; with `reduction: sum` there are no means over parts."""
        resolved = super().canonical()
        if resolved["reduction"] == "sum":
            resolved["part"] = 0
        return resolved

    def has_chance(self) -> bool:
        """Dropout and the order of rows have."""
        return self.params.dropout or self.shuffles()

    def shuffles(self) -> bool:
        """As `shuffle` says."""
        return bool(self.resolved()["shuffle"])

    def train(
        self, encoder: TransformerEncoder, inputs: MethodInputs, runtime: Runtime
    ) -> Mapping[str, object]:
        """Train; notes count sentences and word pairs per language."""

        def read(pairs: Mapping[str, Path]) -> list[LinkedRows]:
            return [
                read_linked_rows(encoder, pairs[lang], self.params.max_length)
                for lang in inputs.languages
            ]

        corpora = read(inputs.pairs)
        frozen = encoder.with_model(
            copy.deepcopy(encoder.model).eval().requires_grad_(requires_grad=False)
        )
        objective = Alignment(encoder, frozen, corpora, self._options(encoder.n_layers))

        def dev() -> tuple[Alignment, int]:
            held_out = read(inputs.dev)
            return objective.on(held_out), max(map(len, held_out))

        fitted = self.fit(objective, max(map(len, corpora)), runtime, "finetune", dev)
        counts = {
            lang: {"sentences": len(corpus), "pairs": len(corpus.link_src)}
            for lang, corpus in zip(inputs.languages, corpora, strict=True)
        }
        return {**counts, **losses(fitted)}

    def _options(self, n_layers: int) -> AlignmentOptions:
        params, resolved = self.params, self.resolved()
        return AlignmentOptions(
            moves="src" if params.direction == "to-pivot" else "tgt",
            layers=parse_layers(params.layers, n_layers),
            pooling=params.pooling,
            reg_weight=params.reg_weight,
            norm=params.norm,
            align_target=resolved["align_target"],
            reduction=resolved["reduction"],
            special_pairs=resolved["special_pairs"],
            part=resolved["part"],
        )
