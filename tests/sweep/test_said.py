"""What plug-ins print and log on workers reaches the screen, after the name of the step."""

from __future__ import annotations

import io
import logging
import queue
from pathlib import Path

import pytest
from rich.console import Console

from raxalign.plan.load import open_grid
from raxalign.store.storage import Storage
from raxalign.sweep import said
from raxalign.sweep.job import Job, write_plan
from raxalign.sweep.messages import SAID, Notices, leave_notice
from raxalign.sweep.progress import Progress
from raxalign.sweep.room import Room
from raxalign.sweep.running import Sweep
from raxalign.sweep.said import Lines, passed_on
from raxalign.sweep.source import Whole
from raxalign.sweep.trial import attempt
from tests.toys.pages import write_page


def test_lines_are_gathered_and_the_last_one_is_passed_on_at_the_end() -> None:
    heard: list[str] = []
    lines = Lines(heard.append)
    print("one\ntwo", file=lines)
    print("50 %\r100 %\nhal", end="", file=lines)
    assert heard == []
    lines.end()
    assert heard == ["one\ntwo\n100 %\nhal"]
    lines.end()
    assert len(heard) == 1


def test_lines_come_while_the_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(said, "EVERY", 0.01)
    heard: queue.Queue[str] = queue.Queue()
    print("one", file=Lines(heard.put))
    assert heard.get(timeout=60) == "one"


def test_what_others_log_is_left_out_and_logging_is_as_before_afterwards(tmp_path: Path) -> None:
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    with passed_on(str(tmp_path), "key"):
        logging.getLogger("some.library").warning("of a library")
        print("printed")  # noqa: T201
    assert Notices(str(tmp_path), SAID).new(last=True) == [("key", "printed")]
    assert (root.level, list(root.handlers)) == before


SPEAKS = """
    def align(self, encoder, inputs, runtime):
        print("strength", self.params.strength)
        logging.getLogger(__name__).info("as information")
        logging.warning("as a warning")
        if self.params.strength == 1:
            raise ValueError("odd")
"""


def test_a_plug_in_is_heard_on_a_worker_also_when_it_fails(tmp_path: Path) -> None:
    path = write_page(tmp_path)
    file = tmp_path / "my_method.py"
    before = "    def align(self, encoder, inputs, runtime):\n"
    file.write_text("import logging\n" + file.read_text().replace(before, SPEAKS.lstrip("\n")))
    plan, root = open_grid(path, storage=str(tmp_path / "storage")).plan, str(tmp_path / "storage")
    job = Job(Storage(root), write_plan(plan, Storage(root)), scratch=str(tmp_path / "scratch"))
    trials = {trial.params.get("strength"): trial for trial in plan.trials}
    assert attempt(job, trials[0.5].key) is None
    assert "odd" in str(attempt(job, trials[1.0].key))
    found = {key: text.splitlines() for key, text in Notices(job.scratch, SAID).new(last=True)}
    for strength in (0.5, 1.0):
        wanted = [f"strength {strength}", "INFO as information", "WARNING as a warning"]
        assert found[trials[strength].key][:3] == wanted


def test_a_sweep_shows_what_was_said_also_of_a_step_that_has_ended(plan, job, tmp_path) -> None:
    screen = io.StringIO()
    progress = Progress(job.storage.ledger, Console(file=screen, width=200))
    sweep = Sweep(Whole(plan), job, progress, lambda: Room(job, [{"CPU": 2.0}]))
    sweep.ask()
    step = sweep.take()
    sweep.started(step)
    sweep.ended(step, None, seconds=1.0)
    leave_notice(job.scratch, step["stage"], "one\ntwo", folder=SAID)
    leave_notice(job.scratch, "of another sweep", "three", folder=SAID)
    sweep.pass_on(last=True)
    shown = screen.getvalue().splitlines()[-2:]
    assert shown == ["bitext phrasebook de 100 | one", "bitext phrasebook de 100 | two"]
