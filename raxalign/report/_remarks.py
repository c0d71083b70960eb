"""What a reader must know beside the numbers, among the facts at the head of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raxalign.plan.remarks import remarks
from raxalign.plan.results import read_records

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan
    from raxalign.store.ledger import Ledger


def remark_facts(plan: Plan, ledger: Ledger | None) -> list[tuple[str, str]]:
    """One (name, value) line for each remark on the records of a plan; none without a ledger."""
    return (
        [("note", remark) for remark in remarks(plan, read_records(plan, ledger))]
        if ledger is not None
        else []
    )
