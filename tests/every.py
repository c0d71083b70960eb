"""Which cases run: some by default, all of them under RAXALIGN_TEST_ALL (``make test-all``)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

EVERY = bool(os.environ.get("RAXALIGN_TEST_ALL"))
"""Whether all cases run."""


def in_turn(cases: Iterable[T], turn: int) -> list[T]:
    """Return one of several cases that share the code under test; tests beside each other give
    other turns, so that each case is met by some of them.
    """
    every = list(cases)
    return every if EVERY else [every[turn % len(every)]]
