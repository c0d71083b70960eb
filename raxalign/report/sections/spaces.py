"""The geometry of spaces: language identity and anisotropy over layers, and words as points."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import final

from raxalign.analysis.cells import MEANS, Cell, Value
from raxalign.report.document import Part, Share, caption
from raxalign.report.drawing import Panel, Series, Sketch
from raxalign.report.sections.base import Section

_TASK = "representation"
_LAYER = re.compile(r"layer(\d+)_(language_probe|anisotropy)")
_MEASURES = {
    "language_probe": ("Language identity by layer", "accuracy of a linear probe (%)"),
    "anisotropy": ("Anisotropy by layer", "mean cosine"),
}
_WORDS = {
    "occurrence": "Linked words in their sentences",
    "type": "The word pairs linked most often",
}
_COLUMNS = {"kind", "side", "word", "pair", "x", "y"}


@final
class Spaces(Section):
    """The figures of representation spaces: measures by layer, and words as points."""

    VERSION = 2
    place = 90

    def share(self) -> Share | None:
        """Return the figures; None without a ledger or a task that measures spaces."""
        sketches = self._sketches() if self.material.ledger is not None else ()
        return self.one_part(Part("analyses", "Analyses"), sketches)

    def _sketches(self) -> Iterator[Sketch]:
        task, cells, some = self.shown_cells(_TASK)
        for name, (title, label) in _MEASURES.items():
            panels = self._layer_panels(cells, (task, name), label)
            about = caption(f"layers-{name}") + some
            basis = self.results.basis(task, cells)
            yield Sketch(f"layers-{name}", title, about, panels, basis)
        for kind, title in _WORDS.items():
            name = f"words-{kind}"
            basis = f"{task}, test set, one seed"
            yield Sketch(name, title, caption(name) + some, self.word_panels(kind), basis)

    def _layer_panels(
        self, cells: Sequence[Cell], measure: tuple[str, str], label: str
    ) -> list[Panel]:
        """A panel per language pair of a (task, name): a curve per method over its layers."""
        points: dict[tuple[str, str], dict[int, Value]] = {}  # (language, method) -> layer -> value
        langs: dict[str, None] = {}
        for cell in cells:
            for (task, lang, metric, split), value in cell.values.items():
                if task == measure[0] and lang not in MEANS:
                    langs[lang] = None
                    found = _LAYER.fullmatch(metric)
                    if found is not None and (found[2], split) == (measure[1], "test"):
                        points.setdefault((lang, cell.method), {})[int(found[1])] = value
        panels, scale = [], self.results.unit(*measure).scale
        for lang in self.results.plan.ordered(langs):
            curves = []
            for colour, cell in enumerate(cells):
                own = dict(sorted(points.get((lang, cell.method), {}).items()))
                if len(own) > 1:
                    means = [scale * value.mean for value in own.values()]
                    ends = [value.ends(scale) for value in own.values()]
                    curves.append(Series(cell.method, list(own), means, ends, colour=colour))
            if curves:
                ticks = curves[0].x if len(curves[0].x) <= 13 else ()
                panels.append(Panel(lang, "layer", label, curves, ticks=ticks))
        return panels

    def word_panels(self, kind: str) -> list[Panel]:
        """Return words of the first language pair as points (`occurrence` or `type`), a panel per
        method; the original encoder comes first. Methods with the same points share a panel.
        """
        task, cells, _ = self.shown_cells(_TASK)
        panels: dict[str, Panel] = {}
        for entry in self.material.predictions.of_all(cells, task, _COLUMNS):
            langs = self.results.plan.ordered(entry.tables)
            (lang,), first = self.fitting(
                langs, 1, "language pairs", which=f"{langs[0]}, the first"
            )
            every = entry.tables[lang].select(sorted(_COLUMNS)).to_pylist()
            rows = [row for row in every if row["kind"] == kind]
            src, tgt = ([row for row in rows if row["side"] == side] for side in ("src", "tgt"))
            codes = (lang.removesuffix(f"-{self.results.plan.pivot}"), self.results.plan.pivot)
            clouds = []
            for colour, (code, side) in enumerate(zip(codes, (src, tgt), strict=True)):
                names = [row["word"] for row in side] if kind == "type" else ()
                xs, ys = ([row[axis] for row in side] for axis in ("x", "y"))
                cloud = Series(code, xs, ys, look="dots", colour=colour, names=names)
                clouds += [cloud] if side else []
            others = {row["pair"]: row for row in tgt}
            links = [
                (row["x"], row["y"], other["x"], other["y"])
                for row in (src if kind == "type" else ())
                if (other := others.get(row["pair"])) is not None
            ]
            if clouds:
                made = Panel(entry.cell.method, "", "", clouds, links=links, said=first)
                same = panels.get(repr(clouds))
                joined = f"{same.title}, {made.title}" if same is not None else made.title
                panels[repr(clouds)] = replace(made, title=joined)
        return list(panels.values())
