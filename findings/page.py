"""The page of what was found, in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from findings.answers import OTHER, Answer, Answered
from findings.questions import Quantity
from findings.record import Ran, Record
from raxalign.grid.estimates import duration

HEAD = f"""# Findings

The papers' claims, asked on real text with a small multilingual BERT, or with small encoders that
are trained on that text. They are not the papers' experiments: the encoders, the text and the
numbers of sentences are smaller. They show which claims hold there, with 95 % confidence intervals
(CI) that treat both test examples and training runs as random.

A verdict is given only where the quantity that was measured here is the one that the paper
measured. Elsewhere the page says *{OTHER}*, names both, and shows the numbers,
which do not decide the claim.

`python -m findings` makes this page from results, and keeps these in `findings/record.json`.
Nothing in it is written by hand. A claim is *held* if every answer about the paper's quantity is
above 0 with a p-value below 0.05 after Holm's correction over the whole page. Where a grid was run
again or had more seeds after its answers had been read, the p-values of look k count k (k + 1)
times before that, as those of every grid do. It is *refuted* if
one of these answers is below 0 in the same sense. It is *no difference above 1* if an answer is
neither, and its interval lies within one point of 0 on both sides. Otherwise the verdict is *cannot
tell*. Differences are in points of 100.

Each answer has its own result, whatever it says about the claim. *MDE* is the minimum detectable
effect (80 % power): the true difference that four of five such comparisons would find. *More seeds*
is how many more a difference of one point takes. Both are there where the variances are known from
five runs: grids that ran before these were kept have to run again.

Grids may have run on different days, which are named at the end of the page. Intervals and p-values
of a grid were computed when it ran, with the correction over all answers that the page had then.
The grids `words`, `slots`, `transfer`, `pretraining` and `xnli` were measured with one draw of
eflomal's links, which are random: until they are run again, their intervals and p-values do not
contain that randomness.

The machine time of a claim is that of all stages and evaluations that its values were made from.
It is measured by the clock, so that other work on the machine lengthens it. What several claims
share is counted for each of them, and once in the time of the grid.
"""


def render(record: Record, grids: Mapping[str, str]) -> str:
    """Return the page: a summary, the claims with their answers, and the grids.

    Args:
        record: What was found.
        grids: The text of each grid file.
    """
    parts = [HEAD, _summary(record.answered)]
    for number, found in enumerate(record.answered, start=1):
        parts.append(_section(number, found))
    parts.append("## The grids\n")
    parts += [_grid(name, text, record.grids.get(name)) for name, text in grids.items()]
    return "\n".join(parts).rstrip("\n") + "\n"


def _summary(answered: Sequence[Answered]) -> str:
    counts = Counter(found.verdict for found in answered)
    listed = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
    lines = [
        f"Of {len(answered)} claims: {listed}.",
        "",
        "| | claim | paper | the paper measured | measured here | results | verdict |"
        " machine time |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for number, found in enumerate(answered, start=1):
        claim = found.claim
        time = "" if found.seconds is None else duration(found.seconds)
        lines.append(
            f"| {number} | {claim.text} | {claim.paper} | {claim.quantity.text} |"
            f" {'; '.join(quantity.text for quantity in _measured(found))} | {_results(found)} |"
            f" {found.verdict} | {time} |"
        )
    return "\n".join(lines) + "\n"


def _results(found: Answered) -> str:
    """Write how many answers have each result."""
    counts = Counter(entry.sign for entry in found.answers)
    return ", ".join(f"{n} {sign}" for sign, n in counts.items())


def _measured(found: Answered) -> tuple[Quantity, ...]:
    """Return the quantities that the answers to a claim are about."""
    return tuple(dict.fromkeys(entry.question.quantity for entry in found.answers))


def _section(number: int, found: Answered) -> str:
    claim = found.claim
    lines = [
        f"## Claim {number}: {found.verdict}",
        "",
        f"{claim.text} ({claim.paper}; grid `{claim.grid}`)",
        "",
        f"The paper measured: {claim.quantity.text}.",
        "",
        "| answer | measured here | metric | difference | 95 % CI | p (Holm) | runs |"
        " result | MDE | more seeds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_row(entry) for entry in found.answers)]) + "\n"


def _row(entry: Answer) -> str:
    question, found = entry.question, entry.contrast
    quantity = question.quantity
    start = f"| {question.text} | {quantity.text} | {quantity.task} `{quantity.metric}` |"
    if found is None:
        return f"{start} | | | | not run | | |"
    around = "" if found.low is None or found.high is None else f"{100 * found.low:+.2f} to"
    around += "" if found.high is None else f" {100 * found.high:+.2f}"
    p = "" if entry.p_adjusted is None else "< .001" if entry.p_adjusted < 0.001 else ""
    p = p or ("" if entry.p_adjusted is None else f"{entry.p_adjusted:.3f}".lstrip("0"))
    runs = " / ".join(map(str, dict.fromkeys(found.runs)))
    seen = "" if entry.detectable is None else f"{100 * entry.detectable:.2f}"
    more = "" if entry.detectable is None else "no number" if entry.more_runs is None else None
    more = f"{entry.more_runs}" if more is None else more
    start += f" {100 * found.value:+.2f} | {around} | {p} | {runs}"
    return f"{start} | {entry.sign} | {seen} | {more} |"


def _grid(name: str, text: str, ran: Ran | None) -> str:
    lines = [f"### {name}", ""]
    if ran is not None:
        lines += [
            f"It ran on {ran.day}: {ran.stages} stages and evaluations, {duration(ran.seconds)} of"
            " machine time." + (f" {ran.missing} evaluations are missing." if ran.missing else ""),
            "",
        ]
    if ran is not None and ran.note:
        lines += [ran.note, ""]
    if ran is not None and ran.entries:
        entries = ", ".join(f"{label} {count:,}" for label, count in ran.entries.items())
        lines += [f"All encoders are compared over the same dictionary entries: {entries}.", ""]
    return "\n".join([*lines, f"```yaml\n{text.rstrip()}\n```\n"])
