"""Contrastive losses over aligned words, and the objectives that feed them: linked words among each
other (Wu & Dredze 2020), and among all words of the batch, as the code of AlignFreeze has it (Bakos
et al. 2025).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from raxalign.arrays import offsets_of, ranges
from raxalign.encoders.models.trained_weights import weight_changes
from raxalign.encoders.models.vectors import Pooling
from raxalign.lazy import torch
from raxalign.methods.objectives.whole_batch import WholeBatch, sharing
from raxalign.methods.rows.linked_words import PieceSide, WordRows
from raxalign.methods.rows.states import pool_spans, read_states
from raxalign.train.devices import on_device

if TYPE_CHECKING:
    from torch import nn

    from raxalign.encoders.models.transformer import TransformerEncoder


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


def hidden_words(
    words: tuple[torch.Tensor, torch.Tensor],
    links: tuple[torch.Tensor, torch.Tensor],
    *types: torch.Tensor,
) -> torch.Tensor:
    """Which words (P, W) share a type with a link, or are linked to a word that does.

    `words` are the types of all words as source and as target words, -1 where a word is on the
    other side; `links` the words that each link joins; `types` the types of these.
    """
    hidden_PW = (types[0][:, None] == words[0]) | (types[1][:, None] == words[1])
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


@dataclass(frozen=True)
class ContrastOptions:
    """The options of the methods that the loss reads. `projector_size` None: no projector;
    `reg_weight` 0: no regulariser.
    """

    strong: bool
    layers: tuple[int, ...]
    pooling: Pooling
    temperature: float
    reg_weight: float
    projector_size: int | None
    projector_bias: bool
    mask_same_type: bool


class Contrast(WholeBatch):
    """Draws linked words of the global batch together, and apart from its other words; layers are
    contrasted one by one, and averaged.

    An item is a link: its two vectors at each layer, after the projector (shared by the layers).
    """

    def __init__(
        self, encoder: TransformerEncoder, corpus: WordRows, options: ContrastOptions
    ) -> None:
        self.encoder, self.corpus, self.options = encoder, corpus, options
        self.projector = (
            None
            if options.projector_size is None
            else _projector(encoder, options.projector_size, bias=options.projector_bias)
        )
        self.module = torch.nn.ModuleList(
            [encoder.model] if self.projector is None else [encoder.model, self.projector]
        )
        self.shape = (2, len(options.layers), options.projector_size or encoder.hidden_size)
        self.trained = (
            [p for p in encoder.model.base_model.parameters() if p.requires_grad]
            if options.reg_weight
            else []
        )
        self.origins = [p.detach().clone() for p in self.trained]
        self.loss_unit = max(1.0, options.reg_weight)

    def blocks(self) -> Sequence[nn.Module]:
        """Return the encoder's blocks."""
        return self.encoder.blocks()

    def on(self, corpus: WordRows) -> Self:
        """Return the same objective over other word pairs; it shares the module and its start."""
        other = copy.copy(self)
        other.corpus = corpus
        return other

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Return the number of links of each row, (rows,)."""
        counts: np.ndarray = self.corpus.link_offsets[rows + 1] - self.corpus.link_offsets[rows]
        return counts

    def vectors(self, rows: np.ndarray) -> torch.Tensor:
        """Return the vectors of linked words, (links, 2, L, D)."""
        corpus = self.corpus
        states = read_states(
            self.encoder, [(corpus.src, rows), (corpus.tgt, rows)], self.options.layers
        )
        link, owners = ranges(corpus.link_offsets, rows)
        starts = np.split(states.starts_S, 2)
        sides = ((corpus.src, corpus.link_src), (corpus.tgt, corpus.link_tgt))
        spans = [
            _spans(side, rows, starts[i], words[link], owners)
            for i, (side, words) in enumerate(sides)
        ]
        first, count = (np.concatenate(part) for part in zip(*spans, strict=True))
        vectors_NLH = pool_spans(states.layers, first, count, self.options.pooling)
        if self.projector is not None:
            vectors_NLH = self.projector(vectors_NLH)
        return torch.stack([vectors_NLH[: len(link)], vectors_NLH[len(link) :]], dim=1)

    def batch_loss(self, rows: np.ndarray, vectors: torch.Tensor) -> torch.Tensor:
        """Return the mean over layers; a batch without links has nothing to contrast."""
        if not len(vectors):
            return vectors.sum()
        hidden_PP = None
        if self.options.mask_same_type:
            link, _ = ranges(self.corpus.link_offsets, rows)
            hidden_PP = sharing(
                *(
                    on_device(types[link], vectors.device)
                    for types in (self.corpus.src_types, self.corpus.tgt_types)
                )
            )
        losses = [
            contrastive_loss(
                src_PD,
                tgt_PD,
                temperature=self.options.temperature,
                strong=self.options.strong,
                hidden_PP=hidden_PP,
            )
            for src_PD, tgt_PD in (layer_P2D.unbind(dim=1) for layer_P2D in vectors.unbind(dim=2))
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
            return self.options.reg_weight * drift
        return self.options.reg_weight * parameter_distance(self.trained, self.origins)


class WordContrast(Contrast):
    """Draws linked words together, and apart from all other words of the global batch. An item is a
    word that was read: those of a row's source side first.
    """

    def __init__(
        self, encoder: TransformerEncoder, corpus: WordRows, options: ContrastOptions
    ) -> None:
        super().__init__(encoder, corpus, options)
        self.shape = self.shape[1:]
        self._number()

    def on(self, corpus: WordRows) -> Self:
        """Return the same objective over other word pairs; it shares the module and its start."""
        other = super().on(corpus)
        other._number()
        return other

    def _number(self) -> None:
        """Count the words that were read before each word, for both sides."""
        self.sides = (self.corpus.src, self.corpus.tgt)
        self.read_before = [offsets_of(side.read_words()) for side in self.sides]

    def _counts(self, which: int, rows: np.ndarray) -> np.ndarray:
        """Return how many words of each row were read on one side."""
        words, before = self.sides[which].word_offsets, self.read_before[which]
        counts: np.ndarray = before[words[rows + 1]] - before[words[rows]]
        return counts

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Return the number of words of each row that were read, of both sides, (rows,)."""
        counts: np.ndarray = self._counts(0, rows) + self._counts(1, rows)
        return counts

    def _word_items(
        self, rows: np.ndarray, which: int, words: np.ndarray, owners: np.ndarray
    ) -> np.ndarray:
        """Return the items of words of one side; `owners` are the places of their rows."""
        counts, before = self.counts(rows), self.read_before[which]
        starts = np.cumsum(counts) - counts + (self._counts(0, rows) if which else 0)
        starts = starts - before[self.sides[which].word_offsets[rows]]
        items: np.ndarray = starts[owners] + before[words]
        return items

    def _read_words(
        self, rows: np.ndarray, which: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the words of one side of some rows that were read, the place in `rows` of the row
        of each, and its item.
        """
        side = self.sides[which]
        words, owners = ranges(side.word_offsets, rows)
        read = side.count_W[words] > 0
        words, owners = words[read], owners[read]
        return words, owners, self._word_items(rows, which, words, owners)

    def vectors(self, rows: np.ndarray) -> torch.Tensor:
        """Return the vectors of all words, (words, L, D)."""
        parts = [(side, rows) for side in self.sides]
        states = read_states(self.encoder, parts, self.options.layers)
        first, count, items = [], [], []
        for which, starts in enumerate(np.split(states.starts_S, 2)):
            words, owners, found = self._read_words(rows, which)
            begins, counts = self.sides[which].spans(words)
            first.append(starts[owners] + begins)
            count.append(counts)
            items.append(found)
        vectors_WLH = pool_spans(
            states.layers, np.concatenate(first), np.concatenate(count), self.options.pooling
        )
        if self.projector is not None:
            vectors_WLH = self.projector(vectors_WLH)
        return vectors_WLH[on_device(np.argsort(np.concatenate(items)), vectors_WLH.device)]

    def batch_loss(self, rows: np.ndarray, vectors: torch.Tensor) -> torch.Tensor:
        """Return the mean over layers; a batch without links has nothing to contrast."""
        link, owners = ranges(self.corpus.link_offsets, rows)
        if not len(link):
            return vectors.sum() * 0
        device = vectors.device
        src, tgt = (
            on_device(
                self._word_items(
                    rows, which, side.word_offsets[rows][owners] + words[link], owners
                ),
                device,
            )
            for which, (side, words) in enumerate(
                zip(self.sides, (self.corpus.link_src, self.corpus.link_tgt), strict=True)
            )
        )
        is_src_W = torch.zeros(len(vectors), dtype=torch.bool, device=device)
        is_src_W[on_device(self._read_words(rows, 0)[2], device)] = True
        hidden_PW = None
        if self.options.mask_same_type:
            types = self.corpus.src_types[link], self.corpus.tgt_types[link]
            hidden_PW = hidden_words(
                self._types(rows, len(vectors), device),
                (src, tgt),
                *(on_device(part, device) for part in types),
            )
        losses = [
            word_contrastive_loss(
                layer_WD,
                is_src_W,
                src,
                tgt,
                temperature=self.options.temperature,
                strong=self.options.strong,
                hidden_PW=hidden_PW,
            )
            for layer_WD in vectors.unbind(dim=1)
        ]
        return torch.stack(losses).mean()

    def _types(
        self, rows: np.ndarray, n_words: int, device: torch.device
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the types of all words as source and as target words, -1 on the other side."""
        found = []
        for which, types in enumerate(self.corpus.word_types):
            words, _, items = self._read_words(rows, which)
            types_W = np.full(n_words, -1, np.int64)
            types_W[items] = types[words]
            found.append(on_device(types_W, device))
        return found[0], found[1]


def _projector(encoder: TransformerEncoder, size: int, *, bias: bool) -> torch.nn.Module:
    """Linear without bias - ReLU - linear; where it starts is chance."""
    width = encoder.hidden_size
    layers = [
        torch.nn.Linear(width, width, bias=False),
        torch.nn.ReLU(),
        torch.nn.Linear(width, size, bias=bias),
    ]
    return torch.nn.Sequential(*layers).to(next(encoder.model.parameters()))


def _spans(
    side: PieceSide, rows: np.ndarray, starts: np.ndarray, words: np.ndarray, owners: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(first piece, number of pieces) of words of some rows that begin at `starts`."""
    first, count = side.spans(side.word_offsets[rows][owners] + words)
    return starts[owners] + first, count
