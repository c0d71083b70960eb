"""A search on three hosts, of which one loses its power in the middle."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from raxalign.grid.study import Study, StudyRecord
from raxalign.store.storage import Storage
from tests.e2e.runs import LIMIT, Site, kill_all, wait_for
from tests.hosts.cluster import HEAD
from tests.hosts.namespaces import NEEDED, Hosts, hosts_up
from tests.searches import search_grid
from tests.soak import verdict

pytestmark = [pytest.mark.slow, NEEDED]
LOST = 3
ADDRESS = f"{Hosts.address(HEAD)}:6379"
TRIALS, FRESH, AT_ONCE = 10, 2, 4
FINETUNE = (
    "finetune: {lambda: {log_uniform: [0.01, 10]}, learning_rate: {log_uniform: [1.0e-5, 1.0e-3]},"
    " batch_size: 1, epochs: 6}"
)
SEARCH = f"""
search: {{metric: 'retrieval/{{lang}}-en/contextual_accuracy', trials: {TRIALS}, confirm: {FRESH}}}
run: {{concurrency: {AT_ONCE}, threads: 1, checkpoint_minutes: 0.01}}
"""


def join(hosts: Hosts, number: int, **environment: str) -> None:
    """Start Ray on a host, with room for two trials."""
    head = ("--head", "--port=6379", "--include-dashboard=false")
    kind = head if number == HEAD else (f"--address={ADDRESS}",)
    options = (f"--node-ip-address={hosts.address(number)}", "--num-cpus=2")
    memory = "--object-store-memory=100000000"
    done = hosts.run(number, "ray", "start", *kind, *options, memory, **environment)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def trains(hosts: Hosts, number: int) -> bool:
    """Return whether an actor of a host is at work on a trial."""
    lines = hosts.processes(number).values()
    return any(line.startswith("ray::ImplicitFunc") and ".train" in line for line in lines)


def test_a_search_outlives_a_host_and_makes_each_trial_once(tmp_path):
    grid = search_grid(
        tmp_path, "", methods=(FINETUNE,), tasks=("retrieval: {}",), more=SEARCH, size=300
    )
    site, log, own = Site(grid, tmp_path / "storage"), tmp_path / "begun.jsonl", tmp_path / "hosts"
    own.mkdir()
    told = {**verdict.watched(log), "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    study = site.plan.studies[0]
    with hosts_up(own) as hosts:
        for number in (1, 2, 3):
            join(hosts, number, **told)
        command = site.command("grid", "--address", ADDRESS)
        driver = hosts.popen(HEAD, *command, **told, RAXALIGN_STORAGE=str(site.storage))
        try:
            # two trials are done, and the host that will be lost has one
            wait_for(lambda: len(record(site, study).done) >= 2 and trains(hosts, LOST), driver)
            hosts.kill(LOST)
            _, said = driver.communicate(timeout=2 * LIMIT)
        finally:
            with suppress(ProcessLookupError):
                kill_all(driver)
    assert driver.returncode == 0, said
    check(site, study, log, said)


def record(site: Site, study: Study) -> StudyRecord:
    return study.record(Storage(str(site.storage)))


def check(site: Site, study: Study, log: Path, said: str) -> None:
    """Nothing is missing, nothing was made twice, and nothing runs."""
    found, plan = record(site, study), site.plan
    assert [entry.state for entry in found.tried] == ["done"] * TRIALS, said
    assert len({str(entry.values) for entry in found.tried}) == TRIALS
    assert found.finished
    assert len(plan.trials) == TRIALS + FRESH
    assert site.ledger.keys() == site.keys()
    assert verdict.repeated(verdict.begun(log), site.ledger.read_many(site.keys())) == []
    assert {str(run["status"]) for run in site.tracked()} == {"FINISHED"}
