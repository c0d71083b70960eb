"""What the commands share: how grids are opened, and where they print."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from raxalign.cli import _options as opt
from raxalign.errors import StorageError
from raxalign.printing import printable

if TYPE_CHECKING:
    from raxalign.plan.load import Opened
    from raxalign.plan.plan import Plan
    from raxalign.report.terminal.selection import Selection


def with_confirmed(opened: Opened, seeds: int | None) -> Opened:
    """Return a grid as it is, or what it chose with fresh seeds (`--confirm`)."""
    from raxalign.report.cells.confirmed import confirmed

    return opened if seeds is None else confirmed(opened, seeds)


def open_grids(files: Sequence[Path], storage: str | None, confirm: int | None) -> Opened:
    """Return the grid of one file, or several as one; of each what `--confirm` asks for."""
    from raxalign.plan.load import open_grid

    opened = [with_confirmed(open_grid(file, storage=storage), confirm) for file in files]
    if len(opened) == 1:
        return opened[0]
    from raxalign.report.cells.joined import joined

    return joined(opened)


def again(command: str, *files: Path, storage: str | None, confirm: int | None = None) -> str:
    """Return another command on the same grid and storage, for the user to copy."""
    flags = {"--storage": storage, "--confirm": confirm}
    given = [part for flag, value in flags.items() if value for part in (flag, str(value))]
    return shlex.join(["raxalign", command, *map(str, files), *given])


def print_out(text: str) -> None:
    """Print results to stdout at once. A reader that has gone (`| head`) is not an error."""
    print_parts([text.rstrip("\n"), "\n"])


def print_parts(parts: Iterable[str]) -> None:
    """Do what `print_out` does with a text that comes in parts, each printed before the next one is
    made. Raises `StorageError` where stdout cannot be written.
    """
    try:
        for part in parts:
            sys.stdout.write(printable(part))
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up_stdout()
        raise typer.Exit(0) from None
    except OSError as error:
        _give_up_stdout()
        raise StorageError(f"the output cannot be written: {error.strerror or error}") from error


def show_changes(texts: Iterable[str]) -> None:
    """Show texts as they come: on a terminal one in place of the other, elsewhere those that differ
    from the one before.
    """
    if not sys.stdout.isatty():
        shown = ""
        for text in texts:
            if text != shown:
                print_out(text)
            shown = text
        return
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False) as live:
        for text in texts:
            live.update(Text(printable(text)), refresh=True)


def _give_up_stdout() -> None:
    """Send what is still buffered nowhere, so that Python's own last flush does not fail too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def width() -> int | None:
    """Return the columns of the terminal; None where there is none, so that every line of a table
    stays one line. `COLUMNS` in the environment has precedence.
    """
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size().columns
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
    print_rows(selection.rows(rows, plan_.pivot), format, tables.FIELDS)


def print_rows(rows: Iterable[Mapping[str, Any]], format: str, fields: Sequence[str]) -> None:  # noqa: A002
    """Print rows as JSON, or as CSV with the fields as its columns, while they are read."""
    from raxalign.report.tables import csv_parts, json_parts

    print_parts(csv_parts(rows, fields) if format == "csv" else chain(json_parts(rows), ["\n"]))
