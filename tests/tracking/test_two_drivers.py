"""Two drivers on one tracking store: whatever the order of their requests, one parent run ends, and
its trials and cells are there once.
"""

from __future__ import annotations

import shutil

import pytest

from raxalign.plan.load import open_grid
from tests.e2e.runs import tracked
from tests.grids import write_grid
from tests.test_tracking import counts, fill, target
from tests.tracking.stepped import END, Stepped

pytestmark = pytest.mark.slow
WHOLE = {("grid", "FINISHED"): 1, ("trial", "FINISHED"): 2, ("cell", "FINISHED"): 1}


@pytest.fixture
def plan(tmp_path, no_runs):
    shutil.copy(no_runs, tmp_path / "mlflow.db")
    path = write_grid(tmp_path, size=300, sentences="[100]", methods=("none: {}",))
    return open_grid(path, storage=str(tmp_path)).plan


@pytest.fixture
def where(tmp_path, plan):
    fill(tmp_path, plan)
    return target(tmp_path)


@pytest.fixture
def drivers(plan, where):
    """Two drivers; the first has made its recorder."""
    pair = Stepped(plan, where), Stepped(plan, where)
    pair[0].call("make")
    yield pair
    for driver in pair:
        driver.kill()


def check_one_of_each(where) -> None:
    found = tracked(where.uri, "small")
    assert counts(where.uri) == WHOLE
    cell = next(run["id"] for run in found if run["tags"]["raxalign.kind"] == "cell")
    above = {(run["tags"]["raxalign.kind"], run["tags"].get("mlflow.parentRunId")) for run in found}
    assert above == {("grid", None), ("cell", None), ("trial", cell)}
    assert not [name for run in found for name in run["tags"] if name.startswith("raxalign.driver")]


def test_both_bring_the_same_cell_at_once(drivers, where):
    one, other = drivers
    one.call("open")
    other.call("make").call("open")
    one.call("close", stop="create_run")
    one.until("create_run").until("create_run")
    other.call("close", stop="create_run")
    one.until("set_terminated")
    other.until("log_batch")
    one.until(END)
    other.until(END)
    check_one_of_each(where)


def test_one_opens_while_the_other_ends(drivers, where):
    one, other = drivers
    one.call("open")
    other.call("make").call("open", stop="update_run")
    one.call("close")
    other.until(END)
    one.until(END)
    other.call("close")
    check_one_of_each(where)


def test_both_make_the_parent_at_once(plan, where):
    one, other = Stepped(plan, where), Stepped(plan, where)
    one.call("begin", stop="create_run")
    other.call("begin", stop="create_run")
    one.until(END)
    other.until(END)
    one.call("close")
    other.call("close")
    one.kill()
    other.kill()
    check_one_of_each(where)
