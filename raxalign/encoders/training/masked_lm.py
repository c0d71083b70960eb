"""Masked language modelling of a small BERT from nothing (Devlin et al. 2019: 15 % of pieces; of
these 80 % masked, 10 % random, 10 % kept), on sentences or on running text in slices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from raxalign.arrays import offsets_of, ranges
from raxalign.encoders.models.loading import save_model
from raxalign.encoders.models.packing import Packed, pack
from raxalign.encoders.models.pieces import PieceRow, bulk_pieces
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.training.masking import MaskedWords, Masks
from raxalign.encoders.training.params import ScratchParams
from raxalign.encoders.training.text import (
    SPECIALS,
    read_vocabulary,
    read_words,
    train_wordpiece,
    wrap_vocabulary,
)
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.running import in_text
from raxalign.train.loop import TrainSettings, fit
from raxalign.train.objective import Step
from raxalign.train.runtime import Runtime

TWO_SEGMENTS = 0.5
"""Share of the rows that have two segments, where a sentence ends within them."""
NAME = "scratch"  # of the curves and checkpoints of a pre-training
_WARMUP, _MASK_SHARE = 0.1, 0.15  # of the steps, and of the pieces
LAST = 20  # steps whose mean loss is recorded in the notes as the last one


def slice_rows(
    sentences: Sequence[np.ndarray], window: int, ends: tuple[int, int], rng: np.random.Generator
) -> list[PieceRow]:
    """Slice a text, the pieces of its sentences in their order, into rows of `window` pieces that
    have every piece of the text once; `ends` are the numbers of ``[CLS]`` and ``[SEP]``.

    A row is ``[CLS] ... [SEP]``, and goes on where the one before it stopped, within a sentence
    too. Half of the rows within which a sentence ends, as `rng` draws them, have two segments,
    ``[CLS] ... [SEP] ... [SEP]``, divided at such an end, so that the encoder knows the segments
    that pairs will have.
    """
    ids = np.concatenate([np.zeros(0, np.int32), *sentences])
    stops = offsets_of(np.array([len(sentence) for sentence in sentences], dtype=np.int64))[1:]
    rows, at = [], 0
    while at < len(ids):
        room = window - 2
        divide = None
        if rng.random() < TWO_SEGMENTS:
            last = min(at + room - 1, len(ids))
            inside = stops[np.searchsorted(stops, at, "right") : np.searchsorted(stops, last)]
            if len(inside):
                divide, room = int(rng.choice(inside)), room - 1
        end, (cls, sep) = min(at + room, len(ids)), ends
        parts = [ids[at:end]] if divide is None else [ids[at:divide], ids[divide:end]]
        row = np.concatenate([[cls], *(piece for part in parts for piece in (part, [sep]))])
        none = np.full(len(row), -1)
        rows.append(PieceRow(row, none, none, len(parts[0]) + 2, 0, ()))
        at += room
    return rows


def pretrain(
    params: ScratchParams,
    text: Mapping[str, Path],
    vocabulary: Path | None,
    runtime: Runtime,
    folder: Path,
) -> Mapping[str, object]:
    """Train a model on the text of all languages into `folder`, by a vocabulary from a file or from
    the text; the first worker saves it. Returns the notes; raises `RaxalignError` without text.
    """
    sentences = {lang: read_words(text[lang], params.max_sentences) for lang in sorted(text)}
    if not any(sentences.values()):
        needs = "a scratch encoder is trained on text, but there is none: give the grid a corpus"
        raise RaxalignError(needs)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(params.seed)
        tokenizer = _tokenizer(params, vocabulary, sentences)
        model = new_bert(params, len(tokenizer))
        encoder = TransformerEncoder(model, tokenizer, runtime.device, runtime.precision)
        encoder.compiled = runtime.compiled
        rows, cut = training_rows(encoder, sentences, params)
        settings, where = train_settings(params, rows), replace(runtime, seed=params.seed)
        fitted = fit(Pretraining(encoder, rows, params), len(rows), settings, where, name=NAME)
        if runtime.rank == 0:
            save_model(encoder.model, tokenizer, folder)
    return {
        "sentences": {lang: len(part) for lang, part in sentences.items()},
        "sentences_cut": cut,
        "vocabulary": len(tokenizer),
        "pieces": len(rows.ids),
        "rows_per_step": settings.batch_size,
        "first_loss": fitted.losses[0],
        "last_loss": float(np.mean(fitted.losses[-LAST:])),
    }


def _tokenizer(
    params: ScratchParams, vocabulary: Path | None, sentences: Mapping[str, Sequence[Sequence[str]]]
) -> Any:
    """The tokenizer over the given vocabulary, or over one that is trained on the text."""
    if vocabulary is not None:
        return wrap_vocabulary(read_vocabulary(vocabulary, SPECIALS), lowercase=False)
    texts = [in_text(words, lang).text for lang, part in sentences.items() for words in part]
    words = [text.split() for text in texts]
    return train_wordpiece(words, params.vocab_size, lowercase=False)


def training_rows(
    encoder: TransformerEncoder,
    sentences: Mapping[str, Sequence[Sequence[str]]],
    params: ScratchParams,
) -> tuple[PackedRows, dict[str, int]]:
    """Return the training rows of all languages, and how many sentences of each lost their end. The
    text of a language is as its dataset has it: its last sentence first.
    """
    rng, rows, cut = np.random.default_rng(params.seed), list[PieceRow](), dict[str, int]()
    tokenizer = encoder.tokenizer
    for lang, part in sentences.items():
        cut[lang] = 0
        if params.slicing:
            # Datasets of text run backwards; what follows a sentence is to stand after it.
            pieces = [found.ids for found in bulk_pieces(tokenizer, part[::-1], lang)]
            ends = (int(tokenizer.cls_token_id), int(tokenizer.sep_token_id))
            rows += slice_rows(pieces, params.window, ends, rng)
            continue
        singles = encoder.pieces(part, lang)
        rows += pack_rows(singles, params.window, rng)
        for row in singles:  # longer than the window, or than the encoder's positions
            lost = int(row.lasts.max(initial=-1)) < row.n_words - 1
            cut[lang] += len(row) > params.window or lost
    return PackedRows.of(rows), cut


def train_settings(params: ScratchParams, rows: PackedRows) -> TrainSettings:
    """The options of the loop. A step has the rows of `batch_size` windows of pieces on average."""
    per_row = len(rows.ids) / len(rows)
    return TrainSettings(
        learning_rate=params.learning_rate,
        batch_size=max(1, round(params.batch_size * params.window / per_row)),
        steps=params.steps,
        warmup=float(max(1, round(_WARMUP * params.steps))),
        schedule="linear",
        betas=(0.9, 0.98),
        weight_decay=0.01,
        clip=1.0,
    )


@dataclass(frozen=True)
class PackedRows:
    """The rows of a pre-training: row r is the entries ``offsets[r]`` to ``offsets[r + 1]`` of the
    pieces `ids` and their token types `segments`.
    """

    ids: np.ndarray
    segments: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of(cls, rows: Sequence[PieceRow]) -> PackedRows:
        """The pieces and segments of some rows, laid end to end."""
        ids = np.concatenate([row.ids for row in rows]).astype(np.int32)
        segments = np.concatenate([row.segments for row in rows]).astype(np.int8)
        return cls(ids, segments, offsets_of(np.array([len(row) for row in rows])))

    def take(self, rows: np.ndarray) -> PackedRows:
        """Some of the rows, in the order given."""
        index, _ = ranges(self.offsets, rows)
        offsets = offsets_of(np.diff(self.offsets)[rows])
        return PackedRows(self.ids[index], self.segments[index], offsets)


class Pretraining(MaskedWords[PackedRows]):
    """Predicts the masked pieces of packed rows, each of which sees only itself."""

    def __init__(
        self, encoder: TransformerEncoder, rows: PackedRows, params: ScratchParams
    ) -> None:
        super().__init__(encoder, _MASK_SHARE)
        self.all_rows, self.window = rows, params.window

    def batch(self, step: Step) -> PackedRows:
        """The rows of the global batch."""
        return self.all_rows.take(step.rows)

    def lay_out(self, rows: PackedRows, masks: Masks) -> Packed:
        """Some rows as the encoder reads them."""
        pad, lengths = int(self.encoder.tokenizer.pad_token_id), np.diff(rows.offsets)
        return pack(masks.applied(rows), lengths, pad, width=self.window, segments=rows.segments)


def new_bert(params: ScratchParams, vocabulary: int) -> Any:
    """A BERT with random weights (torch's global random state)."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=params.hidden_size,
        num_hidden_layers=params.layers,
        num_attention_heads=params.heads,
        intermediate_size=params.intermediate,
        max_position_embeddings=params.positions,
        hidden_dropout_prob=params.dropout,
        attention_probs_dropout_prob=params.dropout,
        attn_implementation="sdpa",
    )
    return BertForMaskedLM(config)


def pack_rows(singles: Sequence[PieceRow], window: int, rng: np.random.Generator) -> list[PieceRow]:
    """Training rows of at most `window` pieces: a third single sentences, a third pairs, a third as
    many as fit, so that the encoder knows the positions and segments that it will read.
    """
    order, rows, at = rng.permutation(len(singles)), [], 0
    while at < len(order):
        most = (1, 2, len(order))[rng.integers(3)]
        group = [singles[order[at]]]
        at += 1
        size = len(group[0])
        while at < len(order) and len(group) < most:
            size += len(singles[order[at]]) - 1
            if size > window:
                break
            group.append(singles[order[at]])
            at += 1
        # Every sentence but the first goes without its [CLS].
        ids = np.concatenate([group[0].ids, *(row.ids[1:] for row in group[1:])])[:window]
        first = len(group[0]) if len(group) == 2 else len(ids)
        none = np.full(len(ids), -1)
        rows.append(PieceRow(ids, none, none, first, 0, group[0].languages))
    return rows
