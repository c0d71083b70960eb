"""All shifts of one direction: outputs, the best one by the dev side, scores and predictions.

The first translations as text, for people to read: what was translated, the output, and the
reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import torch

from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.languages import language
from raxalign.tasks.base import Score
from raxalign.tasks.translation.counts import PREMISE, SCHEMA, Counts, Ints, count, sacrebleu1
from raxalign.tasks.translation.shifts import Shift, translate
from raxalign.tasks.translation.sides import Side, Way

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.token_means import TokenMeans


COLUMNS = ("source_text", "output_text", "reference_text")
FIELDS = tuple(pa.field(name, pa.string()) for name in COLUMNS)
"""The columns of the predictions that hold text; sentences that are not kept have none."""


def kept_texts(
    encoder: TransformerEncoder, way: Way, output: Sequence[Ints], most: int
) -> Mapping[str, list[str | None]]:
    """Return the texts of the first sentences by column, and None for all others.

    Args:
        encoder: the encoder whose tokenizer has the pieces.
        way: the side that is translated, and the one that is its reference.
        output: the translated pieces of each sentence.
        most: the number of sentences whose texts are kept.
    """
    rest: list[str | None] = [None] * max(len(output) - most, 0)
    made = [encoder.tokenizer.decode(ids.tolist()) for ids in output[:most]]
    return {
        "source_text": [*_texts(way.source, most), *rest],
        "output_text": [*made, *rest],
        "reference_text": [*_texts(way.target, most), *rest],
    }


def _texts(side: Side, most: int) -> list[str]:
    """Join the words of the first sentences, by nothing in scripts without spaces."""
    space = " " if language(side.lang).spaced else ""
    return [space.join(words) for words in side.words[:most]]


@dataclass(frozen=True)
class Sweep:
    """The outputs of all shifts in one direction, and their counts, by split.

    Attributes:
        label: the direction as scores name it (``de-en`` is from German).
        ways: the sides of each split.
        outputs: the translated pieces of each sentence.
        counts: what the outputs are scored by.
    """

    label: str
    ways: Mapping[str, Way]
    outputs: Mapping[str, Mapping[Shift, Sequence[Ints]]]
    counts: Mapping[str, Mapping[Shift, Counts]]

    @classmethod
    def run(
        cls,
        stream: AlignedEncoder,
        label: str,
        ways: Mapping[str, Way],
        steps: Mapping[int, torch.Tensor],
        alphas: Sequence[float],
    ) -> Sweep:
        """Translate the source side of every split by every shift.

        Args:
            stream: the encoder, with inside transforms alone.
            label: the direction.
            ways: the sides of each split.
            steps: the difference of the language means (H,) at each layer.
            alphas: the weights.
        """
        shifts = {
            Shift(layer, alpha): alpha * step_H
            for layer, step_H in steps.items()
            for alpha in alphas
        }
        outputs = {
            split: translate(stream, way.source.rows, way.source.lang, shifts)
            for split, way in ways.items()
        }
        counts = {
            split: {
                shift: count(
                    output,
                    ways[split].target.pieces,
                    ways[split].source.vocabulary,
                    ways[split].target.vocabulary,
                )
                for shift, output in by_shift.items()
            }
            for split, by_shift in outputs.items()
        }
        return cls(label, ways, outputs, counts)

    def best(self) -> Shift | None:
        """Return the shift with the best BLEU-1 on dev (the first of equals), or the only one; None
        where there is nothing to choose by.
        """
        on_dev = self.counts.get("dev")
        if on_dev is None:
            only = next(iter(self.counts.values()), {})
            return next(iter(only)) if len(only) == 1 else None
        return max(on_dev, key=lambda shift: on_dev[shift].bleu1())

    def scores(self, encoder: TransformerEncoder) -> Iterator[Score]:
        """Yield the metrics of every shift, and those of the best one without its name."""
        for split, by_shift in self.counts.items():
            for shift, counts in by_shift.items():
                for metric, value in counts.scores():
                    yield Score(self.label, f"{shift.prefix}{metric}", split, value)
        best = self.best()
        if best is None:
            return
        for split, way in self.ways.items():
            for metric, value in self.counts[split][best].scores():
                yield Score(self.label, metric, split, value)
            words = sacrebleu1(
                encoder, self.outputs[split][best], way.target.pieces, way.target.lang
            )
            yield Score(self.label, "bleu1_sacrebleu", split, words)

    def tables(self, encoder: TransformerEncoder, samples: int) -> Iterator[pa.Table]:
        """Make one row per sentence and shift; `unit` is the same wherever the pivot's sentence
        is.

        Args:
            encoder: the encoder whose tokenizer has the pieces.
            samples: the number of test sentences whose texts are kept.
        """
        for split, by_shift in self.counts.items():
            source = self.ways[split].source
            n = len(source.ids)
            for shift, counts in by_shift.items():
                fixed = {
                    "lang": [self.label] * n,
                    "split": [split] * n,
                    "layer": [shift.layer] * n,
                    "alpha": [shift.alpha] * n,
                    "id": source.ids,
                    "unit": source.units,
                }
                columns: dict[str, object] = {**fixed, **dict(counts.columns())}
                schema = SCHEMA
                if source.premises is not None:
                    schema = schema.append(PREMISE)
                    columns["premise"] = source.premises
                if samples:
                    schema = pa.schema([*schema, *FIELDS])
                    kept = samples if split == "test" else 0
                    output = self.outputs[split][shift]
                    columns |= kept_texts(encoder, self.ways[split], output, kept)
                yield pa.table(columns, schema=schema)

    def notes(self, means: Mapping[str, TokenMeans]) -> dict[str, object]:
        """Return what was chosen, and what the language means and the splits consist of."""
        best = self.best()
        found: dict[str, object] = {
            "chosen_on": "dev" if "dev" in self.ways else None,
            "layer": best and best.layer,
            "alpha": best and best.alpha,
            "means": {
                lang: {"rows": mean.rows, "tokens": mean.tokens} for lang, mean in means.items()
            },
        }
        for split, way in self.ways.items():
            found[split] = {
                "sentences": len(way.source.ids),
                "truncated": way.source.truncated,
                "vocabulary": [len(way.source.vocabulary), len(way.target.vocabulary)],
                "shared": len(way.source.vocabulary & way.target.vocabulary),
            }
        return found
