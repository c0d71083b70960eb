"""The hosts that tests of clusters run on; e2e/test_ray_up.py shows that ssh reaches them."""

from __future__ import annotations

import pytest

from tests.e2e.runs import kill_all
from tests.hosts.cluster import eventually
from tests.hosts.namespaces import DESK, NEEDED, hosts_up

pytestmark = [pytest.mark.slow, NEEDED]
OPTIONS = ["-q", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    own = tmp_path_factory.mktemp("own")
    with hosts_up(tmp_path_factory.mktemp("hosts"), 2, private=[own]) as up:
        yield up


def ssh(hosts, number, command):
    target = ("-i", str(hosts.key), f"root@{hosts.address(number)}")
    return hosts.run(DESK, "ssh", *OPTIONS, *target, command)


def test_a_host_sees_its_own_processes_and_private_folders_alone(hosts):
    sleeper = hosts.popen(1, "sleep", "1000")
    (own,) = hosts.private
    hosts.run(1, "touch", str(own / "here"))
    eventually(lambda: "sleep 1000" in hosts.processes(1).values(), "the program has started")
    assert "sleep 1000" not in hosts.processes(2).values()
    assert "sleep 1000" not in hosts.run(2, "ps", "-eo", "args").stdout
    assert hosts.run(2, "ls", str(own)).stdout == ""
    assert not list(own.iterdir())
    kill_all(sleeper)
    sleeper.communicate()


def test_a_cut_host_answers_again_once_it_is_mended(hosts):
    ping = ("bash", "-c", f"timeout 1 bash -c '</dev/tcp/{hosts.address(2)}/22'")

    def answers():
        return hosts.run(1, *ping, timeout=10).returncode == 0

    eventually(answers, "the host answers")
    hosts.cut(2)
    assert not answers()
    hosts.mend(2)
    eventually(answers, "the host answers again")


def test_a_killed_host_takes_its_processes_along_and_can_be_booted_again(hosts):
    sleeper = hosts.popen(2, "sleep", "1000")
    hosts.kill(2)
    assert sleeper.wait(timeout=10) != 0
    sleeper.communicate()
    assert ssh(hosts, 2, "true").returncode != 0
    hosts.boot(2)
    done = ssh(hosts, 2, "hostname; echo ~")
    assert done.stdout.split() == ["rax2", str(hosts.home(2))], done.stderr
