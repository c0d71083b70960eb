"""Retrieval of dictionary translations: the rank of a right one among the nearest words (Liu et al.
2020, §3.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, final

import numpy as np
import pyarrow as pa
from pydantic import Field

from raxalign import lazy
from raxalign.config.params import LATER
from raxalign.config.sources import DataPath, LocalFile, Source, expand_path
from raxalign.corpora.readers.dictionary import dictionary_coverage, found_entries, read_dictionary
from raxalign.corpora.text.dataset import word_counts
from raxalign.encoders.models.vectors import Layers, Pooling, parse_layers
from raxalign.sample import Sample
from raxalign.similarity import Measure, uses_neighbors
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs, TaskNeeds
from raxalign.tasks.transfer.outcome import means
from raxalign.tasks.vectors import wording
from raxalign.tasks.vectors.dictionary_words import (
    MEANS,
    MEASURED,
    Entries,
    RankedWords,
    predictions_schema,
    rank_metrics,
)
from raxalign.tasks.vectors.linked_words import Bools
from raxalign.tasks.vectors.ranks import best_gold_ranks
from raxalign.tasks.vectors.samples import directed
from raxalign.tasks.vectors.word_means import WordReading, lone_vectors, mean_vectors

if TYPE_CHECKING:
    import torch

    from raxalign.corpora.readers.inspection import FileRead
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime
else:
    torch = lazy.load("torch")

_DICTIONARY = "dictionary"
_FILE = "File with two words per line, that of the other language first, in any case."
_SWAP = (
    "Whether the pivot's word comes first in the dictionary, as MUSE publishes dictionaries from"
    " English."
)
_CONTEXTS = (
    "Where a word is read: in its occurrences in the grid's text (`corpus`, by their mean; words"
    " that do not occur are left out), alone (`isolated`), or alone only where it does not occur"
    " (`corpus-or-isolated`)."
)
_MAX_CONTEXTS = (
    "Number of occurrences per word that suffice: a sentence is read where it holds a word that was"
    " met less often before (null: the mean is over all occurrences, as in Liu et al. 2020)."
)


@final
class DictionaryRetrieval(Task):
    """Retrieval of the translations in a bilingual dictionary, both ways, between vectors of words
    outside their sentences.

    Candidates are all words that the dictionary has in the other language; queries are words with
    at least one translation among them, and the best ranked translation counts. Ties take their
    average rank. All metrics are on the split `test`. The notes record how many entries of the
    dictionary remain, and the share of the text's running words that they cover; results show a
    remark where it is little. A dictionary whose sides are clearly the other way round in the
    grid's text is refused.

    Reference: Liu et al. (2020, §4).
    """

    VERSION = 1
    papers = ("conneau2018csls",)
    accepts = frozenset({"transformer", "static"})
    metrics = MEASURED
    main_metric = "mrr"
    predicts = frozenset({"correct", "direction", "found", "gold", "query", "rank"})

    class Params(Task.Params):
        """Neighbourhoods of hubness terms are over the dictionary's words."""

        dictionary: DataPath = Field(description=_FILE)
        swap: Annotated[bool, LATER] = Field(False, description=_SWAP)
        contexts: Literal["corpus", "isolated", "corpus-or-isolated"] = Field(
            "corpus", description=_CONTEXTS
        )
        max_contexts: int | None = Field(20, ge=1, description=_MAX_CONTEXTS)
        layers: Layers = Field("last", description=wording.LAYERS)
        pooling: Pooling = Field("mean", description=wording.WORD_POOLING)
        measure: Measure = Field("cosine", description=wording.WORD_MEASURE)
        k: int = Field(10, ge=1, description=wording.NEIGHBORS)

    params: Params

    def needs(self) -> TaskNeeds:
        """Return monolingual text, unless words are encoded alone."""
        return TaskNeeds(text=self.params.contexts != "isolated")

    def reads(self, n_layers: int) -> Reads:
        """Return `layers`."""
        return Reads(frozenset(parse_layers(self.params.layers, n_layers)))

    def canonical(self) -> dict[str, object]:
        """Return the params without `k` and `max_contexts` where nothing depends on them."""
        idle = (set() if uses_neighbors(self.params.measure) else {"k"}) | (
            {"max_contexts"} if self.params.contexts == "isolated" else set()
        )
        return {name: value for name, value in self.params.identity().items() if name not in idle}

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the dictionary of a language."""
        return {_DICTIONARY: LocalFile(expand_path(self.params.dictionary, lang=lang, pivot=pivot))}

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Read the dictionaries."""
        from raxalign.corpora.readers.inspection import read_dictionaries

        sources = {lang: self.sources(lang, pivot) for lang in languages}
        return read_dictionaries(sources, pivot, swap=self.params.swap)

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """Return the sample of what is formed of ranks: one part per direction."""
        return directed(rows, metric)

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,  # noqa: ARG002
    ) -> Outcome:
        """Rank every language's dictionary words."""
        scores: list[Score] = []
        tables: list[pa.Table] = []
        notes: dict[str, object] = {}
        for lang in languages:
            label = f"{lang}-{inputs.pivot}"
            entries, covered = self._entries(lang, inputs)
            answers, counts = self._answers(aligned.toward(lang), entries, lang, inputs)
            notes[label] = {**counts, **covered}
            scores += [
                Score(label, metric, "test", value)
                for metric, value in rank_metrics([answer.ranks.rank for answer in answers]).items()
            ]
            tables += [answer.table(label) for answer in answers]
        scores += (
            means(scores, [f"{lang}-{inputs.pivot}" for lang in languages], metrics=MEANS)
            if len(languages) > 1
            else []
        )
        return Outcome(
            scores,
            pa.concat_tables(tables) if tables else predictions_schema().empty_table(),
            notes,
        )

    def _entries(self, lang: str, inputs: TaskInputs) -> tuple[Entries, dict[str, object]]:
        """Read the dictionary of a language; return what of it is in the text too, for the notes.
        Raises `DataError` where its sides are clearly the other way round.
        """
        path, swap = inputs.files[_DICTIONARY][lang], self.params.swap
        entries = Entries.read(path, swap=swap)
        if self.params.contexts == "isolated":
            return entries, {}
        pairs, langs = read_dictionary(path, swap=swap), (lang, inputs.pivot)
        counts = (
            word_counts(inputs.text[lang], "words"),
            word_counts(inputs.text[inputs.pivot], "words"),
        )
        found_entries(path, pairs, (counts[0].keys(), counts[1].keys()), langs=langs, swap=swap)
        there, shares = dictionary_coverage(pairs, counts)
        return entries, {
            "entries_in_text": there,
            "running_words": {
                code: round(share, 4) for code, share in zip(langs, shares, strict=True)
            },
        }

    def _answers(
        self, aligned: AlignedEncoder, entries: Entries, lang: str, inputs: TaskInputs
    ) -> tuple[list[RankedWords], dict[str, object]]:
        """Both directions' answers, and counts."""
        (src, src_known), (tgt, tgt_known) = (
            self._vectors(aligned, words, code, inputs)
            for words, code in ((entries.src, lang), (entries.tgt, inputs.pivot))
        )
        covered = int(entries.both_among(src_known, tgt_known).sum())
        counts = {
            "entries": len(entries.pairs),
            "entries_covered": covered,
            "words_src": f"{int(src_known.sum())} of {len(entries.src)}",
            "words_tgt": f"{int(tgt_known.sum())} of {len(entries.tgt)}",
        }
        if not covered:
            return [], {**counts, "absent": "no entry has vectors for both words"}
        kept = entries.only(src_known, tgt_known)  # words without a vector are not candidates
        src, tgt = (
            vectors[torch.from_numpy(known).to(vectors.device)]
            for vectors, known in ((src, src_known), (tgt, tgt_known))
        )
        measure, k = self.params.measure, self.params.k
        ahead = best_gold_ranks(src, tgt, kept.pairs, measure=measure, k=k)
        back = best_gold_ranks(tgt, src, kept.pairs[:, ::-1], measure=measure, k=k)
        return [
            RankedWords("to_pivot", kept.src, kept.tgt, ahead),
            RankedWords("from_pivot", kept.tgt, kept.src, back),
        ], counts

    def _vectors(
        self, aligned: AlignedEncoder, words: Sequence[str], lang: str, inputs: TaskInputs
    ) -> tuple[torch.Tensor, Bools]:
        """(vectors of words (V, H), whether each has one (V,))."""
        params = self.params
        reading = WordReading(lang, params.layers, params.pooling)
        if params.contexts == "isolated":
            return lone_vectors(aligned, words, reading)
        vectors, counts = mean_vectors(
            aligned, inputs.text[lang], words, reading, params.max_contexts
        )
        known = counts > 0
        if params.contexts == "corpus-or-isolated" and not known.all():
            unmet = np.flatnonzero(~known)
            alone, has = lone_vectors(aligned, [words[i] for i in unmet.tolist()], reading)
            vectors[torch.from_numpy(unmet).to(vectors.device)] = alone
            known[unmet] = has
        return vectors, known
