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

from tests.e2e.runs import Site, kill_all, ray_workers, read_until, wait_for
from tests.grids import write_grid
from tests.test_tracking import free_port, server

pytestmark = pytest.mark.slow


@pytest.fixture
def site(finished, tmp_path):
    """A copy of the finished grid that lacks a training."""
    site = finished.copy(tmp_path)
    site.forget("finetune", "de")
    return site


def check(site, finished, uri=""):
    """Results and tracking are those of a grid that nothing disturbed."""
    assert site.results() == finished.expected
    site.check_tracking(uri)


def test_a_killed_grid_goes_on_from_its_checkpoint_repeats_nothing_and_mends_what_is_damaged(
    finished, site, tmp_path
):
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
    assert "was set aside" in site.run().stderr
    assert list((site.storage / "damaged").iterdir())
    assert {key: when for key, when in site.entries().items() if key in kept} == kept
    later = set((site.storage / "spool").glob("*/*.json")) - before
    assert last_start(later) > last_start((tmp_path / "old-spool").glob("*/*.json"))
    check(site, finished)


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


def test_a_killed_worker_is_replaced(finished, site):
    with site.running() as process:
        wait_for(site.checkpoints, process)
        workers = ray_workers(process, "ImplicitFunc")
        assert workers
        os.kill(workers[0], signal.SIGKILL)
        _, said = process.communicate()
    assert process.returncode == 0, said
    assert "1 done, 0 failed" in said
    check(site, finished)


def test_an_interrupted_grid_ends_cleanly_and_goes_on(finished, site):
    with site.running() as process:
        wait_for(site.checkpoints, process)
        os.killpg(process.pid, signal.SIGINT)
        out, said = process.communicate()
    assert process.returncode == 130, said
    assert out == ""
    assert "Traceback" not in said
    assert "what is done is kept" in said
    assert "RUNNING" not in site.statuses()
    assert "KILLED" in site.statuses()
    site.run()
    check(site, finished)


def test_an_interruption_of_the_shared_work_ends_cleanly_and_a_second_one_at_once(tmp_path):
    site = Site(write_grid(tmp_path, size=300, sentences="[100]"), tmp_path / "storage")
    with site.running() as process:
        said = read_until(process.stderr, "[1/")
        os.killpg(process.pid, signal.SIGINT)
        said += read_until(process.stderr, "interrupted")
        os.killpg(process.pid, signal.SIGINT)
        said += process.communicate()[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said


def test_two_grids_on_one_storage_at_once_both_end_well(finished, tmp_path):
    site = finished.copy(tmp_path, tracking=False)
    site.forget("finetune")
    site.forget("rotation")
    with site.running() as one, site.running() as other:
        said = [process.communicate()[1] for process in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0], "\n".join(said)
    check(site, finished)


def test_more_gpus_than_there_are_is_refused_with_their_name(finished, tmp_path):
    grid = finished.with_run("gpus_per_worker: 64", tmp_path / "grid.yaml")
    site = Site(grid, tmp_path / "storage")
    assert "64 GPU" in site.run(code=2).stderr
    assert "RUNNING" not in site.statuses()


def with_dictionaries(folder: Path, french: bytes, address: str = "") -> Site:
    """A grid of two languages whose rotation reads a dictionary of each."""
    methods = ("none: {}", 'rotation: {supervision: dictionary, dictionary: "{lang}.txt"}')
    grid = write_grid(folder, size=300, sentences="[100]", methods=methods)
    (folder / "de.txt").write_text("haus house\nhund dog\n")
    (folder / "fr.txt").write_bytes(french)
    return Site(grid, folder / "storage", address)


def test_a_bad_file_is_refused_before_anything_starts(tmp_path):
    site = with_dictionaries(tmp_path, b"maison house\nch\xff\xfe dog\n")
    assert "fr.txt:2" in site.run(code=2).stderr
    assert not list(site.storage.rglob("manifest.json"))


def test_a_file_that_only_its_text_shows_to_be_useless_fails_its_own_trials_alone(
    tmp_path, ray_head
):
    site = with_dictionaries(tmp_path, b"zzz qqq\n", ray_head)
    said = site.run(code=1).stderr
    failures = [line for line in said.splitlines() if line.startswith("failed: ")]
    assert failures
    assert all("no word pairs for fr-en" in line for line in failures)
    rotated = {row["lang"] for row in site.results() if row["method"] == "rotation"}
    assert (rotated, {row["lang"] for row in site.results()}) == ({"de-en"}, {"de-en", "fr-en"})
    state = site.run(command="status").stdout
    assert f"{len(failures)} failed" in state
    assert "no word pairs for fr-en" in state


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)],
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
    done = Site(finished.grid, small_disk / "new").run(code=None)
    assert done.returncode in {1, 2}, done.stderr
    assert "the disk is full" in done.stderr
    shutil.rmtree(small_disk / "new")
    remount(small_disk, "size=60m")
    grid = finished.with_run("concurrency: 1", small_disk / "grid.yaml")
    site = Site(grid, finished.copy(small_disk).storage)
    site.forget("finetune")
    free = shutil.disk_usage(small_disk).free
    (small_disk / "filler").write_bytes(b"0" * (free - 300_000))
    said = site.run(code=1).stderr
    assert said.count("note: nothing more is started, since results could not be kept") == 1
    assert "0 done, 2 failed" in said
    assert "failed: 1 more trial: not started, since the storage failed" in said
    (small_disk / "filler").unlink()
    assert "2 done, 0 failed" in replace(site, address=finished.address).run().stderr
    check(site, finished)


def test_a_read_only_storage_is_refused(finished, small_disk):
    remount(small_disk, "ro")
    (line,) = Site(finished.grid, small_disk).run(code=2).stderr.splitlines()
    assert "read-only" in line


def test_a_tracking_server_that_goes_away_stops_nothing(finished, site, tmp_path):
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    down = site.run(MLFLOW_TRACKING_URI=address, command="sync", code=2)
    assert "raxalign sync" in down.stderr
    with ExitStack() as life:
        shutil.copy(finished.no_runs, tmp_path / "server.db")
        life.enter_context(server(tmp_path, port))
        with site.running(MLFLOW_TRACKING_URI=address) as process:
            wait_for(site.checkpoints, process)
            life.close()  # kills the server
            _, said = process.communicate()
    assert process.returncode == 0, said
    assert "warning: the tracking store at" in said
    assert "Traceback" not in said
    with server(tmp_path, port):
        site.run(MLFLOW_TRACKING_URI=address, command="sync")
        check(site, finished, address)
