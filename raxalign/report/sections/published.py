"""The papers' tables in their own shape, measured next to published."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import final

from raxalign.config.published import read, short_name
from raxalign.report.document import Share
from raxalign.report.published.papers import Paper
from raxalign.report.published.table import RECORD
from raxalign.report.sections.base import Section


@final
class Published(Section):
    """The tables of each paper that the grid names (`published`): measured figures with the
    published ones below, the difference, and notes on everything in which the two are not alike.
    """

    VERSION = 1
    place = 60

    def share(self) -> Share | None:
        """Return one part per paper, and one record per figure in published.csv; None where the
        grid names no paper.
        """
        material = self.material
        papers = [
            Paper(short_name(name), read(name), material.measure) for name in material.published
        ]
        made = [paper.part(material.results, material.judge) for paper in papers]
        if not made:
            return None
        records = [record for _, found in made for record in found]
        return Share(tuple(part for part, _ in made), files={"published.csv": _csv(records)})


def _csv(records: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(RECORD)
    writer.writerows(records)
    return text.getvalue()
