"""Panels -> a figure of the document, drawn into the report's folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from raxalign.report.document import Figure, identifier
from raxalign.report.figures.drawing import draw
from raxalign.report.figures.panels import Panel

MOST_PANELS = 12


@dataclass(frozen=True)
class Sketch:
    """A figure before it is drawn: `name` is the stem of its files."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]

    def drawn(self, folder: Path) -> Figure:
        """Draw at most `MOST_PANELS` panels into a folder; the caption counts what is left out."""
        shown, caption = self.panels[:MOST_PANELS], self.caption
        if len(self.panels) > MOST_PANELS:
            caption += f" The first {MOST_PANELS} of {len(self.panels)} panels."
        name = identifier(self.name)
        svg = draw(shown, folder, name)
        return Figure(f"figure-{name}", self.title, name, svg, caption)


def drawn(sketches: Sequence[Sketch], folder: Path) -> tuple[Figure, ...]:
    """Draw the sketches that have panels."""
    return tuple(sketch.drawn(folder) for sketch in sketches if sketch.panels)
