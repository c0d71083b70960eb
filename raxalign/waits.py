"""Waiting for servers: how long, for what, and what is reported of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import TypeVar

from raxalign.printing import to_stderr

SOON = 10.0
"""Seconds after which it is reported that something is waited for."""
_LONGEST = 300.0
_Answer = TypeVar("_Answer")


def within(seconds: float, what: str, call: Callable[[], _Answer]) -> _Answer:
    """Return what a call returns, which has one limit of time for the whole: libraries have one for
    each step, and a server that sends a byte now and then stays within that. `what` is reported on
    stderr where the main thread waits for it for long.

    Raises `TimeoutError` at the limit; the call is then left alone, and ends with the process.
    """
    answer: futures.Future[_Answer] = futures.Future()

    def work() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 it is raised where the call was made
            answer.set_exception(error)

    threading.Thread(target=work, name="raxalign-call", daemon=True).start()
    soon = min(SOON, seconds)
    if not futures.wait([answer], soon).done:
        if threading.current_thread() is threading.main_thread():
            to_stderr(f"{what} has not answered for {soon:g} s; waiting for at most {seconds:g} s")
        if not futures.wait([answer], seconds - soon).done:
            raise TimeoutError(f"no whole answer within {seconds:g} s")
    return answer.result()


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
