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


def test_the_earlier_of_two_runs_of_a_key_counts(uri):
    one = registry(uri)
    tags = {"raxalign.key": WANTED.key, "raxalign.kind": "trial"}
    for start in (2000, 1000):
        run = one._client.create_run(one._experiment, start_time=start, tags=tags)
    assert one.find(WANTED.key).id == one.load()[WANTED.key].id == run.info.run_id


def test_more_values_than_one_request_takes_are_brought_in_several(uri):
    one = registry(uri)
    entry = one.make(WANTED)
    points = [("train/loss", float(step), step, 1) for step in range(1900)]
    one.save(entry, Change(points=points, tags={"mark": "all"}))
    assert len(one._client.get_metric_history(entry.id, "train/loss")) == 1900
    assert one.find(WANTED.key).tags["mark"] == "all"
