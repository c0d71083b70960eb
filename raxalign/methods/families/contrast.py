"""What strong and weak contrast share: options, freezing, and the training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from raxalign.encoders.models.trained_weights import Freeze
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Layers, Pooling
from raxalign.lazy import torch
from raxalign.methods.base import MethodInputs
from raxalign.methods.families import wording
from raxalign.methods.families.trained import Folders, Profiles, TrainedMethod, TrainedParams
from raxalign.methods.rows.sentences import Bitexts, read_word_rows
from raxalign.options.params import LATER, Removed
from raxalign.train.chance import Stream, mix
from raxalign.train.options import Epochs, LearningRate, Steps, Warmup

if TYPE_CHECKING:
    from raxalign.methods.objectives.word_contrast import Contrast

_PAPER: Mapping[str, Any] = {
    "lambda": 1.0,
    "learning_rate": 1e-4,
    "batch_size": 128,
    "steps": 100_000,
    "warmup": 4000,
    "pooling": "first",
    "same_type": "keep",
    "max_length": 96,
    "projector_bias": True,
}
_PROFILES: Profiles = {
    "paper": _PAPER,
    "released": {**_PAPER, "projector_bias": False},
    "sane": {
        "lambda": 0.1,
        "learning_rate": 5e-5,
        "batch_size": 32,
        "steps": 0,
        "warmup": 0.1,
        "pooling": "last",
        "same_type": "mask",
        "max_length": 128,
        "projector_bias": True,
    },
}


class ContrastMethod(TrainedMethod["Bitexts"]):
    """Trains the encoder by a contrast of linked words, a `strong` one or a weak one."""

    profiles = _PROFILES
    reads = "links"
    strong: ClassVar[bool]

    class Params(TrainedParams):
        """`freeze: {blocks: lower, embeddings: false}` holds blocks and trains the embeddings, as
        AlignFreeze does, where `freeze: lower` holds the embeddings too.
        """

        profile: Literal["paper", "released", "sane"] = Field("sane", description=wording.PROFILE)
        reg_weight: float | None = Field(None, alias="lambda", ge=0, allow_inf_nan=False)
        """Weight of the regulariser, λ in the formula: of the distance (not squared) of the weights
        from the start.
        """
        regularizer: Literal["parameters", "none"] = "parameters"
        """What holds the encoder near its start: the distance of its weights from theirs at the
        start (`parameters`), or nothing (`none`).
        """
        temperature: float = Field(0.1, gt=0, allow_inf_nan=False)
        """Temperature of the contrast, τ in the formula."""
        projector_bias: bool | None = None
        """Whether the second layer of the projector has a bias; the first layer has none."""
        negatives: Annotated[Literal["all", "linked"], LATER] = "linked"
        """What a linked word is contrasted with: the other linked words of the batch (`linked`), or
        all words of the batch (`all`).
        """
        same_type: Literal["keep", "mask"] | None = None
        """Whether links that share a word type on either side are negatives of one another (`keep`)
        or not (`mask`).
        """
        freeze: Freeze = "none"
        learning_rate: LearningRate[float | None] = None
        batch_size: int | None = Field(None, ge=1, description=wording.BATCH_OF_PAIRS)
        epochs: Epochs = 1
        steps: Steps[int | None] = None  # type: ignore[assignment]  # by profile
        warmup: Warmup[float | None] = None
        layers: Layers = "last"
        """Layers whose words are contrasted, one by one, and averaged: `last`, one number or a
        range such as `9-12` (0: the embeddings).
        """
        pooling: Pooling | None = Field(None, description=wording.WORD_POOLING)
        max_length: int | None = Field(None, ge=3, description=wording.SENTENCE_LENGTH)
        removed: ClassVar = {
            "projector": Removed("leave it out: words are contrasted behind a projector", True),
            "projector_size": Removed("leave it out: the projector puts out 128 numbers", 128),
            "identical_pairs": Removed(
                "leave it out: words that are spelt the same are dropped", "drop"
            ),
        }

    params: Params

    def canonical(self) -> dict[str, Any]:
        """Return the resolved params; without a regulariser there is no λ."""
        resolved = super().canonical()
        if resolved["regularizer"] == "none" or resolved["lambda"] == 0:
            resolved |= {"regularizer": "none", "lambda": 0.0}
        return resolved

    def idle(self) -> set[str]:
        """Return what a projector with a bias leaves out."""
        # with a bias as before it could be left out: results made then keep their keys
        return super().idle() | ({"projector_bias"} if self.resolved()["projector_bias"] else set())

    def read(self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Folders) -> Bitexts:
        """Return the word pairs of all languages."""
        return read_word_rows(encoder, folders, inputs.pivot, self.resolved()["max_length"])

    def objective(self, encoder: TransformerEncoder, rows: Bitexts, seed: int) -> Contrast:
        """Return the contrast, with a projector that is left behind."""
        from raxalign.methods.objectives.word_contrast import Contrast, WordContrast

        kind = WordContrast if self.params.negatives == "all" else Contrast
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(mix(seed, Stream.NEW_WEIGHTS))
            return kind(encoder, rows, self.resolved(), strong=self.strong)

    def counts(self, rows: Bitexts) -> dict[str, object]:
        """Return the number of sentences, of word pairs, and of those that are spelt the same."""
        return {
            "sentences": len(rows),
            "pairs": len(rows.links.src),
            "identical_pairs_dropped": rows.dropped,
        }
