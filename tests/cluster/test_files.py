"""The files of cluster/: their structure, the token, and what they promise about costs."""

from __future__ import annotations

import functools
import json
import operator
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "cluster"
SLURM = FOLDER / "slurm.sbatch"


@pytest.fixture
def local() -> dict[str, Any]:
    return launched_from("cluster/local.yaml")


def launched_from(name: str) -> dict[str, Any]:
    """A file as `ray up` reads it."""
    return yaml.safe_load((ROOT / name).read_text())


@pytest.fixture
def job() -> dict[str, Any]:
    account, job = yaml.safe_load_all((FOLDER / "rayjob.yaml").read_text())
    assert (account["kind"], account["metadata"]["name"]) == ("ServiceAccount", "raxalign")
    return job


@pytest.mark.slow
def test_ray_accepts_the_local_file_and_means_all_workers(local):
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(local)
    validate_config(config)
    (kind,) = config["available_node_types"].values()
    workers = len(local["provider"]["worker_ips"])
    assert (kind["min_workers"], kind["max_workers"], config["max_workers"]) == (workers,) * 3


def test_the_local_head_counts_its_workers_without_itself(local):
    """By Ray's first autoscaler: the second one starts one worker less. `ray up` exports the second
    one, so that the choice has to stand before the command.
    """
    assert "RAY_enable_autoscaler_v2=0 " in local["head_start_ray_commands"][-1]


def test_the_local_head_has_the_resource_of_drivers_and_no_worker_has(local):
    (head,), (worker,) = starts(local, "head"), starts(local, "worker")
    assert re.search(r"--resources='\{\"trial_driver\": \d{3,}\}'", head)
    assert "trial_driver" not in worker


@pytest.mark.parametrize(
    ("name", "home"), [("cluster.yaml", "/home/ubuntu"), ("cluster/local.yaml", "~")]
)
def test_the_token_travels_and_the_dashboard_stays_on_the_head(name, home):
    config = launched_from(name)
    assert config["file_mounts"][f"{home}/.ray/auth_token"] == "~/.ray/auth_token"
    for kind in ("head", "worker"):
        assert starts(config, kind)
        assert all("RAY_AUTH_MODE=token ray start" in one for one in starts(config, kind))
    assert "--dashboard-host=127.0.0.1" in starts(config, "head")[-1]
    assert any("chmod 600 ~/.ray/auth_token" in command for command in config["setup_commands"])


def test_drivers_on_aws_have_a_resource_that_no_worker_has():
    types = launched_from("cluster.yaml")["available_node_types"]
    assert types.pop("head")["resources"]["trial_driver"] >= 100
    assert all("trial_driver" not in node["resources"] for node in types.values())


def starts(config: dict[str, Any], kind: str) -> list[str]:
    return [one for one in config[f"{kind}_start_ray_commands"] if "ray start" in one]


@pytest.fixture
def kubernetes(job) -> dict[str, Any]:
    return job["spec"]["rayClusterSpec"]


def test_the_kubernetes_job_has_a_token_and_ends_with_its_cluster(job, kubernetes):
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    spec = job["spec"]
    assert spec["shutdownAfterJobFinishes"]
    assert 0 < spec["ttlSecondsAfterFinished"] <= 3600
    assert spec["activeDeadlineSeconds"] > 0
    assert spec["entrypoint"].startswith("raxalign grid /grid/grid.yaml ")
    assert kubernetes["authOptions"] == {"mode": "token"}
    pinned = re.search(r"^ray==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert kubernetes["rayVersion"] == pinned[1]  # KubeRay refuses a token without a version


def test_the_kubernetes_cluster_grows_from_nothing_to_its_cap(kubernetes):
    assert kubernetes["enableInTreeAutoscaling"]
    assert kubernetes["autoscalerOptions"]["version"] == "v2"
    (workers,) = kubernetes["workerGroupSpecs"]
    sizes = [workers[name] for name in ("replicas", "minReplicas", "maxReplicas")]
    assert sizes == [0, 0, 8]
    assert container(workers)["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert workers["template"]["spec"]["tolerations"]


def test_kubernetes_pods_share_image_storage_commit_and_grid_but_only_heads_drive(kubernetes):
    head, worker = kubernetes["headGroupSpec"], kubernetes["workerGroupSpecs"][0]
    # KubeRay takes a JSON text within a JSON text: it puts the value on a shell's command line
    given = json.loads(json.loads(head["rayStartParams"]["resources"]))
    assert given == {"trial_driver": 1000}
    assert "resources" not in worker["rayStartParams"]
    for name in ("image", "env", "volumeMounts"):
        assert container(head)[name] == container(worker)[name]
    names = {entry["name"] for entry in container(head)["env"]}
    assert {"RAXALIGN_STORAGE", "RAXALIGN_COMMIT"} <= names
    for group in (head, worker):
        pod = group["template"]["spec"]
        assert pod["serviceAccountName"] == "raxalign"
        assert pod["volumes"] == [{"name": "grid", "configMap": {"name": "raxalign-grid"}}]


def container(group: dict[str, Any]) -> dict[str, Any]:
    (found,) = group["template"]["spec"]["containers"]
    return found


def test_kueue_admits_the_job_by_its_label_and_with_a_number_of_workers_that_stays(job):
    """Kueue refuses an autoscaler within Ray, and a job whose cluster stays."""
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    assert kustomization["resources"] == ["rayjob.yaml"]
    (change,) = kustomization["patches"]
    target = {"kind": job["kind"], "name": job["metadata"]["name"]}
    assert change["target"] == target
    queued = patched(job, yaml.safe_load(change["patch"]))
    assert queued["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "QUEUE"}
    cluster = queued["spec"]["rayClusterSpec"]
    assert not cluster.keys() & {"enableInTreeAutoscaling", "autoscalerOptions"}
    assert queued["spec"]["shutdownAfterJobFinishes"]
    (workers,) = cluster["workerGroupSpecs"]
    assert workers["replicas"] == workers["minReplicas"] == workers["maxReplicas"] > 0


def patched(value: Any, steps: list[dict[str, Any]]) -> Any:
    """A value after steps of JSON Patch: those that kustomize would refuse raise here too."""
    for step in steps:
        *way, last = (int(n) if n.isdigit() else n for n in step["path"].split("/")[1:])
        place = functools.reduce(operator.getitem, way, value)
        assert (last in place) == (step["op"] != "add")
        if step["op"] == "remove":
            del place[last]
        else:
            place[last] = step["value"]
    return value


@pytest.fixture
def sky() -> dict[str, Any]:
    return yaml.safe_load((FOLDER / "skypilot.yaml").read_text())


def test_skypilot_takes_the_machine_the_versions_and_the_region_of_the_aws_cluster(sky):
    config = launched_from("cluster.yaml")
    node, asked = config["available_node_types"]["gpu_spot"], sky["resources"]
    assert asked["infra"] == f"aws/{config['provider']['region']}"
    assert node["node_config"]["InstanceType"] == "g6.2xlarge"  # 8 CPUs, 32 GiB, one NVIDIA L4
    assert (asked["accelerators"], asked["cpus"], asked["memory"]) == ("L4:1", "8+", "32+")
    assert node["resources"] == {"CPU": 8, "GPU": 1}
    (disk,) = node["node_config"]["BlockDeviceMappings"]
    assert asked["disk_size"] == disk["Ebs"]["VolumeSize"]
    assert node["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert asked["use_spot"]
    for flag in ("--require-hashes --requirement", "--no-deps --no-build-isolation --editable"):
        assert flag in sky["setup"]
        assert any(flag in command for command in config["setup_commands"])


@pytest.mark.parametrize(("shard", "more"), [("", []), ("2/4", ["--shard", "2/4"])])
def test_skypilot_runs_a_grid_or_a_part_of_it_and_asks_for_what_it_cannot_know(
    sky, shard, more, tmp_path
):
    given = {"GRID": "grids/a grid.yaml", "SHARD": shard}
    unknown = {name for name, value in sky["envs"].items() if value is None}
    assert unknown == {"GRID", "RAXALIGN_STORAGE", "RAXALIGN_COMMIT"}
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    program = tmp_path / "venv" / "bin" / "raxalign"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", **given}
    command = ["bash", "-c", sky["run"]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["grid", given["GRID"], *more]
    subprocess.run(["bash", "-n", "-c", sky["setup"]], check=True)


def test_the_slurm_script_is_valid_bash_and_asks_for_whole_nodes_with_one_task_each():
    subprocess.run(["bash", "-n", str(SLURM)], check=True)
    asked = re.findall(r"^#SBATCH (--\S+)", SLURM.read_text(), re.MULTILINE)
    assert {"--exclusive", "--ntasks-per-node=1", "--requeue"} <= set(asked)
    assert any(option.startswith("--time=") for option in asked)


def test_the_slurm_script_calls_symmetric_run_as_ray_takes_it(tmp_path):
    """With fakes of srun and ray that write down how they were called."""
    for name, program in {
        "srun": 'shift; exec "$@"',
        "ray": 'printf "%s\\n" "$RAY_AUTH_MODE" "$@" >> "$CALLS"; mkdir -p ~/.ray;'
        " [ $1 = get-auth-token ] && echo secret > ~/.ray/auth_token || true",
        "hostname": "echo 192.0.2.7 198.51.100.7",
    }.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{program}\n")
        (tmp_path / name).chmod(0o755)
    here = str(tmp_path)
    environment = {"PATH": f"{here}:/usr/bin:/bin", "HOME": here, "VENV": here}
    environment |= {"CALLS": f"{here}/calls", "SLURM_JOB_ID": "12345", "SLURM_JOB_NUM_NODES": "3"}
    environment |= {"SLURM_CPUS_ON_NODE": "8", "SLURM_GPUS_ON_NODE": "2"}
    subprocess.run(["bash", str(SLURM), "a grid.yaml"], env=environment, check=True)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[:3] == ["token", "get-auth-token", "--generate"]
    assert (tmp_path / ".ray" / "auth_token").stat().st_mode & 0o777 == 0o600
    mode, command, *arguments = calls[3:]
    assert (mode, command) == ("token", "symmetric-run")
    separator = arguments.index("--")
    address = "192.0.2.7:22345"
    command = ["raxalign", "grid", "a grid.yaml", "--address", address]
    assert arguments[separator + 1 :] == command
    own = arguments[:separator]
    assert own[:4] == ["--address", address, "--min-nodes", "3"]
    assert {"--num-cpus=8", "--num-gpus=2", '--resources={"trial_driver": 1000}'} <= set(own)


@pytest.mark.slow
def test_the_arguments_of_the_slurm_script_are_options_of_ray_start():
    from ray.scripts.scripts import start
    from ray.scripts.symmetric_run import curate_and_validate_ray_start_args

    _, _, command = SLURM.read_text().partition("exec srun")
    line = command.split("symmetric-run", 1)[1].split("-- raxalign")[0].replace("\\\n", " ")
    arguments = [word.split("=")[0] for word in line.split() if word.startswith("--")]
    assert set(arguments[:2]) == {"--address", "--min-nodes"}
    rest = arguments[2:]
    assert curate_and_validate_ray_start_args(["--address", "a:1", *rest]) == rest
    known = {option for parameter in start.params for option in parameter.opts}
    assert set(rest) <= known


@pytest.mark.parametrize(
    "name", ["cluster.yaml", "cluster/local.yaml", "cluster/rayjob.yaml", "cluster/slurm.sbatch"]
)
def test_a_machine_that_is_gone_is_known_to_be_within_20_seconds(name):
    """Ray asks each machine every `period`, and waits for `timeout`, until the answer was missing
    `threshold` times.
    """
    text = (ROOT / name).read_text()
    found = re.findall(r"RAY_health_check_([a-z]+_[a-z]+)(?:=|, value: \")(\d+)", text)
    asked = {key: int(value) for key, value in found}
    lasts = asked["period_ms"] + asked["timeout_ms"]
    assert asked["failure_threshold"] >= 3, "one lost answer is not a lost machine"
    assert asked["failure_threshold"] * lasts <= 20_000
