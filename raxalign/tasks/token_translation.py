"""Unsupervised token translation (Liu et al. 2020, §5): what a masked LM says when one language's
states are moved to where another's are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

import pyarrow as pa
from pydantic import Field, field_validator

from raxalign.encoders.models.vectors import Layers, parse_layers
from raxalign.errors import RaxalignError
from raxalign.sample import Sample
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs, TaskNeeds
from raxalign.tasks.transfer.outcome import means
from raxalign.tasks.translation.samples import shift_sample

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.encoders.models.token_means import TokenMeans
    from raxalign.tasks.translation.points import Counts, Ints
    from raxalign.tasks.translation.sides import Side
    from raxalign.train.runtime import Runtime

Point = tuple[int, float]
"""(layer, weight)"""


@final
class TokenTranslation(Task):
    """Token translation of the held-out sentences of the grid's own corpus, dev and test side, into
    the pivot and out of it.

    Formula: h -> h + α (R_target - R_source) after block l, R a language's mean over monolingual
    text; then the blocks above, the masked-LM head on unmasked input, and the likeliest piece at
    every position but the special ones. Inside transforms of the aligned encoder apply, in the
    means too; readouts do not, as the head never reads them.

    Metrics of a direction (`de-en` is from German) for every layer and weight:
    `layer{l}_alpha{a}_convert_rate`, of the pieces that not both languages have, the share that the
    target language has; `layer{l}_alpha{a}_bleu1`, clipped unigram precision on pieces with the
    brevity penalty. A language has the pieces of its own side of the split, translated or not.
    `bleu1`, `convert_rate` and `bleu1_sacrebleu` (by sacrebleu, on words put together from pieces)
    are those of the point that has the best `bleu1` on dev, in the same direction; the notes name
    it.

    Reference: Liu et al. (2020, §5); Papineni et al. (2002) for BLEU.
    """

    VERSION = 3
    accepts = frozenset({"transformer"})
    main_metric = "bleu1"
    predicts = frozenset()  # a row per point of a sweep: no metric over all of them

    class Params(Task.Params):
        """`layers`, from 1 on, and `alpha` (values, not an axis) are all evaluated. The means are
        as those of `mean_shift`: over blocks of `block_size` pieces, at most `max_blocks`, or
        sentences (`rows`); `weighting` says whether every row weighs the same or every token, and
        `specials` whether special pieces count in the means. Of the dev side, which only chooses
        the point, the first `dev_sentences` are translated, of the test side the first
        `max_sentences` (None: all).
        """

        layers: Layers = "last"
        alpha: tuple[float, ...] = Field((1.0, 2.0, 3.0), min_length=1)
        rows: Literal["blocks", "sentences"] = "blocks"
        block_size: int = Field(510, ge=1)
        max_blocks: int | None = Field(10_000, ge=1)
        weighting: Literal["blocks", "tokens"] = "blocks"
        specials: Literal["include", "exclude"] = "include"
        dev_sentences: int | None = Field(256, ge=1)
        max_sentences: int | None = Field(None, ge=1)

        @field_validator("alpha", mode="before")
        @classmethod
        def _one_or_several(cls, alpha: object) -> object:
            return (alpha,) if isinstance(alpha, int | float) else alpha

        @field_validator("alpha")
        @classmethod
        def _are_different_numbers(cls, alpha: tuple[float, ...]) -> tuple[float, ...]:
            names = [f"{weight:g}" for weight in alpha]
            if len(set(names)) < len(names) or not all(
                abs(weight) < float("inf") for weight in alpha
            ):
                raise ValueError(
                    "alpha: different, finite numbers are wanted (six digits count), not"
                    f" {list(alpha)}"
                )
            return alpha

        @field_validator("layers")
        @classmethod
        def _above_the_embeddings(cls, layers: str) -> str:
            if layers.partition("-")[0].strip() == "0":
                raise ValueError(
                    f"layers {layers!r}: the shift is after a block, so layers begin with 1"
                )
            return layers

    params: Params

    def needs(self) -> TaskNeeds:
        """The held-out sentences, and text for the means."""
        return TaskNeeds(bitext=True, text=True)

    def reads(self, n_layers: int) -> Reads:
        """The stream up to the masked-LM head, which reads no readout."""
        parse_layers(self.params.layers, n_layers)
        return Reads(stream=n_layers)

    def canonical(self) -> dict[str, object]:
        """Without the size of blocks where sentences are the rows."""
        idle = {"block_size"} if self.params.rows == "sentences" else set()
        return {
            name: list(value) if name == "alpha" else value
            for name, value in self.params.identity().items()
            if name not in idle
        }

    @classmethod
    def samples(
        cls, predictions: pa.Table, wanted: Iterable[tuple[str, str, str]]
    ) -> dict[tuple[str, str, str], Sample | None]:
        """Convert rate and BLEU-1 of every point, and of the one that the dev side chooses."""
        return {name: shift_sample(predictions, *name) for name in wanted}

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,  # noqa: ARG002
    ) -> Outcome:
        """Every point, direction and split; the points of each direction are compared on dev."""
        from raxalign.tasks.translation.points import stream_of
        from raxalign.tasks.translation.sides import read_sides

        layers = parse_layers(self.params.layers, aligned.n_layers)
        scores: list[Score] = []
        tables: list[pa.Table] = []
        notes: dict[str, object] = {}
        for lang in languages:
            stream = stream_of(aligned.toward(lang))
            folder, most = (
                inputs.bitext[lang],
                {"dev": self.params.dev_sentences, "test": self.params.max_sentences},
            )
            splits = {
                split: place
                for split, place in (("dev", folder / "dev"), ("test", folder / "data"))
                if place.is_dir()
            }
            sides = {
                split: read_sides(stream, place, (lang, inputs.pivot), most[split])
                for split, place in splits.items()
            }
            sides = {split: both for split, both in sides.items() if len(both[0].ids)}
            language_means = {
                code: self._means(stream, inputs, code, layers) for code in (lang, inputs.pivot)
            }
            for source, target in ((lang, inputs.pivot), (inputs.pivot, lang)):
                steps = {
                    layer: language_means[target].means_LH[k] - language_means[source].means_LH[k]
                    for k, layer in enumerate(layers)
                }
                chosen = {
                    split: _Way(*(both if source == lang else both[::-1]))
                    for split, both in sides.items()
                }
                made = {split: self._outputs(stream, way, steps) for split, way in chosen.items()}
                found = {
                    split: {
                        point: _counted(output, chosen[split]) for point, output in points.items()
                    }
                    for split, points in made.items()
                }
                label = f"{source}-{target}"
                scores += [
                    score
                    for split, points in found.items()
                    for score in _scores(label, split, points)
                ]
                tables += [
                    _table(label, split, chosen[split], points) for split, points in found.items()
                ]
                best = _best(found)
                if best is not None:
                    scores += [
                        score
                        for split, way in chosen.items()
                        for score in _best_scores(
                            stream, label, split, way, made[split][best], found[split][best]
                        )
                    ]
                notes[label] = _notes(best, chosen, language_means)
        scores += means(scores, metrics=("convert_rate", "bleu1", "bleu1_sacrebleu"))
        return Outcome(scores, pa.concat_tables(tables) if tables else _SCHEMA.empty_table(), notes)

    def _means(
        self, stream: AlignedEncoder, inputs: TaskInputs, lang: str, layers: tuple[int, ...]
    ) -> TokenMeans:
        from raxalign.encoders.models.token_means import Reading, token_means
        from raxalign.encoders.models.transformer import TransformerEncoder
        from raxalign.tasks.vectors.word_means import sentences_of

        assert isinstance(stream.encoder, TransformerEncoder)
        params = self.params
        reading = Reading(
            params.rows, params.block_size, params.max_blocks, params.weighting, params.specials
        )
        means = token_means(
            stream.encoder, sentences_of(inputs.text[lang]), lang, layers, reading, stream.edits()
        )
        if means is None:
            raise RaxalignError(
                f"token_translation: the text of {lang} has no word that the encoder reads: look at"
                f" `text` or `corpus` of {lang}"
            )
        return means

    def _outputs(
        self, stream: AlignedEncoder, way: _Way, steps: Mapping[int, torch.Tensor]
    ) -> dict[Point, list[Ints]]:
        from raxalign.tasks.translation.points import translate

        return {
            (layer, alpha): translate(
                stream, way.source.rows, way.source.lang, layer, alpha * step_H
            )
            for layer, step_H in steps.items()
            for alpha in self.params.alpha
        }


@dataclass(frozen=True)
class _Way:
    """One direction of a split."""

    source: Side
    target: Side


def _counted(output: list[Ints], way: _Way) -> Counts:
    from raxalign.tasks.translation.points import count

    return count(output, way.target.pieces, way.source.vocabulary, way.target.vocabulary)


def _best_scores(
    stream: AlignedEncoder, label: str, split: str, way: _Way, output: list[Ints], counts: Counts
) -> Iterator[Score]:
    """The metrics of one point, without its name."""
    from raxalign.encoders.models.transformer import TransformerEncoder
    from raxalign.tasks.translation.points import sacrebleu1

    assert isinstance(stream.encoder, TransformerEncoder)
    yield from (Score(label, metric, split, value) for metric, value in _values(counts))
    yield Score(
        label,
        "bleu1_sacrebleu",
        split,
        sacrebleu1(stream.encoder, output, way.target.pieces, way.target.lang),
    )


def _best(found: Mapping[str, Mapping[Point, Counts]]) -> Point | None:
    """The point with the best BLEU-1 on dev (the first of equals), or the only one; None where
    there is nothing to choose by.
    """
    points = found.get("dev")
    if points is None:
        only = next(iter(found.values()), {})
        return next(iter(only)) if len(only) == 1 else None
    return max(points, key=lambda point: points[point].bleu1())


def _values(counts: Counts) -> Iterator[tuple[str, float]]:
    rate = counts.convert_rate()
    if rate is not None:
        yield "convert_rate", rate
    yield "bleu1", counts.bleu1()


def _scores(label: str, split: str, points: Mapping[Point, Counts]) -> Iterator[Score]:
    for (layer, alpha), counts in points.items():
        for metric, value in _values(counts):
            yield Score(label, f"layer{layer}_alpha{alpha:g}_{metric}", split, value)


def _notes(
    best: Point | None, ways: Mapping[str, _Way], means: Mapping[str, TokenMeans]
) -> dict[str, object]:
    """What was chosen, and of what the means are."""
    told: dict[str, object] = {
        "chosen_on": "dev" if "dev" in ways else None,
        "layer": best and best[0],
        "alpha": best and best[1],
    }
    told["means"] = {
        lang: {"rows": mean.rows, "tokens": mean.tokens} for lang, mean in means.items()
    }
    for split, way in ways.items():
        shared = len(way.source.vocabulary & way.target.vocabulary)
        told[split] = {
            "sentences": len(way.source.ids),
            "truncated": way.source.truncated,
            "vocabulary": [len(way.source.vocabulary), len(way.target.vocabulary)],
            "shared": shared,
        }
    return told


def _table(label: str, split: str, way: _Way, points: Mapping[Point, Counts]) -> pa.Table:
    """Makes one row per sentence and point; `unit` is the same wherever the pivot's sentence is."""
    n = len(way.source.ids)
    parts = []
    for (layer, alpha), counts in points.items():
        fixed = {
            "lang": [label] * n,
            "split": [split] * n,
            "layer": [layer] * n,
            "alpha": [alpha] * n,
            "id": way.source.ids,
            "unit": way.source.units,
        }
        parts.append(pa.table({**fixed, **dict(counts.columns())}, schema=_SCHEMA))
    return pa.concat_tables(parts)


_COUNTS = ("tokens", "reference", "matches", "converted", "shared")
_SCHEMA = pa.schema(
    [
        ("lang", pa.string()),
        ("split", pa.string()),
        ("layer", pa.int64()),
        ("alpha", pa.float64()),
        *((name, pa.int64()) for name in ("id", "unit", *_COUNTS)),
    ]
)
