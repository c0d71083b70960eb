"""A grid with made-up results, for the tests of a module."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ledgers import made_up
from tests.report.material import leave_undrawn


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return made_up(tmp_path_factory.mktemp("grid"))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are empty files, for tests of what is around them: drawing takes seconds."""
    leave_undrawn(monkeypatch)
