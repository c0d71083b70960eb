"""The mean hidden state of a language, over all pieces of its text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from raxalign.arrays import Ints
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.corpora.text.words import look_up_form
from raxalign.encoders.models.blocks import Edit
from raxalign.encoders.models.pieces import Pieces, token_batches
from raxalign.encoders.models.rows import RowSource
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import WordVectors
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
    """Subword tokens per block, without the special ones around it."""
    max_blocks: int | None = Field(10_000, ge=1)
    """Blocks of each language that are read, from the beginning of its text (none: all)."""
    removed: ClassVar = {
        "rows": Removed("leave it out: a mean is over blocks of running text", "blocks"),
        "weighting": Removed("leave it out: every block weighs the same", "blocks"),
        "specials": Removed("leave it out: special tokens are part of a mean", "include"),
    }

    def means(
        self,
        encoder: object,
        folder: Path,
        lang: str,
        layers: Sequence[int],
        edits: Mapping[int, Edit] | None = None,
    ) -> TokenMeans:
        """Return `token_means` of a text dataset. Raises `RaxalignError` where no word is read."""
        assert isinstance(encoder, TransformerEncoder), "the plan asks `accepts`"
        text = sentence_chunks(read_table(folder), "words", CHUNK)
        found = token_means(encoder, text, lang, layers, self, edits)
        if found is None:
            told = f"the text of {lang} has no word that the encoder reads"
            raise RaxalignError(f"{told}: look at `text` or `corpus` of {lang}")
        return found


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
    while chunk := list(islice(blocks, _ROWS)):
        rows = RowSource.of(encoder, [Pieces.of(chunk, lang)])
        encoder.read_ahead(rows, layers, edits)
        for chosen in token_batches(rows.lengths, encoder.batch_tokens):
            batch = encoder.collate(rows, chosen)
            kept_BT = batch.mask_BT == 1
            counts_B = kept_BT.sum(dim=1)
            for place, states_BTH in enumerate(encoder.read(batch, layers, edits)):
                sums_BH = torch.einsum("bt,bth->bh", kept_BT.double(), states_BTH.double())
                total_LH[place] += (sums_BH / counts_B[:, None]).sum(dim=0)
            rows_read, tokens = rows_read + len(chosen), tokens + int(counts_B.sum())
    if not rows_read:
        return None
    return TokenMeans(total_LH / rows_read, rows_read, tokens)


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


def word_means(
    read: Callable[[Sequence[Sequence[str]]], WordVectors],
    chunks: Iterable[Sequence[Sequence[str]]],
    asked: tuple[str, Sequence[str]],
    shape: tuple[int, int],
    device: str,
    most: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the means (V, L, H), in float64, of the vectors of words over their occurrences in a
    text (lists of sentences), zero for a word that does not occur; and the occurrences that were
    counted (V,). `shape` is (L, H), and `read` gives the vectors of
    the words of some sentences of one language.

    `asked` are a language and words of it, all different, in the form in which they are looked up.
    Sentences are read in their order; one is encoded where it holds a word that was met less than
    `most` times before it (None: any word), and then all its words count.
    """
    lang, words = asked
    numbers, met = {word: i for i, word in enumerate(words)}, np.zeros(len(words), np.int64)
    sums_VLH = torch.zeros((len(words), *shape), dtype=torch.float64, device=device)
    counts_V = torch.zeros(len(words), dtype=torch.int64, device=device)
    for chunk in chunks:
        places = [
            [numbers.get(look_up_form(word, lang), -1) for word in sentence] for sentence in chunk
        ]
        chosen = list(_wanted(places, met, most))
        if not chosen:
            continue
        vectors = read([chunk[i] for i in chosen])
        numbers_N = torch.tensor([n for i in chosen for n in places[i]], device=device)
        kept_N = (numbers_N >= 0) & vectors.present_N
        sums_VLH.index_add_(0, numbers_N[kept_N], vectors.vectors_NLH[kept_N].double())
        counts_V += torch.bincount(numbers_N[kept_N], minlength=len(words))
    return sums_VLH / counts_V.clamp(min=1)[:, None, None], counts_V


def _wanted(places: Sequence[Sequence[int]], met: Ints, most: int | None) -> Iterator[int]:
    """Yield the sentences with a word met too seldom, and count what they hold into `met`."""
    for i, row in enumerate(places):
        held = {number for number in row if number >= 0}
        if any(most is None or met[number] < most for number in held):
            met[list(held)] += 1
            yield i
