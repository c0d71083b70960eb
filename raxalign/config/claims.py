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
from dataclasses import dataclass

_FORM = re.compile(
    r"(?:abs\((?P<one>.+?) - (?P<other>.+?)\) < (?P<margin>[\d.]+)|(?P<more>.+?) > (?P<less>.+?))"
    r" in (?P<task>\S+)(?: (?!for |over )(?P<metric>\S+))?(?: for (?P<lang>\S+))?"
    r"(?P<sample> over languages)?"
)
FORMS = "write `A > B in TASK [METRIC] [for LANGUAGE] [over languages]`, or `abs(A - B) < D in ...`"


@dataclass(frozen=True)
class Claim:
    """One sentence: that the value of `first` is larger than that of `second`, or, with a `margin`,
    that they differ by less.
    """

    text: str
    first: str
    second: str
    task: str
    metric: str | None = None  # None: the main one
    lang: str | None = None  # None: the mean over languages
    margin: float | None = None
    over_languages: bool = False  # for languages like these, of which the grid's are a sample


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
