"""Exported encoders in a real model registry."""

from __future__ import annotations

import shutil

import pytest

from raxalign.errors import RaxalignError
from raxalign.tracking.client import connect
from raxalign.tracking.models import register

pytestmark = pytest.mark.slow


def test_each_export_is_a_version_that_names_its_folder_and_the_run_of_its_trial(
    tmp_path, no_runs
) -> None:
    client = connect(f"sqlite:///{shutil.copy(no_runs, tmp_path)}")
    experiment = client.create_experiment("small")
    run = client.create_run(experiment, tags={"raxalign.trial_key": "t" * 64})
    folder = tmp_path / "encoder"
    folder.mkdir()
    first, second = (register(folder, "mine", "t" * 64, root=str(tmp_path)) for _ in range(2))
    assert (first, second) == ("1", "2")
    version = client.get_model_version("mine", "2")
    assert (version.source, version.run_id) == (str(folder), run.info.run_id)
    assert version.tags == {"raxalign.trial_key": "t" * 64}
    with pytest.raises(RaxalignError, match="has no run of this trial: `raxalign sync`"):
        register(folder, "mine", "u" * 64, root=str(tmp_path))
    assert len(client.search_model_versions("name = 'mine'")) == 2


def test_an_object_store_needs_a_server(tmp_path) -> None:
    with pytest.raises(RaxalignError, match="on a server"):
        register(tmp_path, "mine", "t", root="memory://x")
