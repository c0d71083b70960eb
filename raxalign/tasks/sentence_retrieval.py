"""Sentence retrieval in the manner of Tatoeba in XTREME (Hu et al. 2020): whether the nearest
neighbour of a sentence is its translation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
import pyarrow as pa
from pydantic import Field

from raxalign.encoders.models.sentence_config import SentencePooling
from raxalign.encoders.models.vectors import Layers, parse_layers
from raxalign.sample import Sample
from raxalign.similarity import Measure, nearest_neighbors, uses_neighbors
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs, TaskNeeds
from raxalign.tasks.transfer.outcome import means
from raxalign.tasks.vectors import wording
from raxalign.tasks.vectors.accuracy import SearchDirection
from raxalign.tasks.vectors.found_sentences import (
    MEASURED,
    FoundSentences,
    SentencePairs,
    predictions_schema,
)
from raxalign.tasks.vectors.samples import directed

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime

Queries = Literal["both", "pivot", "other"]

_SEARCHES: Mapping[Queries, tuple[SearchDirection, ...]] = {
    "both": ("to_pivot", "from_pivot"),
    "pivot": ("from_pivot",),
    "other": ("to_pivot",),
}
_SETTING = {
    "layers": "last",
    "pooling": "mean",
    "specials": "include",
    "measure": "cosine",
    "queries": "both",
}
_PROFILES: Mapping[str, Mapping[str, Any]] = {
    "none": _SETTING,
    "xtreme": {**_SETTING, "layers": "8", "queries": "pivot"},
}

_PROFILE = (
    "Set of values for the options that are not given: `none`, or the setting of XTREME (`xtreme`)."
)
_POOLING = (
    "What the vector of a sentence is: the `mean` of its pieces, a mean in which piece i of the row"
    " weighs i + 1 (`weighted`), that of its first piece (`cls`) or of its last one that is not"
    " special (`last`), or what sentence-transformers keeps in the encoder's folder, prompt"
    " included (`own`); of static vectors the mean of its words."
)
_SPECIALS = "Whether special pieces are part of the mean."
_QUERIES = (
    "Which sentences are queries: those of `both` sides in turn, of the `pivot` or of the `other`"
    " language."
)


@final
class SentenceRetrieval(Task):
    """Retrieval of translations among the held-out sentence pairs of the grid's own corpus, dev and
    test side, both directions.

    Candidates are all sentences of the other side. A sentence is found when its nearest neighbour
    is its translation, or a sentence of the same words. A sentence that has no vector, because the
    encoder reads none of its words, counts as not found.

    `profile: xtreme` is how XTREME scores Tatoeba with encoders of 12 blocks: the mean over all
    pieces after block 8, the cosine, and the pivot's sentences as queries. (XTREME calls it layer
    7: its script leaves out the embeddings and counts the blocks from 0. With 24 blocks it takes
    its layer 13, which is `layers: 14` here.)

    Reference: Hu et al. (2020, XTREME).
    """

    VERSION = 2
    papers = ("hu2020", "artetxe2019tatoeba", "measure=csls conneau2018csls")
    profiles = _PROFILES
    accepts = frozenset({"transformer", "static"})
    metrics = MEASURED
    main_metric = "accuracy"
    predicts = frozenset({"correct", "direction", "found_id", "id", "unit"})

    class Params(Task.Params):
        """Options left at `none` take the profile's value."""

        profile: Literal["none", "xtreme"] = Field("none", description=_PROFILE)
        layers: Layers | None = Field(None, description=wording.LAYERS)
        pooling: SentencePooling | Literal["own"] | None = Field(None, description=_POOLING)
        specials: Literal["include", "exclude"] | None = Field(None, description=_SPECIALS)
        measure: Measure | None = Field(None, description=wording.SENTENCE_MEASURE)
        queries: Queries | None = Field(None, description=_QUERIES)
        k: int = Field(10, ge=1, description=wording.NEIGHBORS)

    params: Params

    def needs(self) -> TaskNeeds:
        """Return the held-out sentences."""
        return TaskNeeds(bitext=True)

    def resolved(self) -> dict[str, Any]:
        """Return the params with the profile's values where none is given, without the profile's
        name.
        """
        given = self.params.identity()
        profile = _PROFILES[given.pop("profile")]
        return {name: profile[name] if value is None else value for name, value in given.items()}

    def reads(self, n_layers: int) -> Reads:
        """Return `layers`."""
        return Reads(frozenset(parse_layers(self.resolved()["layers"], n_layers)))

    def canonical(self) -> dict[str, object]:
        """Return the resolved params without `k` where the measure has no neighbourhoods, and
        without `specials` where there is no mean for them.
        """
        resolved = self.resolved()
        idle = (set() if uses_neighbors(resolved["measure"]) else {"k"}) | (
            set() if resolved["pooling"] in ("mean", "weighted") else {"specials"}
        )
        return {name: value for name, value in resolved.items() if name not in idle}

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """Return the sample of an accuracy: one part per direction."""
        return directed(rows, metric)

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,  # noqa: ARG002
    ) -> Outcome:
        """Retrieve on the dev and the test side of every language."""
        scores: list[Score] = []
        tables: list[pa.Table] = []
        notes: dict[str, dict[str, object]] = {}
        for lang in languages:
            label = f"{lang}-{inputs.pivot}"
            for split, folder in (
                ("dev", inputs.bitext[lang] / "dev"),
                ("test", inputs.bitext[lang] / "data"),
            ):
                if not folder.is_dir():
                    continue
                answers, counts = self._answer(
                    aligned.toward(lang), SentencePairs.read(folder), lang, inputs.pivot
                )
                scores += [
                    Score(label, metric, split, value)
                    for metric, value in answers.metrics().items()
                ]
                tables.append(answers.table(label, split))
                notes.setdefault(label, {})[split] = counts
        if len(languages) > 1:
            labels = [f"{lang}-{inputs.pivot}" for lang in languages]
            scores += means(scores, labels, metrics=["accuracy"])
        return Outcome(
            scores,
            pa.concat_tables(tables) if tables else predictions_schema().empty_table(),
            notes,
        )

    def _answer(
        self, aligned: AlignedEncoder, pairs: SentencePairs, lang: str, pivot: str
    ) -> tuple[FoundSentences, dict[str, object]]:
        from raxalign.tasks.vectors.sentences import SentenceReading, sentence_vectors

        params = self.resolved()
        how = SentenceReading(
            params["layers"], params["pooling"], specials=params["specials"] == "include"
        )
        (src, src_read), (tgt, tgt_read) = (
            sentence_vectors(aligned, sentences, code, how)
            for sentences, code in ((pairs.src, lang), (pairs.tgt, pivot))
        )
        ahead = back = np.zeros(0, np.int64)
        if len(pairs.ids):
            ahead, back = (
                found.cpu().numpy()
                for found in nearest_neighbors(src, tgt, measure=params["measure"], k=params["k"])
            )
        counts: dict[str, object] = {
            "sentences": len(pairs.ids),
            "unread_src": int((~src_read).sum()),
            "unread_tgt": int((~tgt_read).sum()),
        }
        return (
            FoundSentences(pairs, ahead, back, src_read & tgt_read, _SEARCHES[params["queries"]]),
            counts,
        )
