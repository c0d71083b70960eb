"""The commands as functions (`import raxalign as rx`)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from raxalign.analysis.cells import Cell
from raxalign.catalog import PluginFile
from raxalign.errors import RaxalignError
from raxalign.grid.estimates import Budget
from raxalign.grid.load import Opened, choose, open_grid
from raxalign.grid.plan import Plan
from raxalign.lazy import pa
from raxalign.options.run import Precision
from raxalign.printing import to_stderr
from raxalign.report.compared import ComparisonTables
from raxalign.single.evaluate import EvaluateRequest
from raxalign.single.place import storage_of
from raxalign.values.claims import JudgedClaim
from raxalign.values.comparisons import comparisons
from raxalign.values.curves import SizeCurves
from raxalign.values.results import rows
from raxalign.values.scoreboard import Scoreboard

Grid = Opened | Path | str | Mapping[str, Any]
"""What `plan` returned, or what it takes: a grid file, or a mapping with the content of one."""

Options = Mapping[str, object]
"""Options of a plug-in by their YAML names; a text is read as on the command line."""
_turns = threading.RLock()
"""Calls that compute take turns: a process has one state of torch's random numbers, one number of
threads and one precision, which each call sets.
"""
RESULTS = (
    *("trial", "method", "params", "encoder", "languages", "sentences", "seed"),
    *("task", "task_params", "lang", "metric", "split", "value"),
    *("evaluation", "outdated"),
)


@dataclass(frozen=True)
class Finished:
    """The end of a grid: the plan that was run, how many of its trials were run now, how many were
    done before, and the failures (trial key -> message).
    """

    plan: Plan
    done: int
    cached: int
    failed: Mapping[str, str]


def run(
    grid: Grid,
    *,
    only: str | None = None,
    shard: str | None = None,
    limit: int | None = None,
    budget: str | None = None,
    tell: Callable[[str], None] = to_stderr,
) -> Finished:
    """Run what the ledger lacks of a grid, as `raxalign grid` does: on this machine, or on the
    cluster that the grid names.

    Args:
        grid: what `plan` returned, or a grid file.
        only: a part of the trials, ``method=finetune`` (several conditions: comma-separated).
        shard: ``i/n``, part i of n equal ones, which n processes on one storage make together.
        limit: the largest number of trials to run.
        budget: the hours that the results of a grid with `stop` may take, ``40 GPU-hours``.
        tell: receives notes and warnings, one text each (default: they go to stderr).

    Raises:
        RaxalignError: data, storage or resources are wrong; failures of trials are returned.
    """
    from raxalign.sweep.grid import run_whole

    opened = _current(grid)
    if opened.grid.stop is not None and (only or shard or limit):
        told = "a grid with `stop` runs the trials that its looks ask for, all of them"
        raise RaxalignError(f"--only, --shard, --limit: {told}")
    opened, within = (opened, None) if budget is None else _with_budget(opened, budget)
    opened = opened.resolved(opened.storage.local / "downloads")
    JudgedClaim.lock(opened)
    plan, studies = choose(opened.plan, only=only, shard=shard, limit=limit)
    if not (plan.trials or studies):
        tell(f"note: shard {shard} of {opened.plan.name} has no trials")
        return Finished(plan, 0, 0, {})
    for remark in plan.remarks():
        tell(f"note: {remark}")
    ended = run_whole(opened, plan, studies, within)
    for message in ended.messages:
        tell(f"warning: {message}")
    return Finished(ended.plan, ended.done, ended.cached, ended.failed)


def results(grid: Grid, split: Literal["test", "dev", "all"] = "test") -> pa.Table:
    """Return the results of a grid that the ledger has: one row per value, the columns those of
    `raxalign results --format csv`, and one per option: ``method.steps``, ``encoder.layers``,
    ``task.epochs``.

    `params` and `task_params` are JSON texts. ``.to_pandas()`` makes a data frame.

    Args:
        grid: what `plan` returned, or a grid file.
        split: as in the tables, the values of the test set, and those of the development set only
            of a task that reports nothing else; or ``dev``, or ``all``.
    """
    opened = _current(grid)
    found = rows(opened.plan, opened.storage.ledger)
    if split != "all":
        tested = {row["task"] for row in found if split == "dev" or row["split"] == "test"}
        found = [row for row in found if row["split"] == split or row["task"] not in tested]
    return with_options(as_table(found, RESULTS), found, opened.plan)


def compare(grid: Grid, baseline: str | None = None, equivalence: float | None = None) -> pa.Table:
    """Test every result of a grid against a baseline: one row per value, the columns those of the
    report's ``comparisons.csv``, and one per option as in `results`.

    `value`, `low`, `high` are the mean and its 95 % confidence interval over runs and examples;
    `difference`, `difference_low`, `difference_high`, `p` and `p_adjusted` (Holm) those of the
    difference to the baseline, each by itself but for `p_adjusted`; `verdict` is what follows
    (better, worse, no difference, not after correction, cannot tell), and `reason` says why nothing
    was tested. `look` counts the looks at a comparison, with this one: p-values of the second and
    later ones are corrected for it. `detectable` is the minimum detectable effect (80 % power),
    with five runs and more, and `languages_low`, `languages_high` and `languages_p` are those of a
    mean generalising to new languages.

    Args:
        grid: what `plan` returned, or a grid file.
        baseline: a method as the tables name it (``rotation center=true``); by default the method
            of the kind `none`; ``all`` compares every two methods, each pair once.
        equivalence: the smallest difference that matters, in points of metrics in percent, else in
            their own unit; where an interval lies within it, the verdict is `no difference`, with
            it as `margin`.

    Raises:
        RaxalignError: no result has the baseline's name, or several have.
    """
    opened = _current(grid)
    plan, ledger = opened.plan, opened.storage.ledger
    found = rows(plan, ledger)
    made = Cell.grouped(found, plan.pivot, plan.measured)
    compared = (
        comparisons(made, plan, ledger, baseline=baseline, equivalence=equivalence) if found else []
    )
    shown = ComparisonTables(compared, plan).rows()
    return with_options(as_table(shown, ComparisonTables.FIELDS), shown, plan)


def curves(grid: Grid, task: str | None = None) -> SizeCurves:
    """Fit curves over the number of sentence pairs, as the report does: one for each method with
    three sizes or more, of the mean over languages, with values as `results` has them.

    Of what it returns, ``shown`` are the methods whose values lie on their curves,
    ``encoder`` is the encoder of all curves, the first one of a grid with several,
    ``curves.at(method, size)`` is the value at any size with its 95 % confidence interval, None
    where the curve leaves the range of the metric (``curves.curves[method].leaves(size)``),
    ``worths(other)`` yields each method, its largest size, and the pairs of another method that
    this is worth, ``crossings()`` where two curves cross, ``ahead(method)`` four times the largest
    size with the value there (or None), and ``following`` is the size that continues the row.

    Args:
        grid: what `plan` returned, or a grid file.
        task: a task by its name in the grid (default: the first one with curves).

    Raises:
        RaxalignError: no method has enough sizes with results, or training runs of each.
    """
    opened = _current(grid)
    plan, ledger = opened.plan, opened.storage.ledger
    results = Scoreboard.of(rows(plan, ledger), plan, ledger)
    if results.tasks and task not in (None, *results.tasks):
        raise RaxalignError(f"no task {task}; there are: {', '.join(results.tasks)}")
    tables = (table for table in results.leading_tables() if task in (None, table[0]))
    fitted = (SizeCurves.of(results, ledger, table) for table in tables)
    found = next(filter(None, fitted), None)
    if found is None:
        about = plan.name if task is None else f"{plan.name}, {task}"
        told = "results of a method with three sizes in `sentences`, and two seeds where it trains"
        raise RaxalignError(f"{about}: there are no curves, which take {told}")
    return found


def word_pairs(
    source: str,
    lang: str,
    out: Path | str,
    *,
    options: Options | None = None,
    pivot: str = "en",
    sentences: int | None = None,
    heldout: int = 0,
    aligner: str = "thot",
    aligner_options: Options | None = None,
    encoder: str | None = None,
    symmetrization: str = "intersection",
    one_to_one: bool | Literal["first"] = True,
    overlap: Literal["drop", "keep"] = "drop",
    storage: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    plugins: Sequence[Path | str] = (),
) -> dict[str, Any]:
    """Write a word-pair dataset of one language and the pivot; ``datasets.load_from_disk(out)``
    opens it.

    Args:
        source: the corpus, a kind of `raxalign list corpora`, with its `options`.
        lang: the other language.
        out: the folder to write; nothing is overwritten.
        options: options of the corpus.
        pivot: the language that all others share.
        sentences: sentence pairs, from the end of the corpus (None: all).
        heldout: how many last lines are left out.
        aligner: the word aligner, a kind of `raxalign list aligners`, with its `aligner_options`.
        aligner_options: options of the word aligner.
        encoder: the encoder of a word aligner that reads one, a folder or a hub name.
        symmetrization: how the links of the two directions are combined.
        one_to_one: whether to keep only links of words that have no other link, or `first`: of
            neighbouring links that share a word, the first.
        overlap: whether repeated sentence pairs, and those that share a side with a held-out line,
            are dropped.
        storage: the storage root (None: RAXALIGN_STORAGE, then .raxalign).
        device: a torch device for that encoder (None: the GPU where there is one).
        threads: CPU threads (None: all cores; one where the word aligner reads an encoder).
        plugins: files with your own plug-ins.

    Returns:
        The dataset's counts: `sentence_pairs`, `word_pairs` and what was dropped.

    Raises:
        RaxalignError: an option or the data is wrong, or `out` is there already.
    """
    from raxalign.single.align import PairsRequest

    request = PairsRequest(
        source,
        _texts(options),
        lang,
        pivot,
        sentences,
        heldout,
        aligner,
        _texts(aligner_options),
        symmetrization,
        one_to_one,
        encoder,
        device,
        overlap,
    )
    with _turns, PluginFile.visible(PluginFile.open(Path(path)) for path in plugins):
        return request.make(Path(out), storage=storage_of(storage), threads=threads)


def align(
    method: str,
    encoder: str,
    pairs: Mapping[str, Path | str],
    out: Path | str,
    *,
    options: Options | None = None,
    pivot: str = "en",
    seed: int = 0,
    device: str | None = None,
    threads: int | None = None,
    precision: Precision = "fp32",
    storage: str | None = None,
    plugins: Sequence[Path | str] = (),
) -> dict[str, Any]:
    """Align an encoder by one method, and write it as a Hugging Face folder with a model card.

    Args:
        method: a kind of `raxalign list methods`, with its `options`.
        encoder: an encoder folder or a hub name.
        pairs: language -> word-pair dataset of `word_pairs`.
        out: the folder to write; nothing is overwritten.
        options: options of the method.
        pivot: the language that all others share.
        seed: seed of everything random.
        device: a torch device (None: the GPU where there is one).
        threads: CPU threads (None: torch's own number).
        precision: `fp32`, `tf32` or `bf16`: that of the products inside the encoder.
        storage: the storage root, which keeps what is made (None: RAXALIGN_STORAGE, then
            .raxalign).
        plugins: files with your own plug-ins.

    Returns:
        What the method noted about itself.

    Raises:
        RaxalignError: an option or the data is wrong, or `out` is there already.
    """
    from raxalign.single.align import AlignRequest

    folders = {lang: Path(folder).expanduser().absolute() for lang, folder in pairs.items()}
    request = AlignRequest(
        method, _texts(options), encoder, folders, pivot, seed, device, threads, precision
    )
    with _turns, PluginFile.visible(PluginFile.open(Path(path)) for path in plugins):
        return request.make(Path(out), storage=storage_of(storage))


def evaluate(
    grid: Grid,
    encoder: str,
    *,
    tasks: Sequence[str] = (),
    languages: Sequence[str] = (),
    seed: int | None = None,
    device: str | None = None,
    threads: int | None = None,
    precision: Precision | None = None,
) -> pa.Table:
    """Evaluate any encoder on the tasks of a grid; returns a table like that of `results`. What the
    ledger holds is not computed again.

    Args:
        grid: what `plan` returned, or a grid file.
        encoder: a folder (of `align`, `raxalign export`, or any masked LM's) or a hub name.
        tasks: tasks by their names in the grid (default: all).
        languages: languages of the grid (default: all).
        seed: one seed (None: the grid's).
        device: a torch device (None: the GPU where there is one).
        threads: CPU threads (None: the grid's).
        precision: `fp32`, `tf32` or `bf16`: that of the products inside the encoder (None: the
            grid's `run.precision`).

    Raises:
        RaxalignError: the grid has no such task or language, or the data is wrong.
    """
    request = EvaluateRequest(
        encoder, tuple(tasks), tuple(languages), seed, device, threads, precision
    )
    with _turns:
        found, _ = request.evaluate(_current(grid))
    return as_table(found, RESULTS)


def _current(grid: Grid) -> Opened:
    """The grid with what a run has looked up since it was opened (keys of unresolved data are
    provisional), with what its searches have suggested, and with the trials of its looks.
    """
    if not isinstance(grid, Opened):
        return open_grid(grid)
    grows = grid.plan.studies or grid.grid.stop is not None
    return grid.again() if grid.plan.unresolved or grows else grid


def _with_budget(opened: Opened, text: str) -> tuple[Opened, Budget]:
    """Return a grid with `stop` as it runs under a budget. Raises `RaxalignError` for others."""
    if opened.grid.stop is None:
        told = "is spent on looks at claims, and this grid has no `stop`: add it, or leave this out"
        raise RaxalignError(f"--budget {told}")
    budget = Budget.of(str(text), opened.run)
    return replace(opened, run=budget.run), budget


def _texts(options: Options | None) -> tuple[str, ...]:
    """Options as the commands take them."""
    shown = {
        name: str(value) if isinstance(value, str | Path) else json.dumps(value)
        for name, value in (options or {}).items()
    }
    return tuple(f"{name}={text}" for name, text in shown.items())


def with_options(table: pa.Table, rows: Sequence[Mapping[str, Any]], plan: Plan) -> pa.Table:
    """Return a table with one more column per option that a method, an encoder or a task of the
    plan has; it is null where a row has no such option.

    The columns and their types are those of the plan, so that an empty table has them too. An
    option with values of several types is a text, and so is a mapping (JSON). The rows that the
    table is of have `method`, `params`, `encoder` and `task`.
    """
    encoders, tasks = plan.encoder_options(), plan.task_options()
    points = [point for every in plan.method_options().values() for point in every]
    kinds = {trial.method: trial.kind for trial in plan.trials}
    names = [kinds.get(row["method"], row["method"]) for row in rows]
    of = zip(names, rows, strict=True)
    methods = [Plan.filled("methods", name, row["params"]) for name, row in of]
    of_rows = {
        "method": (points, methods),
        "encoder": (encoders.values(), [encoders.get(row["encoder"], {}) for row in rows]),
        "task": (tasks.values(), [tasks.get(row["task"], {}) for row in rows]),
    }
    for prefix, (known, found) in of_rows.items():
        for name in dict.fromkeys(name for options in known for name in options):
            kind = _kind(options[name] for options in known if name in options)
            values = [options.get(name) for options in found]
            if kind == pa.string():
                values = [v if isinstance(v, str | None) else _json(v) for v in values]
            table = table.append_column(f"{prefix}.{name}", pa.array(values, kind))
    return table


def _kind(values: Iterable[object]) -> Any:
    """Return the type of a column that holds all the values."""
    types = {type(value) for value in values}
    if types == {bool}:
        return pa.bool_()
    if types <= {int, float}:
        return pa.int64() if types == {int} else pa.float64()
    return pa.string()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


_TEXT = {
    *("trial", "method", "params", "encoder", "task", "task_params", "lang", "metric", "split"),
    *("better", "unit", "evaluation", "cell", "baseline", "verdict", "reason", "outdated"),
    "languages_reason",
}
_WHOLE = {"sentences", "seed", "runs", "examples", "baseline_runs"}
_TRUTH = {"paired", "at_chance", "falls_far"}


def as_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pa.Table:
    """Return rows as an Arrow table; mappings become JSON texts. Types do not depend on the rows,
    so that an empty table has them too.
    """
    kinds = {
        "languages": pa.list_(pa.string()),
        **dict.fromkeys(_TEXT, pa.string()),
        **dict.fromkeys(_WHOLE, pa.int64()),
        **dict.fromkeys(_TRUTH, pa.bool_()),
    }
    schema = pa.schema([(name, kinds.get(name, pa.float64())) for name in columns])

    def plain(value: object) -> object:
        return _json(value) if isinstance(value, Mapping) else value

    return pa.Table.from_pylist(
        [{name: plain(row[name]) for name in columns} for row in rows], schema=schema
    )
