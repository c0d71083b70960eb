"""Readers of a grid file's text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raxalign.errors import GridError
from raxalign.grid.file import Grid, load


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """A function that reads a grid file of a text."""

    def load_text(text: str) -> Grid:
        path = tmp_path / "grid.yaml"
        path.write_text(text, encoding="utf-8")
        return load(path)

    return load_text


@pytest.fixture
def faults(read: Any) -> Any:
    """A function that returns the faults of a text, one per line."""

    def said(text: str) -> list[str]:
        with pytest.raises(GridError) as caught:
            read(text)
        return [str(fault) for fault in caught.value.faults]

    return said
