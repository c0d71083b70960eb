"""Translation ranking with an additive margin (LaBSE; Feng et al. 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, final

from pydantic import Field

from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Layer, SentencePooling, parse_layers
from raxalign.lazy import np, torch
from raxalign.methods.base import Effect, MethodInputs
from raxalign.methods.families import wording
from raxalign.methods.families.contrast import WholeBatch
from raxalign.methods.families.rows import Bitexts, States
from raxalign.methods.families.trained import TrainedMethod
from raxalign.options.params import Removed
from raxalign.train.devices import on_device
from raxalign.train.options import NO_OPTION, Epochs, LearningRate, Steps, Warmup

_PROFILES = {
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


@final
class SentenceMargin(TrainedMethod[Bitexts]):
    """Train the encoder so that the vector of a sentence is nearer to its translation's, by a
    margin, than to any other sentence's.

    Formula: mean over the pairs i of the batch of -log e^(s (cos(x_i, y_i) - m)) / (e^(s (cos(x_i,
    y_i) - m)) + Σ_{j ≠ i} e^(s cos(x_i, y_j))), plus the same with x and y exchanged; m is the
    margin, s the scale.

    Data: the bitext; the sentence pairs of all languages are mixed, and are one another's
    negatives.

    `profile` fills in what is not given. `released` is the public training configuration of LaBSE:
    4,096 pairs per batch, 500,000 steps, 32 subword tokens per sentence, whose vector is that of
    [CLS]. `sane` is for thousands of sentence pairs: 32 per batch, by epochs; the mean over subword
    tokens, which teaches every word and not [CLS] alone; and pairs that have a sentence in common
    are not negatives of one another (`same_sentence: mask`). Margin 0.3 and scale 100 are LaBSE's
    in both.

    Reference: Feng et al. (2022, LaBSE, §2.2); the margin is of Yang et al. (2019).

    Relations: `ppa` also predicts masked words and has a queue, so that batches may be small;
    `distillation` needs no negatives, but a teacher.

    Example:
        methods:
          none: {}
          sentence_margin: {margin: 0.3, batch_size: 32, epochs: 1}
    """

    VERSION = 1
    name = "sentence_margin"
    reads = "bitext"
    reference = "Feng et al. 2022"
    papers = ("feng2022", "yang2019margin")
    profiles = _PROFILES

    class Params(TrainedMethod.Params):
        """Training is by AdamW; `released` has ε = 1e-5 and clips gradients to a norm of 100."""

        profile: Literal["released", "sane"] = Field("sane", description=wording.PROFILE)
        margin: float = Field(0.3, ge=0, allow_inf_nan=False)
        """Margin that is subtracted from the cosine of a translation, m in the formula."""
        scale: float = Field(100.0, gt=0, allow_inf_nan=False)
        """Factor of the cosines, s in the formula: the inverse of a temperature."""
        same_sentence: Literal["keep", "mask"] | None = None
        """Whether sentence pairs that have a sentence in common are negatives of one another
        (`keep`) or not (`mask`).
        """
        learning_rate: LearningRate[float | None] = None
        batch_size: int | None = Field(None, ge=1, description=wording.BATCH_OF_PAIRS)
        epochs: Epochs = 1
        steps: Steps[int | None] = None  # type: ignore[assignment]  # by profile
        warmup: Warmup[float | None] = None
        removed: ClassVar = {
            name: Removed(NO_OPTION, None) for name in ("eps", "clip")
        }  # by profile
        layers: Layer = Field("last", description=wording.LAYER_TRAINED)
        pooling: SentencePooling | None = Field(None, description=wording.SENTENCE_POOLING)
        max_length: int | None = Field(None, ge=3, description=wording.SENTENCE_LENGTH)

    params: Params

    def effect(self) -> Effect:
        """New weights, and vectors of sentences where the last layer is trained."""
        pooling = self.resolved()["pooling"] if self.params.layers == "last" else None
        return replace(super().effect(), pooling=pooling)

    def read(
        self, encoder: TransformerEncoder, inputs: MethodInputs, folders: Mapping[str, Path]
    ) -> Bitexts:
        """Return the sentence pairs of all languages."""
        return Bitexts.read_sentences(encoder, folders, inputs.pivot, self.resolved()["max_length"])

    def objective(self, encoder: TransformerEncoder, rows: Bitexts, seed: int) -> Margin:  # noqa: ARG002
        """Return the margin loss over the whole batch."""
        return Margin(encoder, rows, self.resolved())

    def counts(self, rows: Bitexts) -> dict[str, object]:
        """Return the number of sentence pairs."""
        return {"sentences": len(rows)}


def margin_loss(
    src_ND: torch.Tensor,
    tgt_ND: torch.Tensor,
    *,
    margin: float,
    scale: float,
    hidden_NN: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the sum over both directions of the mean of -log softmax of scale · (cosine - margin
    for the translation), among the other side's sentences (Feng et al. 2022, Eq. 1-2).
    Sentence j is not a candidate for i where ``hidden_NN[i, j]``, which is symmetric.
    """
    src_ND, tgt_ND = (torch.nn.functional.normalize(part, dim=-1) for part in (src_ND, tgt_ND))
    itself_NN = torch.eye(len(src_ND), dtype=torch.bool, device=src_ND.device)
    logits_NN = scale * (src_ND @ tgt_ND.T - margin * itself_NN.to(src_ND))
    if hidden_NN is not None:
        logits_NN = logits_NN.masked_fill(hidden_NN & ~itself_NN, -torch.inf)
    gold_N = torch.arange(len(src_ND), device=src_ND.device)
    loss: torch.Tensor = torch.nn.functional.cross_entropy(
        logits_NN, gold_N
    ) + torch.nn.functional.cross_entropy(logits_NN.T, gold_N)
    return loss


class Margin(WholeBatch):
    """Ranks a sentence's translation above the other sentences of the global batch; an item is a
    sentence pair. `options` are the resolved params of the method.
    """

    def __init__(
        self, encoder: TransformerEncoder, bitexts: Bitexts, options: Mapping[str, Any]
    ) -> None:
        self.encoder, self.rows, self.options = encoder, bitexts, options
        self.layers = parse_layers(options["layers"], encoder.n_layers)
        self.module = encoder.model
        self.shape = (2, encoder.hidden_size)

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Return one pair per row."""
        return np.ones(len(rows), np.int64)

    def vectors(self, rows: np.ndarray) -> torch.Tensor:
        """Return the vectors of the sentences, (N, 2, H)."""
        bitexts: Bitexts = self.rows
        states = States.read(self.encoder, bitexts.sentences, bitexts.sides(rows), self.layers)
        vectors_SH = states.sentences(self.options["pooling"])
        return torch.stack([vectors_SH[: len(rows)], vectors_SH[len(rows) :]], dim=1)

    def batch_loss(self, rows: np.ndarray, vectors: torch.Tensor) -> torch.Tensor:
        """Return the loss; pairs that share a sentence are not negatives of one another."""
        options, hidden_NN = self.options, None
        if options["same_sentence"] == "mask":
            types_2N = self.rows.types[self.rows.sides(rows)].reshape(2, -1)
            hidden_NN = self.sharing(*on_device(types_2N, vectors.device))
        margin, scale = options["margin"], options["scale"]
        return margin_loss(*vectors.unbind(dim=1), margin=margin, scale=scale, hidden_NN=hidden_NN)
