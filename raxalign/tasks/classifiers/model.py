"""Classifiers: a linear layer on a transformer's [CLS], and one over static word vectors."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from raxalign.corpora.text.words import tokenize, within_text
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.model_inputs import summary_places
from raxalign.encoders.models.pieces import PieceRow, token_batches
from raxalign.encoders.models.transformer import evaluating
from raxalign.running import in_text
from raxalign.tasks.classifiers.examples import Texts
from raxalign.tasks.transfer.lazy_lists import PreparedTexts, compact_rows, prepared_rows
from raxalign.tasks.transfer.model import (
    FineTuned,
    RowLayout,
    TaskModel,
    lay_out,
    states_of,
    summed_loss,
)
from raxalign.train.devices import on_device
from raxalign.train.group import shared

ROWS = 512
"""Examples that are classified together outside training, over word vectors."""


class Classifier(TaskModel):
    """What both classifiers do. `rows` divides texts, or first and second texts, in their
    languages, one row per example; `logits` (rows, labels) have a gradient, `probabilities` are on
    the CPU, in eval mode.
    """

    rows: Any
    probabilities: Any

    def loss(self, rows: Any, labels: np.ndarray) -> torch.Tensor:
        """Return the summed cross-entropy of examples."""
        return summed_loss(self.logits(rows), labels)


@dataclass(frozen=True)
class ClassifiedRows:
    """Rows as the encoder reads them, and the place of the piece of each that the head reads."""

    layout: RowLayout
    places_B: np.ndarray


class SentenceClassifier(Classifier, FineTuned):
    """Classifier whose head reads [CLS], or the last piece of a decoder; the transforms of that
    piece's language apply to it.
    """

    @property
    def width(self) -> int:
        """Return how many labels there are."""
        return self.head.out_features

    def rows(self, texts: Sequence[Texts], langs: Sequence[str]) -> Sequence[PieceRow]:
        """Divide sentences, or the first and second sentences of pairs, into pieces, one row per
        example; of a pair that is too long the longer sentence is cut first.
        """
        made = [side for side in texts if isinstance(side, PreparedTexts)]
        if made:
            return prepared_rows(self.encoder, made)
        plain = [side for side in texts if not isinstance(side, PreparedTexts)]
        second = plain[1] if plain[1:] else None
        return compact_rows(self.encoder, plain[0], langs[0], second, langs[-1])

    def lay_out(self, rows: Sequence[PieceRow]) -> ClassifiedRows:
        """Return rows as the classifier reads them. The device has no part in it."""
        found = lay_out(self.aligned, rows)
        places_B = summary_places(self.encoder.model, found.starts_S, found.lengths_S)
        return ClassifiedRows(found, places_B)

    def logits(self, rows: ClassifiedRows) -> torch.Tensor:
        """Return logits (rows, labels); gradient flows, dropout follows the mode."""
        states_FH = states_of(self.aligned, rows.layout)
        read_BH = states_FH[on_device(rows.places_B, states_FH.device)]
        logits: torch.Tensor = self.head(self.dropout(read_BH))
        return logits

    @torch.no_grad()
    def probabilities(self, rows: Sequence[PieceRow]) -> torch.Tensor:
        """Return probabilities (rows, labels) on the CPU, in input order; eval mode."""

        def of_batch(chosen: np.ndarray) -> torch.Tensor:
            logits: torch.Tensor = self([rows[i] for i in chosen])
            return logits.float().softmax(1).cpu()

        found = torch.empty(len(rows), self.width)
        batches = token_batches([len(row) for row in rows], self.encoder.batch_tokens)
        with evaluating(self):
            for chosen, part in shared(batches, of_batch):
                found[torch.from_numpy(chosen)] = part
        return found


TextRow = tuple[tuple[str, Sequence[str]], ...]
"""The language and the words of each text of an example (one or two)."""


def text_features(texts_BTH: torch.Tensor) -> torch.Tensor:
    """The features of B examples of T texts: the vector of a single text (B, H); of two texts p and
    h, [p; h; |p - h|; p * h] (B, 4H).

    >>> text_features(torch.tensor([[[1.0, 2.0], [3.0, 1.0]]])).tolist()
    [[1.0, 2.0, 3.0, 1.0, 2.0, 1.0, 3.0, 2.0]]
    """
    if texts_BTH.shape[1] == 1:
        return texts_BTH[:, 0]
    p_BH, h_BH = texts_BTH.unbind(1)
    return torch.cat([p_BH, h_BH, (p_BH - h_BH).abs(), p_BH * h_BH], dim=1)


class WordClassifier(Classifier):
    """Classifier with one hidden layer (ReLU, dropout) over the features of the texts.

    The vector of a text is the mean of its words' vectors, the transforms of its language applied,
    scaled to the length sqrt(H), so that training does not depend on the scale of the vectors.
    Words without a vector are left out; a text without any is zero.
    """

    def __init__(
        self, aligned: AlignedEncoder, shape: tuple[int, int, int], *, dropout: float, seed: int
    ) -> None:
        """`shape`: texts per example, width of the hidden layer, labels."""
        super().__init__()
        n_texts, hidden, n_outputs = shape
        self.aligned = aligned
        self.hidden = nn.Linear(aligned.hidden_size * (1 if n_texts == 1 else 4), hidden)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden, n_outputs)
        generator = torch.Generator().manual_seed(seed)
        for layer in (self.hidden, self.head):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)
        self.to(aligned.device)

    def rows(self, texts: Sequence[Texts], langs: Sequence[str]) -> list[TextRow]:
        """Divide texts, or first and second texts, into words as corpora are divided (in scripts
        without blanks, into characters), one row per example.
        """
        divided = []
        for code, side in zip(langs, texts, strict=False):
            assert not isinstance(side, PreparedTexts), "only tokenizers make pieces"
            words = tokenize(code)
            running = [in_text(text, None).text for text in side]
            divided.append([(code, within_text(words, text)) for text in running])
        return list(zip(*divided, strict=True))

    def lay_out(self, rows: Sequence[TextRow]) -> Sequence[TextRow]:
        """Return rows as they are: their words are looked up where they are classified."""
        return rows

    def logits(self, rows: Sequence[TextRow]) -> torch.Tensor:
        """Return logits (rows, labels); gradient flows, dropout follows the mode."""
        states_BF = self.hidden(text_features(self.text_vectors(rows))).relu()
        logits: torch.Tensor = self.head(self.dropout(states_BF))
        return logits

    @torch.no_grad()
    def text_vectors(self, rows: Sequence[TextRow]) -> torch.Tensor:
        """Return the vectors of the texts (rows, texts, H)."""
        n_texts, width = len(rows[0]), self.aligned.hidden_size
        spoken: dict[str, list[tuple[int, Sequence[str]]]] = defaultdict(list)
        for b, row in enumerate(rows):
            for t, (lang, words) in enumerate(row):
                spoken[lang].append((b * n_texts + t, words))
        sums_TH = torch.zeros(len(rows) * n_texts, width, device=self.aligned.device)
        for lang, texts in spoken.items():
            found = self.aligned.words([words for _, words in texts], lang)
            places = [place for place, words in texts for _ in words]
            # Absent words are zero, and the length of the sum does not matter.
            sums_TH.index_add_(
                0, torch.tensor(places, device=sums_TH.device).long(), found.vectors_NLH[:, -1]
            )
        units_TH = torch.nn.functional.normalize(sums_TH, dim=-1)
        return (units_TH * math.sqrt(width)).view(len(rows), n_texts, width)

    @torch.no_grad()
    def probabilities(self, rows: Sequence[TextRow]) -> torch.Tensor:
        """Return probabilities (rows, labels) on the CPU, in input order, in eval mode."""
        with evaluating(self):
            parts = [
                self(rows[start : start + ROWS]).float().softmax(1).cpu()
                for start in range(0, len(rows), ROWS)
            ]
        return torch.cat([torch.empty(0, self.head.out_features), *parts])
