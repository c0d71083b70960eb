"""The options of an encoder that is trained from nothing."""

from __future__ import annotations

from pydantic import Field, model_validator

from raxalign.encoders.base import EncoderKind


class ScratchParams(EncoderKind.Params):
    """`batch_size` windows of `window` pieces per step (counted in pieces, on average); `max_sentences` per language; `warmup` is a share of
    `steps`.
    """

    layers: int = Field(3, ge=1)
    hidden_size: int = Field(128, ge=8)
    heads: int = Field(4, ge=1)
    intermediate: int = Field(512, ge=8)
    positions: int = Field(128, ge=8)
    vocab_size: int = Field(4_000, ge=100)
    lowercase: bool = False
    max_sentences: int = Field(20_000, ge=1)
    window: int = Field(64, ge=8)
    batch_size: int = Field(16, ge=1)
    steps: int = Field(1_200, ge=1)
    learning_rate: float = Field(1e-3, gt=0)
    warmup: float = Field(0.1, ge=0, le=1)
    dropout: float = Field(0.1, ge=0, lt=1)
    mask_share: float = Field(0.15, gt=0, lt=1)
    seed: int = 0

    @model_validator(mode="after")
    def _fits(self) -> ScratchParams:
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size {self.hidden_size} cannot be divided among {self.heads} heads")
        if self.window > self.positions:
            raise ValueError(f"window {self.window} is more than positions {self.positions}")
        return self
