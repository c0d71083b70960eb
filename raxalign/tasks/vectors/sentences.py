"""Vectors of sentences.

The vector of a sentence is that of one of its pieces, a mean of its pieces, or the mean of its
static word vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from raxalign.arrays import Bools
from raxalign.corpora.text.words import Sentence, in_text
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.pieces import token_batches
from raxalign.encoders.models.rows import RowSource
from raxalign.encoders.models.sentence_config import SentenceConfig
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating
from raxalign.encoders.models.vectors import Batch, SentencePooling, parse_layers, refuse_infinite
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.tasks.vectors.frame import OnePass

Vectors: TypeAlias = "tuple[torch.Tensor, Bools]"


@dataclass(frozen=True)
class SentenceReading:
    """How sentences become vectors: the `layers` that are added up, and the `pooling`, whose means
    are over special pieces too. `own` is the encoder's own configuration of sentence-transformers.

    The rest follows from an encoder. `trailing` pieces at the end of a row are not the last one;
    the vectors are scaled to length 1 with `unit`. `prompt` is put before each sentence, and its
    pieces and those before them are left out of means with `skip_prompt`.
    """

    layers: str
    pooling: SentencePooling | Literal["own"]
    trailing: int = 0
    unit: bool = False
    prompt: str = ""
    skip_prompt: bool = False


def _reading(encoder: TransformerEncoder, reading: SentenceReading) -> SentenceReading:
    """What a reading is for an encoder. Raises `RaxalignError` for what it does not have."""
    found = replace(reading, trailing=encoder.trailing)
    own, inputs = encoder.sentences, encoder.inputs
    causal = inputs.is_decoder and not inputs.is_bidirectional
    if lacking := SentenceConfig.lacking("this encoder", reading.pooling, own, causal=causal):
        raise RaxalignError(f"pooling: {'; '.join(lacking)}")
    if reading.pooling == "own":
        assert own is not None, "it is lacking otherwise"
        skip = not own.include_prompt
        found = SentenceReading(reading.layers, own.pooling, 0, own.normalize, own.prompt, skip)
    return found


def sentence_vectors(
    aligned: AlignedEncoder, sentences: Sequence[Sequence[str]], lang: str, reading: SentenceReading
) -> Vectors:
    """Return (vectors (S, H) in input order, layers added up and transforms applied; whether each
    sentence has a piece or word that was read).

    Raises `RaxalignError` for a pooling that the encoder does not have.
    """
    if isinstance(aligned, OnePass):
        how = (lang, replace(reading, layers=""))
        return aligned.sentences(
            sentences,
            how,
            reading.layers,
            lambda groups: layered_vectors(aligned, sentences, lang, reading, groups),
        )
    chosen = parse_layers(reading.layers, aligned.n_layers)
    vectors_SLH, read = layered_vectors(aligned, sentences, lang, reading, [chosen])
    return vectors_SLH[:, 0], read


def layered_vectors(
    aligned: AlignedEncoder,
    sentences: Sequence[Sequence[str]],
    lang: str,
    reading: SentenceReading,
    groups: Sequence[Sequence[int]],
) -> Vectors:
    """Return what `sentence_vectors` does for several groups of layers, which one pass reads: the
    vectors (S, L, H) have those of one group after the other.
    """
    layers = sorted({layer for group in groups for layer in group})
    places = [[layers.index(layer) for layer in group] for group in groups]
    if not isinstance(aligned.encoder, TransformerEncoder):
        if reading.pooling != "mean":
            raise RaxalignError(
                f"`pooling: {reading.pooling}` requires a transformer encoder;"
                " static vectors have `pooling: mean`"
            )
        return _mean_of_words(aligned, sentences, lang, layers, places)
    encoder, how = aligned.encoder, _reading(aligned.encoder, reading)
    n_prompt = len(how.prompt.split())
    if n_prompt:
        sentences = [_prompted(how.prompt, sentence, lang) for sentence in sentences]
    rows = encoder.pieces(sentences, lang)
    vectors_SLH = torch.zeros(len(rows), len(groups), encoder.hidden_size, device=encoder.device)
    read = np.zeros(len(rows), dtype=np.bool_)
    for part, batch, states in _states(aligned, encoder, rows, layers):
        read[part.cpu().numpy()] = (batch.words_BT >= n_prompt).any(1).cpu().numpy()
        for place, group in enumerate(places):
            pooled_BH = _pooled(_added(states, group), batch, how, n_prompt)
            pooled_BH = torch.nn.functional.normalize(pooled_BH, dim=-1) if how.unit else pooled_BH
            vectors_SLH[part, place] = pooled_BH
    refuse_infinite(vectors_SLH, lang)
    return vectors_SLH, read


def _states(
    aligned: AlignedEncoder,
    encoder: TransformerEncoder,
    rows: RowSource,
    layers: Sequence[int],
) -> Iterator[tuple[torch.Tensor, Batch, list[torch.Tensor]]]:
    """Yield numbers of rows (B,) with their batch and its states (B, T, H) at each layer."""
    with evaluating(encoder.model):
        for part in token_batches(rows.lengths, encoder.batch_tokens):
            batch = encoder.collate(rows, part)
            with torch.no_grad():
                states = aligned.hidden(batch)
            chosen = [states[layer] for layer in layers]
            yield torch.from_numpy(part).to(encoder.device), batch, chosen


def _added(states: Sequence[torch.Tensor], places: Sequence[int]) -> torch.Tensor:
    """The sum of the states of some layers (B, T, H)."""
    return torch.stack([states[place] for place in places]).sum(0)


def _pooled(
    states_BTH: torch.Tensor, batch: Batch, how: SentenceReading, n_prompt: int
) -> torch.Tensor:
    """The vector of each sentence (B, H); its first `n_prompt` words are the prompt's."""
    if how.pooling == "cls":
        return states_BTH[:, 0]
    if how.pooling == "last":
        last_B = (batch.mask_BT.sum(1) - 1 - how.trailing).clamp(min=0)
        return states_BTH[torch.arange(len(last_B), device=last_B.device), last_B]
    read_BT = batch.mask_BT > 0
    if how.skip_prompt and n_prompt:
        of_prompt_BT = (batch.words_BT >= 0) & (batch.words_BT < n_prompt)
        read_BT = read_BT & (of_prompt_BT.flip(1).cumsum(1).flip(1) == 0)
    mask_BT = read_BT.to(states_BTH.dtype)
    if how.pooling == "weighted":
        mask_BT = mask_BT * torch.arange(1, mask_BT.shape[1] + 1, device=mask_BT.device)
    return (states_BTH * mask_BT[..., None]).sum(1) / mask_BT.sum(1, keepdim=True).clamp(min=1)


def _prompted(prompt: str, sentence: Sequence[str], lang: str) -> Sentence:
    """A sentence after a prompt, in one running text."""
    before, after = Sentence.of_text(prompt), in_text(sentence, lang)
    spans = [*before.spans(), *((len(prompt) + a, len(prompt) + b) for a, b in after.spans())]
    starts, ends = zip(*spans, strict=True)
    return Sentence([*before, *after], prompt + after.text, starts, ends)


def _mean_of_words(
    aligned: AlignedEncoder,
    sentences: Sequence[Sequence[str]],
    lang: str,
    layers: Sequence[int],
    places: Sequence[Sequence[int]],
) -> Vectors:
    found = aligned.words(sentences, lang, layers=f"{layers[0]}-{layers[-1]}", pooling="mean")
    device = found.vectors_NLH.device
    owners = torch.from_numpy(np.repeat(np.arange(len(sentences)), np.diff(found.offsets)))
    counts_S = torch.bincount(owners.to(device)[found.present_N], minlength=len(sentences))
    means = []
    for group in places:
        read = [layers[place] - layers[0] for place in group]
        vectors_NH = found.vectors_NLH[:, read].sum(1)
        sums_SH = vectors_NH.new_zeros(len(sentences), vectors_NH.shape[1])
        sums_SH = sums_SH.index_add(0, owners.to(device), vectors_NH)
        means.append(sums_SH / counts_S.clamp(min=1)[:, None])
    return torch.stack(means, 1), (counts_S > 0).cpu().numpy()
