"""The geometry of a space: language identity, anisotropy, and where words lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, final

import numpy as np
from pydantic import Field, field_validator

from raxalign.arrays import Ints
from raxalign.encoders.models.vectors import Pooling, layer_ends, parse_layers
from raxalign.measured import Measured, Role, share
from raxalign.sample import Array
from raxalign.tasks.base import Reads, Task, TaskInputs, TaskNeeds
from raxalign.tasks.vectors import frame
from raxalign.tasks.vectors.frame import VectorTask
from raxalign.tasks.vectors.geometry import (
    PLANE,
    LinkedVectors,
    anisotropy,
    frequent_types,
    occurrences,
    points,
    probe_accuracy,
)
from raxalign.tasks.vectors.pairs import LinkedWords, SideWords, read_linked_words

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder

_PROBE = (
    "Accuracy of a logistic regression that tells the vectors of the language and the pivot apart."
)
_LAYERS = (
    "Layers that are examined: `all`, `last`, one number or a range such as `9-12` (0: the"
    " embeddings)."
)
_UNIT = "What has a vector: `words`, or `sentences` by the means of their words."
_MAX_SENTENCES = "Number of sentence pairs that are read, from the first on (none: all)."
_PROJECTION = "How words are placed in a plane: not at all (`none`), by `pca` or by `tsne`."
_OCCURRENCES = "Number of linked pairs that are placed, evenly spread over the text."
_TYPES = "Number of pairs of word types that are placed, the ones linked most often."
_DRAW = "Seed of the probe's halves and of t-SNE."


def _cosine(name: str, about: str, role: Role = "score") -> Measured:
    return Measured(name, about, "neither", role, range=(-1.0, 1.0))


@final
class Representation(VectorTask):
    """Language identity and anisotropy of every layer, and a projection of words, over the held-out
    test side of the grid's own corpus.

    The probe is trained on half of the sentences and tested on the other half; an accuracy of one
    half is chance, so that no language can be seen. Metrics of the highest layer are also given
    without the name of the layer. None of these has a better direction.

    Predictions are points of a plane. Occurrences of linked words at the highest layer have the
    `kind` occurrence, as in Cao et al. (2020, Figure 1). The word types most often linked have the
    `kind` type and are placed by the mean of their vectors at the lowest layer, as in Figure 2 of
    WEAM; stop words and tokens that are not words are left out.

    Reference: Ethayarajh (2019) for anisotropy.
    """

    VERSION = 1
    papers = ("ethayarajh2019",)
    metrics = (
        share("language_probe", _PROBE, "neither"),
        _cosine("anisotropy", "Mean cosine of different vectors of the language."),
        _cosine("anisotropy_pivot", "Mean cosine of different vectors of the pivot."),
        share("layer{l}_language_probe", "The probe at one layer.", "neither", "part"),
        _cosine("layer{l}_{anisotropy|anisotropy_pivot}", "The cosine at one layer.", "part"),
    )
    main_metric = "language_probe"
    columns = PLANE
    predicts = frozenset()  # rows are points of a drawing: no metric over them

    class Params(Task.Params):
        """One evaluation examines all layers."""

        layers: str = Field("all", description=_LAYERS)
        pooling: Pooling = Field("mean", description=frame.WORD_POOLING)
        unit: Literal["words", "sentences"] = Field("words", description=_UNIT)
        max_sentences: int | None = Field(300, ge=2, description=_MAX_SENTENCES)
        projection: Literal["none", "pca", "tsne"] = Field("pca", description=_PROJECTION)
        occurrences: int = Field(100, ge=0, description=_OCCURRENCES)
        types: int = Field(20, ge=0, description=_TYPES)
        draw: int = Field(0, ge=0, description=_DRAW)

        @field_validator("layers")
        @classmethod
        def _names_layers(cls, layers: str) -> str:
            if layers != "all":
                layer_ends(layers)
            return layers

    params: Params

    def needs(self) -> TaskNeeds:
        """Return held-out word pairs."""
        return TaskNeeds(heldout=True)

    def reads(self, n_layers: int) -> Reads:
        """Return `layers`."""
        return Reads(frozenset(self._layers(n_layers)))

    def _layers(self, n_layers: int) -> tuple[int, ...]:
        layers = self.params.layers
        return parse_layers(f"0-{n_layers}" if layers == "all" else layers, n_layers)

    def idle(self) -> set[str]:
        """Return the numbers of points where none are placed."""
        return {"occurrences", "types"} if self.params.projection == "none" else set()

    def compare(
        self, aligned: AlignedEncoder, lang: str, inputs: TaskInputs
    ) -> Iterator[tuple[str, frame.SplitResult]]:
        """Examine the test side."""
        params, layers = self.params, self._layers(aligned.n_layers)
        pairs = read_linked_words(inputs.heldout[lang] / "data")
        if params.max_sentences is not None:
            pairs = _first(pairs, params.max_sentences)
        read = [
            aligned.words(
                side.sentences, code, layers=f"{layers[0]}-{layers[-1]}", pooling=params.pooling
            )
            for side, code in ((pairs.src, lang), (pairs.tgt, inputs.pivot))
        ]
        linked = LinkedVectors(
            pairs,
            [side.vectors_NLH.float().cpu().numpy() for side in read],
            [side.present_N.cpu().numpy().astype(np.bool_) for side in read],
        )
        tables = []
        if params.projection != "none":
            both, how, seed = linked.both_read(), params.projection, params.draw
            of_types = frequent_types(both, params.types, inputs.pivot)
            tables = [
                points("occurrence", layers[-1], occurrences(both, params.occurrences), how, seed),
                points("type", layers[0], of_types, how, seed),
            ]
        words = {
            f"words_{name}": int(side.sum())
            for name, side in zip(("src", "tgt"), linked.read, strict=True)
        }
        values = dict(self._metrics(linked, layers))
        yield "test", frame.SplitResult(values, tables, {"sentences": len(pairs.ids), **words})

    def _metrics(
        self, linked: LinkedVectors, layers: tuple[int, ...]
    ) -> Iterator[tuple[str, float]]:
        sides = [
            (vectors_NLH[read_N], words.row[read_N])
            for vectors_NLH, read_N, (words, _) in zip(
                linked.vectors, linked.read, linked.pairs.sides(), strict=True
            )
        ]
        if self.params.unit == "sentences":
            sides = [_sentence_means(vectors, rows) for vectors, rows in sides]
        (one, one_rows), (other, other_rows) = sides
        for place, layer in enumerate(layers):
            found = {
                "language_probe": probe_accuracy(
                    one[:, place], other[:, place], one_rows, other_rows, self.params.draw
                ),
                "anisotropy": anisotropy(one[:, place]),
                "anisotropy_pivot": anisotropy(other[:, place]),
            }
            for name, value in found.items():
                if value is not None:
                    yield f"layer{layer}_{name}", value
                    if layer == layers[-1]:
                        yield name, value


def _first(pairs: LinkedWords, most: int) -> LinkedWords:
    """Return the first sentence pairs, with their links."""
    kept = pairs.keep(pairs.row < most)
    src, tgt = (SideWords(side.sentences[:most]) for side in (pairs.src, pairs.tgt))
    return replace(kept, ids=pairs.ids[:most], src=src, tgt=tgt)


def _sentence_means(vectors_NLH: Array, rows: Ints) -> tuple[Array, Ints]:
    """Return the means (S, L, H) of each sentence's words, and the sentences (S,)."""
    sentences, owners = np.unique(rows, return_inverse=True)
    sums = np.zeros((len(sentences), *vectors_NLH.shape[1:]), np.float64)
    np.add.at(sums, owners, vectors_NLH)
    return (sums / np.bincount(owners)[:, None, None]).astype(np.float32), sentences
