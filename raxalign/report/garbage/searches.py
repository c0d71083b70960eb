"""What searches need that no given grid names: their trials are in no grid file, but in the plans
that their drivers have written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from raxalign.plan.plan import Plan
from raxalign.plan.stored import stored_texts
from raxalign.store.ledger import Ledger
from raxalign.store.studies import Studies


@dataclass(frozen=True)
class Unfinished:
    """The searches of a storage that are not finished: the names of their studies, and the plans
    that hold their trials so far.
    """

    studies: tuple[str, ...]
    plans: tuple[Plan, ...]


def unfinished(root: str, living: Iterable[Plan]) -> Unfinished:
    """Find the searches that a living driver runs, that have budget left, or whose best points are
    not all confirmed. One without a record has not begun, or is given up.

    Args:
        root: The storage root.
        living: The plans of living drivers.
    """
    alive = {study.name for plan in living for study in plan.studies}
    plans = [plan for plan in _plans(root) if plan.get("studies")]
    names = {study["name"] for plan in plans for study in plan["studies"]}
    records, there = Studies(root).read_many(sorted(names)), Ledger(root).keys()
    open_ones = alive | {name for name, record in records.items() if not record["finished"]}
    open_ones |= {name for plan in plans for name in _unconfirmed(plan, there) if name in records}
    kept = [p for p in plans if open_ones & {study["name"] for study in p["studies"]}]
    return Unfinished(
        tuple(sorted(open_ones)), tuple(Plan.from_json(json.dumps(plan)) for plan in kept)
    )


def _plans(root: str) -> Iterator[dict[str, Any]]:
    """Yield the plans of a storage as JSON has them."""
    for text in stored_texts(root):
        yield dict(json.loads(text))


def _unconfirmed(plan: Mapping[str, Any], there: set[str]) -> Iterator[str]:
    """Yield the studies of which a plan has confirming trials that are not done."""
    for trial in plan["trials"]:
        searched = trial.get("searched") or {}
        if searched.get("confirmed") and not there.issuperset(trial["evaluations"].values()):
            yield searched["study"]
