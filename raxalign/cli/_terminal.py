"""What the commands share: how grids are opened, and where they print."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from raxalign.cli import _options as opt
from raxalign.printing import lasting, printable, to_stderr, why_lost

if TYPE_CHECKING:
    from raxalign.grid.load import Opened
    from raxalign.grid.plan import Plan
    from raxalign.report.tables import Selection

_NARROWEST = 40  # columns for which tables are made; a terminal that has fewer wraps their lines


def with_confirmed(opened: Opened, seeds: int | None) -> Opened:
    """Return a grid as it is, or what it chose with fresh seeds (`--confirm`)."""
    if seeds is None:
        return opened
    from raxalign.search.words import confirmed

    return confirmed(opened, seeds)


def again(command: str, *files: Path, storage: str | None, confirm: int | None = None) -> str:
    """Return another command on the same grid and storage, for the user to copy."""
    flags = {"--storage": storage, "--confirm": confirm}
    given = [part for flag, value in flags.items() if value for part in (flag, str(value))]
    return shlex.join(["raxalign", command, *map(str, files), *given])


def settle_streams() -> None:
    """Let no stream or terminal that is missing or cannot be used end a command. A working folder
    that is gone does end it: no relative path would be the user's.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:  # else the next file that is opened would get what is printed
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
    sys.stdout, sys.stderr = lasting(sys.stdout), lasting(sys.stderr)
    for name in ("COLUMNS", "LINES"):
        if not re.fullmatch("[1-9][0-9]{0,4}", os.environ.get(name, "")):
            os.environ.pop(name, None)
    try:
        Path.cwd()
    except OSError as error:
        told = f"error: the working folder is not there any more ({error.strerror})"
        to_stderr(f"{told}: `cd` into one that is, and run the command again")
        sys.exit(2)


def print_out(text: str) -> None:
    """Print results to stdout at once."""
    print_parts([text.rstrip("\n"), "\n"])


def print_parts(parts: Iterable[str]) -> None:
    """Do what `print_out` does with a text that comes in parts, each printed before the next one is
    made. Where stdout cannot be written (its reader has gone: `| head`) the rest is not made.
    """
    for part in parts:
        results_stream().write(printable(part))
        if why_lost(results_stream()):
            return
    results_stream().flush()


_stdout: list[TextIO] = []


def results_stream() -> TextIO:
    """Return the stream of results: stdout as it was when the command began."""
    return _stdout[-1] if _stdout else sys.stdout


@contextmanager
def alone_on_stdout() -> Iterator[None]:
    """Let a command print its results alone to stdout: what plug-ins and libraries print there goes
    to stderr.
    """
    _stdout.append(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _stdout.pop()


def width() -> int | None:
    """Return the columns of the terminal; None where there is none, so that every line of a table
    stays one line. `COLUMNS` in the environment has precedence.
    """
    if results_stream().isatty() or "COLUMNS" in os.environ:
        return max(shutil.get_terminal_size().columns, _NARROWEST)
    return None


def print_values(
    rows: Sequence[Mapping[str, Any]],
    plan_: Plan,
    format: opt.Format,  # noqa: A002
    selection: Selection,
    *,
    per_seed: bool = False,
    transpose: bool = False,
) -> None:
    """Print those of the values that were asked for."""
    from raxalign.report import tables

    if format == "table":
        made = tables.blocks(rows, plan_, selection, per_seed=per_seed)
        print_out(tables.as_text(made, width=width(), transpose=transpose))
        return
    print_rows(selection.rows(rows, plan_.pivot), format)


def print_rows(
    rows: Iterable[Mapping[str, Any]], kind: str, fields: Sequence[str] | None = None
) -> None:
    """Print rows as JSON, or as CSV with the fields as its columns, while they are read."""
    from raxalign.report.tables import row_parts

    print_parts(chain(row_parts(rows, kind, fields), [] if kind == "csv" else ["\n"]))
