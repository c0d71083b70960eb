"""The commands that show what is in storages: results, one key, or two storages compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from raxalign.cli import _options as opt
from raxalign.cli._terminal import again, print_out, print_rows, print_values, width, with_confirmed
from raxalign.errors import RaxalignError
from raxalign.printing import to_stderr as tell

if TYPE_CHECKING:
    from raxalign.grid.load import Opened
    from raxalign.report.tables import Selection
    from raxalign.values.comparisons import Compared


def results(
    file: opt.GridFile,
    storage: opt.Storage = None,
    format: opt.ResultsFormat = "table",  # noqa: A002
    task: Annotated[opt.Several, Option(autocompletion=opt.complete_names("task"))] = None,
    metric: opt.Several = None,
    lang: Annotated[opt.Several, Option(autocompletion=opt.complete_names("language"))] = None,
    split: opt.Several = None,
    every: opt.Every = False,
    per_seed: bool = False,
    transpose: bool = False,
    compare: Annotated[str | None, Option(metavar="[BASELINE]")] = None,
    over: Literal["languages"] | None = None,
    equivalence: opt.Equivalence = None,
    best: bool = False,
    keys: bool = False,
    confirm: opt.Confirm = None,
) -> None:
    """Print the results that the ledger has, or with `--compare` the tests on them.

    Tables fold to the width of the terminal. In a pipe or a file every line stays one line.

    Options:
        format: table, json (one row per value) or csv; latex or markdown: one short table per task
            for a paper, as the report writes them to tables/.
        task: A task of the grid; may be repeated.
        metric: A metric, also one that only --all shows; may be repeated.
        lang: A language, or `avg` and `avg_zero_shot` for means; may be repeated. Means stay those
            over all languages.
        split: test or dev (default: test where there is one).
        per_seed: In tables, one line per seed instead of means.
        transpose: In tables, one line per language.
        compare: Test every value against a baseline: intervals, differences, adjusted p-values.
            Without a name, the baseline is the method of kind none; otherwise name it as the tables
            do (`rotation center=true`), or `all` for every two methods with each other, and their
            ranks. With --format json or csv, print the rows that the report writes as
            comparisons.json and comparisons.csv.
        over: With --compare, languages: also the interval of each mean generalising to new
            languages, where the languages of the grid are a sample of at least four.
        best: The best configurations of the grid's searches, and the runs that confirm them.
        keys: One line per trial instead: its key, which `show` and `export` take.
    """
    from raxalign.grid.load import open_grid
    from raxalign.report.tables import Selection
    from raxalign.values.results import remarks

    if compare is None and (over is not None or equivalence is not None):
        raise typer.BadParameter("--over and --equivalence go with --compare")
    if compare is not None and (per_seed or transpose):
        raise typer.BadParameter("--compare goes with neither --per-seed nor --transpose")
    short = format in ("latex", "markdown")
    if short and (per_seed or transpose):
        raise typer.BadParameter(f"--format {format} goes with neither --per-seed nor --transpose")
    opened = with_confirmed(open_grid(file, storage=storage), confirm)
    run = again("grid", file, storage=storage, confirm=confirm)
    commands = [run, again("status", file, storage=storage)]
    records: dict[str, dict[str, Any]] = {}
    rows = _rows_as_read(opened, records)
    tasks, metrics, langs, splits = (tuple(names or ()) for names in (task, metric, lang, split))
    selection = Selection(tasks, metrics, langs, splits, every)
    if best:
        from raxalign.search.words import SearchReport

        if not opened.plan.studies:
            told = "has no `search`; `raxalign results` shows it all"
            raise RaxalignError(f"{opened.grid.path}: {told}")
        _tell_unfinished(opened, commands, format)
        print_out("\n".join(SearchReport(opened.plan, opened.storage).best_lines(list(rows))))
        return
    if keys:
        from raxalign.inspect.status import Status

        print_out("\n".join(Status.trial_lines(opened.plan, opened.storage.ledger)))
        return
    rest: opt.Format = "table" if format == "latex" or format == "markdown" else format
    if rest != "table" and compare is None and not selection.narrows:
        print_rows(rows, rest)
        _tell_unfinished(opened, commands, format)
    elif found := list(rows):
        selection.refuse_unknown(found, opened.plan)
        _tell_unfinished(opened, commands, format)
        if short:
            _print_short(opened, found, selection, format, compare or None)
        elif compare is not None:
            tested = _compared(opened, found, selection, compare or None, equivalence)
            _print_comparisons(opened, found, selection, rest, tested, over_languages=bool(over))
        else:
            print_values(
                found, opened.plan, rest, selection, per_seed=per_seed, transpose=transpose
            )
        _tell_fallen(opened, found)
    else:
        tell(f"no results yet in the storage {opened.storage}: {run}")
    for remark in remarks(opened.plan, records):
        tell(f"note: {remark}")


def _tell_unfinished(opened: Opened, commands: list[str], format: str) -> None:  # noqa: A002
    """Say what the results lack, and the `commands` that run and show it: over tables for people,
    on stderr beside what programs read.
    """
    from raxalign.printing import paragraph
    from raxalign.values.scoreboard import Lacking

    ledger = opened.storage.ledger
    told = Lacking.of(opened.plan, ledger.keys(), ledger).told(*commands)
    if told and format == "table":
        print_out("\n".join(paragraph(told, width())))
        print_out("")
    elif told:
        tell(f"note: {told}")


def _rows_as_read(opened: Opened, kept: dict[str, dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield all values that the ledger has, as its records are read; of each record only what the
    remarks on it are made of (`values.results.remarked`) stays in memory, in `kept`.
    """
    from raxalign.values.results import batches, remarked, rows_of

    for part, records in batches(opened.plan, opened.storage.ledger):
        tasks = {key: name for trial in part.trials for name, key in trial.evaluations.items()}
        for key, record in records.items():
            kept[key] = remarked(record, opened.plan.main_metric(tasks[key]))
        yield from rows_of(part, records)


def _print_short(
    opened: Opened,
    rows: Sequence[Mapping[str, Any]],
    selection: Selection,
    format: opt.ResultsFormat,  # noqa: A002
    baseline: str | None,
) -> None:
    """Print the short tables of the tasks or metrics that were asked for."""
    from raxalign.report.document import Table
    from raxalign.report.tables import short_tables
    from raxalign.values.comparisons import comparisons
    from raxalign.values.scoreboard import Scoreboard

    plan, render = opened.plan, Table.latex if format == "latex" else Table.markdown
    results = Scoreboard.of(rows, plan, opened.storage.ledger)
    if selection.narrows:
        results = replace(results, cells=selection.cells(results.cells))
    leading = results.leading_tables()
    asked = [table for table in results.tables if selection.metrics or table in leading]
    ledger = opened.storage.ledger
    results = results.tested(
        comparisons(results.cells, plan, ledger, baseline=baseline, tables=asked)
    )
    found = short_tables(results, asked, lambda lang: selection.takes_lang(lang, plan.pivot))
    print_out("\n".join(render(table) for _, table in found))


def _tell_fallen(opened: Opened, rows: Sequence[Mapping[str, Any]]) -> None:
    """Note what falls far below the baseline, since one run alone can never be tested."""
    from raxalign.analysis.cells import Cell
    from raxalign.report.compared import ComparisonTables
    from raxalign.values.comparisons import fallen

    plan = opened.plan
    cells = Cell.grouped(rows, plan.pivot, plan.measured)
    for text in ComparisonTables(fallen(cells, plan), plan).fallen():
        tell(f"note: {text}")


def _compared(
    opened: Opened,
    rows: Sequence[Mapping[str, Any]],
    selection: Selection,
    baseline: str | None,
    equivalence: float | None,
) -> list[Compared]:
    """Return the comparisons that were asked for. The correction for the number of tests is over
    whole tables, whatever languages are shown.
    """
    from raxalign.analysis.cells import Cell
    from raxalign.values.comparisons import comparisons

    plan = opened.plan
    chosen = selection.cells(Cell.grouped(rows, plan.pivot, plan.measured))
    tested = comparisons(
        chosen, plan, opened.storage.ledger, baseline=baseline, equivalence=equivalence
    )
    found = [entry for entry in tested if selection.takes_lang(entry.name[1], plan.pivot)]
    if not found:
        raise RaxalignError(
            "--compare: what was asked for is not compared (counts, standard errors and parts of"
            " metrics are not)"
        )
    return found


def _print_comparisons(
    opened: Opened,
    rows: Sequence[Mapping[str, Any]],
    selection: Selection,
    format: opt.Format,  # noqa: A002
    found: Sequence[Compared],
    *,
    over_languages: bool,
) -> None:
    from raxalign.printing import paragraph
    from raxalign.report.answer import answer
    from raxalign.report.compared import ComparisonTables
    from raxalign.values.curves import SizeCurves
    from raxalign.values.scoreboard import Scoreboard

    plan = opened.plan
    tables = ComparisonTables(found, plan)
    if format != "table":
        print_rows(tables.rows(), format, tables.FIELDS)
    else:
        text = tables.text(width=width(), over_languages=over_languages)
        results = Scoreboard.of(rows, plan, opened.storage.ledger).tested(found)
        whole = not selection.narrows and not tables.all_pairs
        curves = SizeCurves.of_main(results, opened.storage.ledger) if whole else None
        lines = paragraph(answer(results, curves), width()) if whole else []
        print_out("\n".join([text.rstrip(), *lines]))


def show(
    key: str,
    storage: opt.Storage = None,
    format: opt.PlanFormat = "table",  # noqa: A002
    examples: Annotated[int, Option(min=0)] = 3,
    plugins: opt.Plugins = None,
) -> None:
    """Show everything about one trial, stage or evaluation. That is its params, what it was made
    from, where it is on disk, scores with intervals, some predictions, training curves, and its
    MLflow run.

    Options:
        key: Key of a trial, a stage or an evaluation, or a unique beginning.
        format: table, or json with curves point by point.
        examples: Predictions shown per task, language and split.
    """
    import json
    import os

    from raxalign.catalog import PluginFile
    from raxalign.inspect.show import KeyMatch
    from raxalign.single.place import storage_of
    from raxalign.tracking.client import Target, TrackingError
    from raxalign.tracking.recorder import Recorder

    for path in plugins or ():
        PluginFile.open(path)
    place = storage_of(storage)
    match = KeyMatch.look_up(key, place)
    facts = match.details(place, examples)
    if match.sort == "trial" and match.plan is not None:
        target = Target.of(place, os.environ.get("MLFLOW_TRACKING_URI"))
        try:
            facts["mlflow"] = Recorder.look_up(match.plan, target, match.plan.by_key[match.key])
        except TrackingError as error:
            tell(f"warning: {error}")
    if format == "json":
        print_out(json.dumps(facts, ensure_ascii=False, indent=1, default=str))
    else:
        print_out(KeyMatch.as_text(facts, width()))


def diff(
    first: Annotated[str, Argument(metavar="A")],
    second: Annotated[str, Argument(metavar="B")],
    storage: opt.Storage = None,
    format: opt.PlanFormat = "table",  # noqa: A002
    plugins: opt.Plugins = None,
) -> None:
    """Compare two storages, two grid files, or one of each. Printed are the trials and values that
    only one has, the params, versions and data that make keys differ, and by how much values
    differ.

    Values of grid files are those of their storages. Exit code: 0 where nothing differs (values
    within 1e-6 count as equal), 1 where something does, 2 where it cannot be compared.

    Options:
        first: A grid file, or a storage (folder or URL).
        second: Another one.
        format: table or json.
    """
    from raxalign.catalog import PluginFile
    from raxalign.inspect.diff import Differences

    for path in plugins or ():
        PluginFile.open(path)
    found = Differences.of(first, second, storage)
    if format == "json":
        print_out(found.json())
    else:
        print_out(found.text(width()))
    if found.any:
        raise typer.Exit(1)


def verify(
    archive: Annotated[Path, Argument(metavar="BUNDLE")],
    sample: Annotated[str | None, Option(metavar="N%[@SEED]")] = None,
    storage: opt.Storage = None,
) -> None:
    """Check a bundle, and run a part of it again. Checked are its files, the keys of its results,
    scores by predictions, and the report by the scores. Exit code 0: equal (values within 1e-6), 1:
    different, 2: not checked.

    Options:
        archive: What `raxalign bundle` has written.
        sample: Run this share of the trials again, such as 5%; drawn, or chosen by a seed.
        storage: Where they run, without their results (default: a temporary folder).
    """
    from raxalign.inspect.bundle import verify as findings

    codes = {0}
    for code, lines in findings(archive, sample, storage):
        print_out("\n  ".join(lines))
        codes.add(code)
    if any(codes):
        raise typer.Exit(min(codes - {0}))
