"""What a grid does when it is killed, interrupted, or loses what it stands on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.runs import Site, kill_all, ray_workers, read_until, undisturbed, wait_for
from tests.grids import write_grid
from tests.test_tracking import free_port, server

pytestmark = pytest.mark.slow


@pytest.fixture
def site(finished, tmp_path):
    """A copy of the finished grid that lacks a training."""
    site = finished.copy(tmp_path)
    site.forget("finetune")
    return site


def check(site, finished, uri=""):
    """Results and tracking are those of a grid that nothing disturbed."""
    assert site.results() == finished.expected
    site.check_tracking(uri)


def test_a_grid_that_is_killed_and_interrupted_goes_on_repeats_nothing_and_mends_what_is_damaged(
    finished, site, tmp_path
):
    """It goes on from its checkpoint, and at last with two workers in place of one, which changes
    nothing in a training with dropout.
    """
    grid = tmp_path / "grid.yaml"
    grid.write_text(site.grid.read_text().replace("concurrency: 1", "concurrency: 2"))
    site = replace(site, grid=grid)
    (site.storage / "spool").rename(tmp_path / "old-spool")
    # with one evaluation of the killed run in the ledger, and a training in the middle on the other
    # of two cores
    first = next(trial for trial in site.plan.trials if trial.method == "none")
    for key in first.evaluations.values():
        (site.storage / "ledger" / key).rename(tmp_path / key)
    with site.running() as process:
        read_until(process.stderr, "none")
        wait_for(site.checkpoints, process)
        kill_all(process)
    assert "RUNNING" in site.statuses()
    kept, before = site.entries(), set((site.storage / "spool").glob("*/*.json"))
    assert set(first.evaluations.values()) <= set(kept)
    flip_a_byte(site)
    interrupt_later(site)
    assert list((site.storage / "damaged").iterdir())
    said = site.run("--workers", "2").stderr
    assert "note: --workers 2: training runs with dropout use 1" in said
    assert "1 done, 0 failed" in said
    assert {key: when for key, when in site.entries().items() if key in kept} == kept
    later = set((site.storage / "spool").glob("*/*.json")) - before
    assert last_start(later) > last_start((tmp_path / "old-spool").glob("*/*.json"))
    check(site, finished)


def interrupt_later(site):
    """Run a grid until its training is further than it was, and end it with Ctrl-C."""
    before = set(site.checkpoints())
    with site.running() as process:
        wait_for(lambda: set(site.checkpoints()) - before, process)
        os.killpg(process.pid, signal.SIGINT)
        out, said = process.communicate()
    assert process.returncode == 130, said
    assert out == ""
    assert "was set aside" in said
    assert "Traceback" not in said
    assert "what is done is kept" in said
    assert "RUNNING" not in site.statuses()
    assert "KILLED" in site.statuses()


def flip_a_byte(site):
    """Damage the word pairs that a training reads."""
    key = next(
        stage.key
        for stage in site.plan.stages.values()
        if (stage.kind, stage.params.get("lang")) == ("pairs", "de")
        and stage.params["part"] == "training"
    )
    file = next(site.storage.glob(f"artifacts/pairs/*/{key}/data/*.arrow"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def last_start(files):
    """The latest step with which the curves of a trial begin."""
    steps = defaultdict[str, list[int]](list)
    for file in files:
        points = json.loads(file.read_text())["points"]
        steps[file.parent.name] += [int(step) for _, _, step, _ in points]
    return max(map(min, steps.values()))


def test_an_interruption_of_the_shared_work_ends_cleanly_and_a_second_one_at_once(
    tmp_path, ray_head
):
    grid = write_grid(tmp_path, size=300, sentences="[100]")
    with Site(grid, tmp_path / "storage", ray_head).running(joins=True) as process:
        said = read_until(process.stderr, "[1/")
        process.terminate()  # as Slurm and Kubernetes do it
        said += read_until(process.stderr, "interrupted")
        os.killpg(process.pid, signal.SIGINT)
        said += process.communicate()[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "SIGTERM received" not in said


def test_two_grids_on_one_storage_at_once_both_end_well(finished, tmp_path):
    site = finished.copy(tmp_path, tracking=False)
    site.forget("finetune")
    site.forget("rotation")
    with site.running(joins=True) as one, site.running(joins=True) as other:
        said = [process.communicate()[1] for process in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0], "\n".join(said)
    check(site, finished)


def test_a_bad_file_is_refused_before_anything_starts(tmp_path):
    methods = ('rotation: {supervision: dictionary, dictionary: "{lang}.txt"}',)
    grid = write_grid(tmp_path, languages="{each: [fr]}", methods=methods)
    (tmp_path / "fr.txt").write_bytes(b"maison house\nch\xff\xfe dog\n")
    site = Site(grid, tmp_path / "storage")
    assert "fr.txt:2" in site.look("grid", code=2)
    assert not list(site.storage.rglob("manifest.json"))


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"mounting a small disk was refused: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def remount(place: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(place)], check=True)


def test_a_full_disk_is_told_loses_one_training_at_most_and_is_gone_on_from(finished, small_disk):
    site = replace(finished.copy(small_disk), address="")
    site.forget("finetune")
    site.forget("rotation")
    free = shutil.disk_usage(small_disk).free
    (small_disk / "filler").write_bytes(b"0" * (free - 300_000))
    said = site.run(code=1).stderr
    assert "the disk is full" in said
    assert said.count("note: nothing more is started, since results could not be kept") == 1
    assert "failed: " in said
    assert "not started, since the storage failed" in said
    (small_disk / "filler").unlink()
    undisturbed(site)
    site.look("sync")
    check(site, finished)


def test_a_read_only_storage_is_refused(finished, small_disk):
    remount(small_disk, "ro")
    (line,) = Site(finished.grid, small_disk).look("grid", code=2).splitlines()
    assert "read-only" in line


def test_a_worker_that_is_killed_and_a_tracking_server_that_goes_away_stop_nothing(
    finished, site, tmp_path
):
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    shutil.copy(finished.no_runs, tmp_path / "server.db")
    with ExitStack() as life:
        life.enter_context(server(tmp_path, port))
        with site.running(MLFLOW_TRACKING_URI=address) as process:
            wait_for(site.checkpoints, process)
            life.close()  # kills the server
            workers = ray_workers(process, "ImplicitFunc")
            assert workers
            os.kill(workers[0], signal.SIGKILL)
            _, said = process.communicate()
    assert process.returncode == 0, said
    assert "1 done, 0 failed" in said
    assert "it is tried again, from its last checkpoint" in said
    assert "warning: the tracking store at" in said
    assert "raxalign sync" in said
    assert "Traceback" not in said
    with server(tmp_path, port):
        site.look("sync", MLFLOW_TRACKING_URI=address)
        check(site, finished, address)
