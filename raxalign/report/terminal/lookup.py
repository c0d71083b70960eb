"""What a key in a storage is of: a trial, a stage or an evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from raxalign.errors import RaxalignError
from raxalign.plan.names import trial_name
from raxalign.plan.plan import Plan
from raxalign.plan.stored import stored_plans
from raxalign.store.storage import Storage

Sort = Literal["trial", "stage", "evaluation"]
_MOST = 20  # matches that a message lists


@dataclass(frozen=True)
class Match:
    """What a key is of; `plan` is a plan that has it (None: no plan that is kept has it), `kind`
    that of a stage.
    """

    sort: Sort
    key: str
    kind: str
    plan: Plan | None

    @property
    def described(self) -> str:
        """A line on it."""
        name = ""
        if self.plan is not None and self.sort == "trial":
            name = f", {trial_name(self.plan.by_key[self.key], self.plan)}"
        elif self.plan is not None:
            name = f", {self.plan.stages[self.key].maker}"
        kind = f" {self.kind}" if self.sort == "stage" else ""
        return f"{self.key[:16]}  {self.sort}{kind}{name}"


def look_up(prefix: str, storage: Storage) -> Match:
    """Return what the only key that begins like this is of.

    Raises `RaxalignError` where there is none, and where there are several, which it lists.
    """
    found = _matches(prefix.lower(), storage)
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise RaxalignError(
            f"show {prefix}: no trial, stage or evaluation in {storage} has a key that begins like"
            " this (`raxalign results FILE --format json` and `raxalign plan FILE --format json`"
            " print keys)"
        )
    lines = [match.described for match in list(found.values())[:_MOST]]
    more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    raise RaxalignError(
        f"show {prefix}: {len(found)} keys begin like this; give more of one:\n  "
        + "\n  ".join([*lines, *more])
    )


def _matches(prefix: str, storage: Storage) -> dict[str, Match]:
    """Return by key what begins like this: first what plans have, the fullest plan of each."""
    found: dict[str, Match] = {}
    for plan in stored_plans(storage):
        trials = [trial for trial in plan.trials if trial.key.startswith(prefix)]
        for trial in trials:
            _keep(found, Match("trial", trial.key, trial.kind, plan))
        for key, stage in plan.stages.items():
            if key.startswith(prefix):
                sort: Sort = "evaluation" if stage.kind == "evaluation" else "stage"
                _keep(found, Match(sort, key, stage.kind, plan))
    for kind, key in storage.artifacts.keys():  # noqa: SIM118
        if key.startswith(prefix) and key not in found:
            found[key] = Match("stage", key, kind, None)
    for key in storage.ledger.keys():  # noqa: SIM118
        if key.startswith(prefix) and key not in found:
            found[key] = Match("evaluation", key, "evaluation", None)
    return found


def _keep(found: dict[str, Match], match: Match) -> None:
    known = found.get(match.key)
    if known is None or known.plan is None or _fullness(match) > _fullness(known):
        found[match.key] = match


def _fullness(match: Match) -> tuple[int, int]:
    """How much a plan has of what a key is of: a grid may have been run again with more of it."""
    plan = match.plan
    assert plan is not None
    tasks = len(plan.by_key[match.key].evaluations) if match.sort == "trial" else 0
    return tasks, len(plan.trials)
