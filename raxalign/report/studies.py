"""The searches of a grid in words: what they may cost, how far they are, and what they found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from raxalign.analysis.cells import CONFIRMED, over_runs
from raxalign.plan.estimates.cost import duration
from raxalign.plan.names import plain
from raxalign.plan.plan import Plan
from raxalign.plan.study import SearchMetric, Study
from raxalign.plan.study_record import (
    StudyRecord,
    Tried,
    measured_record,
    read_record,
    saved_words,
)
from raxalign.printing import counted
from raxalign.report.cells.numbers import unit_of
from raxalign.store.storage import Storage


def plan_lines(plan: Plan, storage: Storage) -> list[str]:
    """Return what the searches of a plan may still run, and how long where that is known."""
    lines = []
    for study in plan.studies:
        record = read_record(storage, study)
        spaces = ", ".join(space.told() for space in study.spaces)
        so_far = f", {len(record.tried)} tried" if record.tried else ""
        seeds = len(study.fresh_seeds)
        which = "best point" if len(study.objectives) == 1 else "Pareto front"
        confirm = f", then the {which} with {seeds} fresh seeds" if seeds else ""
        lines.append(
            f"search {study.about}: at most {_limit(study)}{so_far}{confirm}"
            f"{_time(study, record)} ({study.sampler} over {spaces})"
        )
        how = f"{study.objectives[0].name} is measured at each dev selection"
        how = f"  pruned by {study.pruner.name}: {how}"
        how = f"  nothing can be pruned: {study.unwatched}" if study.unwatched else how
        lines += [how] if study.pruner.prunes else []
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
            "metrics": [objective.name for objective in study.objectives],
            "at_most": study.most,
            "seconds": study.seconds,
            "tried": len(record.tried),
            "pruned": len(record.pruned),
            "pruner": {**study.pruner.model_dump(), "cannot_act": study.unwatched or None},
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
        states = [entry.state for entry in record.tried]
        counts = [f"{len(states)} of at most {_limit(study)}"]
        counts += [f"{n} {name}" for name in ("running", "failed") if (n := states.count(name))]
        counts += ["finished"] if record.finished else []
        best = [_best_in_words(plan, study, entry) for entry in record.chosen]
        shown = f"; best {'; '.join(best)}" if best else ""
        lines.append(f"search {study.about}: {', '.join(counts)}{shown}")
        lines += [f"  {saved}" for saved in [saved_words(record)] if saved]
    return lines


def _shown(plan: Plan, objective: SearchMetric, value: float, sd: float | None = None) -> str:
    """A score as tables show it, with its spread where it has one: ``61.2 ± 0.4 %``."""
    unit = unit_of(plan.measured(objective.task, objective.metric), (value,))
    spread = "" if sd is None else f" ± {unit.show(sd)}"
    return f"{objective.name} {unit.show(value)}{spread}{unit.sign and f' {unit.sign}'}"


def _best_in_words(plan: Plan, study: Study, entry: Tried) -> str:
    scores = [
        f"{_shown(plan, objective, score)} on dev"
        for objective, score in zip(study.objectives, entry.scores, strict=True)
    ]
    values = " ".join(f"{name}={plain(value)}" for name, value in entry.values.items())
    return f"{', '.join(scores)} ({values})"


def best_lines(plan: Plan, storage: Storage, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the best points of each search: their dev scores, and the test scores of the runs that
    confirm them, which are among the rows of the plan.
    """
    lines = []
    for study in plan.studies:
        record = measured_record(plan, storage, study)
        pruned = f", {len(record.pruned)} more pruned" if record.pruned else ""
        count = f"{counted(len(record.done), 'trial')}{pruned}"
        count += "" if record.finished else ", not finished"
        lines.append(f"{study.about} ({count}):")
        for entry in record.chosen:
            best = _best_in_words(plan, study, entry)
            lines.append(f"  {best}; {_confirmed(plan, study, entry, rows)}")
        lines += [] if record.chosen else ["  nothing yet"]
    return lines


def confirming(plan: Plan, study: Study, entry: Tried) -> set[str]:
    """Return the keys of the trials that run a chosen point again with fresh seeds."""
    return {
        asked.trial
        for asked in plan.asked
        if asked.confirmed and (asked.study, asked.number) == (study.name, entry.number)
    }


def _confirmed(plan: Plan, study: Study, entry: Tried, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the test scores of the runs with fresh seeds."""
    asked, told = confirming(plan, study, entry), []
    for objective in study.objectives:
        name = (objective.task, objective.lang, objective.metric, "test")
        values = [
            row["value"]
            for row in rows
            if row.get("searched") == CONFIRMED
            and row["trial"] in asked
            and (row["task"], row["lang"], row["metric"], row["split"]) == name
        ]
        if values:
            found = over_runs(values)
            shown = _shown(plan, objective, found.mean, found.sd)
            told.append(f"{shown} on test over {found.n} seeds")
    if told:
        return f"confirmed: {', '.join(told)}"
    ran = any(row["trial"] in asked for row in rows)
    return "confirmed on dev alone: its data has no test values" if ran else "not confirmed yet"
