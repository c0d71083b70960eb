"""What stored stages and evaluations took, and what is left of a plan."""

from __future__ import annotations

import pytest

from raxalign.plan.estimates.cost import duration, roughly, seconds_by_key
from tests.ledgers import made_up


def test_the_seconds_of_what_is_stored_are_known_by_key(tmp_path):
    opened, _ = made_up(tmp_path)
    stage = next(stage for stage in opened.plan.stages.values() if stage.kind == "bitext")
    opened.storage.artifacts.make("bitext", stage.key, lambda _: {})
    seconds = seconds_by_key(opened.plan, opened.storage)
    kinds = {key: opened.plan.stages[key].kind for key in seconds}
    evaluations = [key for key, kind in kinds.items() if kind == "evaluation"]
    assert len(evaluations) == sum(
        entry.kind == "evaluation" for entry in opened.plan.stages.values()
    )
    assert {seconds[key] for key in evaluations} == {2.0}
    assert [key for key, kind in kinds.items() if kind != "evaluation"] == [stage.key]
    assert seconds[stage.key] == opened.storage.artifacts.manifest("bitext", stage.key).seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "5 s"), (7, "5 s"), (8, "10 s"), (27.4, "25 s"), (27.5, "30 s"), (89, "90 s")),
        *((90, "2 min"), (599, "10 min"), (5399, "90 min"), (5400, "1.5 h"), (11_000, "3 h")),
    ],
)
def test_an_estimate_looks_no_more_exact_than_it_is(seconds, text):
    assert roughly(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(89.4, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h")]
)
def test_a_duration_is_in_words(seconds, text):
    assert duration(seconds) == text
