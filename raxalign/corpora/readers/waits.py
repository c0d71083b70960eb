"""Waiting for a server that is busy: how long, and what is reported of it."""

from __future__ import annotations

import time

from raxalign.printing import to_stderr

_LONGEST = 300.0


def retry_after(asked: str, usual: float) -> float:
    """Return the seconds that a server names in ``Retry-After``, at most 300, or else the usual
    ones.

    >>> retry_after("7", 1.0), retry_after("86400", 1.0), retry_after("", 1.0)
    (7.0, 300.0, 1.0)
    """
    return min(float(asked), _LONGEST) if asked.isdigit() else usual


def wait(seconds: float, what: str, problem: str, which: str) -> None:
    """Report on stderr what is waited for, and wait; `which` is the try that follows."""
    to_stderr(f"{what}: {problem}; asked again in {seconds:g} s ({which})")
    time.sleep(seconds)
