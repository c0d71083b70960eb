"""What is made once for all processes of a test run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from raxalign.store.alive import turn


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that is filled once: by the first process of the run that asks for it. The
    others wait until it is done.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each worker has its own folder inside the run's
        root = root.parent
    folder, made = root / name, root / f"{name}.made"
    with turn(root / f"{name}.lock"):
        if not made.exists():
            assert not folder.exists(), f"{name} could not be made before: see the first error"
            folder.mkdir()
            make(folder)
            made.touch()
    return folder
