"""What workers tell the driver: it stops nothing, and is shown once."""

import io
import logging
from collections import defaultdict

from rich.console import Console

from raxalign.grid.load import open_grid
from raxalign.grid.stored import StoredPlans
from raxalign.store.storage import Storage
from raxalign.sweep import job as module
from raxalign.sweep.cluster import Room
from raxalign.sweep.job import Inbox, Job, Outbox, _Lines
from raxalign.sweep.order import Whole
from raxalign.sweep.progress import Progress, describe
from raxalign.sweep.running import Sweep
from raxalign.sweep.work import attempt
from tests.toys.pages import write_page


def begun(scratch, key):
    outbox = Outbox(str(scratch), key)
    outbox.begin()
    return outbox


def test_the_driver_reads_the_last_step_of_each_job(tmp_path, monkeypatch):
    monkeypatch.setattr(Job, "EVERY", 0.0)
    one, _ = begun(tmp_path, "one"), begun(tmp_path, "two")
    one.report({"encoder/loss": 3.0}, 10)
    one.report({"encoder/loss": 2.0}, 20)
    found = Inbox(str(tmp_path)).advances(["one", "two", "not begun"])
    steps = {key: (note.step, note.values) for key, note in found.items()}
    assert steps == {"one": (20, {"encoder/loss": 2.0}), "two": (0, {})}


def test_most_steps_write_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(Job, "EVERY", 1e9)
    begun(tmp_path, "one").report({"loss": 3.0}, 10)
    assert Inbox(str(tmp_path)).advances(["one"])["one"].step == 0


def test_a_group_waits_until_its_first_worker_begins_and_after_a_loss_anew(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    outbox, inbox, seen = Outbox(str(tmp_path), "one"), Inbox(str(tmp_path)), []
    for waiting in (True, False, True):
        clock[0] += 5.0
        outbox.begin(waiting=waiting)
        for _ in range(2):
            seen.append(inbox.advances(["one"])["one"])
            clock[0] += 2.0
    assert [(advance.waiting, advance.seconds) for advance in seen] == [
        (waiting, seconds) for waiting in (True, False, True) for seconds in (0.0, 2.0)
    ]


def test_each_line_is_read_once_and_in_order(tmp_path):
    found = Inbox(str(tmp_path))
    assert found.lines() == []
    Outbox(str(tmp_path), "b").hold_up("first")
    Outbox(str(tmp_path), "a").print("second: ü")
    assert found.lines() == [("b", "first", False), ("a", "second: ü", True)]
    Outbox(str(tmp_path), "b").hold_up("third")
    assert found.lines() == [("b", "third", False)]
    assert found.lines() == []


def test_what_cannot_be_written_or_read_stops_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    for scratch in (str(tmp_path / "file"), ""):
        outbox = begun(scratch, "a")
        outbox.report({}, 1)
        outbox.hold_up("lost")
        assert (Inbox(scratch).advances(["a"]), Inbox(scratch).lines()) == ({}, [])


def test_lines_are_gathered_and_the_last_one_is_passed_on_at_the_end():
    heard = []
    lines = _Lines(heard.append)
    print("one", file=lines)
    assert heard == ["one"], "the first line comes at once"
    print("two\nthree", file=lines)
    print("50 %\r100 %\nhal", end="", file=lines)
    assert len(heard) == 1
    lines.end()
    lines.end()
    assert heard[1:] == ["two\nthree\n100 %\nhal"]


def test_what_others_log_is_left_out_and_logging_is_as_before_afterwards(tmp_path):
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    with Outbox(str(tmp_path), "key").passing_on():
        logging.getLogger("some.library").warning("of a library")
        print("printed")  # noqa: T201
    assert Inbox(str(tmp_path)).lines() == [("key", "printed", True)]
    assert (root.level, list(root.handlers)) == before


SPEAKS = """
    def align(self, encoder, inputs, runtime):
        print("strength", self.params.strength)
        logging.getLogger(__name__).info("as information")
        logging.warning("as a warning")
        if self.params.strength == 1:
            raise ValueError("odd")
"""


def test_a_plug_in_is_heard_on_a_worker_also_when_it_fails(tmp_path):
    path = write_page(tmp_path)
    file = tmp_path / "my_method.py"
    before = "    def align(self, encoder, inputs, runtime):\n"
    file.write_text("import logging\n" + file.read_text().replace(before, SPEAKS.lstrip("\n")))
    plan, root = open_grid(path, storage=str(tmp_path / "storage")).plan, str(tmp_path / "storage")
    job = Job(
        Storage(root), StoredPlans(Storage(root)).write(plan), scratch=str(tmp_path / "scratch")
    )
    trials = {trial.params.get("strength"): trial for trial in plan.trials}
    assert attempt(job, trials[0.5].key) is None
    assert "odd" in str(attempt(job, trials[1.0].key))
    found = defaultdict[str, list[str]](list)
    for key, text, _ in Inbox(job.scratch).lines():
        found[key] += text.splitlines()
    for strength in (0.5, 1.0):
        wanted = [f"strength {strength}", "INFO as information", "WARNING as a warning"]
        assert found[trials[strength].key][:3] == wanted


def test_a_sweep_shows_what_its_jobs_have_told_also_of_one_that_has_ended(plan, job):
    screen = io.StringIO()
    progress = Progress(job.storage.ledger, Console(file=screen, width=200))
    sweep = Sweep(Whole(plan), job, progress.hear, lambda: Room(job, [{"CPU": 2.0}]))
    sweep.ask()
    ended = sweep.take()
    sweep.started(ended)
    sweep.ended(ended, {"seconds": 1.0})
    trial = plan.trials[0]
    for key in (ended["stage"], trial.key, "of another sweep"):
        Outbox(job.scratch, key).print("one\ntwo")
        Outbox(job.scratch, key).hold_up("its worker was lost")
    sweep.pass_on()
    stage, told = "bitext phrasebook de 100", ("one", "two")
    assert screen.getvalue().splitlines()[-5:] == [
        *(f"{stage} | {line}" for line in told),
        *(f"{describe(trial)} | {line}" for line in told),
        f"{describe(trial)}: its worker was lost",
    ]
