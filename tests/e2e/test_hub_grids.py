"""The grids of papers, made small: what they read comes over HTTP from a hub and an OPUS on this
machine under its own names, and a trial of each method runs on it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from raxalign.corpora.readers.hub import HubRows
from raxalign.encoders.models.hub import HubEncoder
from raxalign.grid.file import load
from raxalign.grid.load import open_grid, remotes
from raxalign.grid.plan import Plan
from raxalign.stages import Workshop
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime
from raxalign.values.results import rows
from tests.e2e.runs import Site
from tests.every import in_turn, one_of_each
from tests.hub_server import HubServer, serving
from tests.hub_sets import GATED, fill_for
from tests.small_grids import GRIDS, write_small

pytestmark = pytest.mark.slow

LOCAL = {"adaptive", "curve", "layers", "quickstart", "report-demo", "sets", "unseen"}
# all that read from outside, but for paper.yaml, which is run whole, and mteb.yaml, whose data its
# own library fetches
NAMES = sorted({path.stem for path in GRIDS.glob("*.yaml")} - LOCAL - {"paper", "mteb"})
CASES = in_turn(NAMES, NAMES.index("sib200"))


@pytest.fixture(scope="module")
def hub() -> Iterator[HubServer]:
    with serving() as server:
        fill_for(server, (load(GRIDS / f"{name}.yaml") for name in CASES))
        yield server


@pytest.mark.parametrize("name", CASES)
def test_a_grid_of_a_paper_is_planned_and_fetched_from_the_hub_and_then_runs_without_it(
    name, hub, tmp_path, monkeypatch
):
    hub.ask(tmp_path / "cache", monkeypatch)
    site = Site(write_small(name, tmp_path), tmp_path / "storage")
    found = remotes(load(site.grid))
    assert found
    names = {str(remote) for remote in found}
    assert refused(site) == {str(remote) for remote in found if named(remote) & GATED}
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert lines(site.look("doctor", "--online"), "ok") >= names
    told = site.look("fetch")
    assert {line.split()[2] for line in told.splitlines()[:-1]} == names
    hub.taken()
    assert f"{name}: " in site.look("plan")
    plan = site.plan
    assert plan.unresolved == ()
    part = run_part(site, plan)
    grid = load(site.grid)
    made = rows(part, Storage(site.root).ledger)
    assert {row["task"] for row in made} == {spec.name for spec in grid.tasks}
    assert {row["method"] for row in made} == {trial.method for trial in plan.trials}
    assert hub.taken() == []


def named(remote: object) -> set[str]:
    """The repository of what is on the hub."""
    if isinstance(remote, HubEncoder):
        return {remote.encoder}
    return {remote.dataset} if isinstance(remote, HubRows) else set()


def refused(site: Site) -> set[str]:
    """The names that cannot be had without a token."""
    opened = open_grid(site.grid, storage=site.root)
    return lines("\n".join(opened.answers(site.storage / "downloads")), "broken")


def lines(told: str, first: str) -> set[str]:
    """What is named by the lines of the doctor that begin with a word."""
    found = (line.split() for line in told.splitlines())
    return {parts[1].removesuffix(":") for parts in found if parts and parts[0] == first}


def run_part(site: Site, plan: Plan) -> Plan:
    """Run a trial of each method on each encoder, in this process."""
    part = one_of_each(plan)
    workshop = Workshop(part, Storage(site.root), Runtime())
    for trial in part.trials:
        workshop.run_trial(trial.key)
    return part
