"""Trials with several workers: Ray Train on the CPU."""

import os
import signal

import pytest

from raxalign.store.spool import Spool
from raxalign.store.storage import Storage
from tests.e2e.runs import Site, ray_workers, undisturbed, wait_for
from tests.grids import write_grid

pytestmark = pytest.mark.slow

HOLDING = '''
"""Retrieval that notes which cores are held while it evaluates."""

import json
import os

import ray
from ray.util.placement_group import placement_group_table

from raxalign.tasks import retrieval


class Holding(retrieval.Retrieval):
    """The same task."""

    VERSION = 1

    def evaluate(self, *given):
        """Note what all rooms of the cluster hold."""
        there = []
        if raylet := os.environ.get("RAY_RAYLET_PID"):  # of a worker, which is not Ray's
            with open(f"/proc/{raylet}/cmdline") as file:
                options = dict(word.partition("=")[::2] for word in file.read().split("\\0"))
            with ray.init(address=options["--gcs-address"], log_to_driver=False):
                rooms = placement_group_table().values()
            there = [r for r in rooms if r["state"] == "CREATED"]
        cores = sum(b.get("CPU", 0) for room in there for b in room["bundles"].values())
        with open(os.path.join(os.path.dirname(__file__), "held"), "a") as file:
            file.write(json.dumps(cores) + "\\n")
        return super().evaluate(*given)
'''


def curves(site):
    """The losses and the gradients of both parts, by name and step."""
    (trial,) = site.plan.trials
    points = Spool(Storage(site.root), trial.key, trial.parts).read()
    return {(name, step): value for name, value, step, _ in points if name.startswith("xnli/")}


def test_groups_whose_worker_and_controller_are_killed_end_with_the_results_of_one_worker(tmp_path):
    """Two workers train a method and a task in one, so that on two cores their driver must not take
    the place of one; one worker evaluates, and no more than its own core is held then.
    """
    sizes = "data: phrasebook, phrasebook: {train: 100, dev: 6, test: 6}, batch_size: 2, epochs: 6"
    joint = "with_task: {task: xnli}"
    (tmp_path / "holding.py").write_text(HOLDING)
    grid = write_grid(
        tmp_path,
        languages="{each: [de]}",
        size=300,
        sentences="[100]",
        methods=(f"finetune: {{lambda: 1.0, batch_size: 2, {joint}}}",),
        tasks=("holding: {}", f"xnli: {{{sizes}}}"),
        more="plugins: [holding.py]\n",
        run="workers: 2, checkpoint_minutes: 0.01",
    )
    alone = undisturbed(Site(grid, tmp_path / "alone"))
    site = alone.copy(tmp_path)
    site.forget("finetune")
    with site.running() as process:
        wait_for(site.checkpoints, process)
        workers = ray_workers(process, "RayTrainWorker")
        assert len(workers) == 2
        os.kill(workers[-1], signal.SIGKILL)
        before = set(site.checkpoints())
        wait_for(lambda: set(site.checkpoints()) - before, process)
        os.kill(ray_workers(process, "TrainController")[-1], signal.SIGKILL)
        _, said = process.communicate()
    assert process.returncode == 0, said
    assert said.count("its group of workers was lost") == 2
    assert "1 done, 0 failed" in said
    assert (tmp_path / "held").read_text() == "0\n1.0\n"
    for row, other in zip(site.results(), alone.results(), strict=True):
        assert {**row, "value": None} == {**other, "value": None}
        assert row["value"] == pytest.approx(other["value"], abs=1e-3), "another order of sums"
    assert len([name for name, _ in curves(alone) if name == "xnli/loss"]) == 100
    assert curves(site) == pytest.approx(curves(alone), rel=1e-5, abs=1e-5)
    site.check_tracking()
