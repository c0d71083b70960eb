"""Many runs in one transaction of a real MLflow database: all of them, or one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raxalign.tracking.batch_writes import Copies, Undone, together
from raxalign.tracking.client import connect, find_experiment
from raxalign.tracking.locks import Turns
from raxalign.tracking.registry import Change, Registry
from raxalign.tracking.runs import Run


class Site:
    """A database with an experiment."""

    def __init__(self, folder: Path) -> None:
        self.uri = f"sqlite:///{folder}/mlflow.db"
        self.client = connect(self.uri)
        self.turns = Turns(self.uri)
        self.runs = Registry(self.client, find_experiment(self.client, self.uri, "g"), self.turns)

    def copy(self, key: str) -> Any:
        """What copies one value, a curve, a param and an end into the run of a key."""

        def into(entry: Any) -> None:
            entry = entry or self.runs.make(Run(key, "trial", key), {})
            points = [("train/loss", 1.0 / step, step, 1000 + step) for step in (1, 2, 3)]
            change = Change({"m": 0.5}, points, {"seed": "0"}, {"mark": "x"}, (), "FINISHED")
            self.runs.save(entry, change)

        return key, into

    def seen(self) -> dict[str, tuple[Any, ...]]:
        found = self.runs.all()
        return {
            key: (entry.status, entry.metrics, entry.params, entry.tags.get("mark"))
            for key, entry in found.items()
        }


WHOLE = ("FINISHED", {"m": 0.5, "train/loss": pytest.approx(1 / 3)}, {"seed": "0"}, "x")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Site:
    return Site(tmp_path_factory.mktemp("together"))


def test_a_group_is_there_whole_with_its_curves(site: Site) -> None:
    with site.turns.take():
        assert list(
            Copies(site.client, site.runs, site.turns).run(
                [site.copy(f"a{number}") for number in range(3)], {}
            )
        ) == [3]
    found = site.seen()
    assert [found[f"a{number}"] for number in range(3)] == [WHOLE] * 3
    id_ = site.runs.all()["a0"].id
    assert len(site.client.get_metric_history(id_, "train/loss")) == 3


def test_what_fails_leaves_nothing_and_the_store_as_it_was(site: Site) -> None:
    before = set(site.seen())

    def breaks() -> None:
        with together(site.client):
            site.copy("b")[1](None)
            raise RuntimeError("broken")

    with pytest.raises(Undone, match="broken"):
        breaks()
    assert set(site.seen()) == before
    site.copy("c")[1](None)
    assert site.seen()["c"] == WHOLE


def test_a_group_that_fails_is_copied_one_by_one(site: Site) -> None:
    failures = [RuntimeError("once")]

    def fails_once(entry: Any) -> None:
        if failures:
            raise failures.pop()
        site.copy("e")[1](entry)

    with site.turns.take():
        Copies(site.client, site.runs, site.turns).all([site.copy("d"), ("e", fails_once)], {})
    found = site.seen()
    assert (found["d"], found["e"]) == (WHOLE, WHOLE)


def test_a_duplicate_point_refuses_the_transaction_and_not_the_copy(site: Site) -> None:
    """MLflow rolls back for a point that is there already: others must not go with it."""
    site.copy("f")[1](None)
    entry = site.runs.all()["f"]
    again = Change(points=[("train/loss", 1.0, 1, 1001)])
    with site.turns.take():
        Copies(site.client, site.runs, site.turns).all(
            [site.copy("g"), ("f", lambda known: site.runs.save(entry, again) and None)], {}
        )
    assert site.seen()["g"] == WHOLE
    assert len(site.client.get_metric_history(entry.id, "train/loss")) == 3
