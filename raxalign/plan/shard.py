"""Shards: parts of a plan for processes that share nothing but a storage."""

from __future__ import annotations

import re
from dataclasses import dataclass

from raxalign.errors import RaxalignError
from raxalign.plan.plan import Plan


@dataclass(frozen=True)
class Shard:
    """One of `count` parts of a plan, numbered from 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``i/n``. Raises `RaxalignError` where it is not one of n parts."""
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text.strip())
        if found is None:
            raise RaxalignError(f"--shard {text!r}: write i/n, for example 2/8")
        shard = cls(int(found[1]), int(found[2]))
        if not 1 <= shard.number <= shard.count:
            raise RaxalignError(
                f"--shard {text!r}: there is no such part; shards are numbered from 1 to n"
            )
        return shard

    def __str__(self) -> str:
        """Write what `parse` reads."""
        return f"{self.number}/{self.count}"

    def of(self, plan: Plan) -> Plan:
        """Return this part of a plan: the trials sorted by their keys are dealt out in turn. The
        parts are disjoint, make the whole together, and differ by at most one trial in size; a part
        of more parts than trials may be empty.
        """
        mine = sorted(plan.by_key)[self.number - 1 :: self.count]
        chosen = set(mine)
        return plan.only(trial for trial in plan.trials if trial.key in chosen)
