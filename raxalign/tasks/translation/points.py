"""Tokens out of a masked LM whose stream is shifted after one block, and how they are counted
against a reference.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.pieces import PieceRow, Template, read_template, token_batches
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating
from raxalign.encoders.models.transforms import Affine, Transform

if TYPE_CHECKING:
    from raxalign.encoders.models.vectors import Batch

_HEAD_ROWS = 1024
"""Positions that the masked-LM head reads at once: its scores are as wide as the vocabulary."""

Ints = npt.NDArray[np.int64]


def stream_of(aligned: AlignedEncoder) -> AlignedEncoder:
    """The encoder with its inside transforms alone: readouts are read beside the stream, which the
    masked-LM head never sees.
    """
    return replace(aligned, transforms=tuple(t for t in aligned.transforms if t.sort == "inside"))


@torch.no_grad()
def translate(
    stream: AlignedEncoder, rows: Sequence[PieceRow], lang: str, layer: int, shift_H: torch.Tensor
) -> list[Ints]:
    """The likeliest piece at every position of each row but those of special pieces, `shift_H`
    added to the stream after block `layer`.

    Nothing is masked. Rows stay in their order.
    """
    encoder = stream.encoder
    assert isinstance(encoder, TransformerEncoder)
    shifted = replace(
        stream,
        transforms=(*stream.transforms, Transform(lang, layer, "inside", (Affine(shift=shift_H),))),
    )
    found = [np.zeros(0, np.int64)] * len(rows)
    template = read_template(encoder.tokenizer)
    with evaluating(encoder.model):
        for chosen in token_batches([len(row) for row in rows], encoder.batch_tokens):
            batch = encoder.collate([rows[i] for i in chosen])
            kept_BT = _inner(template, batch)
            ids_P = _likeliest(encoder, shifted.hidden(batch)[-1][kept_BT])
            ends = np.cumsum(kept_BT.sum(1).cpu().numpy())[:-1]
            for place, ids in zip(
                chosen.tolist(), np.split(ids_P.cpu().numpy(), ends), strict=True
            ):
                found[place] = ids
    return found


def _inner(template: Template, batch: Batch) -> torch.Tensor:
    """Which positions (B, T) hold a piece of the text: neither padding nor what the tokenizer puts
    around a sentence.
    """
    lengths_B1 = batch.mask_BT.sum(1, keepdim=True)
    places_T = torch.arange(batch.mask_BT.shape[1], device=batch.mask_BT.device)
    return (places_T >= len(template.before)) & (places_T < lengths_B1 - len(template.after_single))


def _likeliest(encoder: TransformerEncoder, states_PH: torch.Tensor) -> torch.Tensor:
    """The best piece of every state, (P,)."""
    parts = [encoder.lm_logits(part).argmax(-1) for part in torch.split(states_PH, _HEAD_ROWS)]
    return torch.cat(parts)


@dataclass(frozen=True)
class Counts:
    """What a direction's output is scored by, for each sentence (S,): its `tokens`, those of the
    `reference`, `matches` (each piece as often as the reference has it), how many tokens only the
    target language has (`converted`), and how many both have (`shared`).
    """

    tokens: Ints
    reference: Ints
    matches: Ints
    converted: Ints
    shared: Ints

    def convert_rate(self) -> float | None:
        """The share of tokens of the target language, those of both left out; None where nothing
        else came out (Liu et al. 2020, §5.2).
        """
        asked = int(self.tokens.sum() - self.shared.sum())
        return int(self.converted.sum()) / asked if asked else None

    def bleu1(self) -> float:
        """Clipped unigram precision with the brevity penalty, over the whole corpus (Papineni et
        al. 2002), from 0 to 1.
        """
        made, wanted = int(self.tokens.sum()), int(self.reference.sum())
        if not made:
            return 0.0
        penalty = 1.0 if made >= wanted else math.exp(1 - wanted / made)
        return penalty * int(self.matches.sum()) / made

    def columns(self) -> Iterator[tuple[str, Ints]]:
        """The counts by name."""
        for name in COUNTS:
            yield name, getattr(self, name)


COUNTS = ("tokens", "reference", "matches", "converted", "shared")


def count(
    output: Sequence[Ints],
    references: Sequence[Ints],
    source: AbstractSet[int],
    target: AbstractSet[int],
) -> Counts:
    """The counts of an output, against references and the pieces that the source and the target
    language have.
    """
    both, only = source & target, target - source
    rows = []
    for made, wanted in zip(output, references, strict=True):
        pieces = made.tolist()
        matches = sum((Counter(pieces) & Counter(wanted.tolist())).values())
        rows.append(
            (
                len(pieces),
                len(wanted),
                matches,
                sum(piece in only for piece in pieces),
                sum(piece in both for piece in pieces),
            )
        )
    return Counts(*np.array(rows, dtype=np.int64).reshape(-1, len(COUNTS)).T)


def sacrebleu1(
    encoder: TransformerEncoder, output: Sequence[Ints], references: Sequence[Ints], lang: str
) -> float:
    """BLEU of unigrams by sacrebleu on words in place of pieces, from 0 to 1: both sides are put
    together from pieces, and tokenised for the language (13a; characters for scripts without
    spaces).
    """
    from sacrebleu.metrics.bleu import BLEU

    from raxalign.languages import language

    tokenize = "zh" if lang == "zh" else "13a" if language(lang).spaced else "char"
    texts, wanted = (
        [encoder.tokenizer.decode(ids.tolist()) for ids in side] for side in (output, references)
    )
    score = (
        BLEU(max_ngram_order=1, tokenize=tokenize, smooth_method="none")
        .corpus_score(texts, [wanted])
        .score
    )
    return float(score) / 100
