"""How an evaluation depends on chance, by the plan and never by results: whether its seed counts,
and which training it shares with others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raxalign.plan.plan import Plan


@dataclass
class Chance:
    """Looks at the stages of a plan. The encoder that a grid starts from does not count as chance:
    all runs share it.
    """

    plan: Plan
    _known: dict[str, bool] = field(default_factory=dict)

    def has_chance(self, key: str) -> bool:
        """Check whether another seed would give another result of a stage."""
        if key not in self._known:
            stage = self.plan.stages[key]
            depends = stage.kind != "encoder" and (
                "seed" in stage.params or any(map(self.has_chance, stage.inputs.values()))
            )
            self._known[key] = depends
        return self._known[key]

    def training(self, evaluation: str) -> str | None:
        """Return the key of the training behind an evaluation; None where its task has none."""
        return self.plan.stages[evaluation].inputs.get("trained")
