"""Made-up results of a grid, tested and written as a report: once for all tests that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raxalign.values.scoreboard import Scoreboard
from tests.report.material import leave_undrawn, results_of, with_tests, write


@pytest.fixture(scope="session")
def results(made: Any) -> Scoreboard:
    return results_of(made)


@pytest.fixture(scope="session")
def tested(made: Any, results: Scoreboard) -> Scoreboard:
    return with_tests(results, made[1])


@pytest.fixture(scope="session")
def written(made: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of its report, whose figures are empty files."""
    folder = tmp_path_factory.mktemp("report") / "new"
    with pytest.MonkeyPatch.context() as patch:
        leave_undrawn(patch)
        paths = write(made, folder)
    assert all(path.is_file() for path in paths)
    return folder


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are empty files, for tests of what is around them: drawing takes seconds."""
    leave_undrawn(monkeypatch)
