"""All shifts of one direction: outputs, the best shift by the dev side, and scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch

from raxalign.arrays import Ints, spread_evenly
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.blocks import Blocks
from raxalign.encoders.models.pieces import Pieces, token_batches
from raxalign.encoders.models.rows import RowSource
from raxalign.encoders.models.token_means import TokenMeans
from raxalign.encoders.models.transformer import TransformerEncoder, evaluating
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.encoders.models.vectors import Batch
from raxalign.languages import language
from raxalign.tasks.base import Score
from raxalign.tasks.translation.counts import SCHEMA, TokenCounts, count, sacrebleu1
from raxalign.tasks.vectors.pairs import SentencePairs

_HEAD_ROWS = 1024
"""Positions that the masked-LM head reads at once: its scores are as wide as the vocabulary."""


class Shift(NamedTuple):
    """One setting of the sweep: the `layer` after whose block the stream is shifted, and the weight
    `alpha` of the difference of the language means.
    """

    layer: int
    alpha: float

    @property
    def prefix(self) -> str:
        """The beginning of the names of its metrics."""
        return f"layer{self.layer}_alpha{self.alpha:g}_"


def stream_of(aligned: AlignedEncoder) -> AlignedEncoder:
    """Return the encoder with its inside transforms alone: the head never reads readouts."""
    return replace(aligned, transforms=tuple(t for t in aligned.transforms if t.sort == "inside"))


@torch.no_grad()
def translate(
    stream: AlignedEncoder,
    rows: RowSource,
    lang: str,
    shifts: Mapping[Shift, torch.Tensor],
) -> dict[Shift, list[Ints]]:
    """Return the likeliest piece at every position of each row but those of special pieces, for
    each shift: what is added to the stream (H,), after the block that its key names.

    Nothing is masked. Rows stay in their order. The blocks below a shift run once for all shifts
    where the architecture allows it. The encoder has inside transforms alone.
    """
    encoder = stream.encoder
    assert isinstance(encoder, TransformerEncoder)
    found = {shift: [np.zeros(0, np.int64)] * len(rows) for shift in shifts}
    template = encoder.template
    with evaluating(encoder.model):
        for chosen in token_batches(rows.lengths, encoder.batch_tokens):
            batch = encoder.collate(rows, chosen)
            places_T = torch.arange(batch.mask_BT.shape[1], device=batch.mask_BT.device)
            ends_B1 = batch.mask_BT.sum(1, keepdim=True) - len(template.after_single)
            # Neither padding nor what the tokenizer adds around a sentence.
            kept_BT = (places_T >= len(template.before)) & (places_T < ends_B1)
            ends = np.cumsum(kept_BT.sum(1).cpu().numpy())[:-1]
            for shift, states_BTH in _shifted(stream, batch, lang, shifts):
                parts = torch.split(states_BTH[kept_BT], _HEAD_ROWS)
                ids_P = torch.cat([encoder.lm_logits(part).argmax(-1) for part in parts])
                rows_ids = np.split(ids_P.cpu().numpy(), ends)
                for place, ids in zip(chosen.tolist(), rows_ids, strict=True):
                    found[shift][place] = ids
    return found


def _shifted(
    stream: AlignedEncoder, batch: Batch, lang: str, shifts: Mapping[Shift, torch.Tensor]
) -> Iterator[tuple[Shift, torch.Tensor]]:
    """Yield the last layer's states (B, T, H) under each shift."""
    encoder = stream.encoder
    assert isinstance(encoder, TransformerEncoder)
    blocks, outputs = Blocks.of(encoder.model.base_model), list[Any]()
    if len(shifts) > 1 and blocks.replayable:
        highest = max(shift.layer for shift in shifts)
        with blocks.recorded(highest) as outputs:
            encoder.hidden(batch, edits=stream.edits(), upto=highest)
    for shift, step_H in shifts.items():
        step = Transform(lang, shift.layer, "inside", (Affine(shift=step_H),))
        shifted = replace(stream, transforms=(*stream.transforms, step))
        with blocks.replayed(outputs[: shift.layer]):
            states_BTH = shifted.hidden(batch)[-1]
        yield shift, states_BTH


_PREMISE = pa.field("premise", pa.int64())
_TEXTS = [pa.field(f"{what}_text", pa.string()) for what in ("source", "output", "reference")]


@dataclass(frozen=True)
class TranslatedSide:
    """The sentences of one language that are translated, in words, as rows that the encoder reads,
    and in pieces, whole and without special ones. `vocabulary` are the pieces of all sentences of
    the side, translated or not; special pieces count as every language's. `truncated` counts the
    rows that are cut.
    """

    lang: str
    pairs: SentencePairs
    words: Sequence[Sequence[str]]
    rows: RowSource
    pieces: Sequence[Ints]
    vocabulary: frozenset[int]
    truncated: int

    def texts(self, most: int) -> list[str]:
        """Return the first sentences as text: words joined by blanks, or by nothing."""
        space = " " if language(self.lang).spaced else ""
        return [space.join(words) for words in self.words[:most]]


Way = tuple[TranslatedSide, TranslatedSide]
"""One direction of translation in one split: the side that is translated, and its reference."""


def read_sides(
    encoder: TransformerEncoder,
    pairs: SentencePairs,
    languages: tuple[str, str],
    limit: int | None = None,
) -> Way:
    """Make both sides of sentence pairs, the other language's and the pivot's; `limit` of them are
    translated, evenly spread over the text (None: all).
    """
    translated = pairs.take(chosen := spread_evenly(len(pairs.ids), limit))
    special = frozenset(encoder.tokenizer.all_special_ids)
    sides = []
    both = zip(languages, (pairs.src, pairs.tgt), (translated.src, translated.tgt), strict=True)
    for lang, sentences, words in both:
        divided = Pieces.read(encoder.tokenizer, [sentences], lang).of_sentences()
        whole = [ids.astype(np.int64) for ids in divided]
        used = frozenset(np.unique(np.concatenate(whole)).tolist() if whole else ())
        pieces = [whole[row] for row in chosen.tolist()]
        rows = encoder.pieces(words, lang)
        cut = int((rows.sentences.kept(rows.numbers_R) < rows.sentences.lengths_S).sum())
        sides.append(TranslatedSide(lang, translated, words, rows, pieces, used | special, cut))
    return sides[0], sides[1]


@dataclass(frozen=True)
class ShiftSweep:
    """The outputs of all shifts in one direction (``de-en`` is from German), the translated pieces
    of each sentence, and what they are scored by, with the sides of each split.
    """

    label: str
    encoder: TransformerEncoder
    ways: Mapping[str, Way]
    outputs: Mapping[str, Mapping[Shift, Sequence[Ints]]]
    counts: Mapping[str, Mapping[Shift, TokenCounts]]

    @classmethod
    def run(
        cls,
        stream: AlignedEncoder,
        label: str,
        ways: Mapping[str, Way],
        shifts: Mapping[Shift, torch.Tensor],
    ) -> ShiftSweep:
        """Translate the source side of every split by every shift, which is added to the stream
        (H,) of an encoder with inside transforms alone.
        """
        assert isinstance(stream.encoder, TransformerEncoder)
        outputs, counts = {}, {}
        for split, (source, target) in ways.items():
            outputs[split] = translate(stream, source.rows, source.lang, shifts)
            counts[split] = {
                shift: count(output, target.pieces, source.vocabulary, target.vocabulary)
                for shift, output in outputs[split].items()
            }
        return cls(label, stream.encoder, ways, outputs, counts)

    def best(self) -> Shift | None:
        """Return the shift with the best BLEU-1 on dev (the first of equals), or the only one; None
        where there is nothing to choose by.
        """
        on_dev = self.counts.get("dev")
        if on_dev is None:
            only = next(iter(self.counts.values()), {})
            return next(iter(only)) if len(only) == 1 else None
        return max(on_dev, key=lambda shift: on_dev[shift].bleu1())

    def scores(self) -> Iterator[Score]:
        """Yield the metrics of every shift, and those of the best one without its name."""
        for split, by_shift in self.counts.items():
            for shift, counts in by_shift.items():
                for metric, value in counts.scores():
                    yield Score(self.label, f"{shift.prefix}{metric}", split, value)
        best = self.best()
        if best is None:
            return
        for split, (_, target) in self.ways.items():
            for metric, value in self.counts[split][best].scores():
                yield Score(self.label, metric, split, value)
            words = sacrebleu1(self.encoder, self.outputs[split][best], target.pieces, target.lang)
            yield Score(self.label, "bleu1_sacrebleu", split, words)

    def tables(self, samples: int) -> Iterator[pa.Table]:
        """Make one row per sentence and shift; `unit` is the same wherever the pivot's sentence is.
        The first `samples` test sentences keep their texts.
        """
        for split, by_shift in self.counts.items():
            source, target = self.ways[split]
            n, schema = len(source.pairs.ids), SCHEMA
            fixed: dict[str, Any] = {
                "lang": [self.label] * n,
                "split": [split] * n,
                "id": source.pairs.ids,
                "unit": source.pairs.units,
            }
            if source.pairs.premises is not None:
                schema = schema.append(_PREMISE)
                fixed["premise"] = source.pairs.premises
            if samples:
                schema = pa.schema([*schema, *_TEXTS])
            kept = samples if split == "test" else 0
            for shift, counts in by_shift.items():
                columns = {
                    **fixed,
                    "layer": [shift.layer] * n,
                    "alpha": [shift.alpha] * n,
                    **vars(counts),
                }
                if samples:
                    outputs = self.outputs[split][shift][:kept]
                    made = [self.encoder.tokenizer.decode(ids.tolist()) for ids in outputs]
                    texts = source.texts(kept), made, target.texts(kept)
                    for field, found in zip(_TEXTS, texts, strict=True):
                        columns[field.name] = [*found, *[None] * (n - len(found))]
                yield pa.table(columns, schema=schema)

    def notes(self, means: Mapping[str, TokenMeans]) -> dict[str, object]:
        """Return what was chosen, and what the language means and the splits consist of."""
        best = self.best()
        found: dict[str, object] = {
            "chosen_on": "dev" if "dev" in self.ways else None,
            "layer": best and best.layer,
            "alpha": best and best.alpha,
            "means": {code: {"rows": m.rows, "tokens": m.tokens} for code, m in means.items()},
        }
        for split, (source, target) in self.ways.items():
            found[split] = {
                "sentences": len(source.pairs.ids),
                "truncated": source.truncated,
                "vocabulary": [len(source.vocabulary), len(target.vocabulary)],
                "shared": len(source.vocabulary & target.vocabulary),
            }
        return found
