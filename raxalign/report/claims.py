"""The claims of a grid in words: what became of each, by how much, and when it was written down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from raxalign.plan.values.claims import BEFORE, ClaimTest, JudgedClaim
from raxalign.report.cells.numbers import unit_of


def claim_lines(judged: Sequence[JudgedClaim]) -> Iterator[str]:
    """Yield one line per claim."""
    for found in judged:
        tests = "; ".join(_test(test, found) for test in found.tests)
        marked = "" if found.written == BEFORE else f" [{found.written}]"
        yield f"{found.verdict}: {found.claim.text}{f' ({tests})' if tests else ''}{marked}"


def _test(test: ClaimTest, found: JudgedClaim) -> str:
    """Return the difference of one test with its interval, and which of several tests it is."""
    entry = test.entry
    unit = unit_of(entry.measured, [entry.value.mean])
    where = [entry.cell.encoder, f"{entry.cell.sentences:,} pairs" if entry.cell.sentences else ""]
    several = f"{', '.join(filter(None, where))}: " if len(found.tests) > 1 else ""
    if entry.difference is None or test.low is None or test.high is None:
        sample = entry.over_languages
        why = sample.untested if found.claim.over_languages and sample else entry.untested
        return f"{several}not tested: {why}"
    ends = f"{unit.show_difference(test.low)} to {unit.show_difference(test.high)}"
    p = "" if test.p is None else f", p {test.p:.4f}" if test.p >= 0.0001 else ", p <0.0001"
    seen = ""
    if found.verdict == "cannot tell" and not found.claim.over_languages and entry.detectable:
        seen = f", could see ≥ {unit.show(entry.detectable)}"
    return f"{several}{unit.show_difference(entry.difference)}, 95 %: {ends}{p}{seen}"
