"""The trials that searches ended early, from the records of the searches: no plan of what is to run
names them.
"""

from __future__ import annotations

from raxalign.plan.load import Opened, reopened
from raxalign.plan.study import Study, Suggestion
from raxalign.plan.tried import read_record
from raxalign.tracking.recorder import Event


def pruned_events(opened: Opened) -> list[Event]:
    """Return the end of each pruned trial of a grid, for the tracking store. Trials that were made
    whole elsewhere, for the grid itself or to confirm a point, are not among them.
    """
    found = {
        study.name: read_record(opened.storage, study).pruned
        for study in opened.plan.studies
        if study.prunes
    }
    if not any(found.values()):
        return []

    def suggested(study: Study) -> list[Suggestion]:
        return [Suggestion(entry.number, entry.values) for entry in found.get(study.name, ())]

    plan, there = reopened(opened, suggested).plan, opened.storage.ledger.keys()
    places = {
        (name, entry.number): entry.stopped.words
        for name, entries in found.items()
        for entry in entries
        if entry.stopped is not None
    }
    events = {
        entry.trial: Event(
            plan.by_key[entry.trial], ended=True, pruned=places[entry.study, entry.number]
        )
        for entry in plan.asked
        if (entry.study, entry.number) in places
        and entry.trial not in opened.plan.by_key
        and not there.issuperset(plan.by_key[entry.trial].evaluations.values())
    }
    return list(events.values())
