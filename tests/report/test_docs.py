"""The pages made from the catalogue are up to date, and the grids that the pages show are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from raxalign.catalog import catalog
from raxalign.config._data import CorpusSettings, PairsSettings
from raxalign.config._validate import key_names
from raxalign.config.grid import KEYS, load
from raxalign.config.run import RunConfig
from raxalign.errors import RaxalignError
from raxalign.report.catalogue import FOLDERS, as_markdown, describe

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", FOLDERS)
def test_pages_are_those_of_the_code(folder: str) -> None:
    page = (ROOT / "docs" / f"{folder}.md").read_text(encoding="utf-8")
    assert page == as_markdown(folder), f"make it again: raxalign list {folder} --format markdown > docs/{folder}.md"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_plugin_and_option_is_told(folder: str) -> None:
    text, page = describe(folder), as_markdown(folder)
    for kind, plugin in catalog(folder).items():
        assert f"{kind}: " in text
        assert f"## {kind}" in page
        for name in key_names(plugin.Params):
            assert f"    {name}: " in text
            assert f"| `{name}` |" in page


def test_an_unknown_kind_is_told() -> None:
    with pytest.raises(RaxalignError, match="there are methods, tasks"):
        describe("zebras")


@pytest.mark.parametrize("page", ["README.md", "docs/grid-file.md"])
def test_grids_on_pages_load(page: str, tmp_path: Path) -> None:
    found = re.findall(r"```yaml\n(name:.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert found
    for text in found:
        (tmp_path / "grid.yaml").write_text(text, encoding="utf-8")
        load(tmp_path / "grid.yaml")


def test_every_key_of_a_grid_file_has_its_line() -> None:
    page = (ROOT / "docs" / "grid-file.md").read_text(encoding="utf-8")
    for name in [*KEYS, *key_names(CorpusSettings), *key_names(PairsSettings), *key_names(RunConfig)]:
        assert f"`{name}`" in page, name
