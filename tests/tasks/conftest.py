"""Every evaluation in these tests is held to what its task declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import pytest

from raxalign.catalog import catalog
from raxalign.tasks.base import Outcome, Task


def held_to_declaration(kind: type[Task]) -> Callable[..., Outcome]:
    """The evaluation of a task, which fails for a metric that the task does not declare."""
    evaluate: Callable[..., Outcome] = kind.evaluate

    @wraps(evaluate)
    def checked(task: Task, *args: Any, **kwargs: Any) -> Outcome:
        outcome = evaluate(task, *args, **kwargs)
        unknown = {score.metric for score in outcome.scores if kind.measured(score.metric) is None}
        assert not unknown, f"{kind.__name__}.metrics lacks {sorted(unknown)}"
        return outcome

    return checked


@pytest.fixture(autouse=True, scope="session")
def _only_declared_metrics() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for kind in catalog("tasks").values():
            patch.setattr(kind, "evaluate", held_to_declaration(kind))
        yield
