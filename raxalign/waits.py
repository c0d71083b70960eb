"""Waiting for servers: how long, for what, and what is reported of it."""

from __future__ import annotations

import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable
from concurrent import futures
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from raxalign.printing import to_stderr

SOON = 10.0
"""Seconds after which it is reported that something is waited for."""
_LONGEST = 300.0
_LEAST = 1 << 16
_OPEN_FILES = Path("/proc/self/fd")
_TCP_INFO = struct.Struct("=120x2Q")
"""Bytes that were acknowledged and received, in what Linux says of a TCP connection."""
_Answer = TypeVar("_Answer")


def within(
    seconds: float, what: str, call: Callable[[], _Answer], *, steady: bool = False
) -> _Answer:
    """Return what a call returns, which has one limit of time for the whole: libraries have one for
    each step, and a server that sends a byte now and then stays within that. A `steady` call has
    more time as long as this process exchanges `_LEAST` bytes with servers meanwhile, and where the
    system does not count them. `what` is reported on stderr where the main thread waits for it for
    long.

    Raises `TimeoutError` at the limit; the call is then left alone, and ends with the process.
    """
    answer: futures.Future[_Answer] = futures.Future()

    def work() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 it is raised where the call was made
            answer.set_exception(error)

    threading.Thread(target=work, name="raxalign-call", daemon=True).start()
    soon, before = min(SOON, seconds), (_exchanged() or {}) if steady else {}
    if not futures.wait([answer], soon).done:
        if threading.current_thread() is threading.main_thread() and not steady:
            to_stderr(f"{what} has not answered for {soon:g} s; waiting for at most {seconds:g} s")
        while not futures.wait([answer], seconds - soon).done:
            now = _exchanged() if steady else {}
            if now is not None and sum(n - before.get(end, 0) for end, n in now.items()) < _LEAST:
                most = f"and fewer than {_LEAST:,} bytes came" * steady
                raise TimeoutError(f"no whole answer within {seconds:g} s {most}".rstrip())
            soon, before = 0.0, now or {}
    return answer.result()


def _exchanged() -> dict[int, int] | None:
    """Return how many bytes the other side has sent or acknowledged over each TCP connection of
    this process, by its inode: whichever library has it. None where the system does not list open
    files (macOS): whether a server is slow or silent is then unknown.
    """
    if not _OPEN_FILES.is_dir():
        return None
    found = {}
    for entry in _OPEN_FILES.glob("*"):
        with suppress(OSError, struct.error):  # it is closed meanwhile, or something else
            file = os.fstat(number := int(entry.name))
            if stat.S_ISSOCK(file.st_mode):
                with socket.socket(fileno=os.dup(number)) as end:
                    told = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
                found[file.st_ino] = sum(_TCP_INFO.unpack(told))
    return found


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
