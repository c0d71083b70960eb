"""Word retrieval by part of speech, and by the difference of frequency ranks in the training text,
as far as the storage and the data have them (Cao et al. 2020, Table 4 and Figure 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import final

from raxalign.analysis.cells import Cell, Value
from raxalign.analysis.retrieval_bins import (
    GROUPS,
    RANK_EDGES,
    Bin,
    by_part_of_speech,
    by_rank_difference,
    majority_tags,
    ranks_of,
    tags_of_places,
    tags_of_types,
)
from raxalign.corpora.text.dataset import read_table
from raxalign.lazy import pa, pc
from raxalign.plan.plan import Plan
from raxalign.report.cells.choice import of_methods
from raxalign.report.cells.names import named
from raxalign.report.cells.numbers import FEW, PERCENT
from raxalign.report.cells.results import Results
from raxalign.report.document import EMPTY, Entry, Line, Part, Share, Table
from raxalign.report.figures.curves import axis_of
from raxalign.report.figures.panels import Panel, Series, Sketch
from raxalign.report.predictions import (
    MOST_METHODS,
    CellPredictions,
    StoredPredictions,
    shown_cells,
)
from raxalign.report.render import caption
from raxalign.report.sections.base import Fill, Measure, Section
from raxalign.store.storage import Storage

MOST_SENTENCES = 200_000  # of the training text, from its beginning
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

    VERSION = 1
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
    def _asked(self) -> tuple[str, list[CellPredictions]]:
        """The grid's retrieval task, and the predictions that are shown."""
        task, cells = shown_cells(self.results, _TASK)
        return task, self.material.predictions.of_all(cells, task, _TAGGED)

    @cached_property
    def _tagger(self) -> tuple[str, Tagger] | None:
        return pivot_tags(self.material.plan, self.material.predictions) if self._asked[1] else None

    def _by_tags(self, how: str, tags: Tagger) -> Iterator[Table]:
        """Yield the table without pairs of one form and, where there are such, with them."""
        results, asked = self.results, self._asked[1]
        tables = [table for entry in asked for table in entry.tables.values()]
        same = any(any(table["identical"].to_pylist()) for table in tables)
        for identical in (False, True) if same else (False,):
            found = [(entry.cell, _tagged(entry, tags, identical=identical)) for entry in asked]
            more = ", with pairs of one form" if identical else ""
            facts = {"identical": identical, "languages": _languages(asked), "how": how}
            about = caption("by_part_of_speech", **facts) + of_methods(results, MOST_METHODS)
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
        task, cells = shown_cells(results, _TASK)
        asked = self.material.predictions.of_all(cells, task, _RANKED)
        ranks = {}
        for lang in dict.fromkeys(lang for entry in asked for lang in entry.tables):
            code = lang.removesuffix(f"-{results.plan.pivot}")
            if storage is not None and (counts := training_counts(results.plan, storage, code)):
                ranks[lang] = (ranks_of(counts[0]), ranks_of(counts[1]))
        found, curves = [], []
        for place, entry in enumerate(asked):
            known = [lang for lang in entry.tables if lang in ranks]
            bins = [by_rank_difference(entry.tables[lang], *ranks[lang]) for lang in known]
            if bins:
                found.append((entry.cell, _mean(bins)))
                curves += _curves(entry.cell.method, place, found[-1][1])
        about = caption("by_frequency_rank", languages=_languages(asked))
        label = axis_of(results, task, "contextual_accuracy") if curves else ""
        panel = Panel("", "difference of ranks, from", label, curves, log=True)
        sketch = Sketch("rank-differences", _RANKS, about, [panel] if curves else [])
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
    results: Results, title: str, found: Sequence[tuple[Cell, Sequence[Bin]]], about: str
) -> Table:
    """A table with a line per cell: the accuracy of each bin in percent, its queries below."""
    lines = []
    for cell, bins in found:
        shown = (
            EMPTY if b.accuracy is None else Entry(PERCENT.show(b.accuracy), below=f"{b.queries:,}")
            for b in bins
        )
        lines.append(Line(named(cell, results.plan), tuple(shown)))
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
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Return how often each word form stands in the largest training bitext of a language that the
    storage has (at most `MOST_SENTENCES` of it), on the language's side and on the pivot's; None
    where there is none.
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
    table = read_table(store.open("bitext", max(found)[1]) / "data").slice(0, MOST_SENTENCES)
    found_counts = []
    for side in ("src", "tgt"):
        part = pc.value_counts(pc.list_flatten(table[side].combine_chunks()))
        words, numbers = (part.field(name).to_pylist() for name in ("values", "counts"))
        found_counts.append(dict(zip(words, numbers, strict=True)))
    return found_counts[0], found_counts[1]


def pivot_tags(plan: Plan, predictions: StoredPredictions) -> tuple[str, Tagger] | None:
    """Return how the pivot's words are tagged, in words, and the tagger: the phrasebook's own tags,
    or of each form the most frequent one in the sentences that a task of universal parts of speech
    was evaluated on; None where there are neither.
    """
    from raxalign.corpora.phrases.rows import sentences
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
