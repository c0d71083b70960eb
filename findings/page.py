"""The page of what was found, in Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from findings.answers import Answer, verdict
from findings.questions import Claim
from raxalign.plan.estimates.cost import duration, seconds_by_key
from raxalign.plan.load import Opened

HEAD = """# Findings

The papers' claims, asked on real text with a small multilingual BERT, or with small encoders that
are trained on that text. They are not the papers' experiments: the encoders, the text and the
numbers of sentences are smaller. They show which claims hold there, with intervals that count both
test examples and training runs as chance.

`python -m findings` makes this page from stored results. Nothing in it is written by hand. A claim
is *held* if every answer below it is above 0 with a p-value below 0.05 after Holm's correction over
the whole page. It is *refuted* if an answer is below 0 in the same sense. Otherwise the
verdict is *cannot tell*. Differences are in points of 100.

The machine time of a claim is that of all stages and evaluations that its values were made from.
It is measured by the clock, so that other work on the machine lengthens it. What several claims
share is counted for each of them, and once in the time of the grid.
"""

Seconds = Mapping[str, Mapping[str, float]]
"""Grid -> key of a stored stage or evaluation -> the seconds that it took."""


def render(answers: Sequence[tuple[Claim, list[Answer]]], opened: Mapping[str, Opened]) -> str:
    """Return the page: a summary, the claims with their answers, and the grids."""
    seconds = {name: seconds_by_key(grid.plan, grid.root) for name, grid in opened.items()}
    parts = [HEAD, _summary(answers, seconds)]
    for number, (claim, found) in enumerate(answers, start=1):
        parts.append(_section(number, claim, found))
    parts.append("## The grids\n")
    parts += [_grid(name, grid, seconds[name]) for name, grid in opened.items()]
    return "\n".join(parts).rstrip("\n") + "\n"


def _summary(answers: Sequence[tuple[Claim, list[Answer]]], seconds: Seconds) -> str:
    counts = Counter(verdict(found) for _, found in answers)
    told = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
    lines = [
        f"Of {len(answers)} claims: {told}.",
        "",
        "| | claim | paper | verdict | machine time |",
    ]
    lines.append("|---|---|---|---|---|")
    for number, (claim, found) in enumerate(answers, start=1):
        time = _cost(found, seconds[claim.grid])
        lines.append(f"| {number} | {claim.text} | {claim.paper} | {verdict(found)} | {time} |")
    return "\n".join(lines) + "\n"


def _cost(answers: Sequence[Answer], seconds: Mapping[str, float]) -> str:
    """The time behind the answers to a claim; nothing where they have no results."""
    keys = frozenset[str]().union(*(entry.keys for entry in answers))
    return duration(math.fsum(seconds.get(key, 0.0) for key in keys)) if keys else ""


def _section(number: int, claim: Claim, found: list[Answer]) -> str:
    lines = [
        f"## Claim {number}: {verdict(found)}",
        "",
        f"{claim.text} ({claim.paper}; grid `{claim.grid}`)",
        "",
        "| answer | metric | difference | 95 % interval | p (Holm) | runs | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(_row, found)]) + "\n"


def _row(entry: Answer) -> str:
    question, found = entry.question, entry.contrast
    start = f"| {question.text} | {question.task} `{question.metric}` |"
    if found is None:
        return f"{start} | | | | not run |"
    around = "" if found.low is None or found.high is None else f"{100 * found.low:+.2f} to"
    around += "" if found.high is None else f" {100 * found.high:+.2f}"
    p = "" if entry.p_adjusted is None else "< .001" if entry.p_adjusted < 0.001 else ""
    p = p or ("" if entry.p_adjusted is None else f"{entry.p_adjusted:.3f}".lstrip("0"))
    runs = " / ".join(map(str, dict.fromkeys(found.runs)))
    return f"{start} {100 * found.value:+.2f} | {around} | {p} | {runs} | {entry.verdict} |"


def _grid(name: str, opened: Opened, seconds: Mapping[str, float]) -> str:
    text = opened.grid.path.read_text(encoding="utf-8").rstrip("\n")
    stages = sum(not stage.inline for stage in opened.plan.stages.values())
    time = (
        f"{len(seconds)} of {stages} stages and evaluations are stored; they took"
        f" {duration(math.fsum(seconds.values()))} of machine time."
    )
    return f"### {name}\n\n{time}\n\n```yaml\n{text}\n```\n"
