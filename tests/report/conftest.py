"""A grid with made-up results, for the tests of a module."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ledgers import made_up


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return made_up(tmp_path_factory.mktemp("grid"))
