"""What of a plan has no results. Whatever speaks of the grid asks here, since results know nothing
of what they lack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from raxalign.analysis.cells import Cell
from raxalign.catalog import catalog
from raxalign.plan.names import plain, varying
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.plan.values.comparisons import baseline_cells
from raxalign.printing import counted

_NAMED = 4  # kinds of missing trials; the others are counted


def missing(plan: Plan, there: AbstractSet[str]) -> list[Trial]:
    """Return the trials that lack a result, by the keys of the evaluations that are `there`; not
    those that a search suggested, which it may end early, and whose test values are not shown.
    """
    asked = (t for t in plan.trials if t.searched is None or t.searched.confirmed)
    return [trial for trial in asked if not there >= set(trial.evaluations.values())]


def unfinished(plan: Plan, trials: Sequence[Trial], run: str = "raxalign grid FILE") -> str:
    """Return how many `missing` trials there are, which, and what runs them; empty without any."""
    every = Counter(name for trial in plan.trials for name in _names(trial, plan))
    lacking = Counter(name for trial in trials for name in _names(trial, plan))
    found: dict[str, None] = {}
    for trial in trials:
        names = list(_names(trial, plan))
        one = f"{names[-1]} ({lacking[names[-1]]} of {every[names[-1]]})"
        found[next((name for name in names if lacking[name] == every[name]), one)] = None
    more = f"; {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    named = f" ({'; '.join(list(found)[:_NAMED])}{more}): `{run}` runs them."
    return in_short(plan, trials)[:-1] + named if trials else ""


def in_short(plan: Plan, trials: Sequence[Trial]) -> str:
    """Return what captions say of a grid that lacks results; empty without missing trials."""
    of = f"{len(trials):,} of {counted(len(plan.trials), 'trial')}"
    return f"Unfinished: results of {of} are missing." if trials else ""


def _names(trial: Trial, plan: Plan) -> dict[str, None]:
    """What a trial is one of, from the widest to the narrowest."""
    size = f" with {trial.sentences:,} pairs" if trial.sentences is not None else ""
    axes = (
        f" {name}={plain(of)}" for name, of in varying(plan, trial.method, trial.params).items()
    )
    where = f" on {trial.encoder}" if len(plan.encoders) > 1 else ""
    point = "".join([trial.method, *axes, size, where])
    return dict.fromkeys([trial.method, f"{trial.method}{size}", point])


def why_uncompared(plan: Plan, cells: Sequence[Cell]) -> str:
    """Return why no cell of a table, or of a grid, is compared with a baseline: the grid has none,
    or what it has is not there yet; empty where both a baseline and others are there.
    """
    bases, known = baseline_cells(cells, plan), catalog("methods")
    kinds = {trial.method: trial.kind for trial in plan.trials}
    planned = [name for name, kind in kinds.items() if kind in known and known[kind].is_baseline]
    if not bases and planned:
        return f"the baseline {' and '.join(planned)} has no results yet"
    if not bases:
        return "the grid has no baseline (a method of kind none)"
    if len(bases) < len(cells):
        return ""
    if kinds.keys() > {base.method for base in bases}:
        return f"so far only the baseline {bases[0].method} has results"
    return f"the grid has no method besides its baseline {bases[0].method}"
