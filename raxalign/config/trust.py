"""Whether the plug-ins of a grid file may run. They are programs, and a grid file may be somebody
else's: the first time, the user is asked.

What is remembered is the path of a plug-in file, and not its content: who edits a plug-in of his
own is not asked about it again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from pathlib import Path

from raxalign.errors import RaxalignError
from raxalign.printing import to_stderr

TRUST = "RAXALIGN_TRUST"
"""The environment variable that trusts all plug-ins of grid files, where it is ``1``."""
trusting: ContextVar[bool] = ContextVar("trusting", default=False)
"""Whether the user trusts the plug-ins of the grid files that are read (the flag `--trust`)."""

_trusted: set[str] = set()  # by this process, also where nothing can be remembered


def require_trust(grid: Path, files: Iterable[Path]) -> None:
    """Ask the user whether plug-in files of a grid may run, where they were never asked about, and
    remember it.

    Raises `RaxalignError` where they may not, and where there is no terminal to ask on.
    """
    known = _trusted | _remembered()
    new = [place for file in files if (place := os.path.realpath(file)) not in known]
    new = [place for place in new if Path(place).is_file()]
    if not new or os.environ.get(TRUST) == "1":
        return
    named = (
        f"{grid}: names plug-ins that have not run for you from here before:"
        f" {', '.join(new)}. A plug-in is a program, and may do anything that you may do"
    )
    if not trusting.get():
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise RaxalignError(
                f"{named}. Where you trust them, give --trust once, or set {TRUST}=1 for jobs and"
                " notebooks"
            )
        to_stderr(f"{named}. Run them, now and later? [y/N]")
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise RaxalignError(f"{grid}: its plug-ins did not run")
    _trusted.update(new)
    _remember(new)


def _memory() -> Path | None:
    """Return the user's file of the plug-in files that may run, one path per line; None where the
    user has no home.
    """
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
