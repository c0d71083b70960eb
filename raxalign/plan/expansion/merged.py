"""What became of a grid's points: how many were excluded or refused, and how many were merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raxalign.config.axes import Axis
from raxalign.errors import Fault
from raxalign.printing import are, counted

if TYPE_CHECKING:
    from raxalign.config.grid import Grid
    from raxalign.plan.trial import Trial


@dataclass
class Tally:
    """Counts points by the name of their method: all of them (`points`), those that `exclude` names
    (`excluded`), those with an encoder of a family that the method does not take (`refused`, by
    method and family), and those with one that lacks the masked-LM head that the method requires
    (`headless`, by method and encoder).
    """

    points: Counter[str] = field(default_factory=Counter)
    excluded: Counter[str] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    headless: Counter[tuple[str, str]] = field(default_factory=Counter)

    def nothing_left(self, grid: Grid) -> Fault:
        """Return the fault of a grid whose points are all left out."""
        excluded, points = self.excluded.total(), self.points.total()
        key = "exclude" if excluded else "methods"
        counts = (
            f"{excluded} of {counted(points, 'point')} {are(excluded)} excluded",
            f"{points - excluded} have an encoder that does not suit their method",
        )
        remedy = "exclude less" if excluded else "`raxalign doctor --encoder` names those that do"
        told = " and ".join(counts if points > excluded else counts[:1])
        return Fault(grid.lines.get(key), key, f"no trial is left: {told}", remedy)

    def told(self, grid: Grid, trials: Collection[Trial]) -> Iterator[str]:
        """Yield one line per method for each of: points excluded, points merged, points refused."""
        counts = Counter(trial.method for trial in trials)
        searched = {spec.name for spec in grid.methods if spec.searched is not None}
        for name, points in self.points.items():
            refused, headless = (
                {what: count for (method, what), count in dropped.items() if method == name}
                for dropped in (self.refused, self.headless)
            )
            dropped = sum(refused.values()) + sum(headless.values())
            left = points - self.excluded[name] - dropped
            if self.excluded[name]:
                yield f"{name}: {self.excluded[name]} of {counted(points, 'point')} excluded"
            if counts[name] and counts[name] < left and name not in searched:
                why = _why_merged(grid, [trial for trial in trials if trial.method == name])
                yield f"{name}: {counted(left, 'point')} are {counted(counts[name], 'trial')}{why}"
            yield from (
                f"{name} does not take {family} encoders: {counted(count, 'point')} dropped"
                for family, count in refused.items()
            )
            yield from (
                f"{name} requires a masked-LM head, which {encoder} does not have:"
                f" {counted(count, 'point')} dropped"
                for encoder, count in headless.items()
            )


def _why_merged(grid: Grid, trials: Collection[Trial]) -> str:
    axes = {Axis.SENTENCES: grid.sentences, Axis.SEED: grid.seeds}
    reasons = [
        name
        for name, values in axes.items()
        if len(values) > 1 and any(getattr(trial, name) is None for trial in trials)
    ]
    return (
        f" ({' and '.join(reasons)} cannot change the result)"
        if reasons
        else " (some params are idle)"
    )
