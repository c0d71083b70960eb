"""The program as a shell starts it: without arguments, for a completion, and with streams and
folders that are missing or cannot be used.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from raxalign.cli import app, main
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


def test_help_cuts_no_summary_and_no_option_in_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    program = get_command(app)

    def helped(*command: str) -> str:
        return CliRunner().invoke(app, [*command, "--help"]).output

    listed = " ".join(helped().split()).replace("- ", "-")
    for name, command in program.commands.items():
        text = helped(name)
        summary, *_ = " ".join(command.help.split()).split(". ")
        assert f" {name} {summary}" in listed
        assert "…" not in listed + text
        assert "..." not in text.split("\n", 1)[1]
        assert max(map(len, text.splitlines())) <= 80
        words = re.split(r"[\s,]+", text)
        for option in command.params:
            assert {*option.opts[option.param_type_name == "argument" :]} <= {*words}, name


@pytest.mark.parametrize(
    ("command", "usage", "named"),
    [("grid", "FILE", "FILE"), ("init", "[NAME] [PLUGIN]", "PLUGIN"), ("gc", "FILE...", "FILE")],
)
def test_help_shows_arguments_by_their_names_as_the_usage_does(command, usage, named):
    text = CliRunner().invoke(app, [command, "--help"]).output
    assert text.splitlines()[0].endswith(f" {command} [OPTIONS] {usage}")
    assert re.search(rf"^  {named} +[A-Z]", text.partition("Arguments:")[2], re.MULTILINE)


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
tasks: {words: {kind: retrieval}, xnli: {}, pos: {train_on: [en, de]}, ner: {train_on: [en]}}
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
        ("results grid.yaml --task ", "words xnli pos.en pos.de ner"),
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


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The arguments that name a grid with results."""
    folder = tmp_path_factory.mktemp("done")
    parts = {"languages": "{together: [de]}", "sentences": "100", "tasks": ("retrieval: {}",)}
    opened, _ = made_up(folder, **parts, more="")
    return f"{opened.grid.path} --storage {opened.run.storage}"


def test_a_grid_ends_with_what_became_of_its_claims_also_without_a_baseline(tmp_path: Path) -> None:
    methods = ("rotation: {}", "finetune: {batch_size: 16}")
    more = "claims: [finetune > rotation in xnli, rotation > finetune in xnli]\n"
    seeds = "[0, 1, 2, 3, 4, 5]"
    opened, _ = made_up(tmp_path, methods=methods, more=more, sentences="200", seeds=seeds)
    told = typed("grid", str(opened.grid.path), cwd=tmp_path).stderr
    claims = re.findall(r"^claim (.*?) \(\S+ against \S+ \(chance 33.3\)", told, re.MULTILINE)
    assert claims == [
        "held: finetune > rotation in xnli",
        "refuted: rotation > finetune in xnli",
    ]
    assert "Nothing is compared with a baseline: the grid has no baseline" in told


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """What a shell gets from a line with the installed program as ``raxalign``."""
    environ = {**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = ["bash", "-c", line]
    return subprocess.run(command, cwd=cwd, env=environ, text=True, check=False, **pipes)


FULL = "error: the output cannot be written: No space left on device\n"
GONE = (
    "error: the working folder is not there any more (No such file or directory): `cd` into one"
    " that is, and run the command again\n"
)
STREAMS = {
    "a narrow terminal": ("COLUMNS=1 {}", 0, ""),
    "columns that are not a number": ("COLUMNS=² LINES=² {}", 0, ""),
    "more columns than there can be": ("COLUMNS=99999999999999999999 {}", 0, ""),
    "an ASCII terminal": ("PYTHONIOENCODING=ascii {}", 0, ""),
    "a closed stdout": ("{} >&-", 0, ""),
    "all closed": ("{} <&- >&- 2>&-", 0, ""),
    "a reader that has gone": ("{} | true; exit ${{PIPESTATUS[0]}}", 0, ""),
    "a full disk": ("{} > /dev/full", 2, FULL),
    "full disks": ("{} > /dev/full 2> /dev/full", 2, ""),
    "a folder that was removed": ("mkdir gone; cd gone; rmdir ../gone; {}", 2, GONE),
}


@pytest.mark.parametrize("command", ["results", "--help"])
@pytest.mark.parametrize("stream", STREAMS)
def test_no_stream_terminal_or_folder_is_called_a_bug(stream, command, done, tmp_path):
    line, code, said = STREAMS[stream]
    ended = shell(
        line.format(f"raxalign {command if command[0] == '-' else f'{command} {done}'}"), tmp_path
    )
    assert (ended.returncode, ended.stderr) == (code, said)


@pytest.mark.parametrize(
    "lost", ["2>&-", "2> /dev/full", "2> >(exec true)", "< /dev/null 2<&1 >&-"]
)
def test_what_is_done_does_not_depend_on_its_messages(lost, tmp_path):
    assert shell(f"raxalign init --out mine.yaml {lost}", tmp_path).returncode == 0
    assert (tmp_path / "mine.yaml").read_text().startswith("#")
    assert shell(f"raxalign plan --nothing {lost}", tmp_path).returncode == 2


def test_a_stream_that_does_not_block_is_waited_for(tmp_path):
    program = "import os, sys; from raxalign.printing import lasting; os.set_blocking(1, False)"
    program += "; sys.stdout = lasting(sys.stdout); print('x' * 999_999)"
    line = f"'{sys.executable}' -c \"{program}\" | (read -n 1; wc -c)"
    assert shell(line, tmp_path).stdout.strip() == "999999"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("plann", "unknown command 'plann'; did you mean plan?"),
        (
            "detect a.yaml",
            "unknown command 'detect'; did you mean plan --detect or power --detect?",
        ),
        ("run a.yaml", "unknown command 'run'; did you mean grid or "),
        ("xyz", "unknown command 'xyz'; known: grid, plan, fetch, status, results, report,"),
    ],
)
def test_a_command_that_does_not_exist_names_the_right_one(
    tmp_path: Path, given: str, told: str
) -> None:
    done = typed(*given.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_a_command_without_a_grid_file_names_those_that_take_one(tmp_path: Path) -> None:
    told = "This command takes no grid file: `raxalign plan FILE --detect POINTS` says"
    assert told in " ".join(typed("power", "a.yaml", cwd=tmp_path).stderr.split())
