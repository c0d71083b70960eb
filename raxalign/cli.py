"""The commands: parse, dispatch, exit code. Heavy imports stand inside commands, so that each starts no more than it needs."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from raxalign.errors import RaxalignError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Grids of cross-lingual alignment experiments on multilingual encoders.",
)

GridFile = Annotated[Path, typer.Argument(metavar="FILE", help="The grid file (YAML).")]
Storage = Annotated[str | None, typer.Option(help="Storage root: a folder or an object store URL (default: RAXALIGN_STORAGE, then .raxalign).")]


class Format(StrEnum):
    """How a command prints."""

    table = "table"
    json = "json"
    csv = "csv"


def _out(text: str) -> None:
    """Results go to stdout."""
    sys.stdout.write(text.rstrip("\n") + "\n")


def _tell(text: str) -> None:
    """Everything else goes to stderr."""
    sys.stderr.write(text.rstrip("\n") + "\n")


@app.command()
def grid(
    file: GridFile,
    storage: Storage = None,
    address: Annotated[str | None, typer.Option(help="Address of a running Ray cluster (`auto` on its head).")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Workers of one training trial.")] = None,
    only: Annotated[str | None, typer.Option(help="Run a part: name=value, for example method=finetune (several: comma-separated).")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Run at most so many trials.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
) -> None:
    """Run a grid: plan, prepare shared work once, sweep, track. Safe to kill and to run again."""
    from raxalign.plan.load import open_grid, resolve, select
    from raxalign.store.ledger import Ledger
    from raxalign.sweep.grid import finish_tracking, local_folder, run

    opened = open_grid(file, storage=storage, address=address, workers=workers)
    if dry_run:
        _print_plan(opened.root, select(opened.plan, only=only, limit=limit))
        return
    local = local_folder(opened.root)
    opened = resolve(opened, local / "downloads")
    plan = select(opened.plan, only=only, limit=limit)
    for warning in plan.warnings:
        _tell(f"note: {warning}")
    there = Ledger(opened.root).keys()
    if all(there.issuperset(trial.evaluations.values()) for trial in plan.trials):
        for message in finish_tracking(opened, plan, local):
            _tell(f"warning: {message}")
        _tell(f"{plan.name}: all {len(plan.trials)} trials are done; see `raxalign results {file}`")
        return
    summary, messages = run(opened, plan)
    for message in messages:
        _tell(f"warning: {message}")
    by_key = plan.by_key
    for key, message in summary.failed.items():
        trial = by_key[key]
        _tell(f"failed: {trial.method} {'+'.join(trial.languages)} {key[:12]}: {message}")
    _tell(f"results: raxalign results {file}; runs: raxalign ui")
    if summary.failed:
        raise typer.Exit(1)


@app.command()
def plan(file: GridFile, storage: Storage = None, format: Annotated[Format, typer.Option(help="table or json.")] = Format.table) -> None:  # noqa: A002
    """Show what a grid will run, what is there already, and what it may cost."""
    from raxalign.plan.load import open_grid

    opened = open_grid(file, storage=storage)
    if format is Format.json:
        from raxalign.report.plans import as_json

        _out(as_json(opened.plan, opened.root))
    else:
        _print_plan(opened.root, opened.plan)


def _print_plan(root: str, plan_: object) -> None:
    from raxalign.report.plans import as_text

    _out(as_text(plan_, root))  # type: ignore[arg-type]


@app.command()
def status(file: GridFile, storage: Storage = None) -> None:
    """How far a grid is: reads the ledger alone, works while it runs and after a crash."""
    from raxalign.plan.load import open_grid
    from raxalign.report.status import status as read_status
    from raxalign.store.ledger import Ledger

    opened = open_grid(file, storage=storage)
    state = read_status(opened.plan, Ledger(opened.root))
    _out(
        f"{opened.plan.name}: {state.done} of {state.trials} trials done, {len(state.failed)} failed, {state.missing} to run "
        f"({state.evaluations_done} of {state.evaluations} evaluations)"
    )
    for trial, message in state.failed:
        _out(f"failed: {trial}: {message}")


@app.command()
def results(
    file: GridFile,
    storage: Storage = None,
    format: Annotated[Format, typer.Option(help="table, json (a row a value) or csv.")] = Format.table,  # noqa: A002
    every: Annotated[bool, typer.Option("--all", help="In tables, also counts, standard errors and the two directions.")] = False,
) -> None:
    """Print the results that the ledger has."""
    from raxalign.plan.load import open_grid
    from raxalign.plan.results import rows
    from raxalign.report import tables
    from raxalign.store.ledger import Ledger

    opened = open_grid(file, storage=storage)
    found = rows(opened.plan, Ledger(opened.root))
    if format is Format.json:
        _out(tables.as_json(found))
    elif format is Format.csv:
        _out(tables.as_csv(found))
    elif found:
        from rich.console import Console

        console = Console(width=None if sys.stdout.isatty() else 200)
        for table in tables.as_tables(found, opened.plan, every=every):
            console.print(table)
    else:
        _tell(f"no results yet: raxalign grid {file}")


@app.command()
def report(
    file: GridFile,
    storage: Storage = None,
    out: Annotated[Path | None, typer.Option(help="Folder (default: <name>-report beside the grid file).")] = None,
) -> None:
    """Write the results as files: CSV, JSON and Markdown tables."""
    from raxalign.plan.load import open_grid
    from raxalign.plan.results import rows
    from raxalign.report.write import write_report
    from raxalign.store.ledger import Ledger

    opened = open_grid(file, storage=storage)
    folder = out or file.parent / f"{opened.plan.name}-report"
    for path in write_report(rows(opened.plan, Ledger(opened.root)), opened.plan, folder):
        _out(str(path))


@app.command(name="list")
def list_(what: Annotated[str, typer.Argument(help="methods, tasks, corpora, encoders or aligners")]) -> None:
    """List the plug-ins of a kind, with their options."""
    from raxalign.report.catalogue import describe

    _out(describe(what))


@app.command()
def doctor(file: Annotated[Path | None, typer.Argument(metavar="[FILE]")] = None, storage: Storage = None) -> None:
    """Tell what is installed, which devices there are, whether the storage can be written; with a grid, whether its data is there."""
    from raxalign.report.doctor import examine

    lines, healthy = examine(file, storage)
    _out("\n".join(lines))
    if not healthy:
        raise typer.Exit(2)


@app.command()
def gc(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="The grids whose artifacts are kept.")],
    storage: Storage = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete; without it, only say what would be.")] = False,
) -> None:
    """Remove artifacts that no given grid needs. Results in the ledger are never removed."""
    from raxalign.report.garbage import collect

    _out(collect(files, storage, delete=delete))


@app.command()
def sync(file: GridFile, storage: Storage = None) -> None:
    """Bring to MLflow what could not be brought while a grid ran."""
    from raxalign.plan.load import open_grid
    from raxalign.sweep.grid import local_folder, target_of
    from raxalign.tracking import sync as bring

    opened = open_grid(file, storage=storage)
    target = target_of(opened, local_folder(opened.root))
    count = bring(opened.plan, target)
    _tell(f"{count} trials of {opened.plan.name} are in {target.uri}")


@app.command()
def ui(
    storage: Storage = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 5000,
) -> None:
    """Open the MLflow UI on the storage's runs."""
    from raxalign.config.run import storage_root
    from raxalign.tracking import serve

    raise typer.Exit(serve(storage_root(storage, os.environ), host, port, os.environ.get("MLFLOW_TRACKING_URI")))


def main() -> None:
    """Run a command: errors become one message and an exit code (0 done, 1 some trials failed, 2 wrong usage or input, 130 interrupted)."""
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        app(arguments, standalone_mode=True)
    except RaxalignError as error:
        if debug:
            raise
        _tell(f"error: {error}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _tell("interrupted")
        sys.exit(130)
