"""What machines are asked: whether they have the driver's storage, and whether the process that
holds a lock lives.
"""

from __future__ import annotations

import pytest
import ray

from raxalign.errors import StorageError
from raxalign.store.lease import EXPIRY, Holder
from raxalign.sweep import machines
from raxalign.sweep.machines import GONE, check_shared, patience

HOLDER = Holder("rax2", "0badcafe-7-1")


def node(identity: str, *, host: str = "rax2", alive: bool = True) -> dict[str, object]:
    return {"NodeID": identity, "NodeManagerHostname": host, "Alive": alive}


@pytest.mark.parametrize(
    ("nodes", "answers", "expected"),
    [
        pytest.param([node("a", host="rax1")], [], EXPIRY, id="a host outside of the cluster"),
        pytest.param([node("a", alive=False)], [], 0.0, id="a host that has left"),
        pytest.param(
            [node("a", alive=False), node("b")], [None], 0.0, id="a host that left and came back"
        ),
        pytest.param([node("a")], [True], EXPIRY, id="alive"),
        pytest.param([node("a")], [False], 0.0, id="dead"),
        pytest.param([node("a")], [None], GONE, id="a process that its host does not know"),
        pytest.param([node("a"), node("b")], [None, True], EXPIRY, id="one of two containers"),
        pytest.param([node("a"), node("b")], [None, False], 0.0, id="dead in one of two"),
        pytest.param([node("a"), node("b")], [None], EXPIRY, id="one does not answer"),
        pytest.param([node("a")], [ray.exceptions.RayError()], EXPIRY, id="it cannot be asked"),
    ],
)
def test_a_holder_is_waited_for_as_long_as_its_machine_demands(
    nodes, answers, expected, monkeypatch
):
    def ask(remote: object, living: list[str], holder: Holder, seconds: float) -> dict[str, object]:
        assert living == [n["NodeID"] for n in nodes if n["Alive"] and n != node("a", host="rax1")]
        return dict(zip(living, answers, strict=False))

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    monkeypatch.setattr(machines, "ask", ask)
    assert patience(HOLDER) == expected


def test_without_a_cluster_nobody_is_asked():
    assert patience(HOLDER) == EXPIRY


def test_the_message_names_each_machine_with_what_it_found_and_what_to_do(job, monkeypatch):
    found = {"n1": "does not see it", "n2": "cannot write", "n3": "has left"}
    listed = [
        {**node(key, host=name), "NodeManagerAddress": address}
        for key, name, address in (("n1", "b", "10.0.0.2"), ("n2", "a", "a"), ("n3", "c", "c"))
    ]
    living = iter([listed, listed[:2]])
    monkeypatch.setattr(ray, "nodes", lambda: next(living))
    monkeypatch.setattr(machines, "ask", lambda remote, nodes, sign: found)
    with pytest.raises(StorageError) as raised:
        check_shared(job)
    assert str(raised.value) == (
        f"{job.storage}: not every machine of the cluster has this storage: a cannot write; b"
        " (10.0.0.2) does not see it. Mount one shared file system at that path on all of them, or"
        " give an object store (--storage s3://...)"
    )
