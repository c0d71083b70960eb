"""`raxalign init` and `raxalign search`: a grid file to start from, a plug-in that works with a
test that passes at once, and a grid file from a few options.
"""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from typer.testing import CliRunner

from raxalign.catalog import FOLDERS as ALL
from raxalign.catalog import PluginFile
from raxalign.cli import app
from raxalign.errors import RaxalignError, StorageError
from raxalign.grid.file import Grid, load
from raxalign.grid.search import Space
from raxalign.single.start import (
    FOLDERS,
    grid_names,
    grids_folder,
    write_grid,
    write_plugin,
    write_search,
)
from tests.forks import forks
from tests.grids import ENCODER

REPOSITORY = Path(__file__).parents[2]
NAMES = {"method": "my_shift", "task": "my_gap", "corpus": "my_lines"}
CORPUS = "{source: phrasebook, size: 200, split: {test: 30, dev: 30}}"


@pytest.mark.parametrize("name", grid_names())
def test_a_shipped_grid_is_written_that_has_comments(name, tmp_path, monkeypatch):
    """That the shipped grids plan is a test of theirs."""
    monkeypatch.chdir(tmp_path)
    written = write_grid(name)
    assert written == Path(f"{name}.yaml"), "it is named after the grid, and is here"
    text = written.read_text(encoding="utf-8")
    assert text == (REPOSITORY / "grids" / written.name).read_text(encoding="utf-8")
    assert sum("#" in line for line in text.splitlines()) >= 3


def test_files_that_are_there_are_left_as_they_are(tmp_path: Path) -> None:
    for name, writes in {
        "mine.yaml": lambda path: write_grid("mine", path),
        "test_mine.py": lambda path: write_plugin("method", "mine", path.parent),
        "search.yaml": write,
    }.items():
        (tmp_path / name).write_text("of my own")
        with pytest.raises(RaxalignError, match=rf"{name}: is there already"):
            writes(tmp_path / name)
        assert (tmp_path / name).read_text() == "of my own"
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {"mine.yaml", "test_mine.py", "search.yaml"}
    with pytest.raises(StorageError, match="cannot be written"):
        write(tmp_path / "mine.yaml" / "below.yaml")
    known = "init mein: is not one of the grids; there are quickstart, paper, mine, unseen, sets"
    with pytest.raises(RaxalignError, match=known):
        write_grid("mein")


def test_an_installed_package_has_its_own_copy_of_the_grids(tmp_path, monkeypatch):
    (tmp_path / "raxalign" / "grids").mkdir(parents=True)
    (tmp_path / "raxalign" / "grids" / "quickstart.yaml").write_text("")
    monkeypatch.setattr("raxalign.__file__", str(tmp_path / "raxalign" / "__init__.py"))
    assert grids_folder() == tmp_path / "raxalign" / "grids"


def test_what_is_written_is_a_plug_in_of_its_kind(tmp_path: Path) -> None:
    assert set(FOLDERS.values()) <= set(ALL)
    for what, name in NAMES.items():
        file, test = write_plugin(what, name, tmp_path)
        assert (file.name, test.name) == (f"{name}.py", f"test_{name}.py")
        found = PluginFile.open(file)
        assert (found.name, found.folder) == (name, FOLDERS[what])


def own_tests(folder: Path) -> None:
    """Run the tests of a folder; a process ends with what pytest says."""
    os.chdir(folder)
    os.environ.pop("RAXALIGN_TRUST", None)
    with Path("said").open("w") as said, redirect_stdout(said):
        sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "."]))


@pytest.mark.slow
def test_the_tests_of_all_kinds_pass_at_once(tmp_path: Path) -> None:
    for what, name in NAMES.items():
        write_plugin(what, name, tmp_path)
    process = forks().Process(target=own_tests, args=(tmp_path,))
    process.start()
    process.join()
    said = (tmp_path / "said").read_text()
    assert process.exitcode == 0, said
    assert "6 passed" in said
    left = {path.name for path in tmp_path.iterdir() if path.name not in ("__pycache__", "said")}
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
def test_a_name_that_cannot_be_used_is_refused(what, name, message, tmp_path):
    with pytest.raises(RaxalignError, match=rf"init {what} {name}: .*{message}"):
        write_plugin(what, name, tmp_path)
    assert list(tmp_path.iterdir()) == []


VALUES = {"method": "finetune", "options": ["batch_size=16"], "aligner": "fast_align"}
VALUES |= {"spaces": ["lambda=log_uniform:0.01:10", "layers=choice:last:1"]}
VALUES |= {"languages": ["de", "fr"], "pivot": "en", "corpus": CORPUS, "encoder": ENCODER}
VALUES |= {"sentences": 100, "task": "retrieval", "metric": None, "budget": "20 trials"}
VALUES |= {"sampler": "tpe", "confirm": 5}


def write(path: Path, **changes: object) -> None:
    write_search(path, **{**VALUES, **changes})


def searched(path: Path, **changes: object) -> Grid:
    """The grid that options are written as."""
    write(path, **changes)
    return load(path)


def test_the_options_are_a_grid_file_that_loads(tmp_path, monkeypatch):
    grid = searched(tmp_path / "mine.yaml")
    assert (grid.name, grid.languages, grid.sentences) == ("mine", ("de", "fr"), (100,))
    none, method = grid.methods
    assert none.kind == "none"
    assert method.searched is not None
    assert method.searched.spaces == (
        Space("lambda", "log_uniform", 0.01, 10),
        Space("layers", "choice", choices=("last", 1)),
    )
    assert grid.search is not None
    assert grid.search.metric == "retrieval/{lang}-{pivot}/contextual_accuracy"
    assert (grid.search.most, grid.search.confirm) == (20, 5)
    assert "pruner" not in (tmp_path / "mine.yaml").read_text(encoding="utf-8")
    task = "xnli: {setting: zero-shot, data: phrasebook}"
    other = searched(tmp_path / "other.yaml", pruner="median", task=task).search
    assert other is not None
    assert other.pruner == "median"
    judged = "xnli/avg_zero_shot/accuracy"
    assert other.metric == judged, "a training is judged without the pivot"
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "files.yaml", corpus="data/de-en")
    text = (tmp_path / "files.yaml").read_text()
    assert f"{{source: moses, path: {tmp_path}/data/de-en}}" in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"spaces": ["lambda"]}, "--space 'lambda': write NAME=VALUE"),
        ({"spaces": ["lambda=between:1:2"]}, "write NAME=KIND:VALUE:VALUE with one of log_uniform"),
        ({"spaces": []}, "a search needs --lang, and a --space"),
        ({"languages": []}, "a search needs --lang, and a --space"),
        ({"task": "retrieva"}, "--task 'retrieva': unknown task"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, changes, said):
    with pytest.raises(RaxalignError) as caught:
        write(tmp_path / "mine.yaml", **changes)
    assert said in str(caught.value)
    assert not (tmp_path / "mine.yaml").exists()


def test_the_command_writes_the_file_and_shows_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    options = ["--space", "lambda=log_uniform:0.01:10", "-o", "batch_size=16", "--lang", "de"]
    options += ["--corpus", CORPUS, "--encoder", ENCODER, "--sentences", "100", "--trials", "4"]
    options += ["--aligner", "fast_align", "--storage", str(tmp_path / "st"), "--dry-run"]
    result = CliRunner().invoke(app, ["search", str(path), *options])
    assert result.exit_code == 0, result.output
    assert "search finetune de, 100 sentences: at most 4 trials" in result.output
    assert load(path).search is not None
