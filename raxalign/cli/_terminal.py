"""What the commands share: their common options, and where they print."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import typer
from typer import Argument, Option

from raxalign.errors import StorageError
from raxalign.printing import printable

if TYPE_CHECKING:
    from raxalign.plan.load import Opened
    from raxalign.plan.plan import Plan
    from raxalign.report.terminal.selection import Selection

GridFile = Annotated[Path, Argument(metavar="FILE", help="The grid file (YAML).")]
GridFiles = Annotated[
    list[Path], Argument(metavar="FILE", help="The grid file (YAML); several make one table.")
]
_STORAGE = (
    "Storage root: a folder or an object store URL (default: RAXALIGN_STORAGE, then .raxalign)."
)
Storage = Annotated[str | None, Option(help=_STORAGE)]
Format = Literal["table", "json", "csv"]
ResultsFormat = Literal["table", "json", "csv", "latex", "markdown"]
PlanFormat = Literal["table", "json"]
# the modules of `config` that have these three are slow to import; tests compare them
Keep = Literal["all", "best", "none"]
Precision = Literal["fp32", "tf32", "bf16"]
Symmetrization = Literal[
    "intersection",
    "union",
    "grow-diag",
    "grow-diag-final-and",
    "forward",
    "reverse",
    "atools-grow-diag",
    "atools-grow-diag-final",
    "atools-grow-diag-final-and",
]
Out = Annotated[Path, Option("--out", help="The folder to write; nothing is overwritten.")]
_OPTION = "An option, as in a grid file (`raxalign list`)."
Options = Annotated[list[str] | None, Option("--option", "-o", metavar="NAME=VALUE", help=_OPTION)]
Pivot = Annotated[str, Option(help="The language that all others share.")]
Device = Annotated[str | None, Option(help="A torch device (default: the GPU where there is one).")]
Threads = Annotated[int | None, Option(min=1, help="CPU threads.")]
_PLUGINS = "A plug-in of your own, one class in one file."
Plugins = Annotated[list[Path] | None, Option("--plugins", metavar="FILE", help=_PLUGINS)]
_CONFIRM = (
    "Once the grid is finished: the point of each method that dev chose, and the baseline, with N"
    " fresh seeds."
)
Confirm = Annotated[int | None, Option(min=2, metavar="N", help=_CONFIRM)]
_EVERY = "In tables, also counts, standard errors and the two directions."
Every = Annotated[bool, Option("--all", help=_EVERY)]
Several = list[str] | None
Number = Annotated[int | None, Option(min=1)]
Percentage = Annotated[float, Option(min=0.0, max=100.0)]


_EQUIVALENCE = (
    "The smallest difference that matters, in points of metrics in percent, else in their own unit:"
    " a difference whose interval lies within ± D is `no difference above D`."
)
Equivalence = Annotated[float | None, Option(min=0.0, metavar="D", help=_EQUIVALENCE)]


def described(command: Callable[..., None]) -> Callable[..., None]:
    """Give the options of a command their sentences, which are the section `Options` of its
    docstring. A yes-or-no option that is off by default has no second name to put it off.
    """
    text, _, section = (inspect.getdoc(command) or "").partition("\n\nOptions:\n")
    told = dict(re.findall(r"^    (\w+): (.+(?:\n {5,}.+)*)", section, re.MULTILINE))
    hints: dict[str, Any] = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        kind, *known = (
            get_args(hints[name]) if hasattr(hints[name], "__metadata__") else [hints[name]]
        )
        needed, off = parameter.default is parameter.empty, parameter.default is False
        flags = [f"--{name.replace('_', '-')}"] if off else []
        info = copy(known[0]) if known else (Argument() if needed else Option(*flags))
        if name in told:
            info.help = " ".join(told[name].split())
        hints[name] = Annotated[kind, info]
    command.__doc__, command.__annotations__ = text, hints
    return command


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
    """Show texts as they come: on a terminal in place of each other, elsewhere what differs."""
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
    format: Format,  # noqa: A002
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
