"""How the gradients of a method and a task go together in a joint training."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import fmean
from typing import final

from raxalign.analysis.cells import Cell
from raxalign.report.cells.names import named
from raxalign.report.document import Part, Share
from raxalign.report.figures.curves import MOST_CURVES
from raxalign.report.figures.drawing import drawn
from raxalign.report.figures.panels import Panel, Series, Sketch
from raxalign.report.sections.base import Section
from raxalign.store.spool import Spool

_MEASURES = {
    "gradient_cosine": "cosine of the two gradients",
    "task_gradient": "norm of the task's gradient",
    "method_gradient": "norm of the method's gradient",
}
_CAPTION = (
    "For all weights that the task and the method both train, for the embeddings and for each"
    " block. The lines are means over the grid's trainings of a row (seeds, languages), and areas"
    " reach from the lowest to the highest of them. The option `weight` is in the method's gradient."
    " Near the minimum of the sum the two gradients cancel, so that their cosine goes to -1 whatever"
    " they are: it says most early in a training."
)


@final
class Gradients(Section):
    """A figure of joint trainings that measured both gradients (`gradients`): their cosine and
    their norms over the steps, per block.
    """

    VERSION = 1
    place = 47

    def share(self) -> Share | None:
        """Return the figure; None where no joint training measured its gradients."""
        panels, left_out = list[Panel](), 0
        for cell in self.material.results.cells:
            curves = self._curves(cell)
            left_out = max(left_out, len(_places(curves)) - MOST_CURVES)
            panels += _panels(named(cell, self.material.plan), curves)
        some = " Some blocks are left out, at equal distances." if left_out > 0 else ""
        sketch = Sketch("gradients", "Gradients of task and method", _CAPTION + some, panels)
        figures = drawn([sketch], self.material.figures)
        return Part("gradients", "Joint trainings", figures=figures).alone()

    def _curves(self, cell: Cell) -> dict[str, dict[str, dict[int, list[float]]]]:
        """Measure -> place (`all`, `embeddings`, `block-1`) -> step -> the value of each training
        of a cell.
        """
        plan, storage = self.material.plan, self.material.storage
        found: dict[str, dict[str, dict[int, list[float]]]] = {}
        for key in cell.trials if storage is not None else ():
            if key in plan.by_key and "joint" in plan.by_key[key].joint.values():
                assert storage is not None
                for name, value, step, _ in Spool(storage, key).read():
                    *_, measure, place = ("", *name.split("/"))
                    if measure in _MEASURES:
                        places = found.setdefault(measure, defaultdict(lambda: defaultdict(list)))
                        places[place][step].append(value)
        return found


def _places(curves: dict[str, dict[str, dict[int, list[float]]]]) -> list[str]:
    """All parts of the encoder that were measured: the whole, the embeddings, the blocks upwards."""
    found = {place for places in curves.values() for place in places}
    blocks = sorted((p for p in found if p.startswith("block-")), key=lambda p: int(p[6:]))
    return [*sorted(found.difference(blocks)), *blocks]


def _shown(places: list[str]) -> Iterator[tuple[int, str]]:
    """Those that there is room for, with the colour of each: of many blocks some at equal
    distances, the first and the last among them.
    """
    rest = [place for place in places if not place.startswith("block-")]
    blocks, room = places[len(rest) :], MOST_CURVES - len(rest)
    if len(blocks) > room:
        blocks = [blocks[round(i * (len(blocks) - 1) / (room - 1))] for i in range(room)]
    yield from enumerate([*rest, *blocks])


def _panels(
    name: str, curves: dict[str, dict[str, dict[int, list[float]]]]
) -> Iterator[Panel]:
    """Yield a panel per measure of a row, with a line per part of the encoder."""
    for measure, label in _MEASURES.items() if curves else ():
        series = []
        for colour, place in _shown(_places(curves)):
            points = dict(sorted(curves.get(measure, {}).get(place, {}).items()))
            means = [fmean(values) for values in points.values()]
            band = [(min(values), max(values)) for values in points.values()]
            if points:
                series.append(Series(place, list(points), means, colour=colour, band=band))
        if series:
            yield Panel(name, "step", label, series, zero=measure == "gradient_cosine")
