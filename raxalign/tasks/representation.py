"""The geometry of a space: whether a linear probe can tell its languages apart, how far all vectors
point one way, and where words lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

import numpy as np
import pyarrow as pa
from pydantic import Field, field_validator

from raxalign.encoders.models.vectors import Pooling, layer_ends, parse_layers
from raxalign.measured import Measured, Role, share
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs, TaskNeeds
from raxalign.tasks.transfer.outcome import means
from raxalign.tasks.vectors import wording
from raxalign.tasks.vectors.linked_words import LinkedWords, Words, read_linked_words
from raxalign.tasks.vectors.projection import (
    PLANE,
    LayeredVectors,
    LinkedVectors,
    Plane,
    projected_words,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime

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
class Representation(Task):
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
    accepts = frozenset({"transformer", "static"})
    metrics = (
        share("language_probe", _PROBE, "neither"),
        _cosine("anisotropy", "Mean cosine of different vectors of the language."),
        _cosine("anisotropy_pivot", "Mean cosine of different vectors of the pivot."),
        share("layer{l}_language_probe", "The probe at one layer.", "neither", "part"),
        _cosine("layer{l}_{anisotropy|anisotropy_pivot}", "The cosine at one layer.", "part"),
    )
    main_metric = "language_probe"
    predicts = frozenset()  # rows are points of a drawing: no metric over them

    class Params(Task.Params):
        """One evaluation examines all layers."""

        layers: str = Field("all", description=_LAYERS)
        pooling: Pooling = Field("mean", description=wording.WORD_POOLING)
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
        return parse_layers(
            f"0-{n_layers}" if self.params.layers == "all" else self.params.layers, n_layers
        )

    def canonical(self) -> dict[str, object]:
        """Return the params without the numbers of points where none are placed."""
        idle = {"occurrences", "types"} if self.params.projection == "none" else set()
        return {name: value for name, value in self.params.identity().items() if name not in idle}

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,  # noqa: ARG002
    ) -> Outcome:
        """Evaluate the test side of every language."""
        layers = self._layers(aligned.n_layers)
        scores: list[Score] = []
        tables: list[pa.Table] = []
        notes: dict[str, object] = {}
        for lang in languages:
            linked = self._linked(aligned.toward(lang), lang, inputs, layers)
            values = self._metrics(linked, layers)
            scores += [Score(linked.label, metric, "test", value) for metric, value in values]
            if self.params.projection != "none":
                tables.append(projected_words(linked, (layers[0], layers[-1]), self._plane()))
            notes[linked.label] = {
                "sentences": len(linked.pairs.ids),
                "words_src": int(linked.src.read_N.sum()),
                "words_tgt": int(linked.tgt.read_N.sum()),
            }
        if len(languages) > 1:
            scores += means(scores, [f"{lang}-{inputs.pivot}" for lang in languages])
        return Outcome(scores, pa.concat_tables(tables) if tables else PLANE.empty_table(), notes)

    def _plane(self) -> Plane:
        params = self.params
        return Plane(params.projection, params.occurrences, params.types, params.draw)

    def _linked(
        self, aligned: AlignedEncoder, lang: str, inputs: TaskInputs, layers: tuple[int, ...]
    ) -> LinkedVectors:
        """The linked words of a language and the pivot, with their vectors."""
        pairs = read_linked_words(inputs.heldout[lang] / "data")
        if self.params.max_sentences is not None:
            pairs = _first(pairs, self.params.max_sentences)
        src, tgt = (
            self._vectors(aligned, side, code, layers)
            for side, code in ((pairs.src, lang), (pairs.tgt, inputs.pivot))
        )
        return LinkedVectors(f"{lang}-{inputs.pivot}", pairs, src, tgt)

    def _vectors(
        self, aligned: AlignedEncoder, words: Words, lang: str, layers: tuple[int, ...]
    ) -> LayeredVectors:
        found = aligned.words(
            words.sentences, lang, layers=f"{layers[0]}-{layers[-1]}", pooling=self.params.pooling
        )
        return LayeredVectors(
            found.vectors_NLH.float().cpu().numpy(),
            found.present_N.cpu().numpy().astype(np.bool_),
        )

    def _metrics(
        self, linked: LinkedVectors, layers: tuple[int, ...]
    ) -> Iterator[tuple[str, float]]:
        from raxalign.tasks.vectors.probe import anisotropy, probe_accuracy

        sides = [
            (side.vectors_NLH[side.read_N], words.row[side.read_N])
            for side, words in ((linked.src, linked.pairs.src), (linked.tgt, linked.pairs.tgt))
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
    src, tgt = (Words(side.sentences[:most]) for side in (pairs.src, pairs.tgt))
    return LinkedWords(pairs.ids[:most], src, tgt, kept.row, kept.src_word, kept.tgt_word)


def _sentence_means(
    vectors_NLH: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return the means (S, L, H) of each sentence's words, and the sentences (S,)."""
    sentences, owners = np.unique(rows, return_inverse=True)
    sums = np.zeros((len(sentences), *vectors_NLH.shape[1:]), np.float64)
    np.add.at(sums, owners, vectors_NLH)
    return (sums / np.bincount(owners)[:, None, None]).astype(np.float32), sentences
