"""What a grid does when it is killed, interrupted, or loses what it stands on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.runs import Site, kill_all, ray_workers, read_until, signal_group, tracked, wait_for
from tests.e2e.test_grid import check_ledger_and_tracking_agree, uri
from tests.grids import write_grid
from tests.test_tracking import free_port, server

pytestmark = pytest.mark.slow


def test_a_killed_grid_goes_on_from_its_last_checkpoint_and_repeats_nothing(finished, tmp_path):
    site = finished.copy(tmp_path)
    site.forget("finetune", "de")
    (site.storage / "spool").rename(tmp_path / "old-spool")
    # with one evaluation of the killed run in the ledger, and a training in the middle on the other
    # of two cores
    first = next(trial for trial in site.plan.trials if trial.method == "none")
    for key in first.evaluations.values():
        (site.storage / "ledger" / key).rename(tmp_path / key)
    with site.running() as process:
        read_until(process.stderr, "none")
        wait_for(lambda: list(site.storage.glob("checkpoints/*/*/step-*/state.json")), process)
        kill_all(process)
    assert {run["status"] for run in tracked(uri(site), "small")} & {"RUNNING"}
    kept, before = site.entries(), curves(site.storage / "spool")
    assert set(first.evaluations.values()) <= set(kept)
    done = site.run()
    assert done.returncode == 0, done.stderr
    assert {key: when for key, when in site.entries().items() if key in kept} == kept
    check_ledger_and_tracking_agree(site, uri(site))
    later = curves(site.storage / "spool") - before
    assert max(first_steps(later)) > max(first_steps(curves(tmp_path / "old-spool")))
    assert site.results() == finished.expected


def curves(folder: Path) -> set[Path]:
    """The files of curves in a spool."""
    return set(folder.glob("*/*.json"))


def first_steps(files: Iterable[Path]) -> list[int]:
    """The first step that some files of curves have, per trial."""
    steps: dict[str, list[int]] = defaultdict(list)
    for file in files:
        steps[file.parent.name] += [
            int(step) for _, _, step, _ in json.loads(file.read_text())["points"]
        ]
    return [min(found) for found in steps.values()]


def test_a_killed_worker_is_replaced(finished, tmp_path):
    site = finished.copy(tmp_path)
    site.forget("finetune")
    with site.running() as process:
        wait_for(lambda: list(site.storage.glob("checkpoints/*/*/step-*/state.json")), process)
        workers = ray_workers(process, "ImplicitFunc")
        assert workers
        os.kill(workers[0], signal.SIGKILL)
        _, said = process.communicate()
    assert process.returncode == 0, said
    assert "2 done, 0 failed" in said
    assert site.results() == finished.expected
    check_ledger_and_tracking_agree(site, uri(site))


def test_an_interrupted_grid_ends_cleanly_and_goes_on(finished, tmp_path):
    site = finished.copy(tmp_path)
    site.forget("finetune")
    with site.running() as process:
        wait_for(lambda: list(site.storage.glob("checkpoints/*/*/step-*/state.json")), process)
        signal_group(process, signal.SIGINT)
        out, said = process.communicate()
    assert process.returncode == 130, said
    assert out == ""
    assert "Traceback" not in said
    assert "what is done is kept" in said
    runs = tracked(uri(site), "small")
    assert "RUNNING" not in {run["status"] for run in runs}
    assert "KILLED" in {run["status"] for run in runs}
    done = site.run()
    assert done.returncode == 0, done.stderr
    assert site.results() == finished.expected
    check_ledger_and_tracking_agree(site, uri(site))


def test_an_interruption_of_the_shared_work_ends_cleanly_and_a_second_one_at_once(tmp_path):
    site = Site(write_grid(tmp_path, size=300, sentences="[100]"), tmp_path / "storage")
    with site.running() as process:
        said = read_until(process.stderr, "[1/")
        signal_group(process, signal.SIGINT)
        said += read_until(process.stderr, "interrupted")
        signal_group(process, signal.SIGINT)
        said += process.communicate()[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said


def test_a_flipped_byte_is_noticed_and_the_artifact_made_again(finished, tmp_path):
    site = finished.copy(tmp_path)
    site.forget("rotation")
    plan = site.plan
    pairs = [
        stage
        for stage in plan.stages.values()
        if stage.kind == "pairs" and stage.params["part"] == "training"
    ]
    folder = site.storage / "artifacts" / "pairs" / pairs[0].key[:2] / pairs[0].key
    file = next(folder.glob("data/*.arrow"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    done = site.run()
    assert done.returncode == 0, done.stderr
    assert "was set aside" in done.stderr
    assert list((site.storage / "damaged").iterdir())
    assert site.results() == finished.expected


def test_two_grids_on_one_storage_at_once_both_end_well(finished, tmp_path):
    site = finished.copy(tmp_path, tracking=False)
    site.forget("finetune")
    site.forget("rotation")
    with site.running() as one, site.running() as other:
        said = [process.communicate()[1] for process in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0], "\n".join(said)
    assert site.results() == finished.expected
    check_ledger_and_tracking_agree(site, uri(site))


def test_more_gpus_than_there_are_is_refused_with_their_name(finished, tmp_path):
    site = Site(with_run(finished, tmp_path, "gpus_per_worker: 64"), tmp_path / "storage")
    done = site.run()
    assert done.returncode == 2
    assert "64 GPU" in done.stderr
    assert "Traceback" not in done.stderr
    assert "RUNNING" not in {run["status"] for run in tracked(uri(site), "small")}


def with_run(finished: Site, folder: Path, settings: str) -> Path:
    """The same grid with a `run` section."""
    path = folder / "grid.yaml"
    path.write_text(finished.grid.read_text().replace("run: {", f"run: {{{settings}, "))
    return path


def with_dictionaries(folder: Path, french: bytes) -> Site:
    """A grid of two languages whose rotation reads a dictionary of each."""
    write_grid(
        folder,
        size=300,
        sentences="[100]",
        methods=("none: {}", 'rotation: {supervision: dictionary, dictionary: "{lang}.txt"}'),
    )
    (folder / "de.txt").write_text("haus house\nhund dog\n")
    (folder / "fr.txt").write_bytes(french)
    return Site(folder / "grid.yaml", folder / "storage")


def test_a_bad_file_is_refused_before_anything_starts(tmp_path):
    site = with_dictionaries(tmp_path, b"maison house\nch\xff\xfe dog\n")
    done = site.run()
    assert done.returncode == 2, done.stderr
    assert "fr.txt:2" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "storage").rglob("manifest.json"))


def test_a_file_that_only_its_text_shows_to_be_useless_fails_its_own_trials_alone(tmp_path):
    site = with_dictionaries(tmp_path, b"zzz qqq\n")
    done = site.run()
    assert done.returncode == 1, done.stderr
    failures = [line for line in done.stderr.splitlines() if line.startswith("failed: ")]
    assert failures
    assert all("no word pairs for fr-en" in line for line in failures)
    assert "Traceback" not in done.stderr
    rotated = {row["lang"] for row in site.results() if row["method"] == "rotation"}
    assert (rotated, {row["lang"] for row in site.results()}) == ({"de-en"}, {"de-en", "fr-en"})
    state = site.run(command="status")
    assert f"{len(failures)} failed" in state.stdout
    assert "no word pairs for fr-en" in state.stdout


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


def test_a_full_disk_is_told_once_and_the_grid_goes_on_when_there_is_room(finished, small_disk):
    site = Site(finished.grid, small_disk)
    done = site.run()
    assert done.returncode in {1, 2}, done.stderr
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)
    done = site.run()
    assert done.returncode == 0, done.stderr
    assert site.results() == finished.expected
    check_ledger_and_tracking_agree(site, uri(site))


def test_a_disk_that_fills_up_loses_one_training_and_no_other_is_started(finished, small_disk):
    subprocess.run(["mount", "-o", "remount,size=60m", str(small_disk)], check=True)
    site = Site(with_run(finished, small_disk, "concurrency: 1"), finished.copy(small_disk).storage)
    site.forget("finetune")
    free = shutil.disk_usage(small_disk).free
    (small_disk / "filler").write_bytes(b"0" * (free - 300_000))
    done = site.run()
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("note: nothing more is started, since results could not be kept") == 1
    assert "0 done, 2 failed" in done.stderr
    assert "failed: 1 more trial: not started, since the storage failed" in done.stderr
    assert "Traceback" not in done.stderr
    (small_disk / "filler").unlink()
    done = site.run()
    assert "2 done, 0 failed" in done.stderr
    assert site.results() == finished.expected


def test_a_read_only_storage_is_refused(finished, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    done = Site(finished.grid, small_disk).run()
    assert done.returncode == 2
    assert "read-only" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_tracking_server_that_goes_away_stops_nothing(finished, tmp_path):
    site = finished.copy(tmp_path)
    site.forget("finetune")
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    down = site.run(MLFLOW_TRACKING_URI=address, command="sync")
    assert down.returncode == 2
    assert "raxalign sync" in down.stderr
    with ExitStack() as life:
        shutil.copy(finished.no_runs, tmp_path / "server.db")
        life.enter_context(server(tmp_path, port))
        with site.running(MLFLOW_TRACKING_URI=address) as process:
            wait_for(lambda: list(site.storage.glob("checkpoints/*/*/step-*/state.json")), process)
            life.close()  # kills the server
            _, said = process.communicate()
    assert process.returncode == 0, said
    assert "warning: the tracking store at" in said
    assert "Traceback" not in said
    assert site.results() == finished.expected
    with server(tmp_path, port):
        brought = site.run(MLFLOW_TRACKING_URI=address, command="sync")
        assert brought.returncode == 0, brought.stderr
        check_ledger_and_tracking_agree(site, address)


def test_a_tracking_server_that_is_down_from_the_start_stops_nothing(finished, tmp_path):
    site = finished.copy(tmp_path)
    site.forget("rotation")
    address = f"http://127.0.0.1:{free_port()}"
    done = site.run(MLFLOW_TRACKING_URI=address)
    assert done.returncode == 0, done.stderr
    assert "run `raxalign sync`" in done.stderr
    assert "Traceback" not in done.stderr
    assert site.results() == finished.expected
    port = int(address.rpartition(":")[2])
    shutil.copy(finished.no_runs, tmp_path / "server.db")
    with server(tmp_path, port):
        assert site.run(MLFLOW_TRACKING_URI=address, command="sync").returncode == 0
        check_ledger_and_tracking_agree(site, address)
