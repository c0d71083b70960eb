"""The geometry of a space: can a linear probe tell its languages apart, how far do all vectors
point one way, and where do words lie?
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

import numpy as np
import pyarrow as pa
from pydantic import Field, field_validator

from raxalign.encoders.models.vectors import Pooling, layer_ends, parse_layers
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs, TaskNeeds
from raxalign.tasks.transfer.outcome import means
from raxalign.tasks.vectors.linked_words import Bools, LinkedWords, Words, read_linked_words
from raxalign.tasks.vectors.projection import POINTS, projected_words

if TYPE_CHECKING:
    import numpy.typing as npt

    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime


@final
class Representation(Task):
    """Language identity and anisotropy of every layer, and a projection of words, over the held-out
    test side of the grid's own corpus.

    Metrics of a language pair, for every layer: `layer{l}_language_probe`, the accuracy of a
    logistic regression that tells the two languages' vectors apart, trained on half of the
    sentences and tested on the other (one half is chance: no language is to be seen);
    `layer{l}_anisotropy`, the mean cosine of different vectors of the language, and
    `layer{l}_anisotropy_pivot`, of the pivot. Those of the highest layer are also given as
    `language_probe`, `anisotropy` and `anisotropy_pivot`. For none of these is more simply better.

    Predictions are points: occurrences of linked words at the highest layer (`kind` occurrence), as
    in Cao et al. (2020, Figure 1), and the word types most often linked, stop words and what is no
    word left out, by the mean of their vectors at the lowest layer (`kind` type), as in the Figure
    2 of WEAM.

    Reference: Ethayarajh (2019) for anisotropy.
    """

    VERSION = 1
    accepts = frozenset({"transformer", "static"})
    main_metric = "language_probe"
    predicts = frozenset()  # rows are points of a drawing: no metric over them
    competes = False

    class Params(Task.Params):
        """`layers` is `all`, or as elsewhere; `unit: sentences` looks at the means of sentences'
        words. The first `max_sentences` sentence pairs are read (None: all), `draw` is the seed of
        the probe's halves and of t-SNE. `projection` places `occurrences` linked pairs, evenly
        spread over the text, and `types` pairs of word types.
        """

        layers: str = "all"
        pooling: Pooling = "mean"
        unit: Literal["words", "sentences"] = "words"
        max_sentences: int | None = Field(300, ge=2)
        projection: Literal["none", "pca", "tsne"] = "pca"
        occurrences: int = Field(100, ge=0)
        types: int = Field(20, ge=0)
        draw: int = Field(0, ge=0)

        @field_validator("layers")
        @classmethod
        def _names_layers(cls, layers: str) -> str:
            if layers != "all":
                layer_ends(layers)
            return layers

    params: Params

    def needs(self) -> TaskNeeds:
        """Held-out word pairs."""
        return TaskNeeds(heldout=True)

    def reads(self, n_layers: int) -> Reads:
        """`layers`."""
        return Reads(frozenset(self._layers(n_layers)))

    def _layers(self, n_layers: int) -> tuple[int, ...]:
        return parse_layers(
            f"0-{n_layers}" if self.params.layers == "all" else self.params.layers, n_layers
        )

    def canonical(self) -> dict[str, object]:
        """Without the numbers of points where none are placed."""
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
        """The test side of every language."""
        layers = self._layers(aligned.n_layers)
        scores: list[Score] = []
        tables: list[pa.Table] = []
        notes: dict[str, object] = {}
        for lang in languages:
            label = f"{lang}-{inputs.pivot}"
            pairs = read_linked_words(inputs.heldout[lang] / "data")
            if self.params.max_sentences is not None:
                pairs = _first(pairs, self.params.max_sentences)
            src, tgt = (
                self._vectors(aligned.toward(lang), side, code, layers)
                for side, code in ((pairs.src, lang), (pairs.tgt, inputs.pivot))
            )
            scores += [
                Score(label, metric, "test", value)
                for metric, value in self._metrics(pairs, src, tgt, layers)
            ]
            if self.params.projection != "none":
                counts = (self.params.occurrences, self.params.types)
                tables.append(
                    projected_words(
                        label,
                        pairs,
                        src,
                        tgt,
                        (layers[0], layers[-1]),
                        counts,
                        self.params.projection,
                        self.params.draw,
                    )
                )
            notes[label] = {
                "sentences": len(pairs.ids),
                "words_src": int(src[1].sum()),
                "words_tgt": int(tgt[1].sum()),
            }
        scores += means(scores) if len(languages) > 1 else []
        return Outcome(scores, pa.concat_tables(tables) if tables else POINTS.empty_table(), notes)

    def _vectors(
        self, aligned: AlignedEncoder, words: Words, lang: str, layers: tuple[int, ...]
    ) -> tuple[npt.NDArray[np.float32], Bools]:
        """Vectors of all words (N, L, H), and which words have one."""
        found = aligned.words(
            words.sentences, lang, layers=f"{layers[0]}-{layers[-1]}", pooling=self.params.pooling
        )
        return found.vectors_NLH.float().cpu().numpy(), found.present_N.cpu().numpy().astype(
            np.bool_
        )

    def _metrics(
        self,
        pairs: LinkedWords,
        src: tuple[npt.NDArray[np.float32], Bools],
        tgt: tuple[npt.NDArray[np.float32], Bools],
        layers: tuple[int, ...],
    ) -> Iterator[tuple[str, float]]:
        from raxalign.tasks.vectors.probe import anisotropy, probe_accuracy

        sides = [
            (vectors[read], words.row[read])
            for (vectors, read), words in ((src, pairs.src), (tgt, pairs.tgt))
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
    """The first sentence pairs, with their links."""
    kept = pairs.keep(pairs.row < most)
    src, tgt = (Words(side.sentences[:most]) for side in (pairs.src, pairs.tgt))
    return LinkedWords(pairs.ids[:most], src, tgt, kept.row, kept.src_word, kept.tgt_word)


def _sentence_means(
    vectors_NLH: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The means (S, L, H) of each sentence's words, and the sentences (S,)."""
    sentences, owners = np.unique(rows, return_inverse=True)
    sums = np.zeros((len(sentences), *vectors_NLH.shape[1:]), np.float64)
    np.add.at(sums, owners, vectors_NLH)
    return (sums / np.bincount(owners)[:, None, None]).astype(np.float32), sentences
