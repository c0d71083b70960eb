"""Corpora that are too short for what a plan requires of them: found by counting lines, before
anything is made.
"""

from __future__ import annotations

from typing import Any

from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage


def shortages(plan: Plan) -> tuple[str, ...]:
    """Return one message per language whose corpus has fewer lines than its training, dev and test
    text need, for the largest training text.

    What is dropped from training (blank and repeated pairs, say) is found only when the text is
    made. Corpora that are not on this machine are passed over.
    """
    largest: dict[str, Stage] = {}
    for stage in plan.stages.values():
        if (
            stage.kind == "bitext"
            and stage.params["part"] == "training"
            and stage.params["shortage"] == "refuse"
        ):
            before = largest.setdefault(str(stage.params["lang"]), stage)
            largest[str(stage.params["lang"])] = max(before, stage, key=_asked_for)
    return tuple(message for stage in largest.values() if (message := _shortage(stage)) is not None)


def _asked_for(stage: Stage) -> int:
    return int(str(stage.params["sentences"]))


def _shortage(stage: Stage) -> str | None:
    needed, lang, pivot = _asked_for(stage), str(stage.params["lang"]), str(stage.params["pivot"])
    split: Any = stage.params["split"]
    heldout = 0 if split == "files" else int(split["test"]) + int(split["dev"])
    there: int | None = stage.plugin().n_pairs(lang, pivot, needed + heldout)
    if there is None or there >= needed + heldout:
        return None
    place = next(iter(stage.locations.values()), stage.maker)
    left = max(there - heldout, 0)
    apart = f", {heldout:,} of them for dev and test" if heldout else ""
    smaller = "make `split` smaller, or " if there > 1 else ""
    remedy = (
        f"ask for at most {left:,}, make `split` smaller, or set `shortage: use-all`"
        if left
        else f"{smaller}name a corpus with more text"
    )
    return (
        f"{place}: {lang}-{pivot}: {needed:,} training sentences were asked for, and there are"
        f" {there:,} lines{apart}; {remedy}"
    )
