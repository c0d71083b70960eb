"""One run for each key where nothing keeps two drivers apart, as on a server without a shared
storage: the fallback of `Registry`, on a real database whose lock is not used.
"""

from __future__ import annotations

import shutil

import pytest

from raxalign.store.storage import Storage
from raxalign.tracking.client import connect, find_experiment
from raxalign.tracking.locks import Turns
from raxalign.tracking.registry import Change, Registry
from raxalign.tracking.runs import Run

pytestmark = pytest.mark.slow
WANTED = Run("trial:1", "trial", "one")


@pytest.fixture
def uri(tmp_path, no_runs) -> str:
    return f"sqlite:///{shutil.copy(no_runs, tmp_path / 'mlflow.db')}"


def registry(uri: str) -> Registry:
    client = connect(uri)
    return Registry(client, find_experiment(client, uri, "small"), Turns(uri))


def test_the_earliest_of_two_runs_is_kept_and_the_holder_of_the_other_finds_it(uri):
    one, other = registry(uri), registry(uri)
    first, second = one._client, other._client
    experiment = one._experiment
    tags = {"raxalign.key": WANTED.key, "raxalign.kind": "trial"}
    late = first.create_run(experiment, start_time=2000, tags=tags)
    held = one.find(WANTED.key)
    early = second.create_run(experiment, start_time=1000, tags=tags)
    assert held is not None
    assert held.id == late.info.run_id
    assert other.find(WANTED.key).id == early.info.run_id
    assert first.get_run(late.info.run_id).info.lifecycle_stage == "deleted"
    kept = one.save(held, Change(metrics={"x": 1.0}, tags={"mark": "y"}, status="FINISHED"))
    assert kept.id == early.info.run_id
    run = first.get_run(kept.id)
    assert (run.data.metrics, run.data.tags["mark"], run.info.status) == (
        {"x": 1.0},
        "y",
        "FINISHED",
    )


def test_a_run_made_out_of_turn_is_searched_for_again(uri):
    one = registry(uri)
    tags = {"raxalign.key": WANTED.key, "raxalign.kind": "trial"}
    early = one._client.create_run(one._experiment, start_time=1000, tags=tags)
    assert one.make(WANTED, {}).id == early.info.run_id
    assert list(one.all()) == [WANTED.key]


def test_what_a_run_has_is_not_written_again(uri):
    one = registry(uri)
    change = Change(metrics={"x": 1.0}, params={"a": "b"}, points=[("train/loss", 0.5, 3, 1)])
    entry = one.save(one.make(WANTED, {}), change)
    found = one.find(WANTED.key)
    assert (found.metrics, found.params) == ({"x": 1.0, "train/loss": 0.5}, {"a": "b"})
    one.save(found, Change(metrics={"x": 1.0}, params={"a": "c"}))
    assert len(one._client.get_metric_history(entry.id, "x")) == 1
    assert one.find(WANTED.key).params == {"a": "b"}


def test_more_values_than_one_request_takes_are_brought_in_several(uri):
    one = registry(uri)
    entry = one.make(WANTED, {})
    points = [("train/loss", float(step), step, 1) for step in range(1900)]
    one.save(entry, Change(points=points, tags={"mark": "all"}))
    assert len(one._client.get_metric_history(entry.id, "train/loss")) == 1900
    assert one.find(WANTED.key).tags["mark"] == "all"


def test_a_turn_is_alone_at_a_database_and_not_at_a_server(tmp_path, uri):
    database, server, bare = (
        Turns(uri),
        Turns("http://x", Storage(str(tmp_path))),
        Turns("http://x", Storage("s3://b")),
    )
    for turns, alone in ((database, True), (server, False), (bare, False)):
        with turns.take():
            assert turns.alone is alone
