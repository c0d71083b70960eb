"""The runs of an experiment by their keys, on a real database."""

from __future__ import annotations

import shutil

import pytest

from raxalign.tracking.client import connect, find_experiment
from raxalign.tracking.registry import Change, Registry
from raxalign.tracking.runs import Run

pytestmark = pytest.mark.slow
WANTED = Run("trial:1", "trial", "one")


@pytest.fixture
def uri(tmp_path, no_runs) -> str:
    return f"sqlite:///{shutil.copy(no_runs, tmp_path / 'mlflow.db')}"


def registry(uri: str) -> Registry:
    client = connect(uri)
    return Registry(client, find_experiment(client, uri, "small"))


def test_runs_that_were_loaded_or_made_are_found_without_a_search(uri, monkeypatch):
    other, one = registry(uri), registry(uri)
    there = other.make(Run("cell:1", "cell", "cell"))
    assert list(one.load()) == [there.key]
    made = one.make(WANTED)
    with monkeypatch.context() as patch:
        patch.setattr(Registry, "_search", lambda registry, condition: pytest.fail(condition))
        assert one.find(there.key).id == there.id
        assert one.find(WANTED.key) is made
        assert one.find("trial:2") is None
    one.drop(WANTED.key)
    assert one.find(WANTED.key).id == made.id


def test_the_earlier_of_two_runs_of_a_key_counts(uri):
    one = registry(uri)
    tags = {"raxalign.key": WANTED.key, "raxalign.kind": "trial"}
    for start in (2000, 1000):
        run = one._client.create_run(one._experiment, start_time=start, tags=tags)
    assert one.find(WANTED.key).id == one.load()[WANTED.key].id == run.info.run_id


def test_what_a_run_has_is_not_written_again(uri):
    one = registry(uri)
    change = Change(metrics={"x": 1.0}, params={"a": "b"}, points=[("train/loss", 0.5, 3, 1)])
    made = one.make(WANTED)
    one.save(made, change)
    found = one.find(WANTED.key)
    assert (found.metrics, found.params) == ({"x": 1.0, "train/loss": 0.5}, {"a": "b"})
    one.save(found, Change(metrics={"x": 1.0}, params={"a": "c"}))
    assert len(one._client.get_metric_history(made.id, "x")) == 1
    assert one.find(WANTED.key).params == {"a": "b"}


def test_more_values_than_one_request_takes_are_brought_in_several(uri):
    one = registry(uri)
    entry = one.make(WANTED)
    points = [("train/loss", float(step), step, 1) for step in range(1900)]
    one.save(entry, Change(points=points, tags={"mark": "all"}))
    assert len(one._client.get_metric_history(entry.id, "train/loss")) == 1900
    assert one.find(WANTED.key).tags["mark"] == "all"
