"""What a reader must know besides the numbers, among the lines under the title."""

from __future__ import annotations

from typing import final

from raxalign.plan.values.remarks import remarks
from raxalign.plan.values.results import read_records
from raxalign.report.document import Share
from raxalign.report.sections.base import Section


@final
class Remarks(Section):
    """One note per remark on the records of the grid: unknown pieces, losses that did not fall."""

    VERSION = 1
    place = 10

    def share(self) -> Share | None:
        """Return the notes; None without a ledger."""
        ledger, plan = self.material.ledger, self.material.plan
        if ledger is None:
            return None
        notes = remarks(plan, read_records(plan, ledger))
        return Share(facts=tuple(("note", note) for note in notes))
