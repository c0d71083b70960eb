"""Pages made from the catalogue, the grids that pages show, the page on the papers, BibTeX, and
text in LaTeX.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from raxalign.catalog import FOLDERS, catalog
from raxalign.corpora.base import CorpusInputs
from raxalign.errors import RaxalignError
from raxalign.grid._validate import key_names
from raxalign.grid.file import KEYS, load
from raxalign.grid.load import open_grid
from raxalign.grid.published import Publication, PublishedTable, names
from raxalign.grid.specs import CorpusSettings, PairsSettings
from raxalign.inspect.catalogue import PAGES, TRAINING, as_markdown, describe
from raxalign.options.run import RunConfig
from raxalign.report.compose import cited, entries, references
from raxalign.report.document import Document, Entry, Line, Part, Table, tex
from raxalign.version import VERSION
from tests.grids import write_grid
from tests.report.compiled import ENGINES, faults

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "papers.md"
CODE = re.compile(r"`([^`]+)`")
PAGES_MADE = [(folder,) for folder in (*FOLDERS, TRAINING)]
PAGES_MADE += [(folder, kind) for folder in PAGES for kind in catalog(folder)]
WORDS = {"Greek": "σειρά", "Cyrillic": "слово", "CJK": "语言", "Hiragana": "ことば"}
WORDS |= {"Hangul": "언어", "Devanagari": "हिन्दी", "Thai": "ภาษา", "Georgian": "ენა"}
WORDS |= {"Latin": "tiếng"}
SEARCHED = {
    "hyperparameter": "how-to/search",
    "resume": "how-to/interruptions",
    "checkpoint": "how-to/interruptions",
    "lambda": "reference/methods/finetune",
    "Procrustes": "reference/methods/rotation",
    "citation": "index",
    "GPU": "how-to/gpus",
    "out of memory": "how-to/gpus",
    "seed": "reference/grid-file",
    "significance": "explanation/statistics",
    "confidence interval": "explanation/statistics",
    "Slurm": "how-to/cluster",
    "learning rate": "reference/training",
    "tokenizer": "explanation/numbers",
    "MLflow": "how-to/mlflow",
    "CSV": "how-to/results",
    "LaTeX": "how-to/report",
}
LEFTWARD = {"Arabic": "كلمة", "Hebrew": "מילה"}


@pytest.mark.parametrize("words", PAGES_MADE, ids=" ".join)
def test_pages_are_those_of_the_code(words: tuple[str, ...]) -> None:
    name = "/".join(words)
    page = (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8")
    assert page == as_markdown(*words), (
        f"make it again: raxalign list {' '.join(words)} --format markdown"
        f" > docs/reference/{name}.md"
    )


def test_the_page_of_a_kind_links_to_its_papers() -> None:
    kinds = [(name, kind) for name in FOLDERS for kind in catalog(name)]
    for folder, kind in kinds:
        papers = getattr(catalog(folder)[kind], "papers", ())
        line = r"^Paper(?: \(`\S+` in `\w+`\))?: [^{}\\\n]+, \d{4}, <https://\S+>$"
        linked = re.findall(line, as_markdown(folder, kind), re.MULTILINE)
        assert len(linked) == len(papers), (folder, kind)


@pytest.mark.parametrize("folder", PAGES)
def test_no_page_is_of_what_is_gone(folder: str) -> None:
    pages = {path.stem for path in (ROOT / "docs" / "reference" / folder).iterdir()}
    assert pages == set(catalog(folder))


def test_the_page_of_the_commands_is_that_of_the_code() -> None:
    command = "-m typer raxalign.cli utils docs --name raxalign"
    made = subprocess.run(
        [sys.executable, *command.split()], capture_output=True, text=True, check=True, cwd=ROOT
    )
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert page == made.stdout, f"make it again: python {command} > docs/reference/commands.md"


@pytest.mark.slow
def test_the_search_of_the_site_shows_the_page_of_a_word_first(tmp_path: Path) -> None:
    pages = f"how-to/*,explanation/*.md,{','.join(f'{page}.md' for page in SEARCHED.values())}"
    command = [sys.executable, "-m", "sphinx", "-qD", f"include_patterns={pages}", ROOT / "docs"]
    subprocess.run([*command, tmp_path], check=True, stderr=subprocess.DEVNULL)
    text = (tmp_path / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    titles = {title.lower(): places for title, places in index["alltitles"].items()}
    for word, page in SEARCHED.items():
        entries = [place for place, _, main in index["indexentries"][word.lower()] if main]
        found = {index["docnames"][place] for place, *_ in titles.get(word.lower(), ())}
        assert {index["docnames"][place] for place in entries} | found == {page}, word


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_list_begins_with_a_table_of_all_and_has_every_option(folder: str) -> None:
    text = describe(folder)
    rows = text.split("\n\n")[0].splitlines()[2:]
    assert [row.split()[0] for row in rows] == list(catalog(folder))
    for kind, plugin in catalog(folder).items():
        assert f"{kind}: " in text
        part = as_markdown(folder, kind)
        assert folder in PAGES or part.rstrip() in as_markdown(folder)
        for name in key_names(plugin.Params):
            assert f"    {name}: " in text
            assert f"| `{name}` |" in part


def test_one_plugin_is_printed_with_a_sentence_per_option_in_80_columns() -> None:
    text = describe("methods", "finetune")
    assert text.startswith("finetune: Train the encoder so that linked words")
    sentence = "Weight of the regulariser, λ in the formula."
    assert f"\n  lambda: default 1 (number)\n      {sentence}\n" in text
    assert "\n  batch_size: paper 2, released 8, sane 8 (whole number)\n" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_options_of_a_mapping_follow_it() -> None:
    text = describe("methods", "strong_contrastive")
    whole = text.index("  freeze: default none (none | lower | upper | mapping)")
    assert whole < text.index("  freeze.blocks: required (text)")
    assert describe("methods", "none").endswith("No options.")


def test_an_unknown_kind_is_told() -> None:
    with pytest.raises(RaxalignError, match="there are methods, tasks"):
        describe("zebras")
    with pytest.raises(RaxalignError, match="did you mean finetune"):
        describe("methods", "fintune")


@pytest.mark.parametrize("page", ["README.md", "docs/reference/grid-file.md"])
def test_grids_on_pages_load(page: str, tmp_path: Path) -> None:
    found = re.findall(r"```yaml\n(name:.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    assert found
    for text in found:
        (tmp_path / "grid.yaml").write_text(text, encoding="utf-8")
        load(tmp_path / "grid.yaml")


def test_the_program_for_translation_memories_writes_what_is_read(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "how-to" / "own-text.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    side = '<tuv xml:lang="{}"><seg>{{}}</seg></tuv>'
    unit = f"<tu>{side.format('EN-US')}{side.format('de')}</tu>"
    codes = "<bpt i='1'>&lt;b&gt;</bpt>{}<ept i='1'>&lt;/b&gt;</ept><ph>x<sub>y</sub></ph>"
    first = unit.format(f"<hi>It</hi> {codes.format('is')}\n so.", "So ist &lt;es&gt;.")
    first += unit.format("", "leer")
    alone = '<tu><tuv lang="de"><seg>allein</seg></tuv></tu>'
    units = "".join([first, alone, unit.format("No.", "Nein.")])
    text = f'<?xml version="1.0"?><tmx><body>{units}</body></tmx>'
    (tmp_path / "memory.tmx").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(program, {})
    corpus = catalog("corpora")["moses"]
    path = str(tmp_path / "memory")
    places = {"source": f"{path}.de", "target": f"{path}.en"}
    pairs = corpus(corpus.Params(path=path)).read("de", "en", CorpusInputs(places, tmp_path))
    read = [(pair.source, pair.target) for pair in pairs]
    assert read == [("So ist <es>.", "It is so."), ("Nein.", "No.")]


def test_every_key_of_a_grid_file_has_its_line() -> None:
    page = (ROOT / "docs" / "reference" / "grid-file.md").read_text(encoding="utf-8")
    models = (CorpusSettings, PairsSettings, RunConfig)
    for name in [*KEYS, *(name for model in models for name in key_names(model))]:
        assert f"`{name}`" in page, name


class Item(NamedTuple):
    """One row of the page: a table or figure of a paper."""

    name: str
    grids: tuple[str, ...]
    sections: tuple[str, ...]
    told: str


def items(short: str) -> dict[str, Item]:
    """The rows under the heading of a paper."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {short}\n")[2]
    found = {}
    for line in text.partition("\n## ")[0].splitlines():
        if line.startswith("|"):
            name, _, grid, section, told = (cell.strip() for cell in line.strip("|").split("|"))
            found[name] = Item(name, tuple(CODE.findall(grid)), tuple(CODE.findall(section)), told)
    return {name: item for name, item in found.items() if name.strip("-") not in ("", "item")}


def measured(table: PublishedTable) -> bool:
    return any(
        table.rule(row, column) is not None
        for row in table.rows
        for column in table.columns
        if column not in table.means
    )


@pytest.mark.parametrize("name", names())
def test_every_published_table_is_named_and_what_is_measured_has_a_grid_of_its_paper(name):
    paper = Publication.read(name)
    there = items(paper.short)
    for label, table in paper.tables.items():
        item = there[table.source.replace("Table ", "T")]
        assert "published" in item.sections, f"{label}: the section that shows it"
        if measured(table):
            assert item.grids, f"{label} has rules, so that some grid measures it"
        for grid in item.grids:
            assert name in load(ROOT / grid).published, f"{grid} does not name {name}"


def test_grids_and_sections_on_the_page_exist_and_what_has_none_says_why() -> None:
    rows = [item for name in names() for item in items(Publication.read(name).short).values()]
    for item in rows:
        assert {*item.sections} <= {*catalog("sections")}, item.name
        assert item.grids or item.told, f"{item.name}: the page does not say why"
    papers = {
        f"grids/{path.name}"
        for path in (ROOT / "grids").glob("*.yaml")
        if load(path).published or re.search(r"20\d\d", path.name)
    }
    papers -= {"grids/paper.yaml", "grids/report-demo.yaml"}  # they show tables of several papers
    assert {grid for item in rows for grid in item.grids} == papers


def keys(text: str) -> list[str]:
    return re.findall(r"^@\w+\{(.*),$", text, re.MULTILINE)


def test_every_paper_that_a_plug_in_or_a_published_table_names_has_an_entry_and_no_other() -> None:
    plugins = [plugin for folder in FOLDERS for plugin in catalog(folder).values()]
    named = {paper.rpartition(" ")[2] for one in plugins for paper in getattr(one, "papers", ())}
    assert set(entries()) == named | set(names()) | {"holm1979"}
    for folder in ("methods", "tasks"):
        assert all(one.papers or kind == "none" for kind, one in catalog(folder).items())
    assert f"version: {VERSION}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


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


def test_a_greek_letter_is_a_symbol_alone_and_no_formula_stands_within_a_word() -> None:
    for script, word in WORDS.items():
        assert tex(f"{word} 12") == f"\\raxtext{{{script}}}{{{word}}} 12"
    assert tex("λ=1, α, ρ = .3") == r"$\lambda$=1, $\alpha$, $\rho$ = .3"
    assert tex("Größe, řeč, Łódź, œuvre") == "Größe, řeč, Łódź, œuvre"
    assert tex("“x” – `--compare` 5 ± 2 %") == (
        r"``x'' -- \textasciigrave{}-{}-compare\textasciigrave{} 5 $\pm$ 2 \%"
    )


@pytest.mark.parametrize(("script", "word"), LEFTWARD.items())
def test_words_from_right_to_left_keep_the_numbers_next_to_them(script: str, word: str) -> None:
    assert tex(f"{word} 12, {word} 3") == (
        f"\\raxleft{{{script}}}{{{word}}} 12, \\raxleft{{{script}}}{{{word}}} 3"
    )
    assert tex(f"{word} 2019 {word}{word}.", sentence=True) == (
        f".\\raxleft{{{script}}}{{{word}{word}}} 2019 \\raxleft{{{script}}}{{{word}}}"
    )
    page = _document().html()
    assert f"<bdi>{word}</bdi> 12" in page
    assert f"<bdi>{word} 2019 {word}</bdi>" in page


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_words_of_all_scripts_compile_and_no_character_is_missing(engine, tmp_path):
    text = _document().latex()
    assert "The name of a script in square brackets" in text
    (tmp_path / "words.tex").write_text(text, encoding="utf-8")
    assert faults(engine, tmp_path / "words.tex", tmp_path) == []


def _document() -> Document:
    """A table with words of all scripts in its labels, cells, notes and caption."""
    lines = [
        Line(f"{word} 12", (Entry(f"{word} 2019 {word}", spread="[1, 2]", notes=(1,)),), word)
        for word in (*WORDS.values(), *LEFTWARD.values())
    ]
    lines += [Line(f"{sign} ½ ⇒", (Entry("1", below="y"),)) for sign in ("[UNK]", "*", "λ", "Łódź")]
    caption = f"{', '.join(WORDS.values())}: 5 % & “x”."
    notes = (f"ρ, {LEFTWARD['Hebrew']}",)
    table = Table("words", "Words σειρά", ("слово",), tuple(lines), caption, notes)
    return Document("words", "语言", (), (Part("part", "Part", tables=(table,)),))
