import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from raxalign.errors import DependencyError, RaxalignError, TransientError
from raxalign.pairing.aligners import eflomal
from raxalign.pairing.aligners.base import AlignerInputs
from raxalign.pairing.aligners.eflomal import Eflomal
from tests.every import needs_eflomal

REAL_PYTHON = sys.executable

SRC = [["das", "Haus"], ["Das", "Buch"], ["ein", "Buch"], ["ein", "Haus"]] * 10
TGT = [["the", "house"], ["The", "book"], ["a", "book"], ["a", "house"]] * 10


def align(src, tgt, tmp_path, **params):
    inputs = AlignerInputs(range(len(src)), None, {}, tmp_path, 1)
    return Eflomal(Eflomal.Params(**params)).align(src, tgt, inputs)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program in place of eflomal-align, found as the real one is."""

    def install(script):
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "eflomal-align").write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
        (folder / "eflomal-align").chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(folder / "python"))

    return install


@needs_eflomal
def test_a_tiny_bitext_is_aligned_in_both_directions(tmp_path):
    for links in align(SRC, TGT, tmp_path):
        assert len(links) == len(SRC)
        right = sum((i, i) in links.pair(k) for k in range(len(SRC)) for i in (0, 1))
        assert right > 1.5 * len(SRC)
    assert list(tmp_path.iterdir()) == []
    assert [len(links) for links in align([], [], tmp_path)] == [0, 0]


@needs_eflomal
def test_words_with_blanks_and_bars_stay_one_word(tmp_path):
    odd = {"das": "d a\ts", "Haus": "|||", "ein": "\u2028", "Buch": "\n", "Das": ""}
    forward, reverse = align([[odd[w] for w in words] for words in SRC], TGT, tmp_path)
    assert len(forward) == len(reverse) == len(SRC)
    assert max(forward.src.max(), forward.tgt.max(), reverse.src.max(), reverse.tgt.max()) == 1


@needs_eflomal
def test_words_are_lower_cased_unless_told_otherwise(tmp_path, monkeypatch):
    written = []

    def run(command, folder, threads):
        written.append((folder / "src").read_text(encoding="ascii"))

    monkeypatch.setattr(eflomal, "_run", run)
    for lowercase in (True, False):
        with pytest.raises(RaxalignError, match="wrote forward links of 0 sentence pairs"):
            align(SRC[:2], TGT[:2], tmp_path, lowercase=lowercase)
    assert written == ["0 1\n0 2\n", "0 1\n2 3\n"]


def test_options_reach_the_program(tmp_path, program):
    program(f'echo "$@" "$OMP_NUM_THREADS" > {tmp_path}/asked; exit 1')
    with pytest.raises(RaxalignError):
        align(SRC, TGT, tmp_path)
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert "--model 3 --length 1.0 --n-samplers 3 --null-prior 0.2 -s " in asked
    assert asked.split()[-1] == "1"


def test_without_the_program_it_says_how_to_install_it(tmp_path, monkeypatch, program):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(DependencyError, match=r"pip install 'raxalign\[eflomal\]'"):
        align(SRC, TGT, tmp_path)
    program("exit 0")
    (tmp_path / "bin" / "eflomal-align").write_text("#!/nowhere/python\n", encoding="ascii")
    with pytest.raises(DependencyError, match="force-reinstall"):
        align(SRC, TGT, tmp_path)


FEW = 'while [ $# -gt 1 ]; do case "$1" in -f|-r) echo 0-0 > "$2";; esac; shift; done'


@pytest.mark.parametrize(
    ("script", "error", "told"),
    [
        ("echo first >&2; echo it is broken >&2; exit 3", RaxalignError, "(?s)code 3.*is broken"),
        ("kill -9 $$", TransientError, "killed"),
        (FEW, RaxalignError, "wrote forward links of 1 sentence pairs, 40 were given"),
    ],
)
def test_a_program_that_fails_is_told_with_its_last_words(tmp_path, program, script, error, told):
    program(script)
    with pytest.raises(error, match=told):
        align(SRC, TGT, tmp_path)


WAITING = """
import pathlib, signal, subprocess, sys
from raxalign.pairing.aligners import eflomal

# a shell's background jobs inherit that it is ignored
signal.signal(signal.SIGINT, signal.default_int_handler)

class Telling(subprocess.Popen):
    def wait(self, timeout=None):
        print("waiting", flush=True)
        return super().wait(timeout)

subprocess.Popen = Telling
eflomal._run([sys.argv[1]], pathlib.Path(sys.argv[2]), 1)
"""


def test_an_interrupted_run_takes_the_program_and_its_children_with_it(tmp_path, program):
    program(f"exec 9> {tmp_path}/alive; echo started >&9; (sleep 20; echo survived >&9) & wait")
    os.mkfifo(tmp_path / "alive")
    command = [REAL_PYTHON, "-c", WAITING, str(tmp_path / "bin" / "eflomal-align"), str(tmp_path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    alive = tmp_path / "alive"
    with subprocess.Popen(command, **pipes) as process, alive.open(encoding="ascii") as told:
        assert (told.readline(), process.stdout.readline()) == ("started\n", "waiting\n")
        process.send_signal(signal.SIGINT)
        # the end of the file comes when the last process that could write to it has ended
        assert told.read() == ""
    assert process.returncode != 0


def test_wrong_options_are_refused():
    with pytest.raises(ValidationError):
        Eflomal.Params(iterations=5)


def test_the_library_is_never_imported():
    for file in Path(eflomal.__file__).parents[1].rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [getattr(node, "module", None) or ""]
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert "eflomal" not in {name.split(".")[0] for name in names}, file
