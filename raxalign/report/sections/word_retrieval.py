"""Word retrieval by part of speech, and by the difference of frequency ranks in the training text,
as far as the storage and the data have them (Cao et al. 2020, Table 4 and Figure 3).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, final

import numpy.typing as npt

from raxalign.analysis.cells import Cell, Value
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.words import look_up_form
from raxalign.grid.plan import Plan
from raxalign.lazy import np, pa, pc
from raxalign.measured import FEW
from raxalign.report.document import Entry, Line, Part, Share, Table, caption
from raxalign.report.drawing import Panel, Series, Sketch
from raxalign.report.sections.base import CellPredictions, Fill, Measure, Section, StoredPredictions
from raxalign.store.storage import Storage
from raxalign.values.numbers import NumberFormat
from raxalign.values.scoreboard import Scoreboard

_MOST_SENTENCES = 200_000
_TASK = "retrieval"
_MEASURE = "retrieval_by_pos"  # as published tables call it
_TAGGED = {"tgt", "id", "tgt_position", "direction", "identical"}
_TAGGED |= {"correct_first", "first", "first_any"}
_RANKED = {"src", "tgt", "direction", "correct", "identical", "unseen"}
_RANKS = "Retrieval by difference of frequency ranks"
_FEW = "too few queries"
Tagger = Callable[["pa.Table"], Sequence[str | None]]
"""Predictions of one language to a part of speech for each row, of the pivot's word."""


@final
class WordRetrieval(Section):
    """Accuracy of word retrieval by the part of speech of the pivot's words, which also fills the
    published tables that say ``analysis: retrieval_by_pos``, and by how far apart the two words are
    in frequency: from stored predictions, and from the training text in the storage.
    """

    VERSION = 2
    place = 75

    def share(self) -> Share | None:
        """Return the tables and the figure; None without predictions, tags and training text."""
        tables = list(self._by_tags(*self._tagger)) if self._tagger is not None else []
        table, sketch = self._by_ranks()
        tables += [table] if table.lines else []
        return self.one_part(Part("analyses", "Analyses"), [sketch], tables)

    def measures(self) -> Mapping[str, Measure]:
        """Return the accuracy of a cell by part of speech; without tags the reason."""
        return {_MEASURE: self._measure}

    @cached_property
    def _asked(self) -> tuple[str, list[CellPredictions], str]:
        """The grid's retrieval task, the predictions that are shown, and what captions say of the
        others.
        """
        task, cells, some = self.shown_cells(_TASK)
        return task, self.material.predictions.of_all(cells, task, _TAGGED), some

    @cached_property
    def _tagger(self) -> tuple[str, Tagger] | None:
        return pivot_tags(self.material.plan, self.material.predictions) if self._asked[1] else None

    def _by_tags(self, how: str, tags: Tagger) -> Iterator[Table]:
        """Yield the table without pairs of one form and, where there are such, with them."""
        results, (_, asked, some) = self.results, self._asked
        tables = [table for entry in asked for table in entry.tables.values()]
        same = any(any(table["identical"].to_pylist()) for table in tables)
        for identical in (False, True) if same else (False,):
            found = [(entry, _tagged(entry, tags, identical=identical)) for entry in asked]
            more = ", with identically spelt pairs" if identical else ""
            facts = {"identical": identical, "languages": _languages(asked), "how": how}
            about = caption("by_part_of_speech", **facts) + some
            yield _table(results, f"Retrieval by part of speech{more}", found, about)

    def _measure(self, cell: Cell) -> Fill | None:
        """The values of a cell; an average over parts of speech needs all of them."""
        task = self._asked[0]
        asked = self.material.predictions.of(cell, task, _TAGGED)
        if not asked.tables:
            return None
        if self._tagger is None:
            names = [n for group, parts in GROUPS.items() for n in (*parts, f"{group}-average")]
            return Fill(dict.fromkeys(names, "no tags"), caption("untagged"))
        bins = _tagged(asked, self._tagger[1])
        known = {
            part.name: Value(part.accuracy, None, 1)
            for part in bins
            if part.accuracy is not None and part.queries >= FEW
        }
        values: dict[str, Value | str] = {}
        for part in bins:
            whole = set(GROUPS.get(part.name.removesuffix("-average"), ())) <= known.keys()
            values[part.name] = known.get(part.name, _FEW) if whole else _FEW
        return Fill(values, f"Of one seed, mean over {_languages([asked])}.")

    def _by_ranks(self) -> tuple[Table, Sketch]:
        """The table and the figure, which are empty where no training text is stored."""
        results, storage = self.results, self.material.storage
        task, cells, some = self.shown_cells(_TASK)
        asked = self.material.predictions.of_all(cells, task, _RANKED)
        ranks, said = {}, {}
        for lang in dict.fromkeys(lang for entry in asked for lang in entry.tables):
            code = lang.removesuffix(f"-{results.plan.pivot}")
            if storage is not None and (counts := training_counts(results.plan, storage, code)):
                ranks[lang], said[lang] = (ranks_of(counts[0]), ranks_of(counts[1])), counts[2]
        found, curves = [], []
        for place, entry in enumerate(asked):
            known = {lang: table for lang, table in entry.tables.items() if lang in ranks}
            bins = [by_rank_difference(table, *ranks[lang]) for lang, table in known.items()]
            if bins:
                found.append((CellPredictions(entry.cell, known), _mean(bins)))
                curves += _curves(entry.cell.method, place, found[-1][1])
        ranked = _languages([entry for entry, _ in found])
        about = caption("by_frequency_rank", languages=ranked) + self.joined(said) + some
        label = results.axis(task, "contextual_accuracy") if curves else ""
        panel = Panel("", "difference of ranks, from", label, curves, log=True)
        panels, basis = [panel] if curves else [], f"{task}, test set, one seed"
        sketch = Sketch("rank-differences", _RANKS, about, panels, basis)
        return _table(results, _RANKS, found, about), sketch


def _tagged(entry: CellPredictions, tags: Tagger, *, identical: bool = False) -> list[Bin]:
    tables = entry.tables.values()
    return _mean([by_part_of_speech(table, tags(table), identical=identical) for table in tables])


def _mean(languages: Sequence[Sequence[Bin]]) -> list[Bin]:
    """Each bin's mean over the languages that have queries for it."""
    bins = []
    for parts in zip(*languages, strict=True):
        known = [part.accuracy for part in parts if part.accuracy is not None]
        mean = sum(known) / len(known) if known else None
        bins.append(Bin(parts[0].name, mean, sum(part.queries for part in parts)))
    return bins


def _languages(asked: Sequence[CellPredictions]) -> str:
    return ", ".join(dict.fromkeys(lang for entry in asked for lang in entry.tables))


def _table(
    results: Scoreboard,
    title: str,
    found: Sequence[tuple[CellPredictions, Sequence[Bin]]],
    about: str,
) -> Table:
    """A table with a line per cell: the accuracy of each bin in percent, its queries below; a cell
    that lacks languages of others names its own.
    """
    lines, every = [], _languages([entry for entry, _ in found])
    for entry, bins in found:
        shown = (
            Entry.EMPTY
            if b.accuracy is None
            else Entry(NumberFormat(100, 1, "%").show(b.accuracy), below=f"{b.queries:,}")
            for b in bins
        )
        own = _languages([entry])
        sub = "" if own.count(",") == every.count(",") else f"mean over {own}"
        lines.append(Line(results.named(entry.cell), tuple(shown), sub))
    columns = tuple(part.name for part in found[0][1]) if found else ()
    return Table("", title, columns, tuple(lines), about)


def _curves(method: str, place: int, bins: Sequence[Bin]) -> list[Series]:
    """The curve of a method over the bins with enough queries, with Wilson's intervals."""
    points = []
    for edge, part in zip(RANK_EDGES, bins, strict=False):
        if part.queries >= FEW and part.accuracy is not None:
            share, square = part.accuracy, 1.96**2 / part.queries
            middle = (share + square / 2) / (1 + square)
            half = math.sqrt(square * share * (1 - share) + square**2 / 4) / (1 + square)
            points.append(
                (max(edge, 1), 100 * share, (100 * (middle - half), 100 * (middle + half)))
            )
    if len(points) < 2:
        return []
    xs, ys, ends = zip(*points, strict=True)
    return [Series(method, xs, ys, ends, colour=place)]


def training_counts(
    plan: Plan, storage: Storage, lang: str
) -> tuple[dict[str, int], dict[str, int], str] | None:
    """Return how often each word form stands in the largest training bitext of a language that the
    storage has, on the language's side and on the pivot's, and what captions say where that is
    counted in a part of it; None where there is none.
    """
    store = storage.artifacts
    found = [
        (int(str(stage.params.get("sentences", 0))), key)
        for key, stage in plan.stages.items()
        if (stage.kind, stage.params.get("part")) == ("bitext", "training")
        and stage.params.get("lang") == lang
        and store.has("bitext", key)
    ]
    if not found:
        return None
    table = read_table(store.open("bitext", max(found)[1]) / "data")
    what = "sentence pairs of the training text"
    read, said = Section.fitting(range(len(table)), _MOST_SENTENCES, what)
    table, found_counts = table.slice(0, len(read)), []
    for side in ("src", "tgt"):
        part = pc.value_counts(pc.list_flatten(table[side].combine_chunks()))
        words, numbers = (part.field(name).to_pylist() for name in ("values", "counts"))
        found_counts.append(dict(zip(words, numbers, strict=True)))
    return found_counts[0], found_counts[1], said


def pivot_tags(plan: Plan, predictions: StoredPredictions) -> tuple[str, Tagger] | None:
    """Return how the pivot's words are tagged, in words, and the tagger: the phrasebook's own tags,
    or of each form the most frequent one in the sentences that a task of universal parts of speech
    was evaluated on; None where there are neither.
    """
    from raxalign.corpora.phrasebook import sentences
    from raxalign.tasks.taggers.scheme import UPOS

    books = [
        stage
        for stage in plan.stages.values()
        if (stage.kind, stage.params.get("part")) == ("bitext", "heldout")
    ]
    if books and all(stage.maker == "phrasebook" for stage in books):
        corpus = books[0].params["corpus"]
        seed = int(str(corpus.get("seed", 0))) if isinstance(corpus, Mapping) else 0

        def own(table: pa.Table) -> Sequence[str | None]:
            count = max(table["id"].to_pylist(), default=-1) + 1
            said = enumerate(sentences((plan.pivot,), count, seed))
            return tags_of_places(table, "tgt", {id_: one.tags for id_, (one,) in said})

        return "the phrasebook's own", own
    found = ((k, s) for k, s in plan.stages.items() if s.kind == "evaluation")
    tagged = (key for key, stage in found if getattr(stage.plugin(), "labels", ()) == UPOS)
    if (table := predictions.first(tagged)) is None:
        return None
    rows = table.filter(pc.equal(table["lang"], plan.pivot))
    words, labels = rows["words"].to_pylist(), rows["label"].to_pylist()
    lexicon = majority_tags(zip(words, labels, strict=True))
    how = "the most frequent one of each form in the task of parts of speech"
    return how, lambda table: tags_of_types(table, "tgt", lexicon)


GROUPS: Mapping[str, tuple[str, ...]] = {
    "lexical-overlap": ("NUM", "PUNCT", "PROPN"),
    "closed-class": ("DET", "ADP", "CONJ", "PRON", "AUX"),
    "open-class": ("NOUN", "ADV", "ADJ", "VERB"),
}
RANK_EDGES = (0, 10, 30, 100, 300, 1_000, 3_000, 10_000)
_JOINED = {"CCONJ": "CONJ", "SCONJ": "CONJ"}
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Bin:
    """A group of words: how often their translation was found, and over how many queries (both
    directions counted); None without any.
    """

    name: str
    accuracy: float | None
    queries: int


def by_part_of_speech(
    table: pa.Table, tags: Sequence[str | None], *, identical: bool = False
) -> list[Bin]:
    """Non-contextual accuracy, seen pairs kept, of each part of speech, each group's followed by
    the plain mean over its parts.

    Args:
        table: predictions of one language and split.
        tags: a universal part of speech for each row (None: unknown, left out); CCONJ and SCONJ are
            one, as in the paper.
        identical: keep pairs of one surface form, which the paper's retrieval leaves out.

    >>> GROUPS["open-class"]
    ('NOUN', 'ADV', 'ADJ', 'VERB')
    """
    chosen = _flags(table, "first_any" if identical else "first")
    answers = _answers(table, "correct_first")
    names = np.array([_JOINED.get(tag or "", tag or "") for tag in tags])
    bins = []
    for group, parts in GROUPS.items():
        found = [_bin(part, answers, chosen & (names == part)) for part in parts]
        known = [part.accuracy for part in found if part.accuracy is not None]
        mean = float(np.mean(known)) if known else None
        bins += [*found, Bin(f"{group}-average", mean, sum(part.queries for part in found))]
    return bins


def by_rank_difference(
    table: pa.Table, src_ranks: Mapping[str, int], tgt_ranks: Mapping[str, int]
) -> list[Bin]:
    """Contextual accuracy over unseen pairs of different forms by the difference of their words'
    frequency ranks, in bins ``[edge, next edge)`` of `RANK_EDGES`, the last one open; the last
    entry of the list counts the pairs with a word that has no rank.
    """
    chosen = ~_flags(table, "identical") & _flags(table, "unseen")
    sides = (("src", src_ranks), ("tgt", tgt_ranks))
    forms = ((table[side].combine_chunks().dictionary_encode(), ranks) for side, ranks in sides)
    a, b = (
        np.array([ranks.get(form, np.nan) for form in own.dictionary.to_pylist()])[own.indices]
        for own, ranks in forms
    )
    gaps = np.nan_to_num(np.abs(a - b), nan=-1.0)
    places = np.searchsorted(np.asarray(RANK_EDGES), gaps, side="right") - 1
    answers = _answers(table, "correct")
    names = [f"{low:,}–{high - 1:,}" for low, high in pairwise(RANK_EDGES)]
    names.append(f"{RANK_EDGES[-1]:,} and more")
    bins = [
        _bin(name, answers, chosen & (gaps >= 0) & (places == place))
        for place, name in enumerate(names)
    ]
    return [*bins, _bin("no rank", answers, chosen & (gaps < 0))]


def ranks_of(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the rank of every word form by its count, from 1; equally frequent ones share the
    smallest rank.

    >>> ranks_of({"a": 2, "b": 1, "c": 1})
    {'a': 1, 'b': 2, 'c': 2}
    """
    above, first = 0, {}
    for size, many in sorted(Counter(counts.values()).items(), reverse=True):
        first[size] = above + 1
        above += many
    return {word: first[size] for word, size in counts.items()}


def majority_tags(tagged: Iterable[tuple[Sequence[str], Sequence[str]]]) -> dict[str, str]:
    """Return the most frequent part of speech of every word form of a tagged text, the first met of
    equals.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for words, tags in tagged:
        for word, tag in zip(words, tags, strict=True):
            counts[look_up_form(word)][tag] += 1
    return {word: found.most_common(1)[0][0] for word, found in counts.items()}


def tags_of_types(
    table: pa.Table, side: Literal["src", "tgt"], tags: Mapping[str, str]
) -> list[str | None]:
    """Return a tag for each row by the form of one side's word, as written or else lower-cased."""
    return [tags.get(word, tags.get(word.lower())) for word in table[side].to_pylist()]


def tags_of_places(
    table: pa.Table, side: Literal["src", "tgt"], tags: Mapping[int, Sequence[str]]
) -> list[str | None]:
    """Return a tag for each row by the place of one side's word; `tags` maps the id of a sentence
    pair to the tags of that side's words.
    """
    places = zip(table["id"].to_pylist(), table[f"{side}_position"].to_pylist(), strict=True)
    return [
        tags[id_][place] if id_ in tags and place < len(tags[id_]) else None
        for id_, place in places
    ]


def _answers(table: pa.Table, correct: str) -> tuple[Array, Array]:
    """Whether each row's answer is right, and its direction, (rows,) each."""
    return _flags(table, correct), np.array(table["direction"].to_pylist())


def _bin(name: str, answers: tuple[Array, Array], chosen: Array) -> Bin:
    """The bin of some rows."""
    right, ways = (side[chosen] for side in answers)
    values = [float(right[ways == way].mean()) for way in np.unique(ways)]
    return Bin(name, float(np.mean(values)) if values else None, int(chosen.sum()))


def _flags(table: pa.Table, name: str) -> Array:
    return np.asarray(table[name].to_numpy(zero_copy_only=False)).astype(np.bool_)
