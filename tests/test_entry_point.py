"""The program as a shell starts it: without arguments, for a completion, into a full disk or an
ASCII terminal.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from raxalign.cli import main
from tests.ledgers import made_up

PROGRAM = Path(sysconfig.get_path("scripts")) / "raxalign"


def typed(
    *arguments: str, cwd: Path, stdout: int = subprocess.PIPE, **environ: str
) -> subprocess.CompletedProcess[str]:
    """What a shell gets from the installed program."""
    return subprocess.run(
        [str(PROGRAM), *arguments],
        cwd=cwd,
        env={**os.environ, "RAXALIGN_STORAGE": str(cwd / "storage"), **environ},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_bare_command_prints_the_help(tmp_path: Path) -> None:
    done = typed(cwd=tmp_path)
    assert "Usage: raxalign" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


COMPLETIONS = {
    "bash": {"COMP_WORDS": "raxalign pl", "COMP_CWORD": "1"},
    "zsh": {"_TYPER_COMPLETE_ARGS": "raxalign pl"},
    "fish": {"_TYPER_COMPLETE_ARGS": "raxalign pl", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


@pytest.fixture
def completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., str]:
    """What a shell is answered, by the variables that it sets."""

    def complete(**environ: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.argv", ["raxalign"])
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit):
            main()
        return capsys.readouterr().out

    return complete


@pytest.mark.parametrize("shell", COMPLETIONS)
def test_a_shell_completes_a_command(shell: str, completed: Callable[..., str]) -> None:
    found = completed(_RAXALIGN_COMPLETE=f"complete_{shell}", **COMPLETIONS[shell])
    assert "plan" in found


GRID = """\
pivot: en
encoder: base
languages: {each: [de, el]}
sentences: [1_000, 2_000]
seeds: [0]
methods: {none: {}, tuned: {kind: finetune, lambda: [0.1, 1]}, rotation: {center: [false, true]}}
tasks: {words: {kind: retrieval}, xnli: {}}
plugins: [never_run.py]
"""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("list al", "aligners"),
        ("list methods fi", "finetune"),
        ("align rot", "rotation"),
        ("pairs --aligner f", "fast_align"),
        ("search --method tl", "tlm"),
        ("init pa", "paper pan2021"),
        ("results grid.yaml --task ", "words xnli"),
        ("evaluate grid.yaml --encoder base --task x", "xnli"),
        ("results grid.yaml --lang ", "de el"),
        ("grid grid.yaml --only ", "method= language= sentences= seed= encoder= lambda= center="),
        ("plan grid.yaml --only method=t", "method=tuned"),
        ("plan grid.yaml --only method=tuned,sentences=", "{0}1000 {0}2000"),
        ("plan grid.yaml --only center=", "center=false center=true"),
        ("results missing.yaml --task ", ""),
    ],
)
def test_a_shell_completes_kinds_and_what_the_grid_file_names(line, words, tmp_path, completed):
    (tmp_path / "grid.yaml").write_text(GRID, encoding="utf-8")
    place = {"COMP_WORDS": f"raxalign {line}", "COMP_CWORD": str(len(line.split(" ")))}
    found = completed(_RAXALIGN_COMPLETE="complete_bash", **place)
    assert found.split() == words.format("method=tuned,sentences=").split()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_an_ascii_terminal_gets_every_table_and_a_full_disk_is_not_called_a_bug(tmp_path):
    parts = {"languages": "{together: [de]}", "sentences": "100", "tasks": ("retrieval: {}",)}
    opened, _ = made_up(tmp_path, **parts, more="")
    command = ("results", str(opened.grid.path), "--compare")
    plain = typed(*command, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert plain.returncode == 0
    assert plain.stdout.isascii()
    assert "rotation" in plain.stdout
    with Path("/dev/full").open("w") as full:
        done = typed("results", str(opened.grid.path), cwd=tmp_path, stdout=full.fileno())
    assert done.returncode == 2
    assert done.stderr.strip() == "error: the output cannot be written: No space left on device"
