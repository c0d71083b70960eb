"""What strong and weak contrast share: options, freezing, and the training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from raxalign.encoders.base import Layers, Pooling, parse_layers
from raxalign.errors import RaxalignError
from raxalign.methods._trained import Profiles, TrainedMethod, losses
from raxalign.methods.base import Acts, Method, MethodInputs, Needs
from raxalign.train.loop import TrainSettings, fit
from raxalign.train.objective import mix

if TYPE_CHECKING:
    from raxalign.encoders._transformer import TransformerEncoder
    from raxalign.methods._contrast import ContrastOptions
    from raxalign.train.runtime import Runtime

Freeze = Literal["none", "lower", "upper"]

_PROFILES: Profiles = {
    "paper": {
        "lambda": 1.0,
        "learning_rate": 1e-4,
        "batch_size": 128,
        "steps": 100_000,
        "warmup": 4000,
        "pooling": "first",
        "same_type": "keep",
        "max_length": 96,
    },
    "sane": {
        "lambda": 0.1,
        "learning_rate": 5e-5,
        "batch_size": 32,
        "steps": 0,
        "warmup": 0.1,
        "pooling": "last",
        "same_type": "mask",
        "max_length": 128,
    },
}


class ContrastMethod(TrainedMethod):
    """Trains the encoder by a contrast of linked words; `strong` is what the two methods differ in."""

    profiles = _PROFILES
    strong: ClassVar[bool]
    name: ClassVar[str]

    class Params(Method.Params):
        """`batch_size` counts sentence pairs of all languages. `lambda` weighs the distance of the weights from the start (the norm, not its
        square; `regularizer: none` leaves it out). `identical_pairs: drop` leaves out links of words that are spelt the same. `freeze` holds
        the lower half of the blocks with the embeddings, or the upper half. `steps` (0: none) replaces `epochs`. The rate falls linearly after the
        warm-up. Several `layers` are contrasted one by one and averaged. `dropout: false` trains without dropout. What is None is the
        profile's.
        """

        profile: Literal["paper", "sane"] = "sane"
        reg_weight: float | None = Field(None, alias="lambda", ge=0, allow_inf_nan=False)
        regularizer: Literal["parameters", "none"] = "parameters"
        temperature: float = Field(0.1, gt=0, allow_inf_nan=False)
        projector: bool = True
        projector_size: int = Field(128, ge=1)
        identical_pairs: Literal["drop", "keep"] = "drop"
        same_type: Literal["keep", "mask"] | None = None
        freeze: Freeze = "none"
        learning_rate: float | None = Field(None, gt=0)
        batch_size: int | None = Field(None, ge=1)
        epochs: int = Field(1, ge=1)
        steps: int | None = Field(None, ge=0)
        warmup: float | None = Field(None, ge=0)
        layers: Layers = "last"
        pooling: Pooling | None = None
        dropout: bool = True
        max_length: int | None = Field(None, ge=3)

    params: Params

    def needs(self) -> Needs:
        """Word pairs."""
        return Needs(links=True)

    def canonical(self) -> dict[str, Any]:
        """The resolved params; without a regulariser there is no λ, without a projector no size of it, under `steps` no epochs."""
        resolved = self.resolved()
        if resolved["regularizer"] == "none" or resolved["lambda"] == 0:
            resolved |= {"regularizer": "none", "lambda": 0.0}
        idle = {"projector_size": not resolved["projector"], "epochs": resolved["steps"] > 0}
        return {name: value for name, value in resolved.items() if not idle.get(name)}

    def acts(self, n_layers: int) -> Acts:
        """The whole stream, or with `freeze: lower` what is above the frozen half."""
        self._layers(n_layers)
        return Acts(stream_from=n_layers // 2 + 1 if self.params.freeze == "lower" else 0)

    def _layers(self, n_layers: int) -> tuple[int, ...]:
        """The contrasted layers. Raises `RaxalignError` where one of them is beyond the encoder, or frozen."""
        layers = parse_layers(self.params.layers, n_layers)
        if self.params.freeze == "lower" and min(layers) <= n_layers // 2:
            raise RaxalignError(
                f"layers {self.params.layers!r}: freeze: lower leaves layer {min(layers)} as it is; choose from {n_layers // 2 + 1} on"
            )
        return layers

    def train(self, encoder: TransformerEncoder, inputs: MethodInputs, runtime: Runtime) -> Mapping[str, object]:
        """Train, with a projector that is left behind; notes count sentences, word pairs and those that are spelt the same."""
        import torch

        from raxalign.methods._contrast import Contrast
        from raxalign.methods._contrast_rows import read_word_rows

        resolved, folders = self.resolved(), [inputs.pairs[lang] for lang in inputs.languages]
        options = self._options(resolved, encoder.n_layers)
        corpus = read_word_rows(encoder, folders, resolved["max_length"], drop_identical=self.params.identical_pairs == "drop")
        with frozen_half(encoder, self.params.freeze), torch.random.fork_rng(devices=[]):
            torch.manual_seed(mix(runtime.seed, 4))
            objective = Contrast(encoder, corpus, options)
            fitted = fit(objective, len(corpus), self._settings(resolved), runtime, name=self.name)
        counts = {"sentences": len(corpus), "pairs": len(corpus.link_src), "identical_pairs_dropped": corpus.dropped}
        return {**counts, **losses(fitted)}

    def _options(self, resolved: Mapping[str, Any], n_layers: int) -> ContrastOptions:
        from raxalign.methods._contrast import ContrastOptions

        params, layers = self.params, self._layers(n_layers)
        return ContrastOptions(
            strong=self.strong,
            layers=layers,
            pooling=resolved["pooling"],
            temperature=params.temperature,
            reg_weight=resolved["lambda"] if params.regularizer == "parameters" else 0.0,
            projector_size=params.projector_size if params.projector else None,
            mask_same_type=resolved["same_type"] == "mask",
        )

    def _settings(self, resolved: Mapping[str, Any]) -> TrainSettings:
        return TrainSettings(
            learning_rate=resolved["learning_rate"],
            batch_size=resolved["batch_size"],
            epochs=self.params.epochs,
            steps=resolved["steps"] or None,
            warmup=resolved["warmup"],
            schedule="linear",
            dropout=self.params.dropout,
        )


@contextmanager
def frozen_half(encoder: TransformerEncoder, half: Freeze) -> Iterator[None]:
    """Without gradients meanwhile: the embeddings and the lower half of the blocks, or the upper half (AlignFreeze; the middle block of an
    odd number is of the upper half).
    """
    from raxalign.encoders._transformer import find_blocks

    _, _, blocks = find_blocks(encoder.model.base_model)
    upper = {id(p) for block in blocks[len(blocks) // 2 :] for p in block.parameters()}
    base = [p for p in encoder.model.base_model.parameters() if p.requires_grad]
    held = [p for p in base if (id(p) in upper) == (half == "upper")] if half != "none" else []
    for parameter in held:
        parameter.requires_grad_(requires_grad=False)
    try:
        yield
    finally:
        for parameter in held:
            parameter.requires_grad_(requires_grad=True)
