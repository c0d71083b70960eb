"""The options of an encoder that is trained from nothing."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from raxalign.config.params import LATER
from raxalign.config.sources import DataPath
from raxalign.encoders.base import EncoderKind


class ScratchParams(EncoderKind.Params):
    """The shape of the model, its vocabulary, and its training."""

    layers: int = Field(3, ge=1, description="Number of blocks.")
    hidden_size: int = Field(
        128, ge=8, description="Width of the hidden states, which `heads` must divide."
    )
    heads: int = Field(4, ge=1, description="Attention heads per block.")
    intermediate: int = Field(512, ge=8, description="Width of the feed-forward layer of a block.")
    positions: int = Field(
        128,
        ge=8,
        description=(
            "Number of positions: the largest number of pieces that the encoder reads at once."
        ),
    )
    vocab_size: int = Field(
        4_000, ge=100, description="Largest number of pieces in the vocabulary."
    )
    vocabulary: DataPath | None = Field(
        None,
        description=(
            "File of the pieces, a `vocab.txt` such as that of multilingual BERT (none: a"
            " vocabulary is trained on the text)."
        ),
    )
    lowercase: bool = Field(False, description="Whether text is read in lower case.")
    max_sentences: int = Field(
        20_000,
        ge=1,
        description="Largest number of sentences of each language that are trained on.",
    )
    window: int = Field(64, ge=8, description="Largest number of pieces per training row.")
    slicing: Annotated[bool, LATER] = Field(
        False,
        description=(
            "Whether the text, its sentences in their order, is sliced into rows of `window`"
            " pieces, so that every piece is trained on; otherwise rows are sentences, pairs and"
            " groups of sentences in random order, and a sentence that is longer than `window`"
            " loses its end."
        ),
    )
    batch_size: int = Field(
        16,
        ge=1,
        description=(
            "Windows of `window` pieces per training step; shorter rows are counted by their"
            " pieces."
        ),
    )
    steps: int = Field(1_200, ge=1, description="Training steps.")
    learning_rate: float = Field(1e-3, gt=0, description="Learning rate at the end of the warm-up.")
    warmup: float = Field(
        0.1, ge=0, le=1, description="Share of the steps over which the learning rate rises."
    )
    dropout: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="Probability of dropout, here and in any later training of the encoder.",
    )
    mask_share: float = Field(0.15, gt=0, lt=1, description="Share of the pieces that are masked.")
    seed: int = Field(0, description="Seed of the first weights and of the training.")

    @model_validator(mode="after")
    def _fits(self) -> ScratchParams:
        if self.hidden_size % self.heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} cannot be divided among {self.heads} heads"
            )
        if self.window > self.positions:
            raise ValueError(f"window {self.window} is more than positions {self.positions}")
        return self

    def identity(self) -> dict[str, Any]:
        """Without `vocab_size` where the vocabulary is given."""
        idle = set() if self.vocabulary is None else {"vocab_size"}
        return {name: value for name, value in super().identity().items() if name not in idle}
