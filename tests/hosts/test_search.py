"""A search on three hosts, of which one loses its power in the middle."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from raxalign.plan.study import Study
from raxalign.plan.tried import StudyRecord, read_record
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from tests.e2e.runs import LIMIT, Site, kill_all, tracked
from tests.hosts.namespaces import Hosts, hosts_up, missing
from tests.searches import search_grid
from tests.soak.rounds import WATCH

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(reason := missing()), reason=reason or "-"),
]
HEAD, LOST, PORT = 1, 3, 6379
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
    kind = ["--head", f"--port={PORT}"] if number == HEAD else [f"--address={head()}"]
    options = [f"--node-ip-address={hosts.address(number)}", "--num-cpus=2"]
    options += ["--object-store-memory=100000000"]
    options += ["--include-dashboard=false"] if number == HEAD else []
    done = hosts.run(number, "ray", "start", *kind, *options, **environment)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def head() -> str:
    return f"{Hosts.address(HEAD)}:{PORT}"


def trains(hosts: Hosts, number: int) -> bool:
    """Return whether an actor of a host is at work on a trial."""
    lines = hosts.processes(number).values()
    return any(line.startswith("ray::ImplicitFunc") and ".train" in line for line in lines)


def eventually(found: Callable[[], object], alive: Callable[[], object], what: str) -> None:
    end = time.monotonic() + LIMIT
    while not found():
        assert alive(), f"the driver ended before: {what}"
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.2)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    path = search_grid(
        tmp_path, "", methods=(FINETUNE,), tasks=("retrieval: {}",), more=SEARCH, size=300
    )
    return Site(path, tmp_path / "storage")


def test_a_search_outlives_a_host_and_makes_each_trial_once(site: Site, tmp_path: Path) -> None:
    log, own = tmp_path / "begun.jsonl", tmp_path / "hosts"
    own.mkdir()
    paths = [str(WATCH), *filter(None, [os.environ.get("PYTHONPATH")])]
    told = {"PYTHONPATH": os.pathsep.join(paths), "RAXALIGN_SOAK_LOG": str(log)}
    told |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    study = site.plan.studies[0]
    with hosts_up(own) as hosts:
        for number in (1, 2, 3):
            join(hosts, number, **told)
        driver = hosts.popen(
            HEAD,
            *site.command("grid", "--address", head()),
            **{**told, "RAXALIGN_STORAGE": str(site.storage)},
        )
        try:
            eventually(
                lambda: len(record(site, study).done) >= 2 and trains(hosts, LOST),
                lambda: driver.poll() is None,
                "two trials are done and the host that will be lost has one",
            )
            hosts.kill(LOST)
            _, said = driver.communicate(timeout=2 * LIMIT)
        finally:
            with suppress(ProcessLookupError):
                kill_all(driver)
    assert driver.returncode == 0, said
    check(site, study, log, said)


def record(site: Site, study: Study) -> StudyRecord:
    return read_record(Storage(str(site.storage)), study)


def again(log: Path, ledger: Ledger) -> list[str]:
    """Return the evaluations that began after they had been finished."""
    begun = [json.loads(line) for line in log.read_text().splitlines()]
    made = ledger.read_many([line["key"] for line in begun])
    return [line["key"] for line in begun if line["begun"] > made[line["key"]]["created"] + 1]


def check(site: Site, study: Study, log: Path, said: str) -> None:
    """Nothing is missing, nothing was made twice, and nothing runs."""
    found, plan = record(site, study), site.plan
    assert [entry.state for entry in found.tried] == ["done"] * TRIALS, said
    assert len({str(entry.values) for entry in found.tried}) == TRIALS
    assert found.finished
    assert len(plan.trials) == TRIALS + FRESH
    keys = {key for trial in plan.trials for key in trial.evaluations.values()}
    assert Ledger(str(site.storage)).keys() == keys
    assert again(log, site.ledger) == []
    runs = tracked(f"sqlite:///{site.storage}/mlflow.db", plan.name)
    assert {str(run["status"]) for run in runs} == {"FINISHED"}
