"""A whole grid on S3, as a user runs it, and the loss of a machine in mid-training."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from raxalign.grid.trial import Trial
from raxalign.store.disk import Files
from raxalign.store.files import files_of
from raxalign.store.spool import Spool
from raxalign.store.storage import Storage
from raxalign.tracking.client import Target
from tests.aws import BUCKET, SETTINGS, Proxy
from tests.e2e.runs import Site, kill_all, tracked, undisturbed, wait_for
from tests.grids import write_grid

pytestmark = pytest.mark.slow

METHODS = (
    "none: {}",
    "finetune: {lambda: 1.0, batch_size: 1, with_task: {task: xnli}}",
)
SIZES = "data: phrasebook, phrasebook: {train: 100, dev: 6, test: 6}, batch_size: 1, epochs: 6"
TASKS = ("retrieval: {}", f"xnli: {{{SIZES}}}")


class Remote(Site):
    """A grid on a bucket, and one machine with its cache."""

    @property
    def root(self) -> str:
        return f"s3://{BUCKET}/{self.storage.name}"

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        return {**super().environment(more), "RAXALIGN_STORAGE": self.root, **more}


@pytest.fixture
def site(aws, tmp_path, monkeypatch) -> Remote:
    """A small grid on S3; this process and those that it starts see the bucket."""
    for name, value in {**SETTINGS, "AWS_ENDPOINT_URL": aws}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "cache"))
    sizes = {"size": 300, "sentences": "[100]", "languages": "{each: [de]}"}
    grid = write_grid(tmp_path, **sizes, methods=METHODS, tasks=TASKS)
    return Remote(grid, tmp_path / tmp_path.name)


def joint_trial(site: Site) -> Trial:
    """The trial of a method and a task in one training."""
    return next(trial for trial in site.plan.trials if trial.joint)


def reported(files: Files, names: Iterable[str]) -> list[int]:
    """The steps of the losses that some files of curves have."""
    return [
        int(point[2])
        for name in names
        for point in json.loads(files.read(f"spool/{name}"))["points"]
        if str(point[0]).endswith("/loss")
    ]


def test_a_lost_machine_is_gone_on_from_elsewhere_and_every_command_reads_the_bucket(
    aws, site, tmp_path, monkeypatch
):
    """The training is one of a method and a task."""
    expected = undisturbed(Site(site.grid, tmp_path / "local"))
    files, trained = files_of(site.root), joint_trial(site)

    def curves() -> set[str]:
        return {name for name in files.names("spool") if name.startswith(trained.key)}

    def checkpoints() -> list[str]:
        kept = files.names("checkpoints")
        return [n for n in kept if n.startswith(trained.aligned) and "/index.json" in n]

    with site.running() as process:
        wait_for(checkpoints, process)
        kill_all(process)
    shutil.rmtree(tmp_path / "cache")
    before = curves()
    monkeypatch.setenv("RAXALIGN_CACHE", str(tmp_path / "another machine"))
    proxy = Proxy(aws)
    # every tenth request is refused, and of every 25th the answer is lost
    faults = itertools.cycle(
        [503 if n % 10 == 0 else -1 if n % 25 == 0 else None for n in range(1, 51)]
    )
    proxy.fault = lambda method, path: next(faults)
    done = site.run(AWS_ENDPOINT_URL=proxy.endpoint)
    proxy.close()
    assert "Traceback" not in done.stderr
    assert len(proxy.requests) > 100
    assert site.results() == expected.results()
    later = curves() - before
    steps, first_report = reported(files, later), min(reported(files, before), default=1)
    assert min(steps) > first_report, "the training went on from its checkpoint"
    assert files.names("checkpoints") == {}
    assert files.names("locks/training") == {}
    check_commands(site, tmp_path, monkeypatch)


def check_commands(site: Remote, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a third machine sees of the finished grid."""
    monkeypatch.setenv("RAXALIGN_CACHE", str(folder / "third"))
    for command, said in {
        "grid": "all 2 trials are done",
        "status": "2 of 2 trials done",
        "plan": "nothing is left to run",
        "sync": "2 trials of small",
        "gc": "0 bytes could be freed",
        "doctor": f"storage {site.root} can be written",
    }.items():
        done = site.run(command=command)
        assert said in done.stdout + done.stderr, command
    page = site.report("report.html")
    assert "</html>" in page
    found = tracked(Target.of(Storage(site.root)).uri, "small")
    kinds = Counter(str(dict(run["tags"])["raxalign.kind"]) for run in found)
    assert (kinds["grid"], kinds["trial"]) == (1, 2)
    assert {run["status"] for run in found} == {"FINISHED"}
    trained = joint_trial(site)
    export = [sys.executable, "-m", "raxalign", "export", trained.key, str(folder / "exported")]
    subprocess.run([*export, "--storage", site.root], check=True, env=site.environment({}))
    assert list((folder / "exported").glob("*.safetensors"))
    steps = [
        step
        for name, _, step, _ in Spool(Storage(site.root), trained.key, trained.parts).read()
        if "loss" in name
    ]
    assert len(steps) == len(set(steps))
    assert (min(steps), max(steps)) == (6, 600), "the curve is whole"
