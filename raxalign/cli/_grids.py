"""The commands on a grid file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raxalign.cli._terminal import (
    GridFile,
    Keep,
    PlanFormat,
    Storage,
    print_out,
)
from raxalign.printing import to_stderr as tell

if TYPE_CHECKING:
    from raxalign.api import Finished
    from raxalign.plan.load import Opened
    from raxalign.plan.plan import Plan


def grid(
    file: GridFile,
    storage: Storage = None,
    address: Annotated[
        str | None, typer.Option(help="Address of a running Ray cluster (`auto` on its head).")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Workers of one training trial.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Run a part: name=value, for example method=finetune (several: comma-separated)."
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Run part I of N equal parts: N processes on one storage make the grid together.",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Run at most this many trials.")] = None,
    keep: Annotated[
        Keep | None,
        typer.Option(
            help=(
                "Trained weights that stay once their evaluations are done: all, of each cell the"
                " run that is best on dev, or none (default: run.keep)."
            )
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
) -> None:
    """Run a grid: plan, prepare shared work once, sweep, track. Safe to kill and to run again."""
    from raxalign.api import run
    from raxalign.plan.load import open_grid, reopened
    from raxalign.plan.parts import choose

    opened = open_grid(
        file,
        storage=storage,
        address=address,
        workers=workers,
        keep=keep,
        allow_missing=dry_run,
    )
    if dry_run:
        _print_plan(opened, choose(opened.plan, only=only, shard=shard, limit=limit)[0])
        return
    finished = run(opened, only=only, shard=shard, limit=limit, tell=tell)
    _tell_answer(reopened(opened) if opened.plan.studies else opened)  # with what was suggested
    _tell_end(finished, file)


def _tell_answer(opened: Opened) -> None:
    """Report in one sentence what the results show, where there are not too many to read; it is
    the description of the grid's experiment in MLflow, too.
    """
    from raxalign.report.terminal.remembered import remembered_answer
    from raxalign.store.ledger import Ledger
    from raxalign.sweep.grid import describe, local_folder

    folder = local_folder(opened.root) / "answers"
    if sentence := remembered_answer(opened.plan, Ledger(opened.root), folder):
        tell(sentence)
        if message := describe(opened, sentence):
            tell(message)


def _tell_end(finished: Finished, file: Path) -> None:
    """Report how a grid ended; exit code 1 where trials failed."""
    if not finished.plan.trials:
        return
    if not finished.done and not finished.failed:
        tell(
            f"{finished.plan.name}: all {finished.cached} trials are done; see `raxalign results"
            f" {file}` and `raxalign report {file}`"
        )
        return
    by_key = finished.plan.by_key
    for key, message in finished.failed.items():
        trial = by_key[key]
        tell(f"failed: {trial.method} {'+'.join(trial.languages)} {key[:12]}: {message}")
    page = _report_folder(file, finished.plan.name) / "report.html"
    tell(
        f"results: raxalign results {file}; report: raxalign report {file} (writes {page});"
        " runs: raxalign ui"
    )
    if finished.failed:
        raise typer.Exit(1)


def _report_folder(file: Path, name: str) -> Path:
    """Return the folder that `report` writes to where none is given."""
    return file.parent / f"{name}-report"


def plan(
    file: GridFile,
    storage: Storage = None,
    format: Annotated[PlanFormat, typer.Option(help="table or json.")] = PlanFormat.table,  # noqa: A002
) -> None:
    """Show what a grid will run, what exists already, and what it may cost."""
    from raxalign.plan.load import open_grid

    opened = open_grid(file, storage=storage, allow_missing=True)
    if format is PlanFormat.json:
        from raxalign.report.plans import as_json

        print_out(as_json(opened.plan, opened.root, opened.run))
        _tell_doubts(opened.plan)
    else:
        _print_plan(opened, opened.plan)


def _print_plan(opened: Opened, plan_: Plan) -> None:
    from raxalign.report.plans import as_text

    print_out(as_text(plan_, opened.root, opened.run))
    _tell_doubts(plan_)


def _tell_doubts(plan_: Plan) -> None:
    """Report what is doubtful about the text: too little of it, or its sides swapped."""
    from raxalign.plan.checks.bitexts import swapped_sides
    from raxalign.plan.checks.shortage import shortages

    for doubt in (*shortages(plan_), *swapped_sides(plan_)):
        tell(f"warning: {doubt}")


def status(file: GridFile, storage: Storage = None) -> None:
    """Show the progress of a grid from the ledger, while the grid runs or after a crash."""
    from raxalign.plan.load import open_grid
    from raxalign.report.status import status as read_status
    from raxalign.report.studies import status_lines
    from raxalign.store.ledger import Ledger

    opened = open_grid(file, storage=storage)
    print_out(read_status(opened.plan, Ledger(opened.root)).text(opened.plan.name))
    for line in status_lines(opened.plan, opened.root):
        print_out(line)


def report(
    file: GridFile,
    storage: Storage = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder (default: <name>-report next to the grid file).")
    ] = None,
) -> None:
    """Write the report: one HTML page, Markdown, LaTeX, CSV, JSON and figures, with the papers'
    tables that the grid names (`published`).
    """
    from raxalign.plan.load import open_grid
    from raxalign.plan.values.results import rows
    from raxalign.report.write import write_report
    from raxalign.store.ledger import Ledger

    opened = open_grid(file, storage=storage)
    folder = out or _report_folder(file, opened.plan.name)
    ledger = Ledger(opened.root)
    found = rows(opened.plan, ledger)
    if not found:
        tell(f"no results yet (raxalign grid {file}): every cell of the report is empty")
    for path in write_report(
        found, opened.plan, folder, ledger=ledger, published=opened.grid.published
    ):
        print_out(str(path))
    if found:
        from raxalign.sweep.grid import keep_report, local_folder

        if message := keep_report(opened, folder, local_folder(opened.root)):
            tell(f"warning: {message}")
