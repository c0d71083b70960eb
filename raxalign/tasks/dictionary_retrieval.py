"""Retrieval of dictionary translations: how far down the list of nearest words does a right one
stand (Liu et al. 2020, §3.1)?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, final

import lazy_loader as lazy
import numpy as np
import pyarrow as pa
from pydantic import Field

from raxalign.config.params import LATER
from raxalign.config.sources import DataPath, LocalFile, Source, expand_path
from raxalign.corpora.readers.dictionary import found_entries, read_dictionary
from raxalign.corpora.text.dataset import vocabulary
from raxalign.encoders.models.vectors import Layers, Pooling, parse_layers
from raxalign.sample import Sample
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs, TaskNeeds
from raxalign.tasks.transfer.outcome import means
from raxalign.tasks.vectors.ranks import Floats, Ints, Ranks, best_gold_ranks
from raxalign.tasks.vectors.samples import directed
from raxalign.tasks.vectors.word_means import lone_vectors, mean_vectors

if TYPE_CHECKING:
    import torch

    from raxalign.corpora.readers.inspection import FileRead
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime
else:
    torch = lazy.load("torch")

_DICTIONARY = "dictionary"
_CUTS = (1, 5, 10)
_MEASURES = ("mrr", *(f"precision_at_{cut}" for cut in _CUTS))


@final
class DictionaryRetrieval(Task):
    """Retrieval of the translations in a bilingual dictionary, both ways, between vectors of words
    outside their sentences.

    Candidates are all words that the dictionary has in the other language; queries are words with
    at least one translation among them, and the best ranked translation counts. Ties take their
    average rank. Metrics, all on the split `test`:

    * `mrr`, the mean of 1 / rank, and `precision_at_1`, `_5` and `_10`, the share of queries of at
      most that rank; each the mean of both directions, which are also given alone as `..._to_pivot`
      and `..._from_pivot`;
    * `mrr_pairs`, the number of queries of both directions. How many entries that leaves of the
      dictionary stands in the notes.
    """

    VERSION = 1
    accepts = frozenset({"transformer", "static"})
    main_metric = "mrr"
    predicts = frozenset({"correct", "direction", "found", "gold", "query", "rank"})

    class Params(Task.Params):
        """`dictionary`: two words a line, that of the other language first, in any case; `swap` is
        for one with the pivot's word first, as MUSE publishes them from English. One that clearly
        has its sides the other way round in the grid's text is refused.

        `contexts: corpus` is the mean over a word's occurrences in the grid's text (in the first
        sentences that have one met less than `max_contexts` times), and words that do not occur are
        left out; `isolated` encodes each word alone; `corpus-or-isolated` those that do not occur.
        `layers` are added up; `pooling` joins a word's pieces; `k` is the neighbourhood of CSLS,
        which is over dictionary words.
        """

        dictionary: DataPath
        swap: Annotated[bool, LATER] = False
        contexts: Literal["corpus", "isolated", "corpus-or-isolated"] = "corpus"
        max_contexts: int = Field(20, ge=1)
        layers: Layers = "last"
        pooling: Pooling = "mean"
        measure: Literal["cosine", "csls"] = "cosine"
        k: int = Field(10, ge=1)

    params: Params

    def needs(self) -> TaskNeeds:
        """Monolingual text, unless words are encoded alone."""
        return TaskNeeds(text=self.params.contexts != "isolated")

    def reads(self, n_layers: int) -> Reads:
        """`layers`."""
        return Reads(frozenset(parse_layers(self.params.layers, n_layers)))

    def canonical(self) -> dict[str, object]:
        """Without `k` and `max_contexts` where nothing looks at them."""
        idle = ({"k"} if self.params.measure == "cosine" else set()) | (
            {"max_contexts"} if self.params.contexts == "isolated" else set()
        )
        return {name: value for name, value in self.params.identity().items() if name not in idle}

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """The dictionary of a language."""
        return {_DICTIONARY: LocalFile(expand_path(self.params.dictionary, lang=lang, pivot=pivot))}

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Reads the dictionaries."""
        from raxalign.corpora.readers.inspection import read_dictionaries

        return read_dictionaries(self.sources(lang, pivot) for lang in languages)

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """What is formed of ranks, a part per direction."""
        return directed(rows, metric)

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,  # noqa: ARG002
    ) -> Outcome:
        """Ranks of every language's dictionary words."""
        scores: list[Score] = []
        tables: list[pa.Table] = []
        notes: dict[str, object] = {}
        for lang in languages:
            label = f"{lang}-{inputs.pivot}"
            entries = self._entries(lang, inputs)
            answers, notes[label] = self._answers(aligned.toward(lang), entries, lang, inputs)
            scores += [
                Score(label, metric, "test", value)
                for metric, value in _metrics([answer.ranks.rank for answer in answers]).items()
            ]
            tables += [answer.table(label) for answer in answers]
        scores += (
            means(scores, [f"{lang}-{inputs.pivot}" for lang in languages], metrics=_MEASURES)
            if len(languages) > 1
            else []
        )
        return Outcome(scores, pa.concat_tables(tables) if tables else _SCHEMA.empty_table(), notes)

    def _entries(self, lang: str, inputs: TaskInputs) -> _Entries:
        """The dictionary of a language. Raises `DataError` where its sides are clearly the other
        way round.
        """
        path, swap = inputs.files[_DICTIONARY][lang], self.params.swap
        if self.params.contexts != "isolated":
            words = (
                vocabulary(inputs.text[lang], "words"),
                vocabulary(inputs.text[inputs.pivot], "words"),
            )
            found_entries(
                path, read_dictionary(path, swap=swap), words, langs=(lang, inputs.pivot), swap=swap
            )
        return _Entries.read(path, swap=swap)

    def _answers(
        self, aligned: AlignedEncoder, entries: _Entries, lang: str, inputs: TaskInputs
    ) -> tuple[list[_Answers], dict[str, object]]:
        """Both directions' answers, and counts."""
        (src, src_known), (tgt, tgt_known) = (
            self._vectors(aligned, words, code, inputs)
            for words, code in ((entries.src, lang), (entries.tgt, inputs.pivot))
        )
        both = src_known[entries.pairs[:, 0]] & tgt_known[entries.pairs[:, 1]]
        counts = {
            "entries": len(entries.pairs),
            "entries_covered": int(both.sum()),
            "words_src": f"{int(src_known.sum())} of {len(entries.src)}",
            "words_tgt": f"{int(tgt_known.sum())} of {len(entries.tgt)}",
        }
        if not both.any():
            return [], {**counts, "absent": "no entry has vectors for both words"}
        # Words without a vector are no candidates: numbers from here on are those of the words that
        # are left.
        src_words, tgt_words = (
            [word for word, has in zip(w, k, strict=True) if has]
            for w, k in ((entries.src, src_known), (entries.tgt, tgt_known))
        )
        src_gold, tgt_gold = (
            np.cumsum(known)[entries.pairs[both, i]] - 1
            for i, known in enumerate((src_known, tgt_known))
        )
        src, tgt = (
            v[torch.from_numpy(known).to(v.device)]
            for v, known in ((src, src_known), (tgt, tgt_known))
        )
        measure, k = self.params.measure, self.params.k
        ahead = best_gold_ranks(src, tgt, src_gold, tgt_gold, measure=measure, k=k)
        back = best_gold_ranks(tgt, src, tgt_gold, src_gold, measure=measure, k=k)
        return [
            _Answers("to_pivot", src_words, tgt_words, ahead),
            _Answers("from_pivot", tgt_words, src_words, back),
        ], counts

    def _vectors(
        self, aligned: AlignedEncoder, words: Sequence[str], lang: str, inputs: TaskInputs
    ) -> tuple[torch.Tensor, np.ndarray]:
        """(vectors of words (V, H), whether each has one)."""
        params = self.params
        if params.contexts == "isolated":
            return lone_vectors(aligned, words, lang, layers=params.layers, pooling=params.pooling)
        vectors, counts = mean_vectors(
            aligned,
            inputs.text[lang],
            words,
            lang,
            layers=params.layers,
            pooling=params.pooling,
            max_contexts=params.max_contexts,
        )
        known = counts > 0
        if params.contexts == "corpus-or-isolated" and not known.all():
            unmet = np.flatnonzero(~known)
            alone, has = lone_vectors(
                aligned,
                [words[i] for i in unmet.tolist()],
                lang,
                layers=params.layers,
                pooling=params.pooling,
            )
            vectors[torch.from_numpy(unmet).to(vectors.device)] = alone
            known[unmet] = has
        return vectors, known


@dataclass(frozen=True)
class _Entries:
    """A dictionary, lower-cased: its words on both sides, and the entries (E, 2) as numbers of
    those, each once.
    """

    src: list[str]
    tgt: list[str]
    pairs: Ints

    @classmethod
    def read(cls, path: Path, *, swap: bool) -> _Entries:
        entries = list(
            dict.fromkeys(
                (src.lower(), tgt.lower()) for src, tgt in read_dictionary(path, swap=swap)
            )
        )
        numbers = [
            {word: i for i, word in enumerate(dict.fromkeys(entry[side] for entry in entries))}
            for side in (0, 1)
        ]
        pairs = np.array(
            [[numbers[0][src], numbers[1][tgt]] for src, tgt in entries], dtype=np.int64
        )
        return cls(list(numbers[0]), list(numbers[1]), pairs)


@dataclass(frozen=True)
class _Answers:
    """The ranks of one direction, with the words that they are about."""

    direction: str
    queries: Sequence[str]
    candidates: Sequence[str]
    ranks: Ranks

    def table(self, label: str) -> pa.Table:
        """A row for every query that has a translation among the candidates."""
        asked = np.flatnonzero(~np.isnan(self.ranks.rank))
        rank = self.ranks.rank[asked]
        columns = {
            "lang": [label] * len(asked),
            "split": ["test"] * len(asked),
            "direction": [self.direction] * len(asked),
            "query": [self.queries[i] for i in asked.tolist()],
            "gold": [self.candidates[i] for i in self.ranks.gold[asked].tolist()],
            "found": [self.candidates[i] for i in self.ranks.found[asked].tolist()],
            "rank": rank,
            "correct": rank <= 1,
        }
        return pa.table(columns, schema=_SCHEMA)


_STRINGS = ("lang", "split", "direction", "query", "gold", "found")
_SCHEMA = pa.schema(
    [*((name, pa.string()) for name in _STRINGS), ("rank", pa.float64()), ("correct", pa.bool_())]
)


def _metrics(ranks: Sequence[Floats]) -> dict[str, float]:
    """Values by metric, of the ranks of both directions; queries without a gold candidate (NaN) are
    not asked.
    """
    if not ranks:
        return {}
    asked = [part[~np.isnan(part)] for part in ranks]
    measures = {"mrr": [float((1 / part).mean()) for part in asked]}
    measures |= {
        f"precision_at_{cut}": [float((part <= cut).mean()) for part in asked] for cut in _CUTS
    }
    values: dict[str, float] = {}
    for name, (to_pivot, from_pivot) in measures.items():
        values |= {
            name: (to_pivot + from_pivot) / 2,
            f"{name}_to_pivot": to_pivot,
            f"{name}_from_pivot": from_pivot,
        }
    return {**values, "mrr_pairs": float(sum(len(part) for part in asked))}
