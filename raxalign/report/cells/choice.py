"""Which cells, languages and tasks the figures and analyses show, and how."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from raxalign.analysis.cells import MEANS, Cell, Value, compared_mean, mean_name
from raxalign.errors import RaxalignError
from raxalign.measured import spoken
from raxalign.plan.names import searched_mark, trial_name
from raxalign.plan.values.comparisons import baseline_cells
from raxalign.printing import counted
from raxalign.report.cells.results import Results, table_of
from raxalign.report.render import caption


def transfer_tasks(results: Results) -> Iterator[tuple[str, str]]:
    """Yield the tasks whose languages are single ones (not pairs) with their main metrics."""
    for task in results.tasks:
        metric = results.main_metric(task)
        langs = results.by_table.get((task, metric or "", results.split(task)), ())
        pairs = ["-" in lang and lang not in results.plan.languages for lang in langs]
        if metric is not None and langs and not any(pairs):
            yield task, metric


def single_languages(results: Results, task: str, metric: str, cell: Cell) -> list[str]:
    """Return the languages of a cell's scores, without the pivot and the means."""
    shown, left_out = (task, metric, results.split(task)), (*MEANS, results.plan.pivot)
    return [n[1] for n in cell.values if table_of(n) == shown and n[1] not in left_out]


def baseline(results: Results, task: str, metric: str) -> Cell | None:
    """Return the cell of the original encoder."""
    split = results.split(task)
    cells = baseline_cells(results.cells, results.plan)
    return next((cell for cell in cells if value_of(cell, task, metric, split) is not None), None)


def measured_cells(results: Results, task: str, metric: str) -> list[Cell]:
    """Return the cells that have a mean over languages by a metric, on the split that is shown."""
    split = results.split(task)
    return [c for c in results.cells if value_of(c, task, metric, split) is not None]


def representatives(results: Results, task: str, metric: str) -> list[Cell]:
    """Return one cell per method: of its largest training set the one that dev chooses; the
    baseline first. All are of one encoder, that of the baseline.
    """
    base = baseline(results, task, metric)
    there = measured_cells(results, task, metric)
    there = [cell for cell in there if cell.encoder == (base or there[0]).encoder]
    chosen: dict[str, Cell] = {base.method: base} if base is not None else {}
    ranks = {id(cell): dev_of(results, cell, task, metric) for cell in there}
    for cell in sorted(there, key=lambda cell: (cell.sentences or 0, ranks[id(cell)])):
        if base is None or cell.method != base.method:
            chosen[cell.method] = cell
    return sorted(chosen.values(), key=lambda cell: (cell is not base, colour_of(results, cell)))


def best_on_dev(results: Results, most: int, task: str, metric: str) -> list[Cell]:
    """Return at most `most` of `representatives`: the first one, and the best on dev."""
    cells = representatives(results, task, metric)
    ranks = [dev_of(results, cell, task, metric) for cell in cells]
    rest = sorted(range(1, len(cells)), key=lambda i: -ranks[i])[: most - 1]
    return [cells[i] for i in sorted([0, *rest])] if cells else []


def of_methods(results: Results, most: int) -> str:
    """Return what a caption says where a figure or table has no room for all methods."""
    count = len(results.kinds)
    return f" {caption('some_methods', most=most, count=count)}" if count > most else ""


def of_encoder(results: Results) -> str:
    """Return what a caption says of the encoder of `representatives`, where there are several."""
    if not results.several_encoders:
        return ""
    shown = {
        cell.encoder
        for task, metric in transfer_tasks(results)
        for cell in representatives(results, task, metric)
    }
    return f" Of the grid's encoders only {', '.join(sorted(shown))} is shown." if shown else ""


def titled(results: Results, task: str) -> str:
    """Return a task's name, marked where its values are those of the dev set."""
    return task if results.split(task) == "test" else f"{task} (dev set)"


def colour_of(results: Results, cell: Cell) -> int:
    """Return one colour per method, the same in every cloud."""
    return list(results.kinds).index(cell.method)


def value_of(cell: Cell, task: str, metric: str, split: str) -> Value | None:
    """Return the mean over languages by which cells are chosen."""
    name = compared_mean(cell, task, metric, split)
    return cell.values[name] if name is not None else None


def points_of_methods(results: Results, task: str) -> list[list[Cell]]:
    """Return the cells of each method, encoder and number of sentences that have values of a task
    on dev and test, the best on dev first; none where no direction of its main metric is better.
    """
    metric = results.main_metric(task) or ""
    groups: dict[tuple[str, str, int | None], list[Cell]] = defaultdict(list)
    for cell in results.cells:
        if searched_mark(cell, results.plan):  # a search chose it, among others
            continue
        if dev_of(results, cell, task, metric) > -math.inf and all(
            mean_name(cell, task, metric, split) for split in ("dev", "test")
        ):
            groups[cell.method, cell.encoder, cell.sentences].append(cell)
    return [
        sorted(cells, key=lambda cell: dev_of(results, cell, task, metric), reverse=True)
        for cells in groups.values()
    ]


def dev_of(results: Results, cell: Cell, task: str, metric: str, split: str = "dev") -> float:
    """Return what cells are chosen by, larger is better: the mean over languages on a split, turned
    round where lower ones are better. It is less than any other where there is no such mean, or
    where no direction is better.
    """
    value, sign = value_of(cell, task, metric, split), results.plan.measured(task, metric).sign
    return sign * value.mean if value is not None and sign else -math.inf


def chosen_run(results: Results) -> tuple[str, str]:
    """Return the key of the trial that dev chooses, and why: of the cells but the baselines the
    best on the grid's first task that has such values, and of its runs the best. Raises
    `RaxalignError` where there are none, or each language has an encoder of its own.
    """
    plan, bases = results.plan, baseline_cells(results.cells, results.plan)
    cells = [cell for cell in results.cells if cell not in bases]
    for task, metric, _ in results.leading_tables():
        ranks = [dev_of(results, cell, task, metric) for cell in cells]
        best = max(ranks, default=-math.inf)
        if best == -math.inf:
            continue
        cell, sign = cells[ranks.index(best)], plan.measured(task, metric).sign or 1
        name = compared_mean(cell, task, metric, "dev")
        runs = cell.by_seed[name] if name is not None else {}
        seed = max(runs, key=lambda seed: sign * runs[seed])
        own = [plan.by_key[key] for key in cell.trials if plan.by_key[key].seed in (seed, None)]
        if len(own) > 1:
            told = ", ".join(f"{trial.key[:12]} ({trial.languages[0]})" for trial in own)
            raise RaxalignError(f"--best: languages have encoders of their own; give a key: {told}")
        points = counted(sum(rank > -math.inf for rank in ranks), "point")
        how = f"of {points} and {counted(len(runs), 'run')} of it, by {task} ({spoken(metric)})"
        told = f"{own[0].key[:12]} ({trial_name(own[0], plan)}) is the best on dev {how}"
        return own[0].key, told
    raise RaxalignError(f"--best: {plan.name} has no results on dev of any method. Run it first")
