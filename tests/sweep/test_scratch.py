"""Ray's own files: apart from results, and gone afterwards."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from raxalign.store.alive import maker_name
from raxalign.sweep.cluster import remove_scratch, scratch_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def ended_process() -> str:
    """The name of a process that has ended."""
    code = "from raxalign.store.alive import maker_name; print(maker_name())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_on_one_machine_it_is_a_temporary_folder_that_names_its_process(temporary) -> None:
    place = Path(scratch_folder("s3://bucket", None))
    assert place.is_dir()
    assert place.parent == temporary
    assert place.name.startswith(f"raxalign-ray-{maker_name()}-")


def test_on_a_cluster_it_is_in_the_storage_which_all_nodes_see() -> None:
    place = scratch_folder("s3://bucket/x", "auto")
    assert place.startswith("s3://bucket/x/ray/")
    assert place.endswith(f"/{maker_name()}")


def test_what_dead_processes_left_is_removed_and_a_living_ones_folder_is_kept(temporary) -> None:
    left = temporary / f"raxalign-ray-{ended_process()}-abc"
    left.mkdir()
    other = temporary / f"raxalign-ray-{maker_name()}-abc"
    other.mkdir()
    strange = temporary / "raxalign-ray-notes"
    strange.mkdir()
    scratch_folder("root", None)
    assert (left.exists(), other.exists(), strange.exists()) == (False, True, True)


def test_it_is_removed_with_what_is_in_it_and_once_more_without_harm(temporary) -> None:
    place = scratch_folder("root", None)
    (Path(place) / "trial" / "deep").mkdir(parents=True)
    remove_scratch(place)
    assert not Path(place).exists()
    remove_scratch(place)
