"""A grid with made-up results, for the tests of a module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ledgers import made_up


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return made_up(tmp_path_factory.mktemp("grid"))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are empty files, for tests of what is around them: drawing takes seconds."""

    def draw(_: object, folder: Path, name: str) -> str:
        for suffix in ("svg", "pdf", "png"):
            (folder / f"{name}.{suffix}").write_text("", encoding="utf-8")
        return "<svg></svg>"

    monkeypatch.setattr("raxalign.report.figures.drawing.draw", draw)
