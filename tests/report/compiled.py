"""LaTeX documents compiled by the engines that this machine has."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

LOADER = "luaotfload.sty"


def lacking(engine: str) -> str:
    """What this machine lacks to compile with an engine; empty where it lacks nothing. Debian has
    lualatex in one package, and what loads its fonts in another one.
    """
    if shutil.which(engine) is None:
        return f"{engine} is not installed"
    if engine != "lualatex":
        return ""
    found = subprocess.run(["kpsewhich", LOADER], stdout=subprocess.DEVNULL, check=False)
    return f"{LOADER} is not installed (Debian: texlive-luatex)" if found.returncode else ""


ENGINES = [
    pytest.param(name, marks=pytest.mark.skipif(bool(lacks := lacking(name)), reason=lacks))
    for name in ("pdflatex", "xelatex", "lualatex")
]


def faults(engine: str, document: Path, out: Path) -> list[str]:
    """Compile a document into a folder; returns its errors and the characters that are missing."""
    subprocess.run(
        [engine, "-interaction=nonstopmode", f"-output-directory={out}", document.name],
        cwd=document.parent,
        stdout=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert out.joinpath(document.stem + ".pdf").stat().st_size > 1_000
    log = out.joinpath(document.stem + ".log").read_text(encoding="utf-8", errors="replace")
    return re.findall(r"^(?:!|Missing character|Overfull \\hbox \(\d{3,}).*", log, re.MULTILINE)
