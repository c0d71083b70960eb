"""cluster.yaml against Ray's own schema."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent


@pytest.fixture
def cluster():
    return YAML(typ="safe").load(ROOT / "cluster.yaml")


@pytest.mark.slow
def test_ray_accepts_the_cluster_file(cluster):
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(cluster))


@pytest.mark.slow
def test_ray_refuses_a_misspelt_key(cluster):
    from ray.autoscaler._private.util import prepare_config, validate_config

    cluster["setup_command"] = cluster.pop("setup_commands")
    with pytest.raises(Exception, match="setup_command"):
        validate_config(prepare_config(cluster))


def test_drivers_have_a_resource_that_no_worker_has(cluster):
    nodes = cluster["available_node_types"]
    assert nodes[cluster["head_node_type"]]["resources"]["trial_driver"] >= 100
    assert all(
        "trial_driver" not in node["resources"]
        for name, node in nodes.items()
        if name != cluster["head_node_type"]
    )


def test_the_token_travels_and_the_dashboard_stays_on_the_head(cluster):
    assert any(path.endswith(".ray/auth_token") for path in cluster["file_mounts"])
    assert any(
        "--dashboard-host=127.0.0.1" in command for command in cluster["head_start_ray_commands"]
    )
    assert all(
        "RAY_AUTH_MODE=token" in commands[-1]
        for commands in (cluster["head_start_ray_commands"], cluster["worker_start_ray_commands"])
    )
