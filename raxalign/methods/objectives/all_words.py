"""The contrast of linked words with all words of the batch, linked or not, as the code of
AlignFreeze has it (Bakos et al. 2025).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from raxalign import lazy
from raxalign.arrays import offsets_of, ranges
from raxalign.methods.objectives.word_contrast import Contrast, ContrastOptions, sharing
from raxalign.methods.rows.linked_words import PieceSide
from raxalign.methods.rows.states import pool_spans, read_states
from raxalign.methods.rows.typed import WordRows
from raxalign.train.devices import on_device

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.models.transformer import TransformerEncoder
else:
    torch = lazy.load("torch")


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


class _Numbering:
    """The words of one side that were read, numbered within their rows."""

    def __init__(self, side: PieceSide) -> None:
        self.side = side
        self.before_W = offsets_of(side.read_words())

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Return how many words of each row were read."""
        counts: np.ndarray = (
            self.before_W[self.side.word_offsets[rows + 1]]
            - self.before_W[self.side.word_offsets[rows]]
        )
        return counts

    def words(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (word, place in `rows`) of the words of some rows that were read."""
        words, owners = ranges(self.side.word_offsets, rows)
        read = self.side.count_W[words] > 0
        return words[read], owners[read]

    def ranks(self, words: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the numbers, within their rows, of words of these rows."""
        ranks: np.ndarray = self.before_W[words] - self.before_W[self.side.word_offsets[rows]]
        return ranks


class WordContrast(Contrast):
    """Draws linked words together, and apart from all other words of the global batch. An item is a
    word: those of a row's source side first.
    """

    def __init__(
        self, encoder: TransformerEncoder, corpus: WordRows, options: ContrastOptions
    ) -> None:
        super().__init__(encoder, corpus, options)
        self.shape = self.shape[1:]
        self.sides = (_Numbering(corpus.src), _Numbering(corpus.tgt))

    def on(self, corpus: WordRows) -> Self:
        """Return the same objective over other word pairs; it shares the module and its start."""
        other = super().on(corpus)
        other.sides = (_Numbering(corpus.src), _Numbering(corpus.tgt))
        return other

    def counts(self, rows: np.ndarray) -> np.ndarray:
        """Return the number of words of each row that were read, of both sides, (rows,)."""
        src, tgt = self.sides
        counts: np.ndarray = src.counts(rows) + tgt.counts(rows)
        return counts

    def vectors(self, rows: np.ndarray) -> torch.Tensor:
        """Return the vectors of all words, (words, L, D)."""
        states = read_states(
            self.encoder, [(numbering.side, rows) for numbering in self.sides], self.options.layers
        )
        first, count, places = [], [], []
        for which, (numbering, starts) in enumerate(
            zip(self.sides, np.split(states.starts_S, 2), strict=True)
        ):
            words, owners = numbering.words(rows)
            begins, counts = numbering.side.spans(words)
            first.append(starts[owners] + begins)
            count.append(counts)
            places.append(self._items_of(rows, which, words, owners))
        vectors_WLH = pool_spans(
            states.layers, np.concatenate(first), np.concatenate(count), self.options.pooling
        )
        if self.projector is not None:
            vectors_WLH = self.projector(vectors_WLH)
        return vectors_WLH[on_device(np.argsort(np.concatenate(places)), vectors_WLH.device)]

    def batch_loss(self, rows: np.ndarray, vectors: torch.Tensor) -> torch.Tensor:
        """Return the mean over layers; a batch without links has nothing to contrast."""
        link, owners = ranges(self.corpus.link_offsets, rows)
        if not len(link):
            return vectors.sum() * 0
        ends = (self.corpus.link_src[link], self.corpus.link_tgt[link])
        links = [
            self._linked(rows, which, words, owners, vectors.device)
            for which, words in enumerate(ends)
        ]
        is_src_W = torch.zeros(len(vectors), dtype=torch.bool, device=vectors.device)
        words, places = self.sides[0].words(rows)
        is_src_W[on_device(self._items_of(rows, 0, words, places), vectors.device)] = True
        hidden_PW = (
            self._hidden(rows, link, (links[0], links[1]), len(vectors))
            if self.options.mask_same_type
            else None
        )
        losses = [
            word_contrastive_loss(
                layer_WD,
                is_src_W,
                links[0],
                links[1],
                temperature=self.options.temperature,
                strong=self.options.strong,
                hidden_PW=hidden_PW,
            )
            for layer_WD in vectors.unbind(dim=1)
        ]
        return torch.stack(losses).mean()

    def _linked(
        self,
        rows: np.ndarray,
        which: int,
        positions: np.ndarray,
        owners: np.ndarray,
        device: torch.device,
    ) -> torch.Tensor:
        """The items of the words at some positions of their rows."""
        words = self.sides[which].side.word_offsets[rows][owners] + positions
        return on_device(self._items_of(rows, which, words, owners), device)

    def _items_of(
        self, rows: np.ndarray, which: int, words: np.ndarray, owners: np.ndarray
    ) -> np.ndarray:
        """The items of words of one side, where those of `rows` lie one after the other."""
        starts = (
            np.cumsum(self.counts(rows))
            - self.counts(rows)
            + (self.sides[0].counts(rows) if which else 0)
        )
        items: np.ndarray = starts[owners] + self.sides[which].ranks(words, rows[owners])
        return items

    def _hidden(
        self,
        rows: np.ndarray,
        link: np.ndarray,
        links: tuple[torch.Tensor, torch.Tensor],
        n_words: int,
    ) -> torch.Tensor:
        """Which words share a type with which link, through their own links too."""
        device, types_W = links[0].device, []
        for which, types in enumerate(self.corpus.word_types):
            words, owners = self.sides[which].words(rows)
            own_W = np.full(n_words, -1, np.int64)
            own_W[self._items_of(rows, which, words, owners)] = types[words]
            types_W.append(on_device(own_W, device))
        of_links = (
            on_device(types[link], device)
            for types in (self.corpus.src_types, self.corpus.tgt_types)
        )
        return hidden_words((types_W[0], types_W[1]), links, *of_links)
