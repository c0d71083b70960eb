"""Contrastive losses over aligned words, and the objectives that feed them: linked words among each
other (Wu & Dredze 2020), and among all words of the batch, as the code of AlignFreeze has it (Bakos
et al. 2025).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from raxalign.encoders.models.trained_weights import weight_changes
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Spans, parse_layers
from raxalign.methods.objectives.whole_batch import WholeBatch, sharing
from raxalign.methods.rows.sentences import Bitexts
from raxalign.methods.rows.states import read_states
from raxalign.train.devices import on_device

PROJECTED = 128
"""Coordinates that the projector puts out."""


def contrastive_loss(
    src_PD: torch.Tensor,
    tgt_PD: torch.Tensor,
    *,
    temperature: float,
    strong: bool,
    hidden_PP: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the mean over the words of both sides of -log softmax of the cosine with the
    translation, over temperature, among the candidates.

    Candidates are the words of the other side (weak: the mean of both directions), or those of both
    sides without the word itself (strong); Wu & Dredze (2020, §3). The words of link j are not
    candidates for those of link i (i != j) where `hidden_PP[i, j]`.
    """
    src_PD, tgt_PD = (torch.nn.functional.normalize(part, dim=-1) for part in (src_PD, tgt_PD))
    gold_P = torch.arange(len(src_PD), device=src_PD.device)
    itself_PP = torch.eye(len(src_PD), dtype=torch.bool, device=src_PD.device)
    across_PP = src_PD @ tgt_PD.T / temperature
    if hidden_PP is not None:
        across_PP = across_PP.masked_fill(hidden_PP & ~itself_PP, -torch.inf)
    logits = torch.cat([across_PP, across_PP.T])
    if strong:
        left_out_PP = itself_PP if hidden_PP is None else itself_PP | hidden_PP
        within = [
            (side_PD @ side_PD.T / temperature).masked_fill(left_out_PP, -torch.inf)
            for side_PD in (src_PD, tgt_PD)
        ]
        logits = torch.cat([logits, torch.cat(within)], dim=1)
    loss: torch.Tensor = torch.nn.functional.cross_entropy(logits, gold_P.repeat(2))
    return loss


def word_contrastive_loss(
    words_WD: torch.Tensor,
    is_src_W: torch.Tensor,
    src_P: torch.Tensor,
    tgt_P: torch.Tensor,
    *,
    temperature: float,
    strong: bool,
    hidden_PW: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the mean over both words of all links of -log softmax of the cosine with the other
    one, over temperature, among the candidates.

    Candidates are all words of the other side (weak), or all words but the word itself (strong).
    Link j joins the words `src_P[j]` and `tgt_P[j]`. Word w is not a candidate for those of link j
    where `hidden_PW[j, w]`, unless it is the linked one. Where every word has one link this is
    `contrastive_loss`.
    """
    unit_WD = torch.nn.functional.normalize(words_WD, dim=-1)
    asked, gold = torch.cat([src_P, tgt_P]), torch.cat([tgt_P, src_P])
    logits = unit_WD[asked] @ unit_WD.T / temperature
    numbers_W = torch.arange(len(words_WD), device=words_WD.device)
    left_out = asked[:, None] == numbers_W if strong else is_src_W[asked][:, None] == is_src_W
    if hidden_PW is not None:
        left_out = left_out | (hidden_PW.repeat(2, 1) & (gold[:, None] != numbers_W))
    loss: torch.Tensor = torch.nn.functional.cross_entropy(
        logits.masked_fill(left_out, -torch.inf), gold
    )
    return loss


def hidden_words(types_W: torch.Tensor, *links: torch.Tensor) -> torch.Tensor:
    """Which words (P, W) share a type with a link, or are linked to a word that does. The P links
    join the words of the two numbers `links`; the sides have no type in common.
    """
    types = [types_W[ends_P] for ends_P in links]
    hidden_PW = (types[0][:, None] == types_W) | (types[1][:, None] == types_W)
    shared_PP = sharing(*types).to(torch.float32)
    through_PW = torch.zeros(hidden_PW.shape, device=hidden_PW.device)
    for ends_P in links:
        through_PW.index_add_(1, ends_P, shared_PP)
    return hidden_PW | (through_PW > 0)


class _Distance(torch.autograd.Function):
    """The distance of parameters from where they were; its gradient is 0 where it is 0. Keeps no
    copy of the differences.
    """

    @staticmethod
    def forward(
        ctx: Any, origins: Sequence[torch.Tensor], *parameters: torch.Tensor
    ) -> torch.Tensor:
        norms = [
            torch.linalg.vector_norm(p - origin)
            for p, origin in zip(parameters, origins, strict=True)
        ]
        distance: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms))
        ctx.origins, ctx.parameters, ctx.distance = origins, parameters, distance
        return distance.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        scale = torch.where(
            ctx.distance > 0, gradients[0] / ctx.distance, torch.zeros_like(ctx.distance)
        )
        return None, *(
            (p.detach() - origin).mul_(scale)
            for p, origin in zip(ctx.parameters, ctx.origins, strict=True)
        )


def parameter_distance(
    parameters: Sequence[torch.Tensor], origins: Sequence[torch.Tensor]
) -> torch.Tensor:
    """sqrt(sum ||θ - θ0||²): the norm, not its square (Wu & Dredze 2020, Eq. 5)."""
    return _Distance.apply(origins, *parameters)  # type: ignore[no-any-return,no-untyped-call]


class Contrast(WholeBatch):
    """Draws linked words of the global batch together, and apart from its other words; layers are
    contrasted one by one, and averaged. `options` are the resolved params of the method.

    An item is a link: its two vectors at each layer, after the projector (shared by the layers).
    """

    def __init__(
        self,
        encoder: TransformerEncoder,
        bitexts: Bitexts,
        options: Mapping[str, Any],
        *,
        strong: bool,
    ) -> None:
        self.encoder, self.rows, self.options, self.strong = encoder, bitexts, options, strong
        self.layers = parse_layers(options["layers"], encoder.n_layers)
        self.projector = _projector(encoder, bias=options["projector_bias"])
        self.module = torch.nn.ModuleList([encoder.model, self.projector])
        self.shape = (2, len(self.layers), PROJECTED)
        self.weight = options["lambda"] if options["regularizer"] == "parameters" else 0.0
        parameters = encoder.model.base_model.parameters() if self.weight else ()
        self.trained = [p for p in parameters if p.requires_grad]
        self.origins = [p.detach().clone() for p in self.trained]
        self.loss_unit = max(1.0, self.weight)

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Return the number of links of each row, (rows,)."""
        return np.asarray(np.diff(self.rows.links.offsets)[rows])

    def vectors(self, rows: np.ndarray) -> torch.Tensor:
        """Return the vectors of linked words, (links, 2, L, D)."""
        owners, src, tgt = self.rows.linked(rows)
        words, owners = np.concatenate([src, tgt]), np.concatenate([owners, owners + len(rows)])
        vectors = self.read(rows, words, owners)
        return torch.stack([vectors[: len(src)], vectors[len(src) :]], dim=1)

    def read(self, rows: np.ndarray, words: np.ndarray, owners: np.ndarray) -> torch.Tensor:
        """Return the vectors (N, L, D) of words of some rows, by their numbers and by the places of
        their sentences: first those of all source sides.
        """
        bitexts: Bitexts = self.rows
        sentences = bitexts.sentences
        states = read_states(self.encoder, sentences, bitexts.sides(rows), self.layers)
        first, count = sentences.spans(words)
        first = states.starts_S[owners] + first
        vectors_NLH = Spans.of(first, count, self.options["pooling"]).pool(states.layers)
        projected: torch.Tensor = self.projector(vectors_NLH)
        return projected

    def batch_loss(self, rows: np.ndarray, vectors: torch.Tensor) -> torch.Tensor:
        """Return the mean over layers; a batch without links has nothing to contrast."""
        if not len(vectors):
            return vectors.sum()
        hidden_PP = None
        if self.options["same_type"] == "mask":
            types, (_, *linked) = self.rows.types, self.rows.linked(rows)
            hidden_PP = sharing(*(on_device(types[words], vectors.device) for words in linked))
        how: Any = {"temperature": self.options["temperature"], "strong": self.strong}
        losses = [
            contrastive_loss(*layer_P2D.unbind(dim=1), **how, hidden_PP=hidden_PP)
            for layer_P2D in vectors.unbind(dim=2)
        ]
        return torch.stack(losses).mean()

    def extra(self) -> torch.Tensor | None:
        """λ times how far the trained weights are from where they began."""
        if not self.trained:
            return None
        if changes := weight_changes(self.encoder.model):
            # Adapters are what is trained, but the weights that they change are what is held.
            norms = torch.stack([torch.linalg.vector_norm(change) for change in changes])
            drift: torch.Tensor = torch.linalg.vector_norm(norms)
            return self.weight * drift
        return self.weight * parameter_distance(self.trained, self.origins)


class WordContrast(Contrast):
    """Draws linked words together, and apart from all other words of the global batch. An item is a
    word that was read: those of a row's source side first.
    """

    def __init__(self, *given: Any, strong: bool) -> None:
        super().__init__(*given, strong=strong)
        self.shape = self.shape[1:]

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Return the number of words of each row that were read, of both sides, (rows,)."""
        _, owners = self.rows.sentences.read_words(self.rows.sides(rows))
        return np.bincount(owners % len(rows), minlength=len(rows))

    def items(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the words of some rows, and which of them the source side has."""
        sides = np.stack([self.rows.src_P[rows], self.rows.tgt_P[rows]], axis=1).reshape(-1)
        words, owners = self.rows.sentences.read_words(sides)
        return words, owners % 2 == 0

    def vectors(self, rows: np.ndarray) -> torch.Tensor:
        """Return the vectors of all words, (words, L, D)."""
        words, owners = self.rows.sentences.read_words(self.rows.sides(rows))
        vectors_WLH = self.read(rows, words, owners)
        order = np.argsort(owners % max(len(rows), 1), kind="stable")
        return vectors_WLH[on_device(order, vectors_WLH.device)]

    def batch_loss(self, rows: np.ndarray, vectors: torch.Tensor) -> torch.Tensor:
        """Return the mean over layers; a batch without links has nothing to contrast."""
        _, *ends = self.rows.linked(rows)
        if not len(ends[0]):
            return vectors.sum() * 0
        (words, is_src), device = self.items(rows), vectors.device
        order = np.argsort(words)
        src, tgt = (on_device(order[np.searchsorted(words[order], part)], device) for part in ends)
        hidden_PW = None
        if self.options["same_type"] == "mask":
            hidden_PW = hidden_words(on_device(self.rows.types[words], device), src, tgt)
        how: Any = {"temperature": self.options["temperature"], "strong": self.strong}
        linked = (on_device(is_src, device), src, tgt)
        losses = [
            word_contrastive_loss(layer_WD, *linked, **how, hidden_PW=hidden_PW)
            for layer_WD in vectors.unbind(dim=1)
        ]
        return torch.stack(losses).mean()


def _projector(encoder: TransformerEncoder, *, bias: bool) -> torch.nn.Module:
    """Linear without bias - ReLU - linear; where it starts is chance."""
    width = encoder.hidden_size
    layers = [
        torch.nn.Linear(width, width, bias=False),
        torch.nn.ReLU(),
        torch.nn.Linear(width, PROJECTED, bias=bias),
    ]
    return torch.nn.Sequential(*layers).to(next(encoder.model.parameters()))
