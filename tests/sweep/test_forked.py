"""Workers that are forked from one process per machine: what they are for their actor, and who ends
with whom.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from raxalign.sweep.forked import Libraries
from tests.e2e.runs import LIMIT
from tests.ray_head import importable

LIBRARIES = """
from raxalign.catalog import FOLDERS, catalog
from raxalign.sweep.forked import Libraries

for folder in FOLDERS:
    dict(catalog(folder))
print(*Libraries.of_the_kinds_here({}).modules)
"""


class Cast:
    """The processes of a test that have a name in common."""

    def __init__(self, folder) -> None:
        self.name, self.folder, self.there = secrets.token_hex(8), folder, []

    def start(self, what: str, *modules: str) -> subprocess.Popen[str]:
        given = ", ".join(map(repr, (self.name, *modules)))
        process = subprocess.Popen(
            [sys.executable, "-c", f"from tests.sweep.actors import {what}; {what}({given})"],
            env={**os.environ, "PYTHONPATH": importable(), "PLACE": f"of {len(self.there)}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )
        self.there.append(process)
        return process


def do(process, what):
    """Hand a job over to an actor; return what it prints."""
    process.stdin.write(f"{what}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def pids(line):
    return [int(word) for word in line.split()[:3]]


@pytest.fixture
def cast(tmp_path) -> Iterator[Cast]:
    found = Cast(tmp_path)
    yield found
    for process in found.there:
        process.kill()
        process.communicate()


def ended(pid):
    """Wait until a process is gone."""
    with suppress(ProcessLookupError):
        assert select.select([os.pidfd_open(pid)], [], [], LIMIT)[0]


def test_a_worker_is_for_its_jobs_what_their_actor_would_be(cast, tmp_path):
    one, other = cast.start("actor"), cast.start("actor")
    worker, libraries, _ = pids(said := do(one, "go"))
    assert said.endswith(str(("of 0", str(tmp_path), 7)))
    assert worker != one.pid
    assert pids(do(one, "fail"))[0] == worker
    assert one.stdout.readline() == "ValueError: odd True\n"
    assert pids(do(one, "go"))[:2] == [worker, libraries]
    assert pids(said := do(other, "go"))[1] == libraries
    assert "of 1" in said


def test_an_actor_ends_with_its_worker_and_no_other_does(cast):
    one, other = cast.start("actor"), cast.start("actor")
    worker = pids(do(other, "go"))[0]
    do(one, "die")
    assert one.wait(LIMIT) == -signal.SIGKILL
    assert pids(do(other, "go"))[0] == worker


def test_nothing_is_left_of_an_actor_that_is_killed_and_was_the_last(cast):
    one = cast.start("actor")
    worker, libraries, started = pids(do(one, "hang"))
    one.kill()
    for pid in (worker, started, libraries):
        ended(pid)


def test_all_end_with_the_process_that_forked_them_and_the_next_actor_starts_another(cast):
    one, other, later = (cast.start("actor") for _ in range(3))
    worker, libraries, started = pids(do(one, "hang"))
    assert pids(do(other, "go"))[1] == libraries
    os.kill(libraries, signal.SIGKILL)
    for pid in (worker, started):
        ended(pid)
    assert one.wait(LIMIT) == -signal.SIGKILL
    with suppress(BrokenPipeError):  # its worker died before it had answered
        do(other, "go")
    assert other.wait(LIMIT) == -signal.SIGKILL
    assert pids(do(later, "go"))[1] not in (0, libraries)


def test_a_driver_keeps_the_process_between_actors_and_it_ends_with_a_killed_driver(cast):
    keeps, one, other = cast.start("driver"), cast.start("actor"), cast.start("actor")
    assert keeps.stdout.readline() == "kept\n"
    worker, libraries, _ = pids(do(one, "go"))
    one.kill()
    ended(worker)
    assert pids(do(other, "go"))[1] == libraries
    other.kill()
    keeps.kill()
    ended(libraries)


class _Importing(str):
    """The name of a module; while it is looked at, another thread imports something."""

    __slots__ = ()

    def startswith(self, *of):
        sys.modules[f"{self}-{len(sys.modules)}"] = sys
        return super().startswith(*of)


def test_what_another_thread_imports_meanwhile_disturbs_nobody(monkeypatch):
    """The tracker's imports MLflow while the sweep begins."""
    monkeypatch.setattr(sys, "modules", {**sys.modules, _Importing("slow"): sys})
    assert "raxalign.errors" in Libraries.of_the_kinds_here({}).modules


def test_the_code_of_no_kind_starts_a_thread(cast):
    """Else the workers of a grid that has the kind are not forked, and load all libraries."""
    modules = subprocess.run(
        [sys.executable, "-c", LIBRARIES], check=True, capture_output=True, text=True
    ).stdout.split()
    assert "raxalign.tasks.token_translation" in modules
    one = cast.start("actor", *modules)
    assert pids(do(one, "go"))[0] != one.pid


def test_a_library_that_starts_a_thread_is_never_forked(cast):
    one = cast.start("actor", "pyarrow")
    assert [pids(do(one, "go")) for _ in range(2)] == [[one.pid, 0, 0]] * 2
