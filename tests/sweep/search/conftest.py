"""Searches whose records are quick to write."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from optuna import importance


@pytest.fixture(autouse=True, scope="session")
def _few_trees() -> Iterator[None]:
    """No test asks how much a param explains, but whether that was computed."""
    few = partial(importance.FanovaImportanceEvaluator, n_trees=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importance, "FanovaImportanceEvaluator", few)
        yield
