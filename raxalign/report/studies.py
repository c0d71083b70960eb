"""The searches of a grid in words: what they may cost, how far they are, and what they
found; and what a grid chose on dev, run again with fresh seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from raxalign.analysis.cells import CONFIRMED, Value
from raxalign.errors import RaxalignError
from raxalign.plan.estimates import duration
from raxalign.plan.load import Opened
from raxalign.plan.plan import Plan
from raxalign.plan.trial import plain
from raxalign.plan.values.comparisons import baseline_cells
from raxalign.plan.values.numbers import unit_of
from raxalign.plan.values.results import dev_scores, judge, rows
from raxalign.plan.values.scoreboard import Scoreboard
from raxalign.printing import counted
from raxalign.search.study import Study, StudyRecord, Tried, best_of, fresh_seeds, read_record
from raxalign.store.storage import Storage


def confirmed(opened: Opened, seeds: int) -> Opened:
    """Return a finished grid as one of what it chose: for each task, encoder and number of
    sentences the point of each method with the best mean on dev, and the baseline, with as many
    fresh seeds. It is named `<name>-confirmed`.

    Raises `RaxalignError` where it is not finished, or its searches confirm their points.
    """
    grid, ledger = opened.grid, opened.storage.ledger
    methods = tuple(spec for spec in grid.methods if spec.searched is None)
    if len(methods) < len(grid.methods):
        raise RaxalignError(
            f"{grid.path}: --confirm is for grids without a search: a search runs its best points"
            " again by itself (`search.confirm`)"
        )
    results = Scoreboard.of(rows(opened.plan, ledger), opened.plan, ledger)
    if told := results.lacking.short:
        first = f"nothing can be chosen yet: run `raxalign grid {grid.path.name}` first"
        raise RaxalignError(f"{grid.path}: {first}. {told}")
    chosen = list(baseline_cells(results.cells, results.plan))
    for task in results.tasks:
        chosen += [points[0] for points in results.points_of_methods(task)]
    kept = len(grid.seeds) - 1
    fresh = fresh_seeds(grid.seeds, kept + seeds)[kept:]
    again = replace(grid, name=f"{grid.name}-confirmed", seeds=fresh)
    return replace(opened, grid=again, cells=frozenset(cell.key for cell in chosen)).again()


def plan_lines(plan: Plan, storage: Storage) -> list[str]:
    """Return what the searches of a plan may still run, and how long where that is known."""
    lines = []
    for study in plan.studies:
        record = read_record(storage, study)
        spaces = ", ".join(space.told() for space in study.spaces)
        so_far = f", {len(record.tried)} tried" if record.tried else ""
        seeds = len(study.fresh_seeds)
        confirm = f", then the best point with {seeds} fresh seeds" if seeds else ""
        lines.append(
            f"search {study.about}: at most {_limit(study)}{so_far}{confirm}"
            f"{_time(study, record)} ({study.sampler} over {spaces})"
        )
        if study.unwatched:
            lines.append(f"  nothing can be pruned: {study.unwatched}")
        elif study.prunes:
            how = f"{study.objective.name} is measured at each dev selection"
            lines.append(f"  pruned by {study.pruner}: {how}")
    return lines


def _limit(study: Study) -> str:
    """What a study may spend: ``40 trials``."""
    amounts = [counted(study.most, "trial")] if study.most is not None else []
    amounts += [f"{duration(study.seconds)} of worker time"] if study.seconds is not None else []
    return " or ".join(amounts)


def _time(study: Study, record: StudyRecord) -> str:
    timed = [entry.seconds for entry in record.tried if entry.seconds is not None]
    if not timed or study.most is None:
        return ""
    left = max(study.most - len(record.tried), 0)
    left += 0 if record.finished else len(study.fresh_seeds)
    return f", about {duration(left * sum(timed) / len(timed))} of worker time" if left else ""


def as_json(plan: Plan, storage: Storage) -> list[dict[str, Any]]:
    """Return the searches of a plan as `plan --format json` prints them."""
    return [
        {
            **{name: getattr(study, name) for name in ("name", "method", "encoder")},
            "languages": list(study.languages),
            "sentences": study.sentences,
            "metric": study.objective.name,
            "at_most": study.most,
            "seconds": study.seconds,
            "tried": len(record.tried),
            "pruned": len(record.pruned),
            "pruner": {"name": study.pruner, "cannot_act": study.unwatched or None},
            "confirm": list(study.fresh_seeds),
        }
        for study in plan.studies
        for record in [read_record(storage, study)]
    ]


def status_lines(plan: Plan, storage: Storage) -> list[str]:
    """Return how far each search is, with the best point so far."""
    lines = []
    for study in plan.studies:
        record = measured_record(plan, storage, study)
        states: list[str] = [entry.state for entry in record.tried]
        counts = [f"{len(states)} of at most {_limit(study)}"]
        shown = ("running", "failed", "pruned")
        counts += [f"{n} {name}" for name in shown if (n := states.count(name))]
        counts += ["finished"] if record.finished else []
        best = record.chosen and f"; best {_best_in_words(plan, study, record.chosen)}"
        lines.append(f"search {study.about}: {', '.join(counts)}{best or ''}")
    return lines


def measured_record(plan: Plan, storage: Storage, study: Study) -> StudyRecord:
    """Return the record of a study with the scores that the ledger has of the trials of a plan:
    they are the truth, and what is best is so by them.
    """
    record = read_record(storage, study)
    asked = [a for a in plan.asked if a.study == study.name and not a.confirmed]
    trials = {a.number: plan.by_key[a.trial] for a in asked if a.trial in plan.by_key}

    def measured(entry: Tried) -> Tried:
        trial = trials.get(entry.number)
        with suppress(RaxalignError):  # not in the ledger
            if trial is not None and entry.state == "done":
                found = judge(study.objective, trial, dev_scores(plan, storage.ledger, trial))
                return replace(entry, score=found)
        return entry

    tried = tuple(map(measured, record.tried))
    return replace(record, tried=tried, best=best_of(study, tried))


def _shown(plan: Plan, study: Study, value: float, sd: float | None = None) -> str:
    """A score as tables show it, with its spread where it has one: ``61.2 ± 0.4 %``."""
    objective = study.objective
    unit = unit_of(plan.measured(objective.task, objective.metric), (value,))
    spread = "" if sd is None else f" ± {unit.show(sd)}"
    return f"{objective.name} {unit.show(value)}{spread}{unit.sign and f' {unit.sign}'}"


def _best_in_words(plan: Plan, study: Study, entry: Tried) -> str:
    assert entry.score is not None
    values = " ".join(f"{name}={plain(value)}" for name, value in entry.values.items())
    return f"{_shown(plan, study, entry.score)} on dev ({values})"


def best_lines(plan: Plan, storage: Storage, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the best point of each search: its dev score, and the test scores of the runs that
    confirm it, which are among the rows of the plan.
    """
    lines = []
    for study in plan.studies:
        record = measured_record(plan, storage, study)
        pruned = f", {len(record.pruned)} more pruned" if record.pruned else ""
        count = f"{counted(len(record.done), 'trial')}{pruned}"
        count += "" if record.finished else ", not finished"
        best = "nothing yet"
        if (chosen := record.chosen) is not None:
            confirmed = _confirmed(plan, confirming(plan, study, chosen), study, rows)
            best = f"{_best_in_words(plan, study, chosen)}; {confirmed}"
        lines += [f"{study.about} ({count}):", f"  {best}"]
    return lines


def confirming(plan: Plan, study: Study, entry: Tried) -> set[str]:
    """Return the keys of the trials that run a chosen point again with fresh seeds."""
    return {
        asked.trial
        for asked in plan.asked
        if asked.confirmed and (asked.study, asked.number) == (study.name, entry.number)
    }


def _confirmed(plan: Plan, asked: set[str], study: Study, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the test score of the runs with fresh seeds."""
    objective = study.objective
    name = (objective.task, objective.lang, objective.metric, "test")
    own = [r for r in rows if r.get("searched") == CONFIRMED and r["trial"] in asked]
    values = [
        row["value"]
        for row in own
        if (row["task"], row["lang"], row["metric"], row["split"]) == name
    ]
    if values:
        found = Value.of(values)
        shown = _shown(plan, study, found.mean, found.sd)
        return f"confirmed: {shown} on test over {found.n} seeds"
    ran = any(row["trial"] in asked for row in rows)
    return "confirmed on dev alone: its data has no test values" if ran else "not confirmed yet"
