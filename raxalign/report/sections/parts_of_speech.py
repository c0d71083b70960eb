"""Word retrieval by part of speech (Cao et al. 2020, Table 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, final

from raxalign.analysis.cells import Cell, Value
from raxalign.analysis.retrieval_bins import GROUPS, Bin, by_part_of_speech
from raxalign.report.cells.choice import of_methods
from raxalign.report.cells.numbers import FEW
from raxalign.report.document import Part, Share, Table
from raxalign.report.predictions.read import (
    MOST_METHODS,
    CellPredictions,
    bin_line,
    languages,
    mean_bins,
    shown_cells,
)
from raxalign.report.predictions.tags import Tagger, pivot_tags
from raxalign.report.sections.base import Fill, Measure, Section

if TYPE_CHECKING:
    import pyarrow as pa

_TASK = "retrieval"
_COLUMNS = {"tgt", "id", "tgt_position", "direction", "identical"}
_COLUMNS |= {"correct_first", "first", "first_any"}
_MEASURE = "retrieval_by_pos"  # as published tables call it
_FEW = "too few queries"
_UNTAGGED = (
    "Retrieval was measured, but no word has a part of speech: install spaCy and its small model"
    " of the pivot, or add the task `pos` with treebank files of the pivot."
)


@final
class PartsOfSpeech(Section):
    """Accuracy of word retrieval by the part of speech of the pivot's words, from stored
    predictions; it also fills the published tables that say ``analysis: retrieval_by_pos``.
    """

    VERSION = 1
    place = 75

    def share(self) -> Share | None:
        """Return the tables, without pairs of one form and, where there are such, with them; None
        without predictions or tags.
        """
        tables = tuple(self._tables(*self._tagged)) if self._tagged is not None else ()
        return Part("analyses", "Analyses", tables=tables).alone()

    def measures(self) -> Mapping[str, Measure]:
        """Return the accuracy of a cell by part of speech, under `retrieval_by_pos`; without tags
        the reason.
        """
        return {_MEASURE: self._measure if self._tagged is not None else self._untagged}

    @cached_property
    def _shown(self) -> tuple[str, list[CellPredictions]]:
        """The grid's retrieval task, and the predictions that are shown."""
        task, cells = shown_cells(self.material.results, _TASK)
        return task, self.material.predictions.of_all(cells, task, _COLUMNS)

    @cached_property
    def _tagged(self) -> tuple[str, Tagger] | None:
        """How the pivot's words are tagged, in words, and the tagger."""
        storage = self.material.storage
        if storage is None or not self._shown[1]:
            return None
        return pivot_tags(self.material.plan, storage)

    def _tables(self, how: str, tags: Tagger) -> Iterator[Table]:
        asked = self._shown[1]
        tagged = [[(table, tags(table)) for table in entry.tables.values()] for entry in asked]
        same = any(any(table["identical"].to_pylist()) for part in tagged for table, _ in part)
        for identical in (False, True) if same else (False,):
            found = [_bins(part, identical=identical) for part in tagged]
            more = ", with pairs of one form" if identical else ""
            caption = (
                "Non-contextual accuracy in percent, seen pairs kept, pairs of one form"
                f" {'kept' if identical else 'left out'}, both directions, mean over"
                f" {languages(asked)}. Tags of the pivot's words: {how}. Averages are over parts"
                " of speech; one seed. In small"
                f" type: the number of queries.{of_methods(self.material.results, MOST_METHODS)}"
            )
            lines = tuple(
                bin_line(self.material.results, entry.cell, bins)
                for entry, bins in zip(asked, found, strict=True)
            )
            columns = tuple(part.name for part in found[0])
            yield Table("", f"Retrieval by part of speech{more}", columns, lines, caption)

    def _measure(self, cell: Cell) -> Fill | None:
        """The values of a cell; an average over parts of speech needs all of them."""
        task = self._shown[0]
        assert self._tagged is not None, "there are tags"
        asked = self.material.predictions.of(cell, task, _COLUMNS)
        if not asked.tables:
            return None
        bins = _bins([(table, self._tagged[1](table)) for table in asked.tables.values()])
        known = {
            part.name: Value(part.accuracy, None, 1)
            for part in bins
            if part.accuracy is not None and part.queries >= FEW
        }
        values: dict[str, Value | str] = {}
        for part in bins:
            whole = set(GROUPS.get(part.name.removesuffix("-average"), ())) <= known.keys()
            values[part.name] = known.get(part.name, _FEW) if whole else _FEW
        # the task may read non-contextual vectors in another way than the paper
        reading = self.material.results.task_params.get(task, {}).get("noncontextual", "corpus")
        more = f" Task {task} with noncontextual: {reading} (published: corpus)."
        remark = (
            f"Of one seed, mean over {languages([asked])}.{more if reading != 'corpus' else ''}"
        )
        return Fill(values, remark)

    def _untagged(self, cell: Cell) -> Fill | None:
        """No value of a cell, and why; None where retrieval was not run."""
        if not self.material.predictions.of(cell, self._shown[0], _COLUMNS).tables:
            return None
        names = [n for group, parts in GROUPS.items() for n in (*parts, f"{group}-average")]
        return Fill(dict.fromkeys(names, "no tags"), _UNTAGGED)


def _bins(
    tagged: Sequence[tuple[pa.Table, Sequence[str | None]]], *, identical: bool = False
) -> list[Bin]:
    """The bins of several languages, each with the tags of its rows, as their means."""
    bins = [by_part_of_speech(table, tags, identical=identical) for table, tags in tagged]
    return mean_bins(bins)
