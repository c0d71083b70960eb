"""What pruning saved in a search, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raxalign.plan.estimates.cost import duration
from raxalign.printing import counted

if TYPE_CHECKING:
    from raxalign.plan.tried import StudyRecord


def saved_words(record: StudyRecord) -> str:
    """Return how many trials were pruned and what that saved; nothing where none was.

    The time is estimated from the pace of each trial's own training. The evaluations that were left
    out are not counted.
    """
    pruned = [entry.stopped for entry in record.tried if entry.stopped is not None]
    if not pruned:
        return ""
    steps = sum(stopped.steps - stopped.step for stopped in pruned)
    total = sum(stopped.steps for stopped in pruned)
    seconds = sum(stopped.saved for stopped in pruned)
    return (
        f"{len(pruned)} of {counted(len(record.tried), 'trial')} pruned, which saved {steps:,} of"
        f" their {total:,} training steps (about {duration(seconds)} of worker time)"
    )
