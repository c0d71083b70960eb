"""The section `claims`: what a grid is expected to show, written down before it runs.

    claims:
      - finetune > rotation in retrieval contextual_accuracy over languages
      - abs(rotation center=true - rotation center=false) < 1 in xnli for de

Methods are named as `results` names them, the metric is the task's main one where none is named,
and the value is the mean over languages where no language is (`for`). A margin is in points of
metrics in percent, else in the metric's own unit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raxalign.config._faults import Faults, Node, suggestion

if TYPE_CHECKING:
    from raxalign.config._specs import Grid

_FORM = re.compile(
    r"(?:abs\((?P<one>.+?) - (?P<other>.+?)\) < (?P<margin>[\d.]+)|(?P<more>.+?) > (?P<less>.+?))"
    r" in (?P<task>\S+)(?: (?!for |over )(?P<metric>\S+))?(?: for (?P<lang>\S+))?"
    r"(?P<sample> over languages)?"
)
_REMEDY = (
    "write `A > B in TASK [METRIC] [for LANGUAGE] [over languages]`, or `abs(A - B) < D in ...`"
)


@dataclass(frozen=True)
class Claim:
    """One sentence: that the value of `first` is larger than that of `second`, or, with a `margin`,
    that they differ by less.

    `metric` and `lang` are None where the main metric and the mean over languages are meant. With
    `over_languages` the claim is about languages like these, of which those of the grid are a
    sample.
    """

    text: str
    first: str
    second: str
    task: str
    metric: str | None = None
    lang: str | None = None
    margin: float | None = None
    over_languages: bool = False


def claim_of(text: str) -> Claim | None:
    """Return the claim that a sentence makes; None where it has neither form.

    >>> claim_of("finetune > none in xnli over languages").over_languages
    True
    """
    text = " ".join(text.split())
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    parts = found.groupdict()
    return Claim(
        text,
        parts["one"] or parts["more"],
        parts["other"] or parts["less"],
        parts["task"],
        parts["metric"],
        parts["lang"],
        float(parts["margin"]) if parts["margin"] else None,
        over_languages=bool(parts["sample"]),
    )


def read_claims(node: Node, grid: Grid, faults: Faults) -> tuple[Claim, ...]:
    """Read the section, and check its names against the methods and tasks of the grid."""
    from raxalign.config._references import check_metric

    methods, tasks = [spec.name for spec in grid.methods], {spec.name for spec in grid.tasks}
    found: list[Claim] = []
    for item in node.items():
        claim = claim_of(item.value) if isinstance(item.value, str) else None
        if claim is None:
            faults.add(item, f"{item.shown()} is not a claim", _REMEDY)
            continue
        for name in (claim.first, claim.second):
            if methods and name.split()[0] not in methods:
                faults.add(item, f"unknown method {name!r}", suggestion(name, methods))
        if claim.over_languages and claim.lang is not None:
            faults.add(item, "is about one language and over languages", "leave one of them out")
        if claim.task not in tasks:
            if tasks:
                faults.add(item, f"unknown task {claim.task!r}", suggestion(claim.task, tasks))
        elif claim.metric is not None:
            whole = f"{claim.task}/{claim.lang or 'avg'}/{claim.metric}"
            check_metric(replace(item, value=whole, text=whole), grid, faults)
        if claim in found:
            faults.add(item, "is given twice", "keep one")
        found.append(claim)
    return tuple(found)
