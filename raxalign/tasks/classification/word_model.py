"""A classifier of sentences or sentence pairs over word vectors that stay as they are, for static
encoders.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from raxalign.caveats import listener
from raxalign.corpora.text.words import tokenize, within_text
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import evaluating
from raxalign.running import in_text
from raxalign.tasks.transfer.model import TaskModel

ROWS = 512
"""Examples that are classified together outside training."""


@dataclass(frozen=True, slots=True)
class TextRow:
    """One example: the language and the words of each of its texts (one or two)."""

    texts: tuple[tuple[str, Sequence[str]], ...]


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


class WordClassifier(TaskModel):
    """Classifier with one hidden layer (ReLU, dropout) over the features of the texts.

    The vector of a text is the mean of its words' vectors, the transforms of its language applied,
    scaled to the length sqrt(H), so that training does not depend on the scale of the vectors.
    Words without a vector are left out; a text without any is zero.
    """

    def __init__(
        self, aligned: AlignedEncoder, shape: tuple[int, int, int], *, dropout: float, seed: int
    ) -> None:
        """`shape`: the number of texts per example, the width of the hidden layer, and the number
        of labels.
        """
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

    def rows(
        self,
        first: Sequence[Sequence[str]],
        second: Sequence[Sequence[str]] | None,
        lang: str,
        second_lang: str | None = None,
    ) -> list[TextRow]:
        """Divides texts into words as corpora are divided (in scripts without blanks, into
        characters).

        Args:
            first: the first texts, divided at blanks.
            second: the texts that follow them (None: there are none).
            lang: the language of the first texts.
            second_lang: the language of the second ones (None: the same).

        Returns:
            one row per example.
        """
        sides = [(lang, first)] + ([] if second is None else [(second_lang or lang, second)])
        divided = []
        for code, texts in sides:
            words = tokenize(code)
            running = [in_text(text, None).text for text in texts]
            divided.append([(code, within_text(words, text)) for text in running])
        return [TextRow(texts) for texts in zip(*divided, strict=True)]

    def lay_out(self, rows: Sequence[TextRow]) -> Sequence[TextRow]:
        """Returns rows as they are: their words are looked up where they are classified."""
        return rows

    def logits(self, rows: Sequence[TextRow]) -> torch.Tensor:
        """Returns logits (rows, labels); gradient flows, dropout follows the mode."""
        states_BF = self.hidden(text_features(self.text_vectors(rows))).relu()
        logits: torch.Tensor = self.head(self.dropout(states_BF))
        return logits

    def forward(self, rows: Sequence[TextRow]) -> torch.Tensor:
        """Returns logits (rows, labels), as `logits` does."""
        return self.logits(rows)

    @torch.no_grad()
    def text_vectors(self, rows: Sequence[TextRow]) -> torch.Tensor:
        """Returns the vectors of the texts (rows, texts, H). While caveats are collected, words
        without a vector are reported outside training.
        """
        n_texts, width = len(rows[0].texts), self.aligned.hidden_size
        spoken: dict[str, list[tuple[int, Sequence[str]]]] = defaultdict(list)
        for b, row in enumerate(rows):
            for t, (lang, words) in enumerate(row.texts):
                spoken[lang].append((b * n_texts + t, words))
        sums_TH = torch.zeros(len(rows) * n_texts, width, device=self.aligned.device)
        for lang, texts in spoken.items():
            found = self.aligned.words([words for _, words in texts], lang)
            places = [place for place, words in texts for _ in words]
            # Absent words are zero, and the length of the sum does not matter.
            sums_TH.index_add_(
                0, torch.tensor(places, device=sums_TH.device).long(), found.vectors_NLH[:, -1]
            )
            if not self.training and (heard := listener()) is not None:
                heard.read(lang, len(places), len(places) - int(found.present_N.sum()))
        units_TH = torch.nn.functional.normalize(sums_TH, dim=-1)
        return (units_TH * math.sqrt(width)).view(len(rows), n_texts, width)

    @torch.no_grad()
    def probabilities(self, rows: Sequence[TextRow]) -> torch.Tensor:
        """Returns probabilities (rows, labels) on the CPU, in input order, in eval mode."""
        with evaluating(self):
            parts = [
                self(rows[start : start + ROWS]).float().softmax(1).cpu()
                for start in range(0, len(rows), ROWS)
            ]
        return torch.cat([torch.empty(0, self.head.out_features), *parts])
