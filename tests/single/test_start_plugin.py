"""`raxalign init method|task|corpus NAME`: a plug-in that works, and a test that passes at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from raxalign.catalog import FOLDERS as ALL
from raxalign.errors import RaxalignError
from raxalign.plugin_files import open_file
from raxalign.single.start import FOLDERS, write_plugin

NAMES = {"method": "my_shift", "task": "my_gap", "corpus": "my_lines"}


def test_what_is_written_is_a_plug_in_of_its_kind(tmp_path: Path) -> None:
    assert set(FOLDERS.values()) <= set(ALL)
    for what, name in NAMES.items():
        file, test = write_plugin(what, name, tmp_path)
        assert (file.name, test.name) == (f"{name}.py", f"test_{name}.py")
        found = open_file(file)
        assert (found.name, found.folder) == (name, FOLDERS[what])


@pytest.mark.slow
def test_the_tests_of_all_kinds_pass_at_once(tmp_path: Path) -> None:
    for what, name in NAMES.items():
        write_plugin(what, name, tmp_path)
    environment = {n: v for n, v in os.environ.items() if n != "RAXALIGN_TRUST"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout
    left = {path.name for path in tmp_path.iterdir() if path.name != "__pycache__"}
    assert left == {f"{start}{name}.py" for name in NAMES.values() for start in ("", "test_")}


@pytest.mark.parametrize(
    ("what", "name", "message"),
    [
        ("method", "my-method", "cannot be a plug-in's name; write small letters"),
        ("method", "base", "cannot be a plug-in's name"),
        ("method", "rotation", r"the name is taken \(`raxalign list methods`\)"),
        ("task", "xnli", r"the name is taken \(`raxalign list tasks`\)"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(
    what: str, name: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(RaxalignError, match=rf"init {what} {name}: .*{message}"):
        write_plugin(what, name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_there_are_left_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("of my own")
    with pytest.raises(RaxalignError, match=r"test_mine\.py: is there already"):
        write_plugin("method", "mine", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["test_mine.py"]
