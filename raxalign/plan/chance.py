"""What of an evaluation is chance, by the plan and never by results: whether its seed counts, and
which training it shares with others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan


@dataclass
class Chance:
    """Asks the stages of a plan. The encoder that a grid starts from is taken as given: all runs
    share it.
    """

    plan: Plan
    _known: dict[str, bool] = field(default_factory=dict)

    def has_chance(self, key: str) -> bool:
        """Whether another seed would give another result of a stage."""
        if key not in self._known:
            stage = self.plan.stages[key]
            depends = stage.kind != "encoder" and (
                "seed" in stage.params or any(map(self.has_chance, stage.inputs.values()))
            )
            self._known[key] = depends
        return self._known[key]

    def training(self, evaluation: str) -> str | None:
        """The key of the task's own training behind an evaluation; None where it has none."""
        return self.plan.stages[evaluation].inputs.get("trained")
