"""What fits on a cluster, and how many trials run at once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from raxalign.errors import ResourceError
from raxalign.sweep import cluster
from raxalign.sweep.cluster import DRIVER, check_fits, concurrency, node_resources
from raxalign.sweep.job import Job

HEAD = {"CPU": 8.0, DRIVER: 1000.0}
GPUS = {"CPU": 16.0, "GPU": 4.0}


def test_trials_at_once_are_what_the_nodes_hold_together() -> None:
    assert concurrency(Job("", "", threads=2), [HEAD, GPUS], training=False) == 12
    assert concurrency(Job("", "", threads=3, gpus=1), [HEAD, GPUS], training=False) == 4
    assert concurrency(Job("", "", workers=2, threads=3, gpus=1), [HEAD, GPUS], training=True) == 2
    assert concurrency(Job("", "", threads=2, at_once=5), [HEAD], training=False) == 4
    assert concurrency(Job("", "", threads=2, at_once=3), [HEAD], training=False) == 3


def test_a_gpu_can_be_shared_by_fractions() -> None:
    assert concurrency(Job("", "", gpus=0.1), [GPUS], training=False) == 16
    assert concurrency(Job("", "", gpus=0.5), [GPUS], training=False) == 8


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (Job("", "", threads=17), "asks for 17 CPU, and no node has more than 16"),
        (Job("", "", gpus=5), "asks for 5 GPU, and no node has more than 4"),
        (Job("", "", workers=30), "30 workers .* room for 24"),
    ],
)
def test_what_no_node_can_give_is_refused_by_its_name(job: Job, message: str) -> None:
    with pytest.raises(ResourceError, match=message):
        check_fits(job, [HEAD, GPUS], training=True)


def test_resources_must_be_on_one_node() -> None:
    with pytest.raises(ResourceError, match="no node has both"):
        check_fits(Job("", "", threads=8, gpus=1), [HEAD, {"CPU": 2, "GPU": 4}], training=False)


def test_groups_need_a_node_for_their_drivers_and_inline_trials_do_not() -> None:
    check_fits(Job("", "", workers=2), [GPUS], training=False)
    with pytest.raises(ResourceError, match="trial_driver"):
        check_fits(Job("", "", workers=2), [GPUS], training=True)
    check_fits(Job("", "", workers=2), [HEAD, GPUS], training=True)


def test_nodes_that_a_cluster_may_still_start_count(tmp_path, monkeypatch) -> None:
    head = {**HEAD, "node:__internal_head__": 1.0}
    nodes = [{"Alive": True, "Resources": head}, {"Alive": False, "Resources": GPUS}]
    monkeypatch.setattr(cluster.ray, "nodes", lambda: nodes)
    kinds = {"head": {"resources": HEAD}, "gpu": {"resources": GPUS, "max_workers": 9}}
    config = {"available_node_types": kinds, "head_node_type": "head", "max_workers": 3}
    monkeypatch.setattr(cluster, "BOOTSTRAP", tmp_path / "absent")
    assert node_resources("auto") == [head]
    monkeypatch.setattr(cluster, "BOOTSTRAP", tmp_path / "config")
    (tmp_path / "config").write_text(json.dumps(config))
    assert node_resources("auto") == [head, GPUS, GPUS, GPUS]
    assert node_resources(None) == [head]


def test_a_local_cluster_has_a_token_that_only_its_user_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cluster, "Config", SimpleNamespace(initialize=lambda _: None))
    cluster.require_token()
    file = tmp_path / ".ray" / "auth_token"
    token = file.read_text()
    assert len(token) == 64
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    monkeypatch.delenv("RAY_AUTH_MODE")
    cluster.require_token()
    assert (file.read_text(), file.stat().st_mode & 0o777) == (token, 0o600)
    assert os.environ["RAY_AUTH_MODE"] == "token"


def test_who_turns_the_token_off_is_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    cluster.require_token()
    assert not (tmp_path / ".ray").exists()
