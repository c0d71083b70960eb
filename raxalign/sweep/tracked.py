"""A grid in MLflow, around its drivers: what none of them has copied, its report and its answer.
Nothing is imported where nothing is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from raxalign.plan.load import Opened, reopened
from raxalign.plan.plan import Plan
from raxalign.printing import masked
from raxalign.search.study import Study, Suggestion, read_record
from raxalign.store.key import digest
from raxalign.tracking import recorder
from raxalign.tracking.client import (
    Target,
    TrackingError,
    database_of,
    default_uri,
    former_place,
    reported,
)
from raxalign.tracking.recorder import Event, Recorder


def target_of(opened: Opened) -> Target:
    """Return where the runs of a grid go."""
    uri = opened.run.tracking_uri or default_uri(opened.storage)
    return Target(uri, opened.storage, opened.grid.text_of_file)


def copy_all(opened: Opened, target: Target) -> int:
    """Copy a grid's results to MLflow, as `sync` does."""
    return recorder.sync(opened.plan, target, pruned_events(opened))


def finish_tracking(opened: Opened, plan: Plan) -> list[str]:
    """Copy to MLflow what a killed driver has left behind; return why it cannot be done."""
    target = target_of(opened)
    if _marker(target, plan).exists():
        return []
    try:
        copy_all(opened, target)
    except TrackingError as error:
        return [str(error)]
    mark_copied(plan, target)
    return []


def keep_report(opened: Opened, folder: Path) -> str | None:
    """Put a report with the grid's run, if it was tracked; return why it cannot be done."""
    return _where_tracked(opened, lambda runs: runs.keep(folder))


def describe(opened: Opened, answer: str) -> str | None:
    """Write the answer of the results into the description of the grid's experiment, where it is
    another than before and the grid was tracked; returns a message where that could not be done.
    """
    name, uri = opened.plan.name, target_of(opened).uri
    marker = opened.storage.local / "tracked" / f"{digest([uri, name])[:32]}.answer"
    wanted = json.dumps({"grid": name, "uri": masked(uri), "answer": answer})

    def write(runs: Recorder) -> None:
        runs.describe(answer)
        _mark(marker, wanted)

    if marker.is_file() and marker.read_bytes() == wanted.encode():
        return None
    return _where_tracked(opened, write)


def _where_tracked(opened: Opened, what: Callable[[Recorder], object]) -> str | None:
    target = target_of(opened)
    database = database_of(target.uri)
    moved = database is not None and former_place(database) is not None
    if database is not None and not database.exists():
        return None
    try:
        with reported(target.uri):
            if moved:
                copy_all(opened, target)
            what(Recorder(opened.plan, target))
    except TrackingError as error:
        return str(error)
    return None


def mark_copied(plan: Plan, target: Target) -> None:
    """Note that all results of a plan are in a tracking store, where the ledger has all of them."""
    wanted = {key for trial in plan.trials for key in trial.evaluations.values()}
    if target.storage.ledger.keys() >= wanted:
        _mark(_marker(target, plan), json.dumps({"grid": plan.name, "uri": masked(target.uri)}))


def _marker(target: Target, plan: Plan) -> Path:
    """Return the file whose presence means that all results of a plan are in one tracking store."""
    trials = sorted(trial.key for trial in plan.trials)
    evaluations = sorted(k for t in plan.trials for k in t.evaluations.values())
    name = digest([target.uri, plan.name, trials, evaluations])
    return target.storage.local / "tracked" / name[:32]


def _mark(marker: Path, text: str) -> None:
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(text, encoding="utf-8")


def pruned_events(opened: Opened) -> list[Event]:
    """Return the end of each pruned trial of a grid, for the tracking store. Trials that were made
    whole elsewhere, for the grid itself or to confirm a point, are not among them.
    """
    pruned = {
        (study.name, entry.number): entry
        for study in opened.plan.studies
        if study.prunes
        for entry in read_record(opened.storage, study).pruned
    }
    if not pruned:
        return []

    def suggested(study: Study) -> list[Suggestion]:
        return [
            Suggestion(n, entry.values) for (name, n), entry in pruned.items() if name == study.name
        ]

    plan, there = reopened(opened, suggested).plan, opened.storage.ledger.keys()
    events: dict[str, Event] = {}
    for asked in plan.asked:
        entry, trial = pruned.get((asked.study, asked.number)), plan.by_key[asked.trial]
        whole = there.issuperset(trial.evaluations.values()) or trial.key in opened.plan.by_key
        if entry is not None and not whole:
            events[trial.key] = Event(trial, ended=True, pruned=entry.reason)
    return list(events.values())
