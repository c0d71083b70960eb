"""Every method and every task of the catalogue on every family of encoders."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

from tests.families.catalogue import FAMILIES
from tests.families.checks import TASKS, Subject, check_method, check_task
from tests.families.table import method_inputs
from tests.methods.contract import TRANSFORMER_METHODS

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("families")


@pytest.fixture(scope="module")
def subject_of(root: Path) -> Callable[[str], Subject]:
    return cache(lambda name: Subject.of(name, root / "families"))


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("kind", TRANSFORMER_METHODS)
def test_a_method_aligns_saves_and_loads_or_refuses_what_has_no_head(
    name: str, kind: str, subject_of: Callable[[str], Subject], root: Path, tmp_path: Path
) -> None:
    check_method(subject_of(name), kind, method_inputs(root), tmp_path)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("task", TASKS)
def test_a_task_evaluates_or_refuses_what_has_no_head(
    name: str, task: str, subject_of: Callable[[str], Subject], root: Path
) -> None:
    check_task(subject_of(name), task, root / "tasks")
