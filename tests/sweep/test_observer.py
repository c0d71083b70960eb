"""Observers hear nothing by default, and several hear the same."""

from __future__ import annotations

import inspect

from raxalign.sweep.observer import Observer, Several

EVENTS = [name for name, _ in inspect.getmembers(Observer, inspect.isfunction)]


class Recording(Observer):
    def __init__(self, name: str, heard: list[tuple[object, ...]]) -> None:
        for event in EVENTS:
            setattr(self, event, lambda *given, event=event: heard.append((name, event, *given)))


def arguments(event: str) -> list[str]:
    return list(inspect.signature(getattr(Observer, event)).parameters)[1:]


def test_every_event_reaches_all_observers_in_order_with_what_was_said() -> None:
    assert "stage_advanced" in EVENTS
    for event in EVENTS:
        heard: list[tuple[object, ...]] = []
        said = arguments(event)
        getattr(Several([Recording("a", heard), Recording("b", heard)]), event)(*said)
        assert heard == [("a", event, *said), ("b", event, *said)]


def test_the_default_hears_nothing() -> None:
    for event in EVENTS:
        assert getattr(Observer(), event)(*arguments(event)) is None
