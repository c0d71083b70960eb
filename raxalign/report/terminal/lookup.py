"""What a key in a storage is of: a trial, a stage or an evaluation."""

from __future__ import annotations

from collections.abc import Iterator
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
class KeyMatch:
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

    @property
    def fullness(self) -> tuple[int, int]:
        """How much its plan has of it: a grid may have been run again with more of it."""
        if self.plan is None:
            return -1, -1
        tasks = len(self.plan.by_key[self.key].evaluations) if self.sort == "trial" else 0
        return tasks, len(self.plan.trials)


def look_up(prefix: str, storage: Storage) -> KeyMatch:
    """Return what the only key that begins like this is of.

    Raises `RaxalignError` where there is none, and where there are several, which it lists.
    """
    found: dict[str, KeyMatch] = {}
    for match in _matches(prefix.lower(), storage):
        known = found.get(match.key)
        if known is None or match.fullness > known.fullness:
            found[match.key] = match
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise RaxalignError(
            f"show {prefix}: no trial, stage or evaluation in {storage} has a key that begins like"
            " this (`raxalign results FILE --format json` and `raxalign plan FILE --format json`"
            " print keys)"
        )
    lines = [match.described for match in list(found.values())[:_MOST]]
    lines += [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    raise RaxalignError(
        f"show {prefix}: {len(found)} keys begin like this; give more of one:\n  "
        + "\n  ".join(lines)
    )


def _matches(prefix: str, storage: Storage) -> Iterator[KeyMatch]:
    """Yield what begins like this: first what plans have."""
    for plan in stored_plans(storage):
        for trial in plan.trials:
            if trial.key.startswith(prefix):
                yield KeyMatch("trial", trial.key, trial.kind, plan)
        for key, stage in plan.stages.items():
            if key.startswith(prefix):
                sort: Sort = "evaluation" if stage.kind == "evaluation" else "stage"
                yield KeyMatch(sort, key, stage.kind, plan)
    for kind, key in storage.artifacts.keys():  # noqa: SIM118
        if key.startswith(prefix):
            yield KeyMatch("stage", key, kind, None)
    for key in storage.ledger.keys():  # noqa: SIM118
        if key.startswith(prefix):
            yield KeyMatch("evaluation", key, "evaluation", None)
