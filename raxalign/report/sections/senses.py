"""Words with several senses: what retrieval finds for each occurrence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import final

from raxalign.analysis.retrieval_bins import PivotWord, ambiguous, senses
from raxalign.report.cells.names import named
from raxalign.report.cells.results import Results
from raxalign.report.document import EMPTY, Entry, Line, Part, Share, Table
from raxalign.report.predictions.read import PERCENT, CellPredictions, shown_cells
from raxalign.report.sections.base import Section

_TASK = "retrieval"
_COLUMNS = {"direction", "src", "tgt", "found", "correct"}
_MOST_WORDS = 12
_CAPTION = (
    "The share of the occurrences of the pivot's word for which retrieval in context finds the"
    " gold translation of that occurrence, in percent. With one vector per word, the best"
    " possible result is to find the most frequent translation every time. One seed."
)


@final
class Senses(Section):
    """A table per language pair: words of the pivot with several translations, and how often word
    retrieval finds the one of the sentence; from stored predictions.
    """

    VERSION = 1
    place = 85

    def share(self) -> Share | None:
        """Return the tables; None without predictions, or without such words."""
        task, cells = shown_cells(self.material.results, _TASK)
        asked = self.material.predictions.of_all(cells, task, _COLUMNS)
        tables = tuple(_tables(self.material.results, asked)) if asked else ()
        return Part("analyses", "Analyses", tables=tables).alone()


def _tables(results: Results, asked: Sequence[CellPredictions]) -> Iterator[Table]:
    for lang, table in asked[0].tables.items():
        every = (*senses(table), *ambiguous(table))
        several = (w.word for w in every if w.occurrences > 1 and len(w.senses) > 1)
        words = list(dict.fromkeys(several))[:_MOST_WORDS]
        there = [entry for entry in asked if lang in entry.tables]
        found = [{word.word: word for word in senses(entry.tables[lang], words)} for entry in there]
        lines = tuple(_line(word, found) for word in words)
        methods = (named(entry.cell, results.plan) for entry in there)
        heads = ("occurrences", "one vector per word", *methods)
        title = f"Words with several senses, {lang}"
        if lines:
            yield Table("", title, heads, lines, _CAPTION, corner="word")


def _line(word: str, found: Sequence[Mapping[str, PivotWord]]) -> Line:
    first = found[0][word]
    shown = ", ".join(f"{sense.translation} {sense.occurrences}" for sense in first.senses[:4])
    cells = [
        Entry(PERCENT.show(words[word].in_context)) if word in words else EMPTY for words in found
    ]
    majority = Entry(PERCENT.show(first.majority))
    return Line(word, (Entry(f"{first.occurrences}"), majority, *cells), shown)
