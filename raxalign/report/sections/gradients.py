"""How the gradients of a method and a task go together in a joint training."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import final

from raxalign.analysis.cells import Cell
from raxalign.report.cells.names import named
from raxalign.report.document import Part, Share
from raxalign.report.figures.curves import MOST_CURVES
from raxalign.report.figures.panels import Panel, Series, Sketch
from raxalign.report.render import caption
from raxalign.report.sections.base import Section
from raxalign.store.spool import Spool

_BLOCK = "block-"
_MEASURES = {
    "gradient_cosine": "cosine of the two gradients",
    "task_gradient": "norm of the task's gradient",
    "method_gradient": "norm of the method's gradient",
}
_Curves = dict[str, dict[str, dict[int, list[float]]]]
"""Measure -> part of the encoder (`all`, `embeddings`, `block-1`) -> step -> the values of all
trainings.
"""


@final
class Gradients(Section):
    """A figure of joint trainings that measured both gradients (`gradients`): their cosine and
    their norms over the steps, per block.
    """

    VERSION = 1
    place = 47

    def share(self) -> Share | None:
        """Return the figure; None where no joint training measured its gradients."""
        results, panels, left_out = self.results, list[Panel](), 0
        for cell in results.cells:
            curves = self._curves(cell)
            left_out = max(left_out, len(_parts(curves)) - MOST_CURVES)
            encoder = f"\n{cell.encoder}" if results.several_encoders else ""
            size = f", {cell.sentences:,} pairs" if cell.sentences is not None else ""
            panels += _panels(f"{named(cell, results.plan)}{encoder}{size}", curves)
        some = " Some blocks are left out, at equal distances." if left_out > 0 else ""
        title, about = "Gradients of task and method", caption("gradients") + some
        sketch = Sketch("gradients", title, about, panels)
        return self.one_part(Part("gradients", "Joint trainings"), [sketch])

    def _curves(self, cell: Cell) -> _Curves:
        """The curves of a cell's joint trainings; none without a storage."""
        plan, storage, found = self.material.plan, self.material.storage, _Curves()
        for key in cell.trials:
            trial = plan.by_key.get(key)
            if storage is None or trial is None or "joint" not in trial.joint.values():
                continue
            for name, value, step, _ in Spool(storage, key).read():
                *_, measure, part = ("", *name.split("/"))
                if measure in _MEASURES:
                    steps = found.setdefault(measure, {}).setdefault(part, {})
                    steps.setdefault(step, []).append(value)
        return found


def _parts(curves: _Curves) -> list[str]:
    """The parts of the encoder that were measured: all together, embeddings, blocks upwards."""
    found = {part for parts in curves.values() for part in parts}
    blocks = sorted((p for p in found if p.startswith(_BLOCK)), key=lambda p: int(p[len(_BLOCK) :]))
    return [*sorted(found.difference(blocks)), *blocks]


def _shown(parts: list[str]) -> list[str]:
    """Those that there is room for: of many blocks some at equal distances, the first and the last
    among them.
    """
    rest = [part for part in parts if not part.startswith(_BLOCK)]
    blocks, room = parts[len(rest) :], MOST_CURVES - len(rest)
    if len(blocks) > room:
        blocks = [blocks[round(i * (len(blocks) - 1) / (room - 1))] for i in range(room)]
    return [*rest, *blocks]


def _panels(name: str, curves: _Curves) -> Iterator[Panel]:
    """Yield a panel per measure of a row, with a line per part of the encoder."""
    for measure, label in _MEASURES.items() if curves else ():
        series = []
        for colour, part in enumerate(_shown(_parts(curves))):
            points = dict(sorted(curves.get(measure, {}).get(part, {}).items()))
            means = [fmean(values) for values in points.values()]
            band = [(min(values), max(values)) for values in points.values()]
            if points:
                series.append(Series(part, list(points), means, colour=colour, band=band))
        if series:
            yield Panel(name, "step", label, series, zero=measure == "gradient_cosine")
