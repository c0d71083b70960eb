"""Retrieval of dictionary translations among the nearest words (Liu et al. 2020, §3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, final

from pydantic import Field

from raxalign.arrays import Bools, Floats, Ints
from raxalign.corpora.readers.dictionary import DictionaryFile
from raxalign.corpora.readers.inspection import FileRead
from raxalign.corpora.text.dataset import read_table, word_counts
from raxalign.corpora.text.sentences import sentence_chunks
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.token_means import word_means
from raxalign.encoders.models.vectors import LayerList, Pooling, WordVectors
from raxalign.lazy import np, torch
from raxalign.measured import count, share
from raxalign.options.params import LATER, Removed
from raxalign.options.sources import DataPath, LocalFile, Source, expand_path
from raxalign.similarity.measures import Measure, Scaled
from raxalign.tasks.base import Task, TaskInputs, TaskNeeds
from raxalign.tasks.vectors import frame
from raxalign.tasks.vectors.frame import (
    DIRECTIONS,
    SearchDirection,
    VectorTask,
    directed,
    with_directions,
)

CHUNK = 1024
"""Sentences whose word vectors are in memory together."""
ROWS = 1024
"""Queries whose similarities are in memory together."""
_CUTS = (1, 5, 10)


@dataclass(frozen=True)
class Entries:
    """The different entries of a dictionary: the words of both sides, and entries (E, 2) by their
    numbers.
    """

    src: Sequence[str]
    tgt: Sequence[str]
    pairs: Ints

    @classmethod
    def of(cls, entries: Sequence[tuple[str, str]]) -> Entries:
        """Number the words of different entries."""
        numbers = [
            {word: i for i, word in enumerate(dict.fromkeys(entry[side] for entry in entries))}
            for side in (0, 1)
        ]
        pairs = [[numbers[0][src], numbers[1][tgt]] for src, tgt in entries]
        return cls(list(numbers[0]), list(numbers[1]), np.array(pairs, dtype=np.int64))

    def both_among(self, src_known: Bools, tgt_known: Bools) -> Bools:
        """Return which entries (E,) have both words among the known ones of each side."""
        return src_known[self.pairs[:, 0]] & tgt_known[self.pairs[:, 1]]

    def only(self, src_known: Bools, tgt_known: Bools) -> Entries:
        """Return the known words alone, numbered anew, and the entries that are left."""
        pairs = self.pairs[self.both_among(src_known, tgt_known)]
        src, tgt = (
            [word for word, has in zip(words, known, strict=True) if has]
            for words, known in ((self.src, src_known), (self.tgt, tgt_known))
        )
        numbers = [np.cumsum(known) - 1 for known in (src_known, tgt_known)]
        return Entries(src, tgt, np.stack([numbers[i][pairs[:, i]] for i in (0, 1)], axis=1))


def mean_vectors(
    aligned: AlignedEncoder,
    folder: Path,
    asked: tuple[str, Sequence[str]],
    read: Callable[[Sequence[Sequence[str]]], WordVectors],
    max_contexts: int | None,
) -> tuple[torch.Tensor, Ints]:
    """Return `word_means` of a language's text (its column ``words``), layers added up (V, H),
    and the occurrences that were counted (V,).
    """

    def added(sentences: Sequence[Sequence[str]]) -> WordVectors:
        found = read(sentences)
        return replace(found, vectors_NLH=found.vectors_NLH.sum(1, keepdim=True))

    text, shape = sentence_chunks(read_table(folder), "words", CHUNK), (1, aligned.hidden_size)
    means_VLH, counts_V = word_means(added, text, asked, shape, aligned.device, max_contexts)
    return means_VLH[:, 0].float(), counts_V.cpu().numpy()


@dataclass(frozen=True)
class Ranks:
    """For every query (Q,): the `rank` of its best gold candidate (NaN for a query without one),
    that candidate (-1 without one), and the nearest of all.
    """

    rank: Floats
    gold: Ints
    found: Ints


def best_gold_ranks(
    queries_QH: torch.Tensor,
    candidates_CH: torch.Tensor,
    gold_P2: Ints,
    *,
    measure: Measure,
    k: int = 10,
) -> Ranks:
    """Rank the best gold candidate of each query, 1 for the nearest; `gold_P2` are pairs (P, 2) of
    a query's number and that of a candidate which is right for it.

    Among g nearer candidates and E of the best gold one's own similarity, m of them gold, the rank
    is g + (E + 1) / (m + 1): the mean over all orders of the tied ones, which with one gold
    candidate is their average rank. Candidates of identical vectors always tie. The neighbourhoods
    of hubness terms, of `k` vectors, are all queries, those without a gold pair included.
    """
    sides = Scaled.of(queries_QH.float(), candidates_CH.float(), measure)
    candidates, kind = torch.unique(sides.candidates, dim=0, return_inverse=True)
    many = torch.bincount(kind, minlength=len(candidates)).double()
    first = torch.full((len(candidates),), len(kind), device=kind.device).scatter_reduce_(
        0, kind, torch.arange(len(kind), device=kind.device), "amin"
    )
    terms = sides.terms(candidates, k)
    gold_P2 = gold_P2[np.argsort(gold_P2[:, 0], kind="stable")]
    parts = []
    for start in range(0, len(queries_QH), ROWS):
        some = slice(start, start + ROWS)
        scores = terms.applied(sides.queries[some] @ candidates.T, some)
        here = slice(*np.searchsorted(gold_P2[:, 0], [start, start + len(scores)]))
        ranks = _ranked(scores, many, kind, gold_P2[here, 0] - start, gold_P2[here, 1])
        parts.append((*ranks, first[scores.argmax(1)].cpu().numpy()))
    return Ranks(*(np.concatenate(found) for found in zip(*parts, strict=True)))


def _ranked(
    scores: torch.Tensor, many: torch.Tensor, kind: torch.Tensor, rows: Ints, gold: Ints
) -> tuple[Floats, Ints]:
    """Return (ranks, best gold candidates) of queries by scores over distinct vectors."""
    device = scores.device
    rows_P, gold_P = (torch.from_numpy(part.astype(np.int64)).to(device) for part in (rows, gold))
    worth_P = scores[rows_P, kind[gold_P]]
    best = scores.new_full((len(scores),), -torch.inf).scatter_reduce_(0, rows_P, worth_P, "amax")
    winners = worth_P == best[rows_P]
    nearer = (scores > best[:, None]).double() @ many
    equal = (scores == best[:, None]).double() @ many
    right = torch.zeros(len(scores), dtype=torch.float64, device=device).index_add_(
        0, rows_P, winners.double()
    )
    ranks = nearer + (equal + 1) / (right + 1)
    chosen = torch.full((len(scores),), len(kind), device=device).scatter_reduce_(
        0, rows_P[winners], gold_P[winners], "amin"
    )
    asked = torch.isfinite(best)
    return (
        torch.where(asked, ranks, torch.nan).cpu().numpy(),
        torch.where(asked, chosen, -1).cpu().numpy(),
    )


def rank_predictions(
    direction: SearchDirection, queries: Sequence[str], candidates: Sequence[str], ranks: Ranks
) -> dict[str, Any]:
    """Return one row per query that has a translation among the candidates."""
    asked = np.flatnonzero(~np.isnan(ranks.rank))
    rank = ranks.rank[asked]
    return {
        "direction": [direction] * len(asked),
        "query": [queries[i] for i in asked.tolist()],
        "gold": [candidates[i] for i in ranks.gold[asked].tolist()],
        "found": [candidates[i] for i in ranks.found[asked].tolist()],
        "rank": rank,
        "correct": rank <= 1,
    }


MEASURED = (
    *with_directions(
        share(
            "mrr",
            "Mean of 1 / rank over the queries, the mean of both directions.",
            sample=directed,
        ),
        *(
            share(
                f"precision_at_{cut}",
                f"Share of queries whose rank is at most {cut}, the mean of both directions.",
                sample=directed,
            )
            for cut in _CUTS
        ),
    ),
    count("mrr_pairs", "Number of queries of both directions."),
)
"""What retrieval of dictionary words reports."""
MEANS = ("mrr", *(f"precision_at_{cut}" for cut in _CUTS))
"""The metrics that have means over languages."""


def rank_metrics(ranks: Sequence[Floats]) -> dict[str, float]:
    """Return values by metric of the ranks of the queries to and from the pivot."""
    both = {"mrr": [float((1 / part).mean()) for part in ranks]}
    both |= {
        f"precision_at_{cut}": [float((part <= cut).mean()) for part in ranks] for cut in _CUTS
    }
    values: dict[str, float] = {}
    for name, found in both.items():
        values[name] = sum(found) / 2
        values |= {f"{name}_{way}": value for way, value in zip(DIRECTIONS, found, strict=True)}
    return {**values, "mrr_pairs": float(sum(map(len, ranks)))}


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

    Data: a dictionary with two words per line, and the grid's text.

    Reference: Liu et al. (2020, §4).

    Relations: `retrieval` compares words in their sentences; choose this one for static vectors,
    and where there is a dictionary but no reliable word aligner.

    Example:
        tasks:
          dictionary_retrieval:
            dictionary: "dictionaries/{lang}-{pivot}.txt"
            measure: csls
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
            "contexts": Removed(
                "leave it out: words are read where they occur in the text", keyed="corpus"
            ),
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
        return DictionaryFile.inspected(sources, pivot, swap=self.params.swap)

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
