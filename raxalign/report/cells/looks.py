"""What tables say of earlier looks at their comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from raxalign.plan.names import cell_name
from raxalign.plan.plan import Plan
from raxalign.plan.values.comparisons import Compared
from raxalign.printing import counted
from raxalign.store.looks import EarlierLook

_ORDER = ("first", "second", "third", "fourth", "fifth", "sixth")


def look_text(earlier: Sequence[EarlierLook], of: str = "this comparison") -> str:
    """Return which look at comparisons this is, and when the ones before were."""
    before = (
        f"the {_place(number)} with {counted(look.runs, 'run')}, {look.when[:10]}"
        for number, look in enumerate(earlier)
    )
    told = f"{_place(len(earlier))} look at {of} ({', '.join(before)})"
    return f"{told[0].upper()}{told[1:]}: p-values are corrected for it"


def look_lines(entries: Sequence[Compared], plan: Plan) -> Iterator[str]:
    """Yield a line per number of earlier looks that some comparisons of a table have."""
    tested = [entry for entry in entries if entry.tested]
    for earlier in dict.fromkeys(entry.earlier for entry in tested if entry.earlier):
        alike = [entry.cell for entry in tested if entry.earlier == earlier]
        names = dict.fromkeys(cell_name(cell, plan) for cell in alike)
        yield look_text(
            earlier, "these comparisons" if len(alike) == len(tested) else ", ".join(names)
        )


def _place(number: int) -> str:
    return _ORDER[number] if number < len(_ORDER) else f"{number + 1}th"
