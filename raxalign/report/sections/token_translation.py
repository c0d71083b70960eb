"""Token translation by mean shifts (Liu et al. 2020, Figures 7 and 8, Table 1)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import final

from raxalign.analysis.cells import MEANS, Cell
from raxalign.languages import pair_of
from raxalign.lazy import pa, pc
from raxalign.measured import spoken
from raxalign.report.document import Entry, Line, Part, Share, Table, caption
from raxalign.report.drawing import Heat, Panel, Series, Sketch
from raxalign.report.sections.base import Section
from raxalign.store.ledger import Ledger
from raxalign.tasks.translation.counts import shift_point

Points = Mapping[tuple[int, float], float]
"""(layer, weight) -> value."""
_MOST_DIRECTIONS = 12
_MOST_SENTENCES = 3
_COLUMNS = {"layer", "alpha", "id", "source_text", "output_text", "reference_text"}


@final
class TokenTranslations(Section):
    """Figures per score of a sweep over layers and weights, with a heat map and curves per language
    pair, and the first translated sentences where their texts are kept (`samples`).

    Scores of such a sweep are named as token translation names them (``layer10_alpha2_bleu1``).
    """

    VERSION = 2
    place = 95

    def share(self) -> Share | None:
        """Return the figures and sentences; None where no task sweeps over layers and weights."""
        results = self.results
        found = (
            (task, point[2])
            for task, _, metric, split in results.names
            if split == "test" and (point := shift_point(metric))
        )
        sweeps = list(dict.fromkeys(found))
        sketches = [sketch for sweep in sweeps for sketch in self._sketches(*sweep)]
        figures = self.drawn(sketches)
        tables = tuple(self._sentences(dict.fromkeys(task for task, _ in sweeps)))
        parts = (
            Part("figures", "Figures", figures=figures),
            Part("translations", "Translated sentences", tables=tables),
        )
        shown = tuple(part for part in parts if part.figures or part.tables)
        return Share(shown) if shown else None

    def _sentences(self, tasks: Iterable[str]) -> Iterator[Table]:
        """The tables of kept texts of each task, of the first cell that has some."""
        if (ledger := self.material.ledger) is not None:
            languages = self.material.plan.languages
            for task in tasks:
                swept = [c for c in self.results.cells if _directions(c, task, languages)]
                for cell in swept:
                    if made := list(sample_tables(cell, task, ledger, languages)):
                        some = self._only(cell, swept)
                        yield from (replace(one, caption=one.caption + some) for one in made)
                        break

    def _only(self, cell: Cell, cells: Sequence[Cell]) -> str:
        """What a caption says where one of several cells is shown."""
        which = f"{self.label(cell)}, the first that has what is shown"
        return self.fitting(cells, 1, "configurations", lambda one: one is cell, which)[1]

    def _sketches(self, task: str, stem: str) -> Iterator[Sketch]:
        """The figures of one score: over layers and weights, over weights, and over layers, by the
        values of the first cell that has some.
        """
        results, title, rate = self.results, f"{task}: {spoken(stem)}", stem == "convert_rate"
        cells = [cell for cell in results.cells if _grids(cell, task, stem)]
        found, some = _grids(cells[0], task, stem), self._only(cells[0], cells)
        basis = results.basis(task, [cells[0]])
        langs = sorted(results.plan.ordered(found), key=lambda lang: lang not in MEANS)
        grids = {MEANS.get(lang, lang): found[lang] for lang in langs}
        heats = []
        for name, points in grids.items():
            layers, weights = (sorted(set(axis)) for axis in zip(*points, strict=True))
            values = [[100 * points.get((n, w), math.nan) for w in weights] for n in layers]
            heat = Heat(values, list(map(str, layers)), [f"{weight:g}" for weight in weights])
            heats.append(Panel(name, "weight α", "layer", heat=heat))
        over, about = f"{title} over layers and weights", caption("shift_heat") + some
        yield Sketch(f"heat-{task}-{stem}", over, about, heats, basis)
        label = f"{spoken(stem)} (%)"
        for axis, figure in (("weights", "7" if rate else "8a"), ("layers", "" if rate else "8b")):
            made = [curves_over(axis, name, label, points) for name, points in grids.items()]
            panels = [panel for panel in made if panel is not None]
            over, about = f"{title} over {axis}", caption("shift_curves", figure=figure) + some
            yield Sketch(f"{axis}-{task}-{stem}", over, about, panels, basis)


def _grids(cell: Cell, task: str, stem: str) -> dict[str, Points]:
    """Language -> (layer, weight) -> value on test."""
    grids: dict[str, dict[tuple[int, float], float]] = defaultdict(dict)
    for (t, lang, metric, split), value in cell.values.items():
        point = shift_point(metric)
        if t == task and point is not None and point[2] == stem and split == "test":
            grids[lang][point[:2]] = value.mean
    return dict(grids)


def curves_over(axis: str, title: str, label: str, points: Points) -> Panel | None:
    """Make a panel with a curve per layer over the `weights`, or per weight over the `layers`, of
    many of them the most even choice; None where the axis has one value.
    """
    layers, weights = (sorted(set(found)) for found in zip(*points, strict=True))
    along, others = (layers, weights) if axis == "layers" else (weights, layers)
    apart = (len(others) - 1) / (Section.MOST_CURVES - 1)
    even = {others[round(place * apart)] for place in range(Section.MOST_CURVES)}
    what = "weights" if axis == "layers" else "layers"
    others, some = Section.fitting(
        others, Section.MOST_CURVES, what, even.__contains__, "at about even distances"
    )
    curves = []
    for colour, other in enumerate(others):
        places = [(x, other) if axis == "layers" else (other, x) for x in along]
        name = f"α {other:g}" if axis == "layers" else f"layer {other:g}"
        if all(place in points for place in places):
            ys = [100 * points[place] for place in places]
            curves.append(Series(name, [float(x) for x in along], ys, colour=colour))
    if len(along) < 2 or not curves:
        return None
    ticks = curves[0].x if len(along) <= 13 else ()
    x = "layer" if axis == "layers" else "weight α"
    return Panel(title, x, label, curves, ticks=ticks, said=some)


def _directions(cell: Cell, task: str, languages: Sequence[str]) -> dict[str, str]:
    """The directions between two languages that a cell has a sweep of -> an evaluation of each."""
    evaluations: dict[str, str] = {}
    for (name, lang, metric, split), seeds in cell.evaluations.items():
        shifted = (name, split) == (task, "test") and shift_point(metric) is not None
        if shifted and pair_of(lang, languages):
            evaluations[lang] = seeds[min(seeds, key=str)][0]
    return evaluations


def sample_tables(
    cell: Cell, task: str, ledger: Ledger, languages: Sequence[str]
) -> Iterator[Table]:
    """Yield a table per direction between two languages: the first test sentences of a cell with
    their outputs at every weight of the layer that dev chooses, or of the last one without dev
    values, and their references.
    """
    evaluations = _directions(cell, task, languages)
    langs, some = Section.fitting(sorted(evaluations), _MOST_DIRECTIONS, "directions")
    for lang in langs:
        table = ledger.predictions(evaluations[lang])
        if table is not None and set(table.column_names) >= _COLUMNS:
            points: dict[str, dict[tuple[int, float], float]] = {"dev": {}, "test": {}}
            for (t, direction, metric, split), value in cell.values.items():
                point = shift_point(metric)
                if (t, direction) == (task, lang) and point is not None and point[2] == "bleu1":
                    points[split][point[:2]] = value.mean
            # the best BLEU-1 on dev, the first of equals
            best = max(points["dev"], key=lambda point: points["dev"][point], default=None)
            shift = best or (max(layer for layer, _ in points["test"]), None)
            sides = pair_of(lang, languages) or ("", "")
            made = _sentences_of(table, lang, shift, sides)
            yield from (replace(one, caption=one.caption + some) for one in made)


def _sentences_of(
    table: pa.Table, lang: str, shift: tuple[int, float | None], sides: tuple[str, str]
) -> Iterator[Table]:
    """The table of a direction, where it has kept texts."""
    layer, chosen = shift
    here = pc.and_(pc.equal(table["lang"], lang), pc.equal(table["layer"], layer))
    rows = table.filter(pc.and_(here, pc.is_valid(table["source_text"]))).to_pylist()
    lines: list[Line] = []
    every = dict.fromkeys(row["id"] for row in rows)
    ids, some = Section.fitting(every, _MOST_SENTENCES, "sentences that were kept")
    for number, id_ in enumerate(ids, 1):
        own = [row for row in rows if row["id"] == id_]
        texts = [(f"input ({sides[0]})", own[0]["source_text"], "")]
        for row in sorted(own, key=lambda row: row["alpha"]):
            sub = "chosen on dev" if row["alpha"] == chosen else ""
            texts.append((f"{lang}, α={row['alpha']:g}", row["output_text"], sub))
        texts.append((f"reference ({sides[1]})", own[0]["reference_text"], ""))
        lines += [Line(label, (Entry(text),), sub, (), f"{number}") for label, text, sub in texts]
    weight, title = None if chosen is None else f"{chosen:g}", f"Token translation, {lang}"
    if lines:
        about = caption("translated", layer=layer, weight=weight) + some
        yield Table("", title, ("text",), tuple(lines), about, corner="sentence")
