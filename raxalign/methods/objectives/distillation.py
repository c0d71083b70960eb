"""Distillation of sentence vectors (Reimers & Gurevych 2020): the teacher, the loss, and the
objective that feeds it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from raxalign import lazy
from raxalign.encoders.models.sentence_config import SentencePooling
from raxalign.encoders.models.vectors import Spoken
from raxalign.errors import DataError, RaxalignError
from raxalign.methods.objectives.rounding import real_gap
from raxalign.methods.rows.linked_words import PieceSide, side_languages, tokenise
from raxalign.methods.rows.states import pool_sentences, read_states
from raxalign.methods.rows.typed import SentenceRows, pivot_sentences
from raxalign.train.devices import to_device
from raxalign.train.objective import Objective, Step

if TYPE_CHECKING:
    import torch
    from torch import nn

    from raxalign.encoders.models.transformer import TransformerEncoder
else:
    torch = lazy.load("torch")

CACHE_BYTES = 2 << 30
"""Teacher vectors up to this size are computed once and kept in memory; beyond it they are computed
batch by batch.
"""


def distillation_loss(
    src_NH: torch.Tensor, tgt_NH: torch.Tensor, teacher_NH: torch.Tensor, n: int
) -> torch.Tensor:
    """Return the contribution of N of n sentence pairs to the loss: MSE(source, teacher) +
    MSE(pivot, teacher), means over pairs and coordinates (Reimers & Gurevych 2020, Eq. 1).

    Args:
        src_NH: The vectors of the other language.
        tgt_NH: The vectors of the pivot.
        teacher_NH: The teacher's vectors of the pivot.
        n: The number of pairs in the global batch.
    """
    squares: torch.Tensor = (
        real_gap(src_NH, teacher_NH).pow(2).sum() + real_gap(tgt_NH, teacher_NH).pow(2).sum()
    )
    return squares / (n * teacher_NH.shape[1])


def load_teacher(folder: Path, device: str) -> TransformerEncoder:
    """Return a sentence encoder of the Hugging Face kind (safetensors; no masked-LM head needed)
    with its own tokenizer, frozen, in eval mode.

    Of a folder of sentence-transformers the transformer alone is read: neither its pooling nor what
    comes after.
    """
    from transformers import AutoModel, AutoTokenizer

    from raxalign.encoders.models.folder import check_folder
    from raxalign.encoders.models.hub import first_line
    from raxalign.encoders.models.transformer import TransformerEncoder

    check_folder(folder)
    try:
        model = AutoModel.from_pretrained(
            str(folder),
            use_safetensors=True,
            dtype=torch.float32,
            attn_implementation="sdpa",
            trust_remote_code=False,
        )
        tokenizer = AutoTokenizer.from_pretrained(
            str(folder), use_fast=True, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise DataError(
            folder, f"is not an encoder that transformers can open ({first_line(error)})"
        ) from error
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise DataError(
            folder,
            "its tokenizer has no fast form (tokenizer.json)",
            remedy="Convert the tokenizer",
        )
    return TransformerEncoder(model.eval().requires_grad_(requires_grad=False), tokenizer, device)


@dataclass(frozen=True)
class Teacher:
    """An encoder that reads the pivot's sentences, tokenised by itself, and never changes."""

    encoder: TransformerEncoder
    side: PieceSide
    layer: int
    pooling: SentencePooling

    @classmethod
    def of(
        cls,
        encoder: TransformerEncoder,
        folders: list[Path],
        layer: int,
        pooling: SentencePooling,
        max_length: int,
    ) -> Teacher:
        """Return a teacher of the pivot's sentences of some bitexts."""
        side = tokenise(encoder, pivot_sentences(folders), max_length)
        (_, (pivot, _)) = side_languages(folders[0])
        spoken = None if pivot is None else Spoken.of(pivot, len(side))
        return cls(encoder, replace(side, spoken=spoken), layer, pooling)

    def frozen(self) -> Teacher:
        """Return the same with weights of its own, which stay as they are now."""
        model = copy.deepcopy(self.encoder.model).eval().requires_grad_(requires_grad=False)
        return Teacher(
            self.encoder.with_model(model),
            self.side,
            self.layer,
            self.pooling,
        )

    def vectors(self, rows: np.ndarray) -> torch.Tensor:
        """Return the vectors of some sentences, (N, H), without gradient and without dropout."""
        with torch.no_grad(), _evaluating(self.encoder.model):
            return pool_sentences(
                read_states(self.encoder, [(self.side, rows)], (self.layer,)), self.pooling
            )

    def all_vectors(self, rows: np.ndarray) -> torch.Tensor:
        """Return the vectors of many sentences, on the CPU."""
        from raxalign.encoders.models.pieces import token_batches

        vectors_NH = torch.empty(len(rows), self.encoder.hidden_size)
        lengths = self.side.offsets[rows + 1] - self.side.offsets[rows]
        for chosen in token_batches(lengths, self.encoder.batch_tokens):
            vectors_NH[torch.from_numpy(chosen)] = self.vectors(rows[chosen]).float().cpu()
        return vectors_NH


class Distill(Objective):
    """Brings the sentence vectors of both sides to what the teacher makes of the pivot's side."""

    def __init__(
        self,
        encoder: TransformerEncoder,
        corpus: SentenceRows,
        teacher: Teacher,
        layer: int,
        pooling: SentencePooling,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        if teacher.encoder.hidden_size != encoder.hidden_size:
            raise RaxalignError(
                f"distillation: the teacher's vectors have {teacher.encoder.hidden_size}"
                f" coordinates and the encoder's {encoder.hidden_size}. Choose a teacher of the"
                " encoder's width"
            )
        self.module = encoder.model
        self.encoder, self.corpus, self.layer, self.pooling = encoder, corpus, layer, pooling
        _, first, self.sentence = np.unique(
            corpus.tgt_types, return_index=True, return_inverse=True
        )  # the same sentence is read once
        self.cached = 4 * len(first) * encoder.hidden_size <= cache_bytes
        if self.cached:
            self.known_SH = teacher.all_vectors(first)
        else:
            self.teacher = teacher if teacher.encoder is not encoder else teacher.frozen()

    def blocks(self) -> Sequence[nn.Module]:
        """Return the encoder's blocks."""
        return self.encoder.blocks()

    def taught(self, rows: np.ndarray) -> torch.Tensor:
        """Return the teacher's vectors of some rows, (N, H)."""
        if self.cached:
            known_NH = self.known_SH[torch.from_numpy(self.sentence[rows])]
            parameter = next(self.module.parameters())
            return to_device(known_NH.to(parameter.dtype), parameter.device)
        return self.teacher.vectors(rows)

    def loss(self, step: Step, positions: np.ndarray) -> torch.Tensor:
        """Return the contribution of some rows of the global batch."""
        rows = step.rows[positions]
        states = read_states(
            self.encoder, [(self.corpus.src, rows), (self.corpus.tgt, rows)], (self.layer,)
        )
        vectors_SH = pool_sentences(states, self.pooling)
        return distillation_loss(
            vectors_SH[: len(rows)], vectors_SH[len(rows) :], self.taught(rows), len(step.rows)
        )


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
