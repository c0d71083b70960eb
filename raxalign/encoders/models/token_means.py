"""The mean hidden state of a language, over all pieces of its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.encoders.models.blocks import Edit
from raxalign.encoders.models.pieces import Pieces, token_batches
from raxalign.encoders.models.rows import RowSource
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.options.params import BaseParams, Removed

Chunks = Iterable[Sequence[Sequence[str]]]  # a text as chunks of sentences, lists of words

CHUNK = 4096
"""Sentences that are read at once."""
_ROWS = 512  # rows that are sorted into batches together


class Reading(BaseParams):
    """How text becomes rows, and rows a mean; options that methods and tasks inherit."""

    block_size: int = Field(510, ge=1)
    """Pieces per block, without the special ones around it."""
    max_blocks: int | None = Field(10_000, ge=1)
    """Blocks of each language that are read, from the beginning of its text (none: all)."""
    removed: ClassVar = {
        "rows": Removed("leave it out: a mean is over blocks of running text", "blocks"),
        "weighting": Removed("leave it out: every block weighs the same", "blocks"),
        "specials": Removed("leave it out: special pieces are part of a mean", "include"),
    }


@dataclass(frozen=True)
class TokenMeans:
    """The mean vectors (L, H) in float64, and the numbers of rows and tokens behind them."""

    means_LH: torch.Tensor
    rows: int
    tokens: int


def token_means(
    encoder: TransformerEncoder,
    text: Chunks,
    lang: str,
    layers: Sequence[int],
    reading: Reading,
    edits: Mapping[int, Edit] | None = None,
) -> TokenMeans | None:
    """The means of the states of some layers over a text, after the edits (None: no pieces)."""
    size = (len(layers), encoder.hidden_size)
    total_LH = torch.zeros(size, dtype=torch.float64, device=encoder.device)
    rows_read, tokens = 0, 0
    blocks = islice(text_blocks(encoder, text, lang, reading), reading.max_blocks)
    with torch.no_grad(), evaluating(encoder.model):
        while chunk := list(islice(blocks, _ROWS)):
            rows = RowSource.of(encoder, [Pieces.of(chunk, lang)])
            for chosen in token_batches(rows.lengths, encoder.batch_tokens):
                batch = encoder.collate(rows, chosen)
                states = encoder.hidden(batch, edits=edits, upto=max(layers))
                kept_BT = batch.mask_BT == 1
                counts_B = kept_BT.sum(dim=1)
                for place, layer in enumerate(layers):
                    states_BTH = states[layer].double()
                    sums_BH = torch.einsum("bt,bth->bh", kept_BT.double(), states_BTH)
                    total_LH[place] += (sums_BH / counts_B[:, None]).sum(dim=0)
                rows_read, tokens = rows_read + len(chosen), tokens + int(counts_B.sum())
    if not rows_read:
        return None
    return TokenMeans(total_LH / rows_read, rows_read, tokens)


def means_of(
    encoder: object,
    folder: Path,
    lang: str,
    layers: Sequence[int],
    reading: Reading,
    edits: Mapping[int, Edit] | None = None,
) -> TokenMeans:
    """Return `token_means` of a text dataset. Raises `RaxalignError` where no word is read."""
    assert isinstance(encoder, TransformerEncoder), "the plan asks `accepts`"
    text = sentence_chunks(read_table(folder), "words", CHUNK)
    found = token_means(encoder, text, lang, layers, reading, edits)
    if found is None:
        told = f"the text of {lang} has no word that the encoder reads"
        raise RaxalignError(f"{told}: look at `text` or `corpus` of {lang}")
    return found


def text_blocks(
    encoder: TransformerEncoder, text: Chunks, lang: str, reading: Reading
) -> Iterator[np.ndarray]:
    """The pieces of a text in blocks, without the special pieces around each: those of all
    sentences one after the other; the last block is what is left.
    """
    own = encoder.template
    room = encoder.max_positions - len(own.before) - len(own.after_single)
    size, left = min(reading.block_size, room), np.empty(0, np.int32)
    for sentences in text:
        running = np.concatenate([left, Pieces.read(encoder.tokenizer, [sentences], lang).ids[:]])
        whole = len(running) - len(running) % size
        yield from (running[start : start + size] for start in range(0, whole, size))
        left = running[whole:]
    if len(left):
        yield left
