"""cluster.yaml: what Ray's own launcher makes of it on a fake AWS, and what it costs at most."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.aws import SETTINGS

ROOT = Path(__file__).parent.parent
FILE = ROOT / "cluster.yaml"
HEAD = "head"
WORKERS = ("gpu_on_demand", "gpu_spot")


@pytest.fixture
def cluster() -> dict[str, Any]:
    return yaml.safe_load(FILE.read_text())  # as `ray up` reads it


@dataclass
class Launched:
    """A cluster that Ray's AWS provider has started on a fake EC2.

    Attributes:
        config: The cluster file after Ray's bootstrap.
        groups: The security groups that there are.
        own: The one that the user made.
        instances: Node type -> what EC2 knows of its node.
        calls: Names of the calls that the provider made of EC2 while it ran, as on the head.
    """

    config: dict[str, Any]
    groups: list[dict[str, Any]]
    own: str
    instances: dict[str, Any] = field(default_factory=dict)
    calls: set[str] = field(default_factory=set)


def prepared(config: dict[str, Any]) -> dict[str, Any]:
    """What `ray up` does with a file before it talks to a cloud."""
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(copy.deepcopy(config))
    validate_config(config)
    return config


@pytest.fixture(scope="module")
def group(aws: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The user's security group in a fake AWS: SSH from one address."""
    import boto3

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))  # Ray writes an SSH key there
        for name, value in {**SETTINGS, "AWS_ENDPOINT_URL": aws}.items():
            patch.setenv(name, value)
        ec2 = boto3.client("ec2", region_name="eu-central-1")
        made = ec2.create_security_group(GroupName="mine", Description="mine")["GroupId"]
        rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22}
        ec2.authorize_security_group_ingress(
            GroupId=made, IpPermissions=[{**rule, "IpRanges": [{"CidrIp": "192.0.2.1/32"}]}]
        )
        make_profile("raxalign-head", "raxalign-nodes", "raxalign-storage")
        make_profile("raxalign-worker", "raxalign-storage")
        yield made


def make_profile(name: str, *policies: str) -> None:
    """An instance profile as the file's comments ask for it; AWS checks the policies' grammar."""
    import boto3

    def document(*statements: dict[str, Any]) -> str:
        return json.dumps({"Version": "2012-10-17", "Statement": statements})

    iam = boto3.client("iam", region_name="eu-central-1")
    trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}}
    role = document({**trust, "Action": "sts:AssumeRole"})
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=role)
    for one in policies:
        given = document(*policy(one))
        iam.put_role_policy(RoleName=name, PolicyName=one, PolicyDocument=given)
    iam.create_instance_profile(InstanceProfileName=name)
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)


@pytest.fixture(scope="module")
def launched(group: str) -> Launched:
    """One node of each type, started the way Ray's launcher and autoscaler start them."""
    import boto3
    from ray.autoscaler._private.aws.config import bootstrap_aws
    from ray.autoscaler._private.aws.node_provider import AWSNodeProvider
    from ray.autoscaler.tags import TAG_RAY_NODE_KIND, TAG_RAY_USER_NODE_TYPE

    text = FILE.read_text().replace("sg-REPLACE", group)
    config = bootstrap_aws(prepared(yaml.safe_load(text)))
    ec2 = boto3.client("ec2", region_name=config["provider"]["region"])
    found = Launched(config, ec2.describe_security_groups()["SecurityGroups"], group)
    provider = AWSNodeProvider(config["provider"], config["cluster_name"])
    for resource in (provider.ec2, provider.ec2_fail_fast):
        resource.meta.client.meta.events.register(
            "before-call", lambda model, **_: found.calls.add(model.name)
        )
    for name, node in config["available_node_types"].items():
        kind = "head" if name == config["head_node_type"] else "worker"
        tags = {TAG_RAY_NODE_KIND: kind, TAG_RAY_USER_NODE_TYPE: name}
        (made,) = provider.create_node(node["node_config"], tags, 1)
        described = ec2.describe_instances(InstanceIds=[made])
        found.instances[name] = described["Reservations"][0]["Instances"][0]
    for node in provider.non_terminated_nodes({}):
        provider.set_node_tags(node, {"ray-node-status": "up-to-date"})
    provider.terminate_nodes(provider.non_terminated_nodes({TAG_RAY_NODE_KIND: "worker"}))
    return found


def policy(name: str) -> list[dict[str, Any]]:
    """The statements of a policy in the file's comments, as one pastes them."""
    found = re.search(
        rf"^#   policy {name}\n(.*?)^#   end$", FILE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found, name
    statements = json.loads(re.sub(r"^#", "", found[1], flags=re.MULTILINE))["Statement"]
    assert all(statement["Effect"] == "Allow" for statement in statements)
    return statements


def actions(statements: list[dict[str, Any]]) -> set[str]:
    given = [statement["Action"] for statement in statements]
    return {name for each in given for name in ([each] if isinstance(each, str) else each)}


def test_nodes_install_what_the_lock_names_and_results_can_name_their_commit(cluster):
    with (ROOT / "pyproject.toml").open("rb") as opened:
        extra = tomllib.load(opened)["project"]["optional-dependencies"]["aws"]
    names = {re.match(r"[\w\[\]-]+", one)[0] for one in extra}
    assert {"boto3", "ray[default]", "s3fs", "aiobotocore"} <= names, "Ray's provider imports them"
    lock, own = (command for command in cluster["setup_commands"] if "pip install" in command)
    assert "--require-hashes --requirement ~/raxalign/cluster/requirements.lock" in lock
    assert "--no-deps --no-build-isolation --editable ~/raxalign" in own
    assert cluster["file_mounts"]["/home/ubuntu/raxalign"] == "."
    assert ".git" not in cluster["rsync_exclude"]
    commands = cluster["head_start_ray_commands"]
    assert any("mlflow server --host 127.0.0.1" in command for command in commands)


@pytest.mark.slow
def test_ray_accepts_the_file_and_refuses_a_misspelt_key(cluster):
    assert prepared(cluster)["max_workers"] == 8
    cluster["setup_command"] = cluster.pop("setup_commands")
    with pytest.raises(Exception, match="setup_command"):
        prepared(cluster)


@pytest.mark.slow
def test_without_a_security_group_of_ones_own_nothing_is_started(group, cluster, capsys):
    import boto3
    from ray.autoscaler._private.aws.config import bootstrap_aws

    with pytest.raises(AssertionError):
        bootstrap_aws(prepared(cluster))
    assert "Failed to detect a security group" in "".join(capsys.readouterr())
    ec2 = boto3.client("ec2", region_name="eu-central-1")
    names = [group["GroupName"] for group in ec2.describe_security_groups()["SecurityGroups"]]
    assert sorted(names) == ["default", "mine"]  # none of Ray's, which is open to the world


@pytest.mark.slow
def test_nodes_start_from_images_with_a_python_that_raxalign_runs_on(launched):
    images = {name: node["ImageId"] for name, node in launched.instances.items()}
    prefix = "resolve:ssm:/aws/service/"
    assert set(images) == {HEAD, *WORKERS}
    assert images[HEAD].startswith(f"{prefix}canonical/ubuntu/server/24.04/")
    for name in WORKERS:  # with NVIDIA's driver
        assert images[name].startswith(f"{prefix}deeplearning/ami/x86_64/")
        assert "nvidia-driver-gpu-ubuntu-24.04" in images[name]
    assert any(">= (3, 11)" in command for command in launched.config["setup_commands"])


@pytest.mark.slow
def test_only_the_head_may_start_nodes_and_workers_cost_the_spot_price_first(launched):
    types = launched.config["available_node_types"]
    nodes = {name: kind["node_config"] for name, kind in types.items()}
    profiles = {name: node["IamInstanceProfile"]["Name"] for name, node in nodes.items()}
    assert profiles == {HEAD: "raxalign-head", **dict.fromkeys(WORKERS, "raxalign-worker")}
    assert launched.config["head_node"] == {}  # Ray made no profile of its own, with full access
    assert types["gpu_spot"]["priority"] > types["gpu_on_demand"].get("priority", 0)
    market = {name: node.get("InstanceMarketOptions") for name, node in nodes.items()}
    assert market == {HEAD: None, "gpu_on_demand": None, "gpu_spot": {"MarketType": "spot"}}
    assert {launched.instances[name]["InstanceType"] for name in WORKERS} == {"g6.2xlarge"}
    for name, node in launched.instances.items():
        tags = {tag["Key"]: tag["Value"] for tag in node["Tags"]}
        assert (tags["ray-cluster-name"], tags["project"]) == ("raxalign", "raxalign")
        assert tags["ray-user-node-type"] == name


@pytest.mark.slow
def test_nothing_is_open_to_the_world(launched):
    nodes = launched.instances.values()
    assert {group["GroupId"] for node in nodes for group in node["SecurityGroups"]} == {
        launched.own
    }, "none of Ray's own, which lets everybody reach SSH"
    (own,) = (one["IpPermissions"] for one in launched.groups if one["GroupId"] == launched.own)
    assert "0.0.0.0/0" not in json.dumps(own)
    assert not [one for one in launched.groups if one["GroupName"].startswith("ray-autoscaler")]
    for kind in launched.config["available_node_types"].values():
        assert kind["node_config"]["MetadataOptions"]["HttpTokens"] == "required"


@pytest.mark.slow
def test_the_heads_policy_allows_what_the_provider_calls_and_the_workers_only_the_bucket(launched):
    head, storage = policy("raxalign-nodes"), policy("raxalign-storage")
    assert {f"ec2:{name}" for name in launched.calls} <= actions(head)
    assert {"iam:PassRole", "ssm:GetParameters"} <= actions(head)
    assert not [name for name in actions(head + storage) if "*" in name]
    assert {name.split(":")[0] for name in actions(storage)} == {"s3"}
    buckets = {"arn:aws:s3:::BUCKET", "arn:aws:s3:::BUCKET/*"}
    assert {statement["Resource"] for statement in storage} == buckets


def test_the_heads_policy_names_what_the_file_starts(cluster):
    text = json.dumps(policy("raxalign-nodes"))
    assert f'"ec2:ResourceTag/ray-cluster-name": "{cluster["cluster_name"]}"' in text
    for name in WORKERS:
        node = cluster["available_node_types"][name]["node_config"]
        assert f'"ec2:InstanceType": "{node["InstanceType"]}"' in text
        assert f'role/{node["IamInstanceProfile"]["Name"]}"' in text


def test_the_caps_of_the_types_are_the_cap_of_all(cluster):
    types = cluster["available_node_types"]
    assert types[HEAD]["max_workers"] == 0
    assert sum(kind["max_workers"] for kind in types.values()) == cluster["max_workers"]
    assert not any(kind["min_workers"] for kind in types.values())  # idle, only the head is paid
    assert cluster["idle_timeout_minutes"] <= 10
    assert not cluster["provider"]["cache_stopped_nodes"]
    shutdown = types[HEAD]["node_config"]["InstanceInitiatedShutdownBehavior"]
    assert shutdown == "terminate"  # or `ray exec --stop` would leave a stopped head with its disk
