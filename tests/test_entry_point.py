"""The program as a shell starts it: without arguments, for a completion, into a full disk or an
ASCII terminal.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from raxalign.cli import main
from tests.ledgers import made_up

PROGRAM = Path(sysconfig.get_path("scripts")) / "raxalign"
COMPLETIONS = {
    "bash": {"COMP_WORDS": "raxalign pl", "COMP_CWORD": "1"},
    "zsh": {"_TYPER_COMPLETE_ARGS": "raxalign pl"},
    "fish": {"_TYPER_COMPLETE_ARGS": "raxalign pl", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


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


@pytest.mark.parametrize("shell", COMPLETIONS)
def test_a_shell_completes_a_command(shell: str, tmp_path: Path) -> None:
    environ = {"_RAXALIGN_COMPLETE": f"complete_{shell}", **COMPLETIONS[shell]}
    done = typed(cwd=tmp_path, **environ)
    assert "plan" in done.stdout
    assert "Traceback" not in done.stderr


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
    ("line", "completed"),
    [
        ("list al", "aligners"),
        ("list methods fi", "finetune"),
        ("align rot", "rotation"),
        ("pairs --aligner f", "fast_align"),
        ("search --method tl", "tlm"),
        ("init pa", "paper"),
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
def test_a_shell_completes_kinds_and_what_the_grid_file_names(
    line: str,
    completed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "grid.yaml").write_text(GRID, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["raxalign"])
    monkeypatch.setenv("_RAXALIGN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"raxalign {line}")
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" "))))
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.split() == completed.format("method=tuned,sentences=").split()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_full_disk_is_named_and_not_called_a_bug(tmp_path: Path) -> None:
    opened, _ = made_up(tmp_path)
    with Path("/dev/full").open("w") as full:
        done = typed("results", str(opened.grid.path), cwd=tmp_path, stdout=full.fileno())
    assert done.returncode == 2
    assert done.stderr.strip() == ("error: the output cannot be written: No space left on device")


@pytest.mark.skipif(os.name != "posix", reason="permissions and devices")
def test_an_ascii_terminal_gets_every_table_with_signs_that_it_has(tmp_path: Path) -> None:
    opened, _ = made_up(tmp_path)
    command = ("results", str(opened.grid.path), "--compare")
    plain = typed(*command, cwd=tmp_path, PYTHONIOENCODING="ascii")
    usual = typed(*command, cwd=tmp_path, PYTHONIOENCODING="utf-8")
    assert plain.returncode == usual.returncode == 0
    assert plain.stdout.isascii()
    assert "─" in usual.stdout
    assert plain.stdout.count("\n") == usual.stdout.count("\n")


@pytest.mark.parametrize("place", ["file", "file/report"])
def test_a_report_folder_that_cannot_be_written_is_named(place: str, tmp_path: Path) -> None:
    opened, _ = made_up(tmp_path, methods=("none: {}",), more="")
    (tmp_path / "file").write_text("")
    done = typed("report", str(opened.grid.path), "--out", place, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {place}")
    assert "the report cannot be written: " in done.stderr
    assert "(a bug in raxalign)" not in done.stderr
