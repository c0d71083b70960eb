"""Analyses of a grid's stored predictions: retrieval by part of speech, by frequency and by sense,
for the encoder as it was and each method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raxalign.analysis.cells import MEANS, Cell, Value
from raxalign.analysis.retrieval_bins import (
    GROUPS,
    RANK_EDGES,
    Bin,
    by_part_of_speech,
    by_rank_difference,
    ranks_of,
)
from raxalign.analysis.senses import Word, ambiguous, senses
from raxalign.report._numbers import Unit
from raxalign.report._own import named
from raxalign.report._plots import Curve, Panel
from raxalign.report._results import Results
from raxalign.report._shown import best_on_dev, of_methods, representatives
from raxalign.report._tags import Tagger, pivot_tags, training_counts
from raxalign.report.document import Analysis, Entry, Fill, Line, Table
from raxalign.report.tables import FEW

if TYPE_CHECKING:
    import pyarrow as pa

    from raxalign.store.ledger import Ledger

MOST_METHODS = 6
MOST_LANGUAGES = 5
_FLAGS = {"correct", "correct_first", "identical", "unseen", "first", "first_any"}
_COLUMNS = {"direction", "src", "tgt", "found", "id", "src_position", "tgt_position", *_FLAGS}
_PERCENT = Unit(100, 1, "%")


@dataclass(frozen=True)
class Asked:
    """The predictions of one cell's first seed on test, by language pair."""

    cell: Cell
    tables: Mapping[str, pa.Table]


def retrieval_analyses(results: Results, ledger: Ledger) -> Iterator[Analysis]:
    """What the predictions of word retrieval tell; nothing where there are none."""
    task = next((name for name, kind in results.tasks.items() if kind == "retrieval"), None)
    metric = None if task is None else results.main_metric(task)
    if task is None or metric is None:
        return
    cells = best_on_dev(representatives(results, task, metric), MOST_METHODS, task, metric)
    asked = [read_predictions(ledger, cell, task, _COLUMNS) for cell in cells]
    asked = [entry for entry in asked if entry.tables]
    if asked:
        yield from _parts_of_speech(results, ledger, task, asked)
        yield from _rank_differences(results, ledger, asked)
        yield from _senses(results, asked)


def read_predictions(ledger: Ledger, cell: Cell, task: str, columns: set[str]) -> Asked:
    """The predictions of a cell on a task, as far as they are there and have the columns."""
    import pyarrow.compute as pc

    keys: dict[str, str] = {}
    for name, seeds in cell.evaluations.items():
        if name[0] == task and name[3] == "test" and name[1] not in MEANS and seeds:
            keys.setdefault(name[1], seeds[min(seeds, key=str)][0])
    tables: dict[str, pa.Table] = {}
    for key in dict.fromkeys(keys.values()):
        table = ledger.predictions(key)
        if table is not None and columns | {"lang", "split"} <= set(table.column_names):
            for lang in [lang for lang, other in keys.items() if other == key]:
                tables[lang] = table.filter(
                    pc.and_(pc.equal(table["lang"], lang), pc.equal(table["split"], "test"))
                )
    return Asked(
        cell, {lang: tables[lang] for lang in sorted(tables)[:MOST_LANGUAGES] if len(tables[lang])}
    )


def _parts_of_speech(
    results: Results, ledger: Ledger, task: str, asked: Sequence[Asked]
) -> Iterator[Analysis]:
    """Without pairs of one form, as the paper has it, and where there are such, with them."""
    tagger = pivot_tags(results.plan, ledger.root)
    if tagger is None:
        return
    how, tags = tagger
    tagged = [[(table, tags(table)) for table in entry.tables.values()] for entry in asked]
    for identical in (False, True):
        if identical and not any(
            any(table["identical"].to_pylist()) for part in tagged for table, _ in part
        ):
            return
        found = [
            _mean_bins(
                [by_part_of_speech(table, names, identical=identical) for table, names in part]
            )
            for part in tagged
        ]
        title = "Retrieval by part of speech" + (", words of one form too" if identical else "")
        caption = (
            "Non-contextual accuracy in percent, seen pairs kept, pairs of one form"
            f" {'kept' if identical else 'left out'}, both directions, mean over"
            f" {_languages(asked)}. Tags of the pivot's words: {how}. Averages are over parts of"
            f" speech; one seed. Small: queries.{of_methods(results, MOST_METHODS)}"
        )
        lines = tuple(
            _line(results, entry.cell, bins) for entry, bins in zip(asked, found, strict=True)
        )
        table = Table(
            f"pos-{identical}", title, tuple(part.name for part in found[0]), lines, caption
        )
        yield (
            Analysis(title, table)
            if identical
            else Analysis(
                title, table, name="retrieval_by_pos", measure=_filling(results, ledger, task, tags)
            )
        )


def _filling(
    results: Results, ledger: Ledger, task: str, tags: Tagger
) -> Callable[[Cell], Fill | None]:
    """How the predictions of a cell fill Cao et al.'s Table 4: an average over parts of speech
    needs all of them.
    """
    reading = results.task_params.get(task, {}).get("noncontextual", "corpus")
    other = (
        ""
        if reading == "corpus"
        else f" Task {task} with noncontextual: {reading} (published: corpus)."
    )

    def measure(cell: Cell) -> Fill | None:
        asked = read_predictions(ledger, cell, task, _COLUMNS)
        if not asked.tables:
            return None
        bins = _mean_bins(
            [by_part_of_speech(table, tags(table)) for table in asked.tables.values()]
        )
        known = {
            part.name: part.accuracy
            for part in bins
            if part.accuracy is not None and part.queries >= FEW
        }
        known = {
            name: value
            for name, value in known.items()
            if set(GROUPS.get(name.removesuffix("-average"), ())) <= known.keys()
        }
        values = {
            part.name: Value(known[part.name], None, 1) if part.name in known else "too few queries"
            for part in bins
        }
        return Fill(values, f"Of one seed, mean over {_languages([asked])}.{other}")

    return measure


def _rank_differences(
    results: Results, ledger: Ledger, asked: Sequence[Asked]
) -> Iterator[Analysis]:
    ranks = {}
    for lang in dict.fromkeys(lang for entry in asked for lang in entry.tables):
        counts = training_counts(results.plan, ledger.root, lang.partition("-")[0])
        if counts is not None:
            ranks[lang] = (ranks_of(counts[0]), ranks_of(counts[1]))
    lines: list[Line] = []
    curves: list[Curve] = []
    names: tuple[str, ...] = ()
    for place, entry in enumerate(asked):
        found = [
            by_rank_difference(table, *ranks[lang])
            for lang, table in entry.tables.items()
            if lang in ranks
        ]
        if not found:
            continue
        bins = _mean_bins(found)
        names = tuple(part.name for part in bins)
        lines.append(_line(results, entry.cell, bins))
        known = [
            (max(edge, 1), part)
            for edge, part in zip(RANK_EDGES, bins, strict=False)
            if part.queries >= FEW
        ]
        points = [(x, 100 * part.accuracy) for x, part in known if part.accuracy is not None]
        if len(points) > 1:
            curves.append(
                Curve(
                    entry.cell.method, [x for x, _ in points], [y for _, y in points], colour=place
                )
            )
    if not lines:
        return
    title = "Retrieval by difference of frequency ranks"
    caption = (
        f"Contextual accuracy in percent over unseen pairs, mean over {_languages(asked)}; ranks of"
        " word forms in the training text (as in Cao et al. 2020, Figure 3). One seed. Small:"
        " queries."
    )
    panels = (
        [Panel("", "difference of ranks, from", "contextual accuracy (%)", curves, log=True)]
        if curves
        else []
    )
    yield Analysis(
        title,
        Table("ranks", title, names, tuple(lines), caption),
        panels,
        "rank-differences",
        caption,
    )


def _senses(results: Results, asked: Sequence[Asked]) -> Iterator[Analysis]:
    for lang, table in asked[0].tables.items():
        words = [
            word.word
            for word in (*senses(table), *ambiguous(table))
            if word.occurrences > 1 and len(word.senses) > 1
        ]
        words = list(dict.fromkeys(words))[:12]
        found = [
            {word.word: word for word in senses(entry.tables[lang], words)}
            for entry in asked
            if lang in entry.tables
        ]
        lines = tuple(_sense_line(word, found) for word in words)
        if not lines:
            continue
        title = f"Words with several senses, {lang}"
        heads = (
            "occurrences",
            "one vector a word",
            *(named(entry.cell, results.plan) for entry in asked if lang in entry.tables),
        )
        caption = (
            "For each occurrence of the pivot's word the form of the word that retrieval finds in"
            " context, against its gold translation there: the share that is right, in percent. One"
            " vector a word can at best always find the most frequent translation. One seed."
        )
        yield Analysis(title, Table(f"senses-{lang}", title, heads, lines, caption, corner="word"))


def _sense_line(word: str, found: Sequence[Mapping[str, Word]]) -> Line:
    first = found[0][word]
    shown = ", ".join(f"{sense.translation} {sense.occurrences}" for sense in first.senses[:4])
    cells = [
        Entry(_PERCENT.show(words[word].in_context)) if word in words else Entry("–", state="empty")
        for words in found
    ]
    return Line(
        word, (Entry(f"{first.occurrences}"), Entry(_PERCENT.show(first.majority)), *cells), shown
    )


def _mean_bins(languages: Sequence[Sequence[Bin]]) -> list[Bin]:
    """Each bin's mean over the languages that have queries for it; the averages of groups are means
    of these too.
    """
    bins = []
    for parts in zip(*languages, strict=True):
        known = [part.accuracy for part in parts if part.accuracy is not None]
        bins.append(
            Bin(
                parts[0].name,
                sum(known) / len(known) if known else None,
                sum(part.queries for part in parts),
            )
        )
    return bins


def _line(results: Results, cell: Cell, bins: Sequence[Bin]) -> Line:
    entries = [
        (
            Entry("–", state="empty")
            if part.accuracy is None
            else Entry(_PERCENT.show(part.accuracy), below=f"{part.queries:,}")
        )
        for part in bins
    ]
    return Line(named(cell, results.plan), tuple(entries))


def _languages(asked: Sequence[Asked]) -> str:
    return ", ".join(dict.fromkeys(lang for entry in asked for lang in entry.tables))
