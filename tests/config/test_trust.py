"""Which plug-ins of a grid file run, and which of its addresses are used: a stranger's are not,
before the user was asked.
"""

import io
import os
import pty
import sys
import tty

import pytest

from raxalign import trust
from raxalign.errors import RaxalignError
from raxalign.grid.file import load
from raxalign.grid.load import open_grid
from raxalign.trust import TRUST
from tests.grids import write_grid
from tests.test_cli import run  # noqa: F401 - a fixture
from tests.test_plugins import grid_with, my_method

pytestmark = pytest.mark.usefixtures("stranger")


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A user who has trusted nothing yet; returns the file that a plug-in writes when it runs."""
    monkeypatch.delenv(TRUST)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(trust, "_trusted", set())
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115, PTH123 no terminal
    return tmp_path / "it ran"


def grid_of(folder, marker, more=""):
    my_method(folder, more=f"\nopen({str(marker)!r}, 'a').close()\n{more}")
    return grid_with(folder)


@pytest.mark.parametrize("command", ["plan", "report", "doctor", "grid"])
def test_without_a_terminal_no_untrusted_plug_in_runs(command, tmp_path, stranger, run):  # noqa: F811
    grid = grid_of(tmp_path, stranger)
    done = run(command, grid)
    assert done.code == 2
    assert f"{tmp_path}/my_method.py" in done.err + done.out
    assert (
        f"add --trust the first time, or set {TRUST}=1 for jobs and notebooks"
        in done.err + done.out
    )
    assert not stranger.exists()


def test_what_was_trusted_and_edits_of_it_run(tmp_path, stranger, run, monkeypatch):  # noqa: F811
    """A file in another folder is another one, and so is what a link points to."""
    grid = grid_of(tmp_path, stranger)
    assert run("plan", grid, "--trust").code == 0
    assert stranger.exists()
    trust.trusting.set(False)
    monkeypatch.setattr(trust, "_trusted", set())  # as in another process
    grid_of(tmp_path, stranger, more="# edited\n")
    load(grid)
    (tmp_path / "other").mkdir()
    with pytest.raises(RaxalignError, match=r"other/my_method\.py\. A plug-in is a program"):
        load(grid_of(tmp_path / "other", stranger))
    (tmp_path / "my_method.py").unlink()
    (tmp_path / "my_method.py").symlink_to(tmp_path / "other" / "my_method.py")
    with pytest.raises(RaxalignError, match=r"other/my_method\.py"):
        load(grid)


def test_the_environment_trusts_and_nothing_of_it_is_remembered(tmp_path, stranger, monkeypatch):
    grid = grid_of(tmp_path, stranger)
    monkeypatch.setenv(TRUST, "1")
    load(grid)
    assert stranger.exists()
    monkeypatch.delenv(TRUST)
    with pytest.raises(RaxalignError, match="add --trust the first time"):
        load(grid)


def test_a_name_with_a_line_end_trusts_no_other_path(tmp_path, stranger):
    folder = tmp_path / f"a\n{tmp_path}"
    folder.mkdir(parents=True)
    trust.trusting.set(True)
    trust.require_trust(tmp_path, [my_method(folder)])
    trust.trusting.set(False)
    assert not stranger.exists()
    with pytest.raises(RaxalignError, match="add --trust the first time"):
        load(grid_of(tmp_path, stranger))


@pytest.mark.parametrize("home", ["", "relative"])
def test_a_user_without_a_home_is_asked_each_time(home, tmp_path, stranger, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", home)
    monkeypatch.setenv("HOME", home or "no/home")
    grid = grid_of(tmp_path, stranger)
    planted = tmp_path / (home or "no/home/.config") / "raxalign" / "trusted"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"{tmp_path}/my_method.py\n")
    with pytest.raises(RaxalignError, match="add --trust the first time"):
        load(grid)


@pytest.mark.parametrize(("answer", "is_trusted"), [("y", True), ("n", False), ("", False)])
def test_on_a_terminal_the_user_is_asked_once(answer, is_trusted, tmp_path, stranger, monkeypatch):
    grid = grid_of(tmp_path, stranger)

    def ask():
        """Load the grid on a terminal with the answer typed ahead; return what it shows."""
        monkeypatch.setattr(trust, "_trusted", set())  # as in another process
        ours, theirs = pty.openpty()
        tty.setraw(theirs)  # else the kernel echoes the answer, perhaps after the end
        os.write(ours, f"{answer}\n".encode())
        with os.fdopen(theirs, "r+b", buffering=0) as terminal:
            text = io.TextIOWrapper(terminal, write_through=True)
            monkeypatch.setattr(sys, "stdin", text)
            monkeypatch.setattr(sys, "stderr", text)
            if is_trusted:
                load(grid)
            else:
                with pytest.raises(RaxalignError, match="its plug-ins did not run"):
                    load(grid)
            text.write("end")
            shown = b""
            while not shown.endswith(b"end"):
                shown += os.read(ours, 4096)
            text.detach()
        os.close(ours)
        return shown.decode()

    assert "Run them, now and later? [y/N]" in ask()
    assert stranger.exists() is is_trusted
    assert ("[y/N]" in ask()) is not is_trusted


REMOTE = "http://ann:secret@tracking.example.org"


@pytest.mark.parametrize(
    "line",
    [
        f"tracking_uri: {REMOTE}",
        "tracking_uri: 'http://localhost@other.org'",
        "tracking_uri: 'http://localhost.other.org:80'",
        r"tracking_uri: 'http://other.org\@localhost/'",
        "tracking_uri: 'http://localhost:80@other.org'",
        "tracking_uri: postgresql://other.org/runs",
        "address: other.org:6379",
        "address: ray://other.org:10001",
        "storage: s3://others/runs",
    ],
)
def test_an_address_of_a_grid_file_is_asked_about(tmp_path, line):
    with pytest.raises(RaxalignError, match="addresses that you have not used") as told:
        open_grid(write_grid(tmp_path, run=line))
    assert "add --trust the first time" in str(told.value)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    "line",
    [
        "tracking_uri: 'http://localhost:5000/x'",
        "tracking_uri: 'https://ann:secret@127.0.0.1'",
        "tracking_uri: 'http://[::1]:80'",
        "tracking_uri: sqlite:////tmp/runs.db",
        "address: auto",
        "address: 127.0.0.1:6379",
        "storage: ./here",
    ],
)
def test_what_is_on_this_machine_is_not_asked_about(tmp_path, line, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_grid(write_grid(tmp_path, run=line))


def test_an_address_of_the_user_and_one_that_he_has_trusted_are_used(tmp_path, run, monkeypatch):  # noqa: F811
    path = write_grid(tmp_path, run=f"tracking_uri: {REMOTE}")
    with monkeypatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", "http://mine.example.org")
        open_grid(path, storage=str(tmp_path))
    assert run("plan", path, "--trust").code == 0
    trust.trusting.set(False)
    monkeypatch.setattr(trust, "_trusted", set())  # as in another process
    open_grid(path, storage=str(tmp_path))
    assert "secret" not in (tmp_path / "config" / "raxalign" / "trusted").read_text()
