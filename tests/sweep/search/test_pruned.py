"""Pruned trials, of which the ledger has nothing, are found again for the tracking store."""

from __future__ import annotations

from pathlib import Path

from raxalign.plan.load import reopened
from raxalign.plan.tried import read_record
from raxalign.sweep.tracked import copy_all, pruned_events, target_of
from raxalign.tracking import recorder
from tests.searches import open_search, run, search_grid, source_of

ASHA = "trials: 8, confirm: 0, pruner: {name: asha, startup: 2}"


def test_each_pruned_trial_is_an_end_with_its_place(tmp_path: Path, monkeypatch) -> None:
    first = open_search(search_grid(tmp_path, ASHA))
    assert pruned_events(first) == []
    ran = run(source_of(first))
    opened = reopened(first)
    (study,) = opened.plan.studies
    pruned = read_record(opened.storage, study).pruned
    events = pruned_events(opened)
    assert [event.pruned for event in events] == [
        entry.stopped.words for entry in pruned if entry.stopped is not None
    ]
    assert {event.trial.key for event in events} == set(ran) - set(opened.plan.by_key)
    assert len(events) == len(pruned) > 0
    assert all(event.ended and event.trial.searched for event in events)

    brought = []
    monkeypatch.setattr(recorder, "sync", lambda plan, target, found: brought.append(found))
    copy_all(opened, target_of(opened))
    assert brought == [events]


def test_a_trial_that_was_made_whole_elsewhere_is_not_among_them(tmp_path: Path) -> None:
    first = open_search(search_grid(tmp_path, ASHA))
    run(source_of(first))
    one, *others = pruned_events(reopened(first))
    for key in one.trial.evaluations.values():
        first.storage.ledger.write(key, {"scores": [], "notes": {}}, None)
    assert pruned_events(reopened(first)) == others


def test_a_grid_without_searches_has_none(tmp_path: Path) -> None:
    searched = search_grid(tmp_path, "trials: 8, confirm: 0")
    assert pruned_events(open_search(searched)) == []
