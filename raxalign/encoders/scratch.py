"""A small BERT made from the grid's own text, for when nothing can be downloaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

from pydantic import Field, model_validator

from raxalign.encoders.base import EncoderInputs, EncoderKind
from raxalign.errors import RaxalignError

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.train.runtime import Runtime


@final
class Scratch(EncoderKind):
    """A BERT with its own WordPiece vocabulary, trained by masked language modelling on the concatenated monolingual text of all languages,
    with no parallel signal (the bilingual set-up of Liu et al. 2020 and K et al. 2020, made small).
    """

    VERSION: ClassVar[int] = 1
    family: ClassVar[str] = "transformer"
    needs_text: bool = True

    class Params(EncoderKind.Params):
        """`batch_size` windows of `window` pieces a step (counted in pieces); `max_sentences` a language; `warmup` is a share of `steps`."""

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
        def _fits(self) -> Scratch.Params:
            if self.hidden_size % self.heads:
                raise ValueError(f"hidden_size {self.hidden_size} cannot be divided among {self.heads} heads")
            if self.window > self.positions:
                raise ValueError(f"window {self.window} is more than positions {self.positions}")
            return self

    params: Params

    def depth(self, known: Callable[[str], str | None]) -> int:  # noqa: ARG002
        """`layers`."""
        return self.params.layers

    def build(self, inputs: EncoderInputs, runtime: Runtime, folder: Path) -> Mapping[str, object]:
        """Train vocabulary and model, and leave a Hugging Face masked-LM folder. Raises `RaxalignError` where there is no text."""
        from raxalign.encoders.training.masked_lm import pretrain

        return pretrain(self.params, inputs.text, runtime, folder)

    def load(self, inputs: EncoderInputs, device: str) -> TransformerEncoder:
        """The encoder that `build` left in ``inputs.folder``."""
        from raxalign.encoders.models.transformer import TransformerEncoder

        if inputs.folder is None:
            raise RaxalignError("a scratch encoder has to be built before it is loaded")
        return TransformerEncoder.from_folder(Path(inputs.folder).absolute(), device=device)
