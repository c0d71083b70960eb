"""A cluster of three hosts: from `ray up` to results, and a Slurm job on two of them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.grids import write_grid
from tests.hosts.cluster import HEAD, Cluster
from tests.hosts.namespaces import DESK, NEEDED, Hosts, hosts_up

ROOT = Path(__file__).parents[2]
LIMIT = 80.0  # seconds for what should take a few
METHODS = ("none: {}", "rotation: {center: [false, true]}")

pytestmark = [pytest.mark.slow, NEEDED]


@pytest.fixture
def site(tmp_path) -> Path:
    """A user's folder: a grid file, and a repository with a password in its configuration."""
    folder = tmp_path / "site"
    folder.mkdir()
    write_grid(folder, size=200, sentences="[50]", methods=METHODS)
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("url = https://me:secret@host/repository\n")
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return folder


@pytest.fixture
def hosts(tmp_path) -> Iterator[Hosts]:
    folder = tmp_path / "hosts"
    folder.mkdir()
    with hosts_up(folder) as up:
        yield up


def check_values(hosts: Hosts, storage: Path, grid: Path) -> None:
    """All six trials have results."""
    results = (sys.executable, "-m", "raxalign", "results", str(grid), "--format", "json")
    done = hosts.run(DESK, *results, RAXALIGN_STORAGE=str(storage))
    assert done.returncode == 0, done.stderr
    assert len({row["trial"] for row in json.loads(done.stdout)}) == 6


def test_local_yaml_makes_one_cluster_of_all_hosts_that_runs_a_grid_and_ends(hosts, site, tmp_path):
    storage = tmp_path / "storage"
    cluster = Cluster(hosts, tmp_path, site, storage)
    cluster.up()
    cluster.wait()
    for number in (1, 2, 3):
        home = hosts.home(number)
        assert (home / ".ray" / "auth_token").stat().st_mode & 0o777 == 0o600
        assert (home / "raxalign" / ".git" / "HEAD").exists()
        assert not (home / "raxalign" / ".git" / "config").exists()
    check_strangers_are_refused(hosts)
    printed = cluster.exec("cd ~/raxalign && raxalign grid grid.yaml --address auto")
    assert "6 done, 0 failed" in printed
    check_values(hosts, storage, site / "grid.yaml")
    cluster.down()
    assert not cluster.runs(HEAD, "gcs_server")


def check_strangers_are_refused(hosts: Hosts) -> None:
    """Who has no token is refused, on the desk as on a host."""
    program = "import ray; ray.init(address='10.77.0.1:6379', logging_level='ERROR'); print('in')"
    stranger = {"HOME": str(hosts.folder), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "guessed"}
    done = hosts.run(2, sys.executable, "-c", program, timeout=LIMIT, **stranger)
    assert done.returncode != 0
    assert "in" not in done.stdout.split()
    assert "token" in done.stderr.lower()


def test_the_slurm_job_runs_a_grid_on_all_its_nodes(hosts, site, tmp_path):
    storage = tmp_path / "storage"
    programs = tmp_path / "bin"
    programs.mkdir()
    ssh = "ssh -q -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    (programs / "srun").write_text(  # a task on the other node too, in the same environment
        "#!/usr/bin/env bash\nset -eu\nshift\n"
        f"{ssh} -i {hosts.key} root@{hosts.address(2)} "
        '"$(export -p | grep -v "declare -x HOME"); $(printf "%q " "$@")" > "$0.log" 2>&1 &\n'
        'result=0; "$@" || result=$?; wait; exit $result\n'
    )
    (programs / "srun").chmod(0o755)
    # the home that the nodes of a Slurm cluster share is that of host 1
    token = hosts.home(2) / ".ray"
    (hosts.home(1) / ".ray").mkdir()
    token.symlink_to(hosts.home(1) / ".ray")
    variables = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "1"}
    variables |= {"PATH": f"{programs}:{hosts.environment(1)['PATH']}"}
    variables |= {"RAXALIGN_STORAGE": str(storage)}
    command = ("bash", str(ROOT / "cluster" / "slurm.sbatch"), str(site / "grid.yaml"))
    done = hosts.run(1, *command, timeout=3 * LIMIT, **variables)
    said = f"{done.stdout}\n{done.stderr}\n{(programs / 'srun.log').read_text()}"
    assert done.returncode == 0, said
    assert "6 done, 0 failed" in done.stderr, said
    assert "On worker node. Connecting" in said
    check_values(hosts, storage, site / "grid.yaml")
    left = {line for number in (1, 2) for line in hosts.processes(number).values()}
    assert not any("raylet/raylet" in line for line in left), shlex.quote(said)
