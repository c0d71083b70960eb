"""What a reader must know besides the numbers, among the lines under the title."""

from __future__ import annotations

from typing import final

from raxalign.plan.values.remarks import remarks
from raxalign.report.document import Share
from raxalign.report.sections.base import Section


@final
class Remarks(Section):
    """One note per remark on the records of the grid: unknown pieces, trainings that came to
    nothing or ended too early, tasks near the floor.
    """

    VERSION = 1
    place = 10

    def share(self) -> Share | None:
        """Return the notes; None without a ledger."""
        if self.material.ledger is None:
            return None
        notes = remarks(self.material.plan, self.material.records)
        return Share(facts=tuple(("note", note) for note in notes))
