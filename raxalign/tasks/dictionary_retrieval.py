"""Retrieval of dictionary translations among the nearest words (Liu et al. 2020, §3.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, ClassVar, final

from pydantic import Field

from raxalign.arrays import Bools
from raxalign.config.params import LATER, Removed
from raxalign.config.sources import DataPath, LocalFile, Source, expand_path
from raxalign.corpora.readers.dictionary import DictionaryFile
from raxalign.corpora.readers.inspection import FileRead, read_dictionaries
from raxalign.corpora.text.dataset import word_counts
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.vectors import LayerList, Pooling
from raxalign.lazy import pa, torch
from raxalign.sample import Sample
from raxalign.similarity.measures import Measure
from raxalign.tasks.base import Task, TaskInputs, TaskNeeds
from raxalign.tasks.vectors import frame
from raxalign.tasks.vectors.dictionary_words import (
    MEANS,
    MEASURED,
    Entries,
    best_gold_ranks,
    mean_vectors,
    rank_metrics,
    rank_predictions,
)
from raxalign.tasks.vectors.directions import directed
from raxalign.tasks.vectors.frame import VectorTask

_DICTIONARY = "dictionary"


@final
class DictionaryRetrieval(VectorTask):
    """Retrieval of the translations in a bilingual dictionary, both ways, between vectors of words
    outside their sentences.

    A word is read in its occurrences in the grid's text, and its vector is their mean; words that
    do not occur are left out. Candidates are all words that the dictionary has in the other
    language; queries are words with at least one translation among them, and the best ranked
    translation counts. Ties take their average rank. All metrics are on the split `test`. Words are
    looked up in lower case, composed and without joiners. Results report how many entries of the
    dictionary remain, and the share of the text's word occurrences that they cover. A dictionary
    whose sides are clearly the other way round in the grid's text is refused.

    Reference: Liu et al. (2020, §4).
    """

    VERSION = 2
    papers = ("conneau2018csls", "measure=sinkhorn cuturi2013")
    metrics = MEASURED
    main_metric = "mrr"
    averaged = MEANS
    columns: ClassVar = {
        **dict.fromkeys(("direction", "query", "gold", "found"), "string"),
        "rank": "float64",
        "correct": "bool",
    }
    predicts = frozenset({"correct", "direction", "found", "gold", "query", "rank"})

    class Params(Task.Params):
        """Neighbourhoods of hubness terms are over the dictionary's words."""

        removed: ClassVar[Mapping[str, Removed]] = {
            "contexts": Removed("words are read where they occur in the text", keyed="corpus"),
            "temperature": frame.NO_TEMPERATURE,
        }
        dictionary: DataPath
        """File with two words per line, that of the other language first, in any case."""
        swap: Annotated[bool, LATER] = False
        """Whether the pivot's word comes first in the dictionary, as MUSE publishes dictionaries
        from English.
        """
        max_contexts: int | None = Field(20, ge=1)
        """Number of occurrences per word that suffice: a sentence is read where it holds a word
        that was met less often before (null: the mean is over all occurrences, as in Liu et al.
        2020).
        """
        layers: LayerList = Field("last", description=frame.LAYERS)
        pooling: Pooling = Field("mean", description=frame.WORD_POOLING)
        measure: Measure = Field("cosine", description=frame.WORD_MEASURE)
        k: int = Field(10, ge=1, description=frame.NEIGHBORS)

    params: Params

    def needs(self) -> TaskNeeds:
        """Return monolingual text, in which words are read."""
        return TaskNeeds(text=True)

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the dictionary of a language."""
        return {_DICTIONARY: LocalFile(expand_path(self.params.dictionary, lang=lang, pivot=pivot))}

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Read the dictionaries."""
        sources = {lang: self.sources(lang, pivot) for lang in languages}
        return read_dictionaries(sources, pivot, swap=self.params.swap)

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """Return the sample of what is formed of ranks: one part per direction."""
        return directed(rows, metric)

    def compare(
        self, aligned: AlignedEncoder, lang: str, inputs: TaskInputs
    ) -> Iterator[tuple[str, frame.SplitResult]]:
        """Rank the dictionary's words."""
        entries, coverage = self._entries(lang, inputs)
        (src, src_known), (tgt, tgt_known) = (
            self._vectors(aligned, words, code, inputs)
            for words, code in ((entries.src, lang), (entries.tgt, inputs.pivot))
        )
        covered = int(entries.both_among(src_known, tgt_known).sum())
        notes = {
            "entries": len(entries.pairs),
            "entries_covered": covered,
            "words_src": f"{int(src_known.sum())} of {len(entries.src)}",
            "words_tgt": f"{int(tgt_known.sum())} of {len(entries.tgt)}",
            **({} if covered else {"absent": "no entry has vectors for both words"}),
            **coverage,
        }
        if not covered:
            yield "test", frame.SplitResult({}, (), notes)
            return
        kept = entries.only(src_known, tgt_known)  # words without a vector are not candidates
        src, tgt = (
            vectors[torch.from_numpy(known).to(vectors.device)]
            for vectors, known in ((src, src_known), (tgt, tgt_known))
        )
        ranked = partial(best_gold_ranks, measure=self.params.measure, k=self.params.k)
        tables = [
            rank_predictions("to_pivot", kept.src, kept.tgt, ranked(src, tgt, kept.pairs)),
            rank_predictions(
                "from_pivot", kept.tgt, kept.src, ranked(tgt, src, kept.pairs[:, ::-1])
            ),
        ]
        yield "test", frame.SplitResult(rank_metrics([t["rank"] for t in tables]), tables, notes)

    def _entries(self, lang: str, inputs: TaskInputs) -> tuple[Entries, dict[str, object]]:
        """Read the dictionary of a language; return what of it is in the text too, for the notes.
        Raises `DataError` where its sides are clearly the other way round.
        """
        langs = (lang, inputs.pivot)
        found = DictionaryFile.read(inputs.files[_DICTIONARY][lang], langs, swap=self.params.swap)
        src, tgt = (word_counts(inputs.text[code], "words", code) for code in langs)
        return Entries.of(found.entries), found.coverage((src, tgt))

    def _vectors(
        self, aligned: AlignedEncoder, words: Sequence[str], lang: str, inputs: TaskInputs
    ) -> tuple[torch.Tensor, Bools]:
        """(vectors of words (V, H), whether each has one (V,))."""
        params = self.params
        read = partial(
            aligned.words, lang=lang, layers=frame.single(params.layers), pooling=params.pooling
        )
        vectors, counts = mean_vectors(
            aligned, inputs.text[lang], (lang, words), read, params.max_contexts
        )
        return vectors, counts > 0
