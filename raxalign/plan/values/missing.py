"""What of a plan has no results. Whatever speaks of the grid asks here, since results know nothing
of what they lack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from raxalign.analysis.cells import Cell
from raxalign.catalog import catalog
from raxalign.plan.names import plain, varying
from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.plan.values.comparisons import baseline_cells
from raxalign.printing import are, counted
from raxalign.store.ledger import Ledger

_NAMED = 4  # kinds of trials that lack results; the others are counted


@dataclass(frozen=True)
class Lacking:
    """The trials of a plan that lack results: those that `failed` when they were last run, and the
    `missing` ones, which have not run to their end. What a search suggested is not among them: it
    may end early, and its test values are not shown.
    """

    plan: Plan
    failed: Sequence[Trial] = ()
    missing: Sequence[Trial] = ()

    @classmethod
    def of(cls, plan: Plan, there: AbstractSet[str], ledger: Ledger | None) -> Lacking:
        """Return what lacks a result, by the keys of the evaluations that are `there`."""
        asked = (t for t in plan.trials if t.searched is None or t.searched.confirmed)
        left = [trial for trial in asked if not there >= set(trial.evaluations.values())]
        failed = ledger.failures(t.key for t in left) if left and ledger is not None else {}
        missing = [trial for trial in left if trial.key not in failed]
        return cls(plan, [trial for trial in left if trial.key in failed], missing)

    def told(self, run: str = "raxalign grid FILE", see: str = "raxalign status FILE") -> str:
        """Return how many trials lack results, which, and what runs and shows them; nothing where
        all have results.
        """
        of, count = f"of {counted(len(self.plan.trials), 'trial')}", len(self.missing)
        lacks = f"{count:,} more {are(count)}" if self.failed else f"results of {count:,} {of} are"
        failed = "" if not see else f": {self._named(self.failed)}; see `{see}`"
        missing = "" if not run else f" ({self._named(self.missing)}): `{run}` runs them"
        said = [f"{len(self.failed):,} {of} failed{failed}."] if self.failed else []
        said += [f"{lacks} missing{missing}."] if self.missing else []
        return f"Unfinished: {' '.join(said)}" if said else ""

    @property
    def short(self) -> str:
        """What captions say of a grid that lacks results."""
        return self.told("", "")

    def _named(self, trials: Sequence[Trial]) -> str:
        """The widest names of which all trials are among these; of others, how many or which."""
        every, lacking = (
            Counter(name for trial in some for name in dict.fromkeys(self._names(trial)))
            for some in (self.plan.trials, trials)
        )
        found: dict[str, dict[str, None]] = {}
        for trial in trials:
            *names, last = self._names(trial)
            whole = next((name for name in names if lacking[name] == every[name]), None)
            some = f"{lacking[last]} of {every[last]}" * (lacking[last] < every[last])
            part = f"{last.removeprefix(names[-1])} {some}".strip() if whole is None else ""
            found.setdefault(whole or names[-1], {})[part] = None
        more = f"; {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        named = (f"{name} ({', '.join(parts)})" for name, parts in found.items())
        return "; ".join([name.removesuffix(" ()") for name in named][:_NAMED]) + more

    def _names(self, trial: Trial) -> tuple[str, ...]:
        """What a trial is one of, from the widest to the narrowest; languages that are not all of
        the grid's come last.
        """
        plan, method = self.plan, trial.method
        size = f" with {trial.sentences:,} pairs" if trial.sentences is not None else ""
        axes = (f" {name}={plain(of)}" for name, of in varying(plan, method, trial.params).items())
        where = f" on {trial.encoder}" if len(plan.encoders) > 1 else ""
        point = "".join([method, *axes, size, where])
        every = {*trial.languages, plan.pivot} >= {*plan.languages}
        return (
            method,
            f"{method}{size}",
            point,
            point + f" {'+'.join(trial.languages)}" * (not every),
        )


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
