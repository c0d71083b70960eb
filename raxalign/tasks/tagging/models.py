"""The two taggers: a linear layer on a fine-tuned encoder, and a BiLSTM with a CRF on features of a
frozen one.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import nn

from raxalign.encoders.models.pieces import PieceRow, token_batches
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating
from raxalign.errors import RaxalignError
from raxalign.tasks.tagging.crf import ConditionedCrf, StaticCrf
from raxalign.tasks.tagging.feature_layers import feature_layers
from raxalign.tasks.tagging.features import extract
from raxalign.tasks.tagging.placed import Placed
from raxalign.tasks.transfer.compact_rows import compact_rows
from raxalign.tasks.transfer.model import FineTuned
from raxalign.tasks.transfer.row_states import RowLayout, lay_out, states_of
from raxalign.train.devices import on_device, to_device
from raxalign.train.sharing import shared

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.tasks.tagging.params import TaggingSettings


class Tagger(Protocol):
    """Contract of a tagger for training and evaluation; labels are numbers."""

    def place(self, sentences: Sequence[Sequence[str]], lang: str) -> Placed:
        """The sentences as the tagger reads them."""

    def placed(self, rows: Sequence[PieceRow]) -> Placed:
        """Sentences that are divided into pieces, as the tagger reads them."""

    def loss(
        self, placed: Placed, chosen: np.ndarray, labels: Sequence[np.ndarray]
    ) -> torch.Tensor:
        """The summed loss of the sentences `chosen`; `labels[i]` are those of the words
        ``placed.words[i]``. Each has one word at least.
        """

    def units(self, placed: Placed, chosen: np.ndarray) -> int:
        """How many summands that loss has."""

    def predict(self, placed: Placed) -> list[np.ndarray]:
        """The label of every word, -1 where there is none; eval mode."""

    def save(self, file: Path) -> None:
        """Write the trained tensors."""

    def load(self, file: Path) -> None:
        """Take the tensors that `save` wrote."""


@dataclass(frozen=True)
class TaggedRows:
    """Sentences as the encoder reads them, the places of their words' first pieces in its states,
    and the labels of these words (None: they are not known).
    """

    layout: RowLayout
    places_W: np.ndarray
    gold_W: np.ndarray | None


class LinearTagger(FineTuned):
    """Labels from the last layer's vector of a word's first piece; the loss is the cross-entropy of
    words.
    """

    def place(self, sentences: Sequence[Sequence[str]], lang: str) -> Placed:
        """The pieces; nothing is computed yet."""
        return self.placed(compact_rows(self.encoder, sentences, lang))

    def placed(self, rows: Sequence[PieceRow]) -> Placed:
        """The words of the pieces."""
        return Placed.of(rows)

    def lay_out(
        self, placed: Placed, chosen: np.ndarray, labels: Sequence[np.ndarray] | None = None
    ) -> TaggedRows:
        """The sentences `chosen` as the tagger reads them, with the labels of their words where
        they are known. The device has no part in it.
        """
        found = lay_out(self.aligned, [placed.rows[i] for i in chosen])
        rows = np.repeat(np.arange(len(chosen)), [len(placed.firsts[i]) for i in chosen])
        columns = np.concatenate([placed.firsts[i] for i in chosen])
        gold = None if labels is None else np.concatenate([labels[i] for i in chosen])
        return TaggedRows(found, found.starts_S[rows] + columns, gold)

    def logits(self, rows: TaggedRows) -> torch.Tensor:
        """(words of all sentences, labels), one sentence after the other."""
        found = states_of(self.aligned, rows.layout)
        logits: torch.Tensor = self.head(self.dropout(found.at(rows.places_W)))
        return logits

    def loss_of(self, rows: TaggedRows) -> torch.Tensor:
        """The summed cross-entropy of all words, whose labels are known."""
        assert rows.gold_W is not None
        logits = self.logits(rows)
        gold = on_device(rows.gold_W, logits.device)
        return nn.functional.cross_entropy(logits, gold, reduction="sum")

    def loss(
        self, placed: Placed, chosen: np.ndarray, labels: Sequence[np.ndarray]
    ) -> torch.Tensor:
        """The summed cross-entropy of all words."""
        return self.loss_of(self.lay_out(placed, chosen, labels))

    def units(self, placed: Placed, chosen: np.ndarray) -> int:
        """Words."""
        return sum(len(placed.words[i]) for i in chosen)

    @torch.no_grad()
    def predict(self, placed: Placed) -> list[np.ndarray]:
        """The most probable label of each word on its own."""

        def of_batch(chosen: np.ndarray) -> np.ndarray:
            return self.logits(self.lay_out(placed, chosen)).argmax(1).cpu().numpy()

        found = _nothing(placed)
        batches = token_batches([len(row) for row in placed.rows], self.encoder.batch_tokens)
        with evaluating(self):
            for chosen, labels in shared(batches, of_batch):
                ends = np.cumsum([len(placed.words[i]) for i in chosen])
                for i, part in zip(chosen, np.split(labels, ends[:-1]), strict=True):
                    found[i][placed.words[i]] = part
        return found


class BilstmCrf(nn.Module):
    """Labels from a BiLSTM over all pieces and a CRF over the words' first pieces; the encoder
    below is frozen and not part of the module.

    The loss is the negative log-likelihood of sentences. Features are computed once for what
    `place` is given.
    """

    def __init__(
        self, aligned: AlignedEncoder, n_labels: int, settings: TaggingSettings, seed: int
    ) -> None:
        super().__init__()
        if not isinstance(aligned.encoder, TransformerEncoder):
            raise RaxalignError("only a transformer has features of pieces")
        self.encoder = copy.copy(aligned.encoder)
        self.encoder.max_positions = min(self.encoder.max_positions, settings.max_length)
        self.aligned = replace(aligned, encoder=self.encoder)
        self.layers = feature_layers(settings.layers, aligned.n_layers)
        crf = ConditionedCrf if settings.crf == "conditioned" else StaticCrf
        between = settings.dropout if settings.lstm_layers > 1 else 0.0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.input_dropout, self.dropout = (
                nn.Dropout(settings.input_dropout),
                nn.Dropout(settings.dropout),
            )
            self.lstm = nn.LSTM(
                aligned.hidden_size,
                settings.hidden,
                settings.lstm_layers,
                batch_first=True,
                bidirectional=True,
                dropout=between,
            )
            self.crf = crf(2 * settings.hidden, n_labels)
        self.to(aligned.device)

    def place(self, sentences: Sequence[Sequence[str]], lang: str) -> Placed:
        """The pieces with their features."""
        return self.placed(compact_rows(self.encoder, sentences, lang))

    def placed(self, rows: Sequence[PieceRow]) -> Placed:
        """The words of the pieces, and the features of these."""
        return Placed.of(rows, extract(self.aligned, rows, self.layers))

    def _states(self, placed: Placed, chosen: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """States of the words (B, W, 2 hidden) and which of them there are (B, W)."""
        assert placed.features is not None
        vectors_BTH, lengths = placed.features.padded(chosen)
        dtype = next(self.lstm.parameters()).dtype
        inputs = self.input_dropout(to_device(vectors_BTH.to(dtype), self.aligned.device))
        packed = nn.utils.rnn.pack_padded_sequence(
            inputs, lengths, batch_first=True, enforce_sorted=False
        )
        states_BTH = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]
        counts = np.array([len(placed.firsts[i]) for i in chosen])
        mask_BW = np.arange(max(counts.max(), 1)) < counts[:, None]
        index_BW = np.zeros(mask_BW.shape, dtype=np.int64)
        index_BW[mask_BW] = np.concatenate([placed.firsts[i] for i in chosen])
        device = states_BTH.device
        gather = on_device(index_BW, device)[..., None].expand(-1, -1, states_BTH.shape[-1])
        return self.dropout(states_BTH.gather(1, gather)), on_device(mask_BW, device)

    def loss(
        self, placed: Placed, chosen: np.ndarray, labels: Sequence[np.ndarray]
    ) -> torch.Tensor:
        """The summed negative log-likelihood of the sentences."""
        states, mask_BW = self._states(placed, chosen)
        gold_BW = np.zeros(mask_BW.shape, np.int64)
        for row, i in enumerate(chosen):
            gold_BW[row, : len(labels[i])] = labels[i]
        return self.crf.losses(states, on_device(gold_BW, mask_BW.device), mask_BW).sum()

    def units(self, placed: Placed, chosen: np.ndarray) -> int:  # noqa: ARG002
        """Sentences."""
        return len(chosen)

    @torch.no_grad()
    def predict(self, placed: Placed) -> list[np.ndarray]:
        """The most probable labels of each sentence."""
        found = _nothing(placed)
        some = np.array([i for i, words in enumerate(placed.words) if len(words)], dtype=np.int64)
        batches = token_batches([len(placed.rows[i]) for i in some], self.encoder.batch_tokens)

        def of_batch(part: np.ndarray) -> list[list[int]]:
            return self.crf.decode(*self._states(placed, some[part]))

        with evaluating(self):
            for part, decoded in shared(batches, of_batch):
                for i, labels in zip(some[part], decoded, strict=True):
                    found[i][placed.words[i]] = labels
        return found

    def save(self, file: Path) -> None:
        """Write the tagger's tensors (safetensors)."""
        from safetensors.torch import save_file

        save_file(
            {
                name: tensor.detach().cpu().clone().contiguous()
                for name, tensor in self.state_dict().items()
            },
            file,
        )

    def load(self, file: Path) -> None:
        """Take the tensors that `save` wrote. Raises `RaxalignError` where they are another
        tagger's.
        """
        from safetensors.torch import load_file

        tensors, own = load_file(file), self.state_dict()
        wrong = [
            name
            for name in sorted(tensors.keys() | own.keys())
            if getattr(tensors.get(name), "shape", 0) != getattr(own.get(name), "shape", 1)
        ]
        if wrong:
            raise RaxalignError(
                f"{file}: was trained on another encoder, or with other options: {wrong[:3]} differ"
            )
        self.load_state_dict(tensors)


def _nothing(placed: Placed) -> list[np.ndarray]:
    return [np.full(row.n_words, -1, dtype=np.int64) for row in placed.rows]


def make_tagger(
    settings: TaggingSettings, aligned: AlignedEncoder, n_labels: int, seed: int
) -> LinearTagger | BilstmCrf:
    """The tagger that the settings ask for, untrained."""
    if settings.tagger == "linear":
        return LinearTagger(
            aligned, n_labels, dropout=settings.dropout, max_length=settings.max_length, seed=seed
        )
    return BilstmCrf(aligned, n_labels, settings, seed)
