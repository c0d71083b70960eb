"""Where the trials of a sweep come from: all at once from a plan, or some at a time from a search
that waits for results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from raxalign.plan.plan import Plan


class Source(Protocol):
    """What a running sweep asks for trials.

    It is asked in the driver's loop, between two events, so it must answer at once. A trial whose
    evaluations are all in the ledger counts as cached and is not run; it is in `ended` of the next
    question like the others.
    """

    @property
    def exhausted(self) -> bool:
        """Whether no trial will come any more. The sweep ends when this holds and nothing runs."""

    def more(self, ended: Mapping[str, str | None], idle: int) -> Plan | None:
        """Return trials to add to the sweep, as a plan that has their stages too, or None where
        there are none at the moment. The question is repeated after each end of a trial, and at
        least once per second while workers are idle.

        Args:
            ended: The trials that ended since the last question, by key: None where their results
                are in the ledger, or else why they failed.
            idle: The number of trials for which there are workers that have nothing to do. It is a
                hint: what is added beyond it waits.
        """


@dataclass
class Whole:
    """All trials of one plan, at the first question."""

    plan: Plan
    exhausted: bool = field(default=False, init=False)

    def more(self, ended: Mapping[str, str | None], idle: int) -> Plan | None:  # noqa: ARG002
        """Return the plan once, and then nothing."""
        if self.exhausted:
            return None
        self.exhausted = True
        return self.plan
