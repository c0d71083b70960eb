"""Sentence retrieval in the manner of Tatoeba in XTREME (Hu et al. 2020)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, final

from pydantic import Field

from raxalign.arrays import Bools, Ints
from raxalign.corpora.readers.inspection import LocalRows
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.vectors import LayerList
from raxalign.lazy import np, pa, torch
from raxalign.measured import Measured, count, share, standard_error
from raxalign.options.params import LATER, Removed
from raxalign.options.sources import HubName, Source
from raxalign.sample import Sample, column, units_of
from raxalign.similarity.measures import Measure
from raxalign.similarity.neighbors import nearest_neighbors
from raxalign.tasks.base import Task, TaskInputs, TaskNeeds
from raxalign.tasks.transfer.params import REVISION
from raxalign.tasks.vectors import frame
from raxalign.tasks.vectors.frame import (
    DIRECTIONS,
    SearchDirection,
    SentenceReading,
    VectorTask,
    directed,
    mean_accuracy,
    with_directions,
)
from raxalign.tasks.vectors.pairs import SentenceFiles, SentencePairs, SentencesOfHub, SetName
from raxalign.tasks.vectors.pools import Nearness, QuerybankMeasure

Sides = tuple["torch.Tensor", "torch.Tensor"]
_SEARCHES: Mapping[str, tuple[SearchDirection, ...]] = {
    "both": ("to_pivot", "from_pivot"),
    "pivot": ("from_pivot",),
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

_OF_POOL = ("max_rank", "own_language", "pivot_language")
_NEIGHBORS = f"{frame.NEIGHBORS[:-1]}, but for `nnn`."


def _of_pool(rows: pa.Table, metric: str) -> Sample | None:
    """Return the sample of what a mixed pool has: one part per direction."""
    if metric not in rows.column_names:
        return None
    gains, directions = column(rows, metric).astype(float), column(rows, "direction")
    asked = ~np.isnan(gains)
    ones = np.ones(int(asked.sum()))
    return Sample.summed(units_of(rows)[asked], directions[asked], gains[asked], ones)


@final
class SentenceRetrieval(VectorTask):
    """Retrieval of translations among the held-out sentence pairs of the grid's own corpus or of
    the task's own files (`data`), dev and test side, both directions.

    Candidates are all sentences of the other side. A sentence is found when its nearest neighbour
    is its translation, or a sentence of the same words. A sentence that has no vector, because the
    encoder reads none of its words, counts as not found.

    With `pool: mixed` candidates are the different sentences of all languages of the trial and the
    pivot, except the query itself. A sentence is then found when its nearest neighbour is a
    translation of it, in whichever language. More metrics say in which languages the ten nearest
    are, and how many sentences one must look at to have seen all translations (Max@R, Hong et al.
    2026). An encoder whose vectors say first of all which language a sentence is in may be
    good in pools of two languages, and find nothing in a mixed one. Such a grid names its languages
    `together`.

    `profile: xtreme` is how XTREME scores Tatoeba with encoders of 12 blocks: the mean over all
    subword tokens after block 8, the cosine, and the pivot's sentences as queries. (XTREME calls it
    layer 7: its script leaves out the embeddings and counts the blocks from 0. With 24 blocks it
    takes its layer 13, which is `layers: 14` here.)

    Data: held-out sentence pairs of the grid's corpus, or those of `data`.

    Reference: Hu et al. (2020, XTREME).

    Relations: `bitext_mining` also decides which sentences have a translation at all; `retrieval`
    finds words. `mteb` runs further retrieval data in mteb's manner.

    Example:
        tasks:
          sentence_retrieval: {layers: 8, pooling: mean}
          tatoeba: {kind: sentence_retrieval, data: tatoeba, profile: xtreme}
    """

    VERSION = 2
    papers = (
        *("hu2020", "artetxe2019tatoeba", "measure=csls conneau2018csls"),
        *("measure=margin artetxe2019margin", "measure=inverted_softmax smith2017"),
        *("measure=sinkhorn cuturi2013", "measure=qb_norm bogolin2022"),
        *("measure=nnn chowdhury2024", "pool=mixed hong2026"),
    )
    profiles = _PROFILES
    metrics = (
        *with_directions(
            share(
                "accuracy",
                "Share of sentences whose nearest neighbour is their translation, the mean of both"
                " directions (`profile: xtreme`: from the pivot alone).",
                sample=directed,
            )
        ),
        count("accuracy_pairs", "Number of sentence pairs."),
        Measured(
            "max_rank",
            "Rank of the last of a query's translations in a mixed pool, the mean over queries"
            " (Max@R).",
            better="lower",
            range=(1, math.inf),
            sample=_of_pool,
        ),
        share(
            "own_language",
            "Share of the query's own language among the ten nearest sentences of a mixed pool.",
            better="lower",
            sample=_of_pool,
        ),
        share(
            "pivot_language",
            "Share of the pivot among the ten nearest sentences of a mixed pool, for queries of"
            " other languages.",
            better="neither",
            sample=_of_pool,
        ),
        standard_error("accuracy_stderr", "Standard error of the accuracy, by sentence pair."),
    )
    main_metric = "accuracy"
    averaged = ("accuracy", *_OF_POOL)
    columns: ClassVar = {
        "direction": "string",
        **dict.fromkeys(("id", "unit", "found_id"), "int64"),
        "correct": "bool",
    }
    predicts = frozenset({"correct", "direction", "found_id", "id", "unit"})

    class Params(Task.Params):
        """Options left at `none` take the profile's value."""

        removed: ClassVar[Mapping[str, Removed]] = {
            "specials": Removed("leave it out: special tokens are part of means", keyed=None),
            "queries": Removed(
                "leave it out: `profile: xtreme` has the pivot's sentences as queries, and"
                " `accuracy_to_pivot` and `accuracy_from_pivot` are of one side each",
                keyed=None,
            ),
            "temperature": frame.NO_TEMPERATURE,
            "alpha": Removed(
                f"leave it out: `nnn` subtracts {Nearness.ALPHA} of the mean cosine",
                default=Nearness.ALPHA,
            ),
        }
        profile: Literal["none", "xtreme"] = "none"
        """Set of values for the options that are not given: `none`, or the setting of XTREME
        (`xtreme`).
        """
        layers: LayerList | None = Field(None, description=frame.LAYERS)
        pooling: frame.OwnPooling | None = Field(None, description=frame.SENTENCE_POOLING)
        measure: Measure | QuerybankMeasure | None = Field(
            None, description=frame.SENTENCE_MEASURE + Nearness.ABOUT
        )
        data: Annotated[Literal["corpus"] | SetName | SentenceFiles, LATER] = "corpus"
        """Where the sentence pairs come from: the held-out sides of the grid's own `corpus`; or,
        also in languages that the grid does not align, a set of the hub (`tatoeba` as in XTREME,
        `flores`: FLORES+, `ntrex`: NTREX-128) or files of the task's own.
        """
        dataset: Annotated[HubName | None, LATER] = None
        """Another name of the set on the hub, or the folder of a local copy of its repository
        (none: the set's own).
        """
        revision: Annotated[str, LATER] = Field("main", description=REVISION.description)
        codes: Annotated[dict[str, str], LATER] = Field(default_factory=dict)
        """Codes of the set for languages, by language, where they differ from its own list."""
        pool: Annotated[Literal["bilingual", "mixed"], LATER] = "bilingual"
        """Which sentences are candidates: those of the other side (`bilingual`), or those of all
        languages of the trial and the pivot, the query's own language included (`mixed`).
        """
        k: int = Field(10, ge=1, description=_NEIGHBORS)

    params: Params

    def needs(self) -> TaskNeeds:
        """Return the held-out sentences, where the task has none of its own; a bank of queries is
        those of the dev side.
        """
        pooling, near = f"pooling: {self.resolved()['pooling']}", self._near()
        if self.params.data != "corpus":
            return TaskNeeds(pooling=pooling)
        dev = f"measure: {near.measure}" if near.has_bank else ""
        return TaskNeeds(bitext=True, dev=dev, pooling=pooling)

    def resolved(self) -> dict[str, Any]:
        """Return the params with the profile's values where none is given, without its name."""
        given = self.params.identity()
        profile = _PROFILES[given.pop("profile")]
        return {name: profile[name] if value is None else value for name, value in given.items()}

    def idle(self) -> set[str]:
        """Return `specials` too where there is no mean for them."""
        given = self.resolved()
        idle = {"dataset", "revision"}  # their identity is that of what is read
        idle |= set() if given["pooling"] in ("mean", "weighted") else {"specials"}
        idle |= set() if self._set else {"codes"}
        return idle | self._near().idle

    @property
    def _set(self) -> SentencesOfHub | None:
        """The set of the hub, where the pairs are from one."""
        params = self.params
        if params.data == "corpus" or isinstance(params.data, SentenceFiles):
            return None
        return SentencesOfHub(params.data, params.dataset, params.revision, params.codes)

    def _pairs(self, lang: str, inputs: TaskInputs) -> Iterator[tuple[str, SentencePairs]]:
        """Yield each split with its sentence pairs."""
        if self._set:
            yield from self._set.read(lang, inputs.pivot, inputs.digests, inputs.downloads)
            return
        if self.params.data != "corpus":
            yield from ((source.split, source.read()) for source in self.rows(lang, inputs))
            return
        yield from SentencePairs.held_out(inputs.bitext[lang])

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the task's own files of a language and the pivot, or its set of the hub."""
        data = self._set or self.params.data
        return {} if isinstance(data, str) else data.sources(lang, pivot)

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Report a mixed pool of one language, languages that a set lacks, files of neither split,
        and a measure without its bank.
        """
        data, known = self.params.data, self._set
        faults = []
        if self.params.pool == "mixed" and len(languages) < 2:
            faults.append(
                "pool: mixed is of several languages, and here is one: name more of them"
                " `together`, or write pool: bilingual"
            )
        if data == "corpus":
            return faults
        faults += known.faults(languages, pivot) if known else ()
        splits = set(known.known.splits) if known else set()
        splits |= set(data.splits()) if isinstance(data, SentenceFiles) else set()
        if not splits:
            faults.append("data has neither dev nor test: there is nothing to evaluate")
        elif self._near().has_bank and len(splits) == 1:
            instead = "data: flores has both" if known else "give dev and test"
            faults.append(
                f"measure: {self._near().measure} takes the development part as its bank of"
                f" queries: {instead}"
            )
        return faults

    def rows(self, lang: str, inputs: TaskInputs) -> Iterator[LocalRows]:
        """Yield the task's own files."""
        if isinstance(self.params.data, SentenceFiles):
            yield from self.params.data.rows(lang, inputs.pivot, inputs.files)

    def more_columns(self) -> Mapping[str, str]:
        """Return what is found in a mixed pool."""
        of_pool = {"found_lang": "string", **dict.fromkeys(_OF_POOL, "double")}
        return of_pool if self.params.pool == "mixed" else {}

    def _near(self) -> Nearness:
        """Return what is near by the params."""
        measure, params = self.resolved()["measure"], self.params
        return Nearness(measure, params.k)

    def _reading(self) -> SentenceReading:
        params = self.resolved()
        return SentenceReading(params["layers"], params["pooling"])

    def pools_languages(self) -> bool:
        """Return whether the pool is mixed."""
        return self.params.pool == "mixed"

    def compared(
        self, aligned: AlignedEncoder, languages: tuple[str, ...], inputs: TaskInputs
    ) -> Iterator[tuple[str, str, frame.SplitResult]]:
        """Yield what is found for each language, in pools of two or in that of all."""
        if self.params.pool == "bilingual":
            yield from super().compared(aligned, languages, inputs)
            return
        params = self.resolved()
        sides: dict[str, dict[str, SentencePairs]] = {}
        banks: dict[str, Mapping[str, object]] = {}
        for lang in languages:
            every = dict(self._pairs(lang, inputs))
            banks[lang] = self._bank_note(every)
            for split, pairs in every.items():
                sides.setdefault(split, {})[lang] = pairs
        pools = self._near().pools(aligned, sides, inputs.pivot, self._reading())
        for split, lang, pairs, pool in pools:
            tables = []
            notes = {"sentences": len(pairs.ids), "pool": pool.sizes, **pairs.note, **banks[lang]}
            for name, code in (("unread_src", lang), ("unread_tgt", inputs.pivot)):
                if unread := int((~pool.read[pool.places(code)]).sum()):
                    notes[name] = unread
            for way in _SEARCHES[params["queries"]]:
                side, code = (pairs.src, lang) if way == "to_pivot" else (pairs.tgt, inputs.pivot)
                found = pool.search(code, side)
                own = {"direction": [way] * len(side), "id": pairs.ids, "unit": pairs.units}
                tables.append({**own, **found})
            values = _values(tables) if len(pairs.ids) else {}
            yield lang, split, frame.SplitResult(values, tables, {split: notes})

    def compare(
        self, aligned: AlignedEncoder, lang: str, inputs: TaskInputs
    ) -> Iterator[tuple[str, frame.SplitResult]]:
        """Retrieve on the dev and the test side; with a bank of queries on the test side alone."""
        params, how, bank = self.resolved(), self._reading(), None
        every = dict(self._pairs(lang, inputs))
        for split, pairs in every.items():
            (src, src_read), (tgt, tgt_read) = (
                how.vectors(aligned, sentences, code)
                for sentences, code in ((pairs.src, lang), (pairs.tgt, inputs.pivot))
            )
            notes = {
                "sentences": len(pairs.ids),
                **pairs.note,
                **self._bank_note(every),
                "unread_src": int((~src_read).sum()),
                "unread_tgt": int((~tgt_read).sum()),
            }
            values, tables = {}, []
            if self._near().has_bank and split == "dev":
                bank = src, tgt
                continue
            if len(pairs.ids):
                nearest = self._nearest(lang, src, tgt, bank)
                found = dict(zip(DIRECTIONS, (side.cpu().numpy() for side in nearest), strict=True))
                asked = {way: found[way] for way in _SEARCHES[params["queries"]]}
                tables = [
                    _predictions(pairs, way, rows, src_read & tgt_read)
                    for way, rows in asked.items()
                ]
                values = _values(tables)
            yield split, frame.SplitResult(values, tables, {split: notes})

    def _bank_note(self, pairs: Mapping[str, SentencePairs]) -> dict[str, object]:
        """Return the note on the development part, where it is the bank and has no values."""
        note = pairs["dev"].note if self._near().has_bank and "dev" in pairs else {}
        return {"bank": note} if note else {}

    def _nearest(
        self, lang: str, src: torch.Tensor, tgt: torch.Tensor, bank: Sides | None
    ) -> Sides:
        """Return the nearest sentence of the other side for every sentence of either side."""
        near = self._near()
        if not near.has_bank:
            measure: Any = near.measure
            return nearest_neighbors(src, tgt, measure=measure, k=near.k)
        if bank is None:
            raise near.no_bank(lang)
        return near.nearest(src, tgt, bank[0]), near.nearest(tgt, src, bank[1])


def _predictions(
    pairs: SentencePairs, direction: SearchDirection, found: Ints, read: Bools
) -> dict[str, Any]:
    """Return one row per sentence pair, by the row that was found for each (`found`), and whether
    both its sentences have vectors (`read`); `unit` is the same wherever the pivot's sentence is.
    """
    side = pairs.tgt if direction == "to_pivot" else pairs.src
    right = [place == row or side[place] == side[row] for row, place in enumerate(found.tolist())]
    return {
        "direction": [direction] * len(found),
        "id": pairs.ids,
        "unit": pairs.units,
        "found_id": pairs.ids[found],
        "correct": np.array(right, dtype=np.bool_) & read,
    }


def _values(directions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return values by metric of the predictions of each direction."""
    rows = np.arange(len(directions[0]["id"]))
    value, error = mean_accuracy([(found["correct"], rows) for found in directions])
    values = {"accuracy": value}
    for found in directions:
        values[f"accuracy_{found['direction'][0]}"] = float(found["correct"].mean())
    values["accuracy_pairs"] = float(len(rows))
    for name in _OF_POOL:
        of_ways = [found[name] for found in directions if name in found]
        asked = [shares for shares in of_ways if not np.isnan(shares).any()]
        values |= {name: float(np.mean([shares.mean() for shares in asked]))} if asked else {}
    return values if error is None else {**values, "accuracy_stderr": error}
