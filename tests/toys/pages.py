"""The examples of docs/how-to/plugins.md as files: one per kind of addition, and the grid that uses
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def blocks() -> Mapping[str, str]:
    """The files of the page, by the name in the first line of each; the grid is ``grid.yaml``."""
    (page,) = DOCS.rglob("plugins.md")
    text = page.read_text(encoding="utf-8")
    found = dict(re.findall(r"```(?:python|yaml)\n# (\S+\.(?:py|yaml))\n(.*?)```", text, re.DOTALL))
    (grid,) = re.findall(r"```yaml\n(name:.*?)```", text, re.DOTALL)
    return {**found, "grid.yaml": grid}


def write_page(folder: Path, *, only: str | None = None) -> Path:
    """Write the files of the page (`only`: one of them) into a folder; returns the grid's path."""
    for name, text in blocks().items():
        if only in (None, name):
            (folder / name).write_text(text, encoding="utf-8")
    return folder / (only or "grid.yaml")
