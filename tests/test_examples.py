"""The examples in docstrings print what they say, and those of kinds are parts of a grid file."""

import doctest
import re
import shutil
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import raxalign
from raxalign.catalog import FOLDERS, PluginFile, catalog
from raxalign.grid.load import open_grid
from raxalign.inspect.catalogue import as_markdown, describe
from raxalign.single.start import FOLDERS as FOLDER_OF
from raxalign.single.start import write_plugin
from tests.small_grids import write_files
from tests.tasks.smallest import write_task_files

ROOT = Path(raxalign.__file__).parent
MODULES = [
    ".".join(file.relative_to(ROOT.parent).with_suffix("").parts)
    for file in sorted(ROOT.rglob("*.py"))
    if ">>> " in file.read_text(encoding="utf-8")
]
KINDS = [(folder, kind) for folder in FOLDERS if folder != "sections" for kind in catalog(folder)]
SMALL = {"split": {"test": 16, "dev": 16}}
GRID: dict[str, Any] = {
    "name": "example",
    "encoder": {"kind": "scratch", "layers": 12},
    "languages": {"together": ["de"]},
    "corpus": {"source": "phrasebook"},
    "pairs": {"aligner": "fast_align"},
    "sentences": 100,
    "methods": {"none": {}},
    "tasks": {"retrieval": {}},
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with the files that examples name."""
    folder = tmp_path_factory.mktemp("files")
    write_files(folder, ["de"])
    write_task_files(folder)
    (folder / "bucc").mkdir()
    for part, end in product(("dev", "test"), ("de", "en", "gold")):
        shutil.copy(folder / f"mined.{end}", folder / "bucc" / f"{part}.de.{end}")
    return folder


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name):
    found = doctest.testmod(import_module(name.removesuffix(".__init__")))
    assert found.attempted
    assert not found.failed


def test_no_example_is_lost():
    texts = [file.read_text(encoding="utf-8") for file in ROOT.rglob("*.py")]
    assert sum(text.count(">>> ") for text in texts) >= 153


def planned(folder: str, kind: str) -> str:
    """Plan a small grid with the example of a kind, as its page and the terminal show it."""
    page = as_markdown(folder, kind)
    (example,) = re.findall(r"\nExample.*:\n\n```yaml\n(.*?)```\n", page, re.DOTALL)
    assert "\nRelations: " in page
    assert f"\nExample:\n    {example.splitlines()[0]}\n" in describe(folder, kind)
    assert max(map(len, example.splitlines())) <= 76, "the terminal has 80 columns"
    grid = GRID | YAML(typ="safe").load(example)
    if grid["corpus"].get("split") != "files":
        grid["corpus"] |= SMALL
    assert open_grid(grid, storage="storage").plan.trials
    return example


@pytest.mark.parametrize(("folder", "kind"), KINDS)
def test_the_example_of_a_kind_is_part_of_a_grid_file(folder, kind, files, monkeypatch):
    monkeypatch.chdir(files)
    example = planned(folder, kind)
    assert 2 <= example.count("\n") <= 8
    assert re.search(rf"\b{kind}\b", example)


@pytest.mark.parametrize("what", FOLDER_OF)
def test_a_template_has_25_lines_of_code_and_an_example(what, tmp_path, monkeypatch):
    file, _ = write_plugin(what, f"my_{what}", tmp_path)
    code = re.sub(r'""".*?"""| *# .*?\n', "\n", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 25
    (tmp_path / "de-en.jsonl").write_text('{"de": "Haus", "en": "house"}\n' * 40)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAXALIGN_TRUST", "1")
    with PluginFile.visible([PluginFile.open(file)]):
        planned(FOLDER_OF[what], f"my_{what}")
