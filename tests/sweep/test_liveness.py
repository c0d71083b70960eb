"""Locks of lost workers: their own machine knows that they are dead."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import ray

from raxalign.store.files import files_of
from raxalign.store.lease import EXPIRY, Holder
from raxalign.sweep import liveness
from raxalign.sweep.liveness import GONE, patience

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
    ],
)
def test_a_holder_is_waited_for_as_long_as_its_machine_demands(
    nodes, answers, expected, monkeypatch
) -> None:
    asked = []

    def ask(holder: Holder, living: list[str]) -> list[bool | None]:
        asked.extend(living)
        return answers

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    monkeypatch.setattr(liveness, "_ask", ask)
    assert patience(HOLDER) == expected
    assert len(asked) == len(answers), "only living machines of that name are asked"


def test_a_machine_that_does_not_answer_is_waited_for(monkeypatch) -> None:
    def ask(holder: Holder, living: list[str]) -> list[bool | None]:
        raise ray.exceptions.GetTimeoutError

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "nodes", lambda: [node("a")])
    monkeypatch.setattr(liveness, "_ask", ask)
    assert patience(HOLDER) == EXPIRY


def test_without_a_cluster_nobody_is_asked() -> None:
    assert patience(HOLDER) == EXPIRY


@pytest.mark.slow
def test_a_machine_answers_for_a_process_that_has_ended(tmp_path, local_ray) -> None:
    program = (
        "import sys; from raxalign.store.lease import lease\n"
        "with lease(sys.argv[1], 'x'): import os; os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    record = json.loads(files_of(str(tmp_path)).read("locks/x/1"))
    assert patience(Holder(record["host"], record["maker"])) == 0.0
