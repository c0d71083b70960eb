"""The metadata of the package, as an index shows it."""

import re
import shutil
import subprocess
import sys
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BUILD = "from setuptools.build_meta import prepare_metadata_for_build_wheel as p; print(p('out'))"


@pytest.mark.slow
def test_an_index_shows_the_readme_without_links_to_files_that_it_does_not_have(tmp_path):
    for name in ("README.md", "LICENSE", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "raxalign").mkdir()
    for name in ("__init__.py", "version.py"):
        shutil.copy(ROOT / "raxalign" / name, tmp_path / "raxalign" / name)
    shutil.copytree(ROOT / "grids", tmp_path / "grids")
    (tmp_path / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", BUILD], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    folder = tmp_path / "out" / done.stdout.split()[-1]
    shown = message_from_string((folder / "METADATA").read_text(encoding="utf-8"))
    text = str(shown.get_payload())
    assert shown["Description-Content-Type"] == "text/markdown"
    assert "# raxalign" in text
    assert "writes one HTML page (the tutorial)." in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []
