"""What strong and weak contrast share: options, freezing, and the training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from raxalign.config.params import LATER
from raxalign.encoders.models.vectors import Layers, Pooling, parse_layers
from raxalign.errors import RaxalignError
from raxalign.methods.base import Acts, Method, MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.families.freezing import Freeze, frozen, lowest_trained
from raxalign.methods.families.trained import Profiles, TrainedMethod, losses
from raxalign.train.loop import TrainSettings, fit
from raxalign.train.objective import mix

if TYPE_CHECKING:
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.methods.objectives.word_contrast import ContrastOptions
    from raxalign.train.runtime import Runtime

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

_REG_WEIGHT = (
    "Weight of the regulariser, λ in the formula: of the distance (not squared) of the weights from"
    " the start."
)
_REGULARIZER = (
    "What holds the encoder near its start: the distance of its weights from theirs at the start"
    " (`parameters`), or nothing (`none`)."
)
_NEGATIVES = (
    "What a linked word is contrasted with: the other linked words of the batch (`linked`), or all"
    " words of the batch (`all`)."
)
_SAME_TYPE = (
    "Whether links that share a word type on either side are negatives of one another (`keep`) or"
    " not (`mask`)."
)
_FREEZE = (
    "What is not trained: the lower half of the blocks and the embeddings (`lower`), the upper half"
    " of the blocks (`upper`), or what a mapping names."
)
_LAYERS = (
    "Layers whose words are contrasted, one by one, and averaged: `last`, one number or a range"
    " such as `9-12` (0: the embeddings)."
)


class ContrastMethod(TrainedMethod):
    """Trains the encoder by a contrast of linked words; `strong` is what the two methods differ
    in.
    """

    profiles = _PROFILES
    strong: ClassVar[bool]
    name: ClassVar[str]

    class Params(Method.Params):
        """`freeze: {blocks: lower, embeddings: false}` holds blocks and trains the embeddings, as
        AlignFreeze does, where `freeze: lower` holds the embeddings too.
        """

        profile: Literal["paper", "released", "sane"] = Field("sane", description=wording.PROFILE)
        reg_weight: float | None = Field(
            None, alias="lambda", ge=0, allow_inf_nan=False, description=_REG_WEIGHT
        )
        regularizer: Literal["parameters", "none"] = Field("parameters", description=_REGULARIZER)
        temperature: float = Field(
            0.1,
            gt=0,
            allow_inf_nan=False,
            description="Temperature of the contrast, τ in the formula.",
        )
        projector: bool = Field(
            True, description="Whether words are contrasted behind a projector, p in the formula."
        )
        projector_size: int = Field(
            128, ge=1, description="Number of coordinates of z, which the projector puts out."
        )
        projector_bias: bool | None = Field(
            None,
            description=(
                "Whether the second layer of the projector has a bias; the first layer has none."
            ),
        )
        negatives: Annotated[Literal["all", "linked"], LATER] = Field(
            "linked", description=_NEGATIVES
        )
        identical_pairs: Literal["drop", "keep"] = Field(
            "drop",
            description="Whether links of words that are spelt the same are left out (`drop`).",
        )
        same_type: Literal["keep", "mask"] | None = Field(None, description=_SAME_TYPE)
        freeze: Freeze = Field("none", description=_FREEZE)
        learning_rate: float | None = Field(None, gt=0, description=wording.LEARNING_RATE)
        batch_size: int | None = Field(None, ge=1, description=wording.BATCH_OF_PAIRS)
        epochs: int = Field(1, ge=1, description=wording.EPOCHS_OR_STEPS)
        steps: int | None = Field(None, ge=0, description=wording.STEPS)
        warmup: float | None = Field(None, ge=0, description=wording.WARMUP)
        layers: Layers = Field("last", description=_LAYERS)
        pooling: Pooling | None = Field(None, description=wording.WORD_POOLING)
        dropout: bool = Field(True, description=wording.DROPOUT)
        max_length: int | None = Field(None, ge=3, description=wording.SENTENCE_LENGTH)

    params: Params

    def needs(self) -> Needs:
        """Word pairs."""
        return Needs(links=True)

    def canonical(self) -> dict[str, Any]:
        """The resolved params; without a regulariser there is no λ, without a projector neither
        size nor bias, under `steps` no epochs.
        """
        resolved = self.resolved()
        if resolved["regularizer"] == "none" or resolved["lambda"] == 0:
            resolved |= {"regularizer": "none", "lambda": 0.0}
        alone = not resolved["projector"]
        bias = (
            alone or resolved["projector_bias"]
        )  # with it as before it could be left out: results made then keep their keys
        idle = {"projector_size": alone, "projector_bias": bias, "epochs": resolved["steps"] > 0}
        return {name: value for name, value in resolved.items() if not idle.get(name)}

    def acts(self, n_layers: int) -> Acts:
        """The whole stream, or with `freeze` what is above the frozen parts."""
        self._layers(n_layers)
        return Acts(stream_from=lowest_trained(self.params.freeze, n_layers))

    def _layers(self, n_layers: int) -> tuple[int, ...]:
        """The contrasted layers. Raises `RaxalignError` where one of them is beyond the encoder, or
        frozen.
        """
        layers, lowest = (
            parse_layers(self.params.layers, n_layers),
            lowest_trained(self.params.freeze, n_layers),
        )
        if min(layers) < lowest:
            held = f"layers {self.params.layers!r}: freeze leaves layer {min(layers)} as it is"
            raise RaxalignError(
                f"{held}; "
                + (
                    f"choose layers from {lowest} on"
                    if lowest <= n_layers
                    else "it holds every block"
                )
            )
        return layers

    def train(
        self, encoder: TransformerEncoder, inputs: MethodInputs, runtime: Runtime
    ) -> Mapping[str, object]:
        """Train, with a projector that is left behind; notes count sentences, word pairs and those
        that are spelt the same.
        """
        import torch

        from raxalign.methods.objectives.all_words import WordContrast
        from raxalign.methods.objectives.word_contrast import Contrast
        from raxalign.methods.rows.typed import read_word_rows

        resolved, folders = self.resolved(), [inputs.pairs[lang] for lang in inputs.languages]
        options, every_word = (
            self._options(resolved, encoder.n_layers),
            self.params.negatives == "all",
        )
        drop_identical, typed = (
            self.params.identical_pairs == "drop",
            every_word and options.mask_same_type,
        )
        corpus = read_word_rows(
            encoder, folders, resolved["max_length"], drop_identical=drop_identical, all_types=typed
        )
        with frozen(encoder, self.params.freeze), torch.random.fork_rng(devices=[]):
            torch.manual_seed(mix(runtime.seed, 4))
            objective = (WordContrast if every_word else Contrast)(encoder, corpus, options)
            fitted = fit(objective, len(corpus), self._settings(resolved), runtime, name=self.name)
        counts = {
            "sentences": len(corpus),
            "pairs": len(corpus.link_src),
            "identical_pairs_dropped": corpus.dropped,
        }
        return {**counts, **losses(fitted)}

    def _options(self, resolved: Mapping[str, Any], n_layers: int) -> ContrastOptions:
        from raxalign.methods.objectives.word_contrast import ContrastOptions

        params, layers = self.params, self._layers(n_layers)
        return ContrastOptions(
            strong=self.strong,
            layers=layers,
            pooling=resolved["pooling"],
            temperature=params.temperature,
            reg_weight=resolved["lambda"] if params.regularizer == "parameters" else 0.0,
            projector_size=params.projector_size if params.projector else None,
            projector_bias=resolved["projector_bias"],
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
