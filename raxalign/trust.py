"""Whether the plug-ins of a grid file may run, and the addresses that it names be used. A grid file
may be somebody else's: the first time, the user is asked.

What is remembered is an address without its user, and the path of a plug-in file, and not its
content: who edits a plug-in of his own is not asked about it again.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from pathlib import Path

from raxalign.errors import RaxalignError
from raxalign.printing import masked, to_stderr

TRUST = "RAXALIGN_TRUST"
"""The environment variable that trusts all that grid files name, where it is ``1``."""
trusting: ContextVar[bool] = ContextVar("trusting", default=False)
"""Whether the user trusts what the grid files name that are read (the flag `--trust`)."""
_OF_THIS_MACHINE = re.compile(
    r"auto|local|databricks|uc|(?:sqlite(?:\+\w+)?|file):.*|/.*|[^:]*"
    r"|(?:[\w+.-]+://)?(?:[^\s/@?#\\]*@)?(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?(?:/[^\s\\]*)?"
)
"""Files, what the user has set up, and loopback. Libraries read a backslash in different ways."""

_trusted: set[str] = set()  # by this process, also where nothing can be remembered


def require_trust(grid: Path, files: Iterable[Path], addresses: Iterable[str] = ()) -> None:
    """Ask the user whether plug-in files of a grid may run, and whether addresses that it names may
    be used, where they were never asked about, and remember it. Addresses of this machine may.

    Raises `RaxalignError` where they may not, and where there is no terminal to ask on.
    """
    there = (place for file in files if Path(place := os.path.realpath(file)).is_file())
    what = "plug-ins that have not run for you from here before"
    why = "A plug-in is a program, and may do anything that you may do"
    _require(grid, there, f"{what}: %s. {why}", ("Run them", "its plug-ins did not run"))
    others = (masked(each) for each in addresses if not _OF_THIS_MACHINE.fullmatch(each))
    what = "addresses that you have not used from here before"
    why = "They get text, results and your credentials, and a cluster runs programs here"
    _require(grid, others, f"{what}: %s. {why}", ("Use them", "its addresses were not used"))


def _require(grid: Path, places: Iterable[str], told: str, words: tuple[str, str]) -> None:
    known = _trusted | _remembered()
    new = [place for place in places if place not in known]
    if not new or os.environ.get(TRUST) == "1":
        return
    named = f"{grid}: names {told % ', '.join(new)}"
    if not trusting.get():
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise RaxalignError(
                f"{named}. Where you trust them, add --trust the first time, or set {TRUST}=1 for"
                " jobs and notebooks"
            )
        to_stderr(f"{named}. {words[0]}, now and later? [y/N]")
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise RaxalignError(f"{grid}: {words[1]}")
    _trusted.update(new)
    _remember(new)


def _memory() -> Path | None:
    """Return the user's file of what he trusts, one place per line; None where he has no home."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path("~/.config"))
    folder = os.path.expanduser(base)  # noqa: PTH111 which leaves `~` where there is no home
    return Path(folder, "raxalign", "trusted") if Path(folder).is_absolute() else None


def _remembered() -> set[str]:
    memory = _memory()
    if memory is None or not memory.is_file():
        return set()
    return set(os.fsdecode(memory.read_bytes()).split("\n"))


def _remember(places: Iterable[str]) -> None:
    memory = _memory()
    lines = "".join(f"{place}\n" for place in places if "\n" not in place)  # not two paths in one
    try:
        if memory is not None:
            memory.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(memory, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with open(file, "ab", closefd=True) as opened:  # noqa: PTH123 a descriptor
                opened.write(os.fsencode(lines))
    except OSError as error:
        to_stderr(f"note: {memory} cannot be written ({error.strerror}), so you are asked again")
