"""BibTeX of what a grid used: what plug-ins declare is there, and what is there is declared."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from raxalign.catalog import FOLDERS, catalog
from raxalign.config.published import names
from raxalign.plan.load import open_grid
from raxalign.report.paper.references import cited, entries, references
from raxalign.version import VERSION
from tests.grids import write_grid

ROOT = Path(__file__).parents[2]
DECLARED = {
    paper.rpartition(" ")[2]
    for folder in FOLDERS
    for plugin in catalog(folder).values()
    for paper in getattr(plugin, "papers", ())
}


def keys(text: str) -> list[str]:
    return re.findall(r"^@\w+\{(.*),$", text, re.MULTILINE)


def test_every_paper_that_a_plug_in_or_a_published_table_names_has_an_entry_and_no_other() -> None:
    assert set(entries()) == DECLARED | set(names()) | {"holm1979"}
    for kind, method in catalog("methods").items():
        assert method.papers or kind == "none"


def test_every_entry_is_complete() -> None:
    for key, entry in entries().items():
        for field in ("author", "title", "year"):
            assert re.search(rf"^  {field} = {{.+}},$", entry, re.MULTILINE), (key, field)
        assert re.search(r"^  (doi|url) = {\S+},$", entry, re.MULTILINE), key
        assert re.search(r"^  (booktitle|journal|note) = ", entry, re.MULTILINE), key
        assert entry.count("{") == entry.count("}")
        assert entry.isascii(), "plain BibTeX reads no other letters"


def test_a_grid_cites_what_it_uses_under_its_options(tmp_path: Path) -> None:
    parts: dict[str, Any] = {"methods": ("none: {}", "rotation: {}"), "tasks": ("retrieval: {}",)}
    opened = open_grid(write_grid(tmp_path, **parts), storage=str(tmp_path / "storage"))
    text = references(opened.plan, ["weam2021", "a_table_of_mine.yaml"])
    assert {"cao2020", "wang2019", "conneau2018csls", "weam2021", "holm1979"} < set(keys(text))
    assert not {"wu2020", "conneau2018xnli"} & set(keys(text))
    assert keys(text)[0] == "raxalign"
    papers = ("@misc{mine, title = {A=B c}}", "data=hub pan2017")
    assert list(cited(papers, {"data": {"path": "github/x"}})) == [papers[0]]
    assert list(cited(papers, {"data": "hub"})) == [papers[0], "pan2017"]


def test_the_citation_of_raxalign_has_its_version() -> None:
    assert f"version: {VERSION}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
