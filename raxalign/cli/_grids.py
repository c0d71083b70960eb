"""The commands on a grid file."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from raxalign.cli import _options as opt
from raxalign.cli._results import results
from raxalign.cli._terminal import again, print_out, results_stream, with_confirmed
from raxalign.printing import are, counted, printable, why_lost
from raxalign.printing import to_stderr as tell

if TYPE_CHECKING:
    from raxalign.api import Finished
    from raxalign.grid.load import Opened
    from raxalign.grid.plan import Plan

_ONLY = "A part: name=value, for example method=finetune (several: comma-separated)."
Only = Annotated[str | None, Option(help=_ONLY, autocompletion=opt.complete_conditions)]


def grid(
    file: opt.GridFile,
    storage: opt.Storage = None,
    address: str | None = None,
    workers: opt.Number = None,
    only: Only = None,
    shard: Annotated[str | None, Option(metavar="I/N")] = None,
    limit: opt.Number = None,
    budget: Annotated[str | None, Option(metavar="HOURS")] = None,
    keep: opt.Keep | None = None,
    confirm: opt.Confirm = None,
    dry_run: bool = False,
    update_lock: bool = False,
) -> None:
    """Run a grid: plan, prepare shared work once, sweep, track. Safe to kill and to run again.

    Options:
        address: Address of a running Ray cluster (`auto` on its head).
        workers: Workers of one training trial (results stay those of the file).
        shard: Run part I of N equal parts: N processes on one storage make the grid together.
        limit: Run at most this many trials.
        budget: For a grid with `stop`: what its results may take, those of earlier runs too, such
            as "40 GPU-hours", "100 core-hours" or "6 hours" of worker time. The next look goes to
            the open claim whose interval is widest per hour. Trials that run are finished.
        keep: Trained weights that stay once their evaluations are done (default: run.keep).
        dry_run: Show the plan and stop.
        update_lock: Look up anew what branches of the hub are at and whether downloaded corpora
            have changed, and pin that.
    """
    from raxalign.api import run
    from raxalign.grid.load import choose, open_grid

    if confirm is not None and (only or shard or limit or budget):
        raise typer.BadParameter("--confirm chooses among all trials: leave out the other")
    if dry_run and budget is not None:
        raise typer.BadParameter("--dry-run spends nothing: leave out --budget")
    opened = open_grid(
        file, storage=storage, address=address, workers=workers, keep=keep, allow_missing=dry_run
    )
    if dry_run:
        shown = with_confirmed(opened, confirm)
        _print_plan(shown, choose(shown.plan, only=only, shard=shard, limit=limit)[0])
        return
    if update_lock:
        opened = _updated(opened)
    finished = run(opened, only=only, shard=shard, limit=limit, budget=budget, tell=tell)
    # with what was suggested, and with the trials of looks
    now = opened.again() if opened.plan.studies or opened.grid.stop else opened
    _tell_answer(now)
    _tell_end(finished, now.plan, file, storage)
    if confirm is not None:
        fresh = with_confirmed(opened.again(), confirm)
        finished = run(fresh, tell=tell)
        _tell_answer(fresh)
        _tell_end(finished, fresh.plan, file, storage, confirm)


def _updated(opened: Opened) -> Opened:
    """Pin anew what has moved, and report it."""
    found, changes = opened.updated(opened.storage.local / "downloads")
    for change in changes or ("nothing has moved",):
        tell(f"lock: {change}")
    return found


def _tell_answer(opened: Opened) -> None:
    """Report what became of claims, what the results show, and what they lack; the latter are the
    description of the grid's experiment in MLflow, too.
    """
    from raxalign.report.answer import stored_answer
    from raxalign.sweep.tracker import TrackedGrid
    from raxalign.values.claims import JudgedClaim

    if sentence := stored_answer(opened.plan, opened.storage.ledger):
        for found in JudgedClaim.all_in(opened):
            tell(f"claim {found.line}")
        tell(sentence)
        if message := TrackedGrid(opened).describe(sentence):
            tell(message)


def _tell_end(
    finished: Finished, whole: Plan, file: Path, storage: str | None, confirm: int | None = None
) -> None:
    """Report how a grid, or a part of its whole plan, ended, and how its results are shown; exit
    code 1 where trials failed.
    """
    from raxalign.inspect.status import Status

    if not finished.plan.trials:
        return
    table, page = (
        again(name, file, storage=storage, confirm=confirm) for name in ("results", "report")
    )
    if not finished.done and not finished.failed:
        count = finished.cached
        every = "all " if count == len(whole.trials) else ""  # and not those of --only or --budget
        tell(
            f"{finished.plan.name}: {every}{counted(count, 'trial')} {are(count)} done;"
            f" see `{table}` and `{page}`"
        )
        return
    for line in Status.failure_lines(finished.plan, finished.failed):
        tell(line)
    folder = _report_folder(file, finished.plan.name)
    tell(
        f"results: {table}; report: {page} (writes {folder / 'report.html'});"
        f" runs: {again('ui', storage=storage)}"
    )
    if finished.failed:
        raise typer.Exit(1)


def _report_folder(file: Path, name: str) -> Path:
    """Return the folder that `report` writes to where none is given."""
    return file.parent / f"{name}-report"


def plan(
    file: opt.GridFile,
    storage: opt.Storage = None,
    format: opt.PlanFormat = "table",  # noqa: A002
    only: Only = None,
    detect: Annotated[float | None, Option(min=0.01, metavar="POINTS")] = None,
    run_sd: Annotated[float, Option(min=0.01, metavar="POINTS")] = 0.5,
) -> None:
    """Show what a grid will run, what exists already, and what it may cost. Exit code 2: there is
    something that `grid` would refuse, such as a missing file; it is printed last.

    Options:
        format: table or json.
        detect: Also say the minimum detectable effect of each comparison of the grid, and what a
            difference of this size takes in seeds and time, after Holm's correction.
        run_sd: By how many points runs differ, where fewer than five have been measured.
    """
    from raxalign.grid.load import choose, open_grid

    if detect is not None and format == "json":
        raise typer.BadParameter("--detect goes with --format table")
    opened = open_grid(file, storage=storage, allow_missing=True)
    part = opened.plan if only is None else choose(opened.plan, only=only)[0]
    if format == "json":
        from raxalign.inspect.plans import PlanView

        print_out(PlanView(part, opened.storage, opened.run).json())
        _tell_faults(opened, part)
    else:
        _print_plan(opened, part, detect, run_sd)


def _print_plan(
    opened: Opened, plan_: Plan, detect: float | None = None, run_sd: float = 0.5
) -> None:
    from raxalign.inspect.plans import PlanView
    from raxalign.values.power import power_text

    print_out(PlanView(plan_, opened.storage, opened.run).text())
    if looks := opened.looks()[0]:
        print_out(looks)
    if power := power_text(opened, plan_, detect, run_sd):
        print_out(power)
    if len({trial.sentences for trial in plan_.trials if trial.sentences}) > 2:  # others load less
        from raxalign.values.curves import SizeCurves

        if told := SizeCurves.next_size(opened, plan_):
            print_out(told)
    _tell_faults(opened, plan_)


def _tell_faults(opened: Opened, plan_: Plan) -> None:
    """Report sides that do not seem to match; raise `RaxalignError` with all that `grid` would
    refuse, which is then the last that is printed.
    """
    from raxalign.corpora.readers.inspection import Remark
    from raxalign.errors import RaxalignError
    from raxalign.grid.checks import LocalData

    local = LocalData(plan_)
    faults = dict.fromkeys(local.obstacles(opened.storage))
    for remark in local.remembered(opened.storage.local / "read"):
        tell(f"note: {remark}")
    for doubt in local.doubts():
        if isinstance(doubt, Remark):
            tell(f"warning: {doubt}")
        else:
            faults[str(doubt)] = None
    if faults:
        raise RaxalignError("\n".join(faults))


def fetch(file: opt.GridFile, storage: opt.Storage = None, update_lock: bool = False) -> None:
    """Fetch all that a grid reads from outside (encoders, data sets, corpora), pin it in the lock,
    and show how large it is. The grid then runs without a network (HF_HUB_OFFLINE=1).

    Corpora and rows of data sets lie in the storage, files of the hub in the hub's cache (HF_HOME).

    Options:
        update_lock: As in `raxalign grid`.
    """
    from raxalign.grid.load import open_grid

    opened = open_grid(file, storage=storage)
    if update_lock:
        opened = _updated(opened)
    downloads = opened.storage.local / "downloads"
    for line in opened.resolved(downloads).fetched(downloads):
        print_out(line)


def status(file: opt.GridFile, storage: opt.Storage = None, watch: bool = False) -> None:
    """Show the progress of a grid from the ledger, while the grid runs or after a crash.

    Options:
        watch: Show it again every few seconds until every trial is done or failed. Exit code 1:
            some failed.
    """
    from raxalign.grid.load import open_grid
    from raxalign.inspect.status import Status

    opened = open_grid(file, storage=storage)
    if not watch:
        print_out(Status.told(opened)[0])
        return
    _show_changes(Status.watched(opened))
    if Status.told(opened)[1].failed:
        raise typer.Exit(1)


def _show_changes(texts: Iterable[str]) -> None:
    """Show texts as they come, while somebody reads them: on a terminal one in place of the other,
    elsewhere those that differ from the one before.
    """
    read = takewhile(lambda _: not why_lost(results_stream()), texts)
    if not results_stream().isatty():
        shown = ""
        for text in read:
            if text != shown:
                print_out(text)
            shown = text
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(file=results_stream()), auto_refresh=False) as live:
        for text in read:
            live.update(Text(printable(text)), refresh=True)


def report(
    file: opt.GridFile,
    storage: opt.Storage = None,
    out: Path | None = None,
    confirm: opt.Confirm = None,
    equivalence: opt.Equivalence = None,
) -> None:
    """Write the report: one HTML page, Markdown, LaTeX, CSV, JSON and figures. It also has the
    papers' tables that the grid names (`published`).

    Options:
        out: Folder (default: NAME-report next to the grid file).
    """
    from raxalign.grid.load import open_grid
    from raxalign.report.compose import ReportOptions, write_report
    from raxalign.values.claims import JudgedClaim
    from raxalign.values.results import rows

    opened = with_confirmed(open_grid(file, storage=storage), confirm)
    folder = out or _report_folder(file, opened.plan.name)
    ledger = opened.storage.ledger
    found = rows(opened.plan, ledger)
    if not found:
        missing = again("grid", file, storage=storage, confirm=confirm)
        tell(
            f"no results yet in the storage {opened.storage} ({missing}):"
            " every cell of the report is empty"
        )
    claims = JudgedClaim.all_in(opened, equivalence)
    asked = ReportOptions(opened.grid.published, opened.sources, equivalence, claims)
    written = write_report(found, opened.plan, folder, ledger=ledger, asked=asked, grid=file)
    print_out("\n".join(map(str, written)))
    if found:
        from raxalign.sweep.tracker import TrackedGrid

        if message := TrackedGrid(opened).keep_report(folder):
            tell(f"warning: {message}")


def bundle(file: opt.GridFile, storage: opt.Storage = None, out: Path | None = None) -> None:
    """Pack a grid and its results for reviewers. One archive has the grid file, lock, plug-ins,
    results with predictions, and the report; no encoders, corpora or credentials.

    Options:
        out: The file (default: NAME-bundle.zip next to the grid file); no other one is overwritten.
    """
    from raxalign.grid.load import open_grid
    from raxalign.inspect.bundle import pack

    opened = open_grid(file, storage=storage)
    place = out or file.parent / f"{opened.plan.name}-bundle.zip"
    for line in pack(opened, place):
        tell(line)
    print_out(str(place))


def search(
    file: Annotated[Path, Argument(metavar="FILE")] = Path("search.yaml"),
    method: Annotated[str, Option(autocompletion=opt.complete_kinds("methods"))] = "finetune",
    space: Annotated[opt.Several, Option(metavar="NAME=KIND:VALUES")] = None,
    option: opt.Options = None,
    lang: opt.Several = None,
    pivot: opt.Pivot = "en",
    corpus: str = "phrasebook",
    encoder: str = "bert-base-multilingual-cased",
    sentences: Annotated[int, Option(min=1)] = 5_000,
    task: Annotated[str, Option(autocompletion=opt.complete_kinds("tasks"))] = "retrieval",
    metric: str | None = None,
    trials: Annotated[int, Option(min=1)] = 20,
    sampler: str = "tpe",
    confirm: Annotated[int, Option(min=0)] = 5,
    pruner: str = "none",
    aligner: Annotated[str, Option(autocompletion=opt.complete_kinds("aligners"))] = "thot",
    storage: opt.Storage = None,
    dry_run: bool = False,
) -> None:
    """Search for the best hyperparameters of a method on development sets, without writing a grid
    file first.

    Options:
        file: The grid file: written from the options where it is not there, then run.
        method: The method whose hyperparameters are searched.
        space: A hyperparameter to search: lambda=log_uniform:0.01:10, dropout=uniform:0:0.5,
            epochs=int:1:4 or layers=choice:last:9.
        lang: A language; each has a study of its own.
        corpus: The prefix of two parallel files, a corpus (phrasebook) or a mapping.
        encoder: A hub name, a folder, or a mapping as in a grid file.
        sentences: Training sentence pairs.
        task: What is measured: a task, or `task: {options}`.
        metric: task/lang/metric (default: the task's main metric).
        trials: Trials of each study.
        sampler: tpe or random.
        confirm: Fresh seeds that the best configuration is run again with.
        pruner: Which trials end early: none, median or asha.
        aligner: The word aligner.
        dry_run: Write the file, show the plan and stop.
    """
    from raxalign.single.start import write_search

    if file.exists():
        if space or lang:
            tell(f"note: {file} is there already: it is run as it is, without these options")
    else:
        write_search(
            file,
            method=method,
            spaces=space or (),
            options=option or (),
            languages=lang or (),
            pivot=pivot,
            corpus=corpus,
            encoder=encoder,
            sentences=sentences,
            task=task,
            metric=metric,
            budget=f"{trials} trials",
            sampler=sampler,
            confirm=confirm,
            aligner=aligner,
            pruner=pruner,
        )
        print_out(str(file))
    grid(file, storage=storage, dry_run=dry_run)
    if not dry_run:
        results(file, storage=storage, best=True)
