"""What the commands share: their common options, and where they print."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from raxalign.errors import StorageError
from raxalign.printing import printable

if TYPE_CHECKING:
    from raxalign.plan.load import Opened
    from raxalign.plan.plan import Plan
    from raxalign.store.ledger import Ledger

GridFile = Annotated[Path, typer.Argument(metavar="FILE", help="The grid file (YAML).")]
GridFiles = Annotated[
    list[Path], typer.Argument(metavar="FILE", help="The grid file (YAML); several make one table.")
]
Storage = Annotated[
    str | None,
    typer.Option(
        help=(
            "Storage root: a folder or an object store URL (default: RAXALIGN_STORAGE, then"
            " .raxalign)."
        )
    ),
]


Format = Literal["table", "json", "csv"]
ResultsFormat = Literal["table", "json", "csv", "latex", "markdown"]
PlanFormat = Literal["table", "json"]
ListFormat = Literal["text", "markdown"]
GoldFormat = Literal["pharaoh", "naacl"]
Overlap = Literal["drop", "keep"]
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

Out = Annotated[Path, typer.Option("--out", help="The folder to write; nothing is overwritten.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="NAME=VALUE",
        help="An option, as in a grid file (`raxalign list`).",
    ),
]
Pivot = Annotated[str, typer.Option(help="The language that all others share.")]
Device = Annotated[
    str | None, typer.Option(help="A torch device (default: the GPU where there is one).")
]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads.")]


Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugins", metavar="FILE", help="A plug-in of your own, one class in one file."),
]


Equivalence = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="D",
        help=(
            "The smallest difference that matters, in points of metrics in percent, else in their"
            " own unit: a difference whose interval lies within ± D is `no difference above"
            " D`."
        ),
    ),
]
Confirm = Annotated[
    int | None,
    typer.Option(
        min=2,
        metavar="N",
        help=(
            "Once the grid is finished: the point of each method that dev chose, and the baseline,"
            " with N fresh seeds."
        ),
    ),
]


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
    """Print results to stdout at once. A reader that has closed the pipe (`| head`) is not an
    error.
    """
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


def print_best(opened: Opened, rows: Sequence[Mapping[str, Any]]) -> None:
    from raxalign.errors import RaxalignError
    from raxalign.report.studies import best_lines

    if not opened.plan.studies:
        raise RaxalignError(f"{opened.grid.path}: has no `search`; `raxalign results` shows it all")
    print_out("\n".join(best_lines(opened.plan, opened.storage, rows)))


def rows_as_read(
    plan_: Plan, ledger: Ledger, kept: dict[str, dict[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """Yield all values that the ledger has, as its records are read; of each record only what the
    remarks on it are made of (`plan.remarks.remarked`) stays in memory, in `kept`.
    """
    from raxalign.plan.values.remarks import remarked
    from raxalign.plan.values.results import batches, rows_of

    for part, records in batches(plan_, ledger):
        tasks = {key: name for trial in part.trials for name, key in trial.evaluations.items()}
        kept.update(
            {
                key: remarked(record, plan_.main_metric(tasks[key]))
                for key, record in records.items()
            }
        )
        yield from rows_of(part, records)


def stream_rows(rows: Iterable[Mapping[str, Any]], format: Format) -> None:  # noqa: A002
    """Print rows as JSON or CSV while they are read."""
    from raxalign.report.tables import csv_parts, json_parts

    print_parts(csv_parts(rows) if format == "csv" else chain(json_parts(rows), ["\n"]))


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    plan_: Plan,
    format: Format,  # noqa: A002
    *,
    every: bool = False,
) -> None:
    from raxalign.report import tables
    from raxalign.report.terminal.selection import Selection

    if format == "json":
        print_out(tables.as_json(rows))
    elif format == "csv":
        print_out(tables.as_csv(rows))
    else:
        made = tables.blocks(rows, plan_, Selection(every=every))
        print_out(tables.as_text(made, width=width()))
