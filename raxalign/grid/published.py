"""The papers' figures as data: one YAML file per paper, one entry per table.

The package's own files are `raxalign/published/<name>.yaml`. A grid names them, those of entry
points of the group ``raxalign.published`` (whose value is the package that holds
``<name>.yaml``), and files of the user's own by their paths.

A table has `source` (its number in the paper, or where else it stands), `url` and `licence` where
the figures were read from elsewhere, `title`, `split`, `unit`, `columns`, `rows` (label
-> `values` in the order of the columns; null is a cell that the paper leaves empty, a list is one
value for each of the rule's `metrics`) and `notes` on itself or on one cell. Rules choose the
results that are shown next to a figure: the table's `match`, the column's (`where`; a column
without a rule is a language) and the row's, joined in this order. A row without a rule is shown as
published and never measured. `means` are columns that are means over the others.

The section `published`: papers whose tables are shown next to the results.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from raxalign.errors import DataError, GridError
from raxalign.grid._validate import validate
from raxalign.grid.yaml_file import Faults, Node
from raxalign.options.sources import absolute

SCALAR = bool | int | float | str | None
FOLDER = Path(__file__).resolve().parent.parent / "published"
GROUP = "raxalign.published"
SUFFIXES = (".yaml", ".yml")
_NAME = re.compile(r"[A-Za-z0-9_-]+")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


class Rule(_Frozen):
    """By which trials and scores a figure is measured; what is not given does not matter, a list
    holds the values that will do.

    Must hold: `task` and `method` (kinds), `name` (the task's in the grid), `lang`, `metric` or
    `metrics`, `task_params`, `params`, `encoder` and `not_encoder` (parts of its label); none of
    `not_params` may. In a grid without any encoder of the publication, another one stands in for an
    `encoder` that the publication names, with a note. Should hold, or else the cell has a note:
    `sentences`, `prefers` (method's params), `expects` (task's params; of several tasks the one
    most like them is taken). Of a method's or task's param, null means that there is none of that
    name; `freeze.blocks` is a part of one. Scores over layers and weights (token translation) are
    named by `stem`, `layer` and `alpha`, and those of single layers by `stem` and `layer`;
    `best_of` takes the best of a stem, and `show` what of it is shown. `per_language` names a
    numeric param of the method that is chosen for each column by its dev value, among the grid's
    values that the rule allows; `show: alpha` then shows the chosen one.
    """

    task: tuple[str, ...] | None = None
    name: tuple[str, ...] | None = None
    lang: str | None = None
    metric: str | None = None
    metrics: tuple[str, ...] | None = None
    method: tuple[str, ...] | None = None
    params: Mapping[str, SCALAR | tuple[SCALAR, ...]] = Field(default_factory=dict)
    not_params: Mapping[str, SCALAR | tuple[SCALAR, ...]] = Field(default_factory=dict)
    prefers: Mapping[str, SCALAR | tuple[SCALAR, ...]] = Field(default_factory=dict)
    task_params: Mapping[str, SCALAR | tuple[SCALAR, ...]] = Field(default_factory=dict)
    expects: Mapping[str, SCALAR | tuple[SCALAR, ...]] = Field(default_factory=dict)
    sentences: int | None = None
    encoder: tuple[str, ...] | None = None
    not_encoder: tuple[str, ...] | None = None
    stem: str | None = None
    layer: int | None = None
    alpha: float | None = None
    best_of: str | None = None
    per_language: str | None = None
    show: Literal["value", "layer", "alpha"] = "value"

    @property
    def means_trials(self) -> bool:
        """Whether it names no score: an analysis then measures the trials themselves."""
        return not (self.metric or self.metrics or self.stem or self.best_of)

    def joined(self, other: Rule | None) -> Rule:
        """This rule with what another adds or replaces; mappings are joined entry by entry."""
        if other is None:
            return self
        given = {name: getattr(other, name) for name in other.model_fields_set}
        for name in ("params", "not_params", "prefers", "task_params", "expects"):
            if name in given:
                given[name] = {**getattr(self, name), **given[name]}
        return self.model_copy(update=given)


class PublishedRow(_Frozen):
    """One printed row; `unit` where it is not the table's."""

    values: tuple[float | tuple[float, ...] | None, ...]
    match: Rule | None = None
    unit: str | None = None


class Note(_Frozen):
    """A remark on a table, or on a row, a column or a cell of it; `disputed` figures are marked,
    and `instead` is what they should be.
    """

    text: str
    row: str | None = None
    column: str | None = None
    disputed: bool = False
    instead: float | tuple[float, ...] | None = None


class PublishedTable(_Frozen):
    """One table of a paper; see the module for its parts. `analysis` names the analysis that
    measures it: of a task's predictions, or of the trials where the rules name no metric.
    """

    source: str
    title: str
    url: str | None = None
    licence: str | None = None
    split: Literal["dev", "test"] = "test"
    unit: str | None = None
    columns: tuple[str, ...]
    means: Mapping[str, Literal["all", "zero-shot"]] = Field(default_factory=dict)
    match: Rule | None = None
    where: Mapping[str, Rule] = Field(default_factory=dict)
    rows: Mapping[str, PublishedRow]
    notes: tuple[Note, ...] = ()
    analysis: str | None = None

    @property
    def counts(self) -> bool:
        """Whether an analysis of the trials measures it: its figures are not scores."""
        return self.analysis is not None and (self.match is None or self.match.means_trials)

    def rule(self, row: str, column: str) -> Rule | None:
        """Return the joined rule of a cell that is not a mean; None where nothing measures it. An
        analysis measures what has a mean over languages. Where a param is chosen for each column,
        a column without a figure has nothing to choose.
        """
        own = self.rows[row].match
        if own is None or self.match is None:
            return None
        printed = self.rows[row].values[self.columns.index(column)]
        if own.per_language is not None and printed is None:
            return None
        lang = column if self.analysis is None else "avg"
        return self.match.joined(self.where.get(column, Rule(lang=lang))).joined(own)


class Publication(_Frozen):
    """The tables of one paper: `short` is how it is cited, `encoder` the labels of its encoder."""

    paper: str
    short: str
    encoder: tuple[str, ...]
    notes: tuple[str, ...] = ()
    tables: Mapping[str, PublishedTable]

    @classmethod
    def read(cls, name: str) -> Publication:
        """Read a publication: a name in `names()`, or the path of a file of the user's own. Raises
        `GridError` with every fault and its line.
        """
        path = file_of(name)
        try:
            stat = path.stat()
        except OSError:
            return _read(path, None)
        return _read(path, (stat.st_mtime_ns, stat.st_size))

    @staticmethod
    def short_name(name: str) -> str:
        """Return the name of a publication in anchors and in published.csv: of a file its stem."""
        return Path(name).stem if Path(name).suffix in SUFFIXES else name

    @classmethod
    def named(cls, node: Node, faults: Faults) -> tuple[str, ...]:
        """Read the section: names of publications, and absolute paths of the user's own."""
        found: dict[str, str] = {}
        for item in node.items():
            name, remedy = item.value, f"known: {', '.join(names())}; or a path to a file"
            if not isinstance(name, str) or not name.strip():
                faults.add(item, f"{item.shown()} is not the name of a table", remedy)
                continue
            if Path(name).suffix in SUFFIXES:
                name = absolute(name.strip(), faults.folder or Path())
            elif name not in names():
                remedy = faults.suggestion(name, names())
                faults.add(item, f"unknown publication {name!r}", remedy)
                continue
            short = cls.short_name(name)
            own = name != short and short in names()
            if own or found.get(short, name) != name:
                other = "a publication of raxalign" if own else found[short]
                faults.add(item, f"the name {short!r} is taken by {other}", "rename the file")
                continue
            _check_publication(item, name, faults)
            found[short] = name
        return tuple(found.values())


def names() -> tuple[str, ...]:
    """Return the publications that a grid can name: the package's and those of entry points. The
    folder is listed anew each time, and no file is read.
    """
    return tuple(sorted({*(path.stem for path in FOLDER.glob("*.yaml")), *_entry_points()}))


def file_of(name: str) -> Path:
    """Return the file of a publication: of a name in `names()`, or a file of the user's own by its
    path. Raises `DataError` where the package that an entry point names does not have the file.
    """
    if Path(name).suffix in SUFFIXES:
        return Path(name)
    entry = _entry_points().get(name)
    own = FOLDER / f"{name}.yaml"
    if entry is None or own.is_file():
        return own
    try:
        spec = find_spec(entry.value)
    except ImportError:
        spec = None
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        if (Path(folder) / f"{name}.yaml").is_file():
            return Path(folder) / f"{name}.yaml"
    raise DataError(
        f"entry point {name} = {entry.value} of the group {GROUP}",
        f"the package {entry.value} has no file {name}.yaml",
        remedy="The value of the entry point is the package whose folder holds the file",
    )


@cache
def _read(path: Path, version: tuple[int, int] | None) -> Publication:  # noqa: ARG001
    """Read a file once per version of it."""
    faults = Faults()
    root, _ = faults.read(path)
    publication = validate(Publication, root, faults)
    if publication is not None and not faults:
        _check(publication, root, faults)
    if publication is None or faults:
        raise GridError(path, list(faults.found))
    return publication


def _check(publication: Publication, root: Node, faults: Faults) -> None:
    """Add the faults that only the whole of a table shows."""
    for label, table in publication.tables.items():
        node = root.value["tables"].value[label]
        if not _NAME.fullmatch(label):
            faults.add(node, "is not a valid label", "letters, digits, - and _")
        for row, entry in table.rows.items():
            if len(entry.values) != len(table.columns):
                values = node.value["rows"].value[row].value["values"]
                counts = f"{len(entry.values)} values for {len(table.columns)} columns"
                faults.add(values, counts, "write null where the paper leaves a cell empty")
        parts = ((part, name) for part in ("means", "where") for name in getattr(table, part))
        named: list[tuple[str, str | None, Node]] = [
            ("column", name, node.value[part].value[name]) for part, name in parts
        ]
        for place, note in enumerate(table.notes):
            at = node.value["notes"].value[place]
            named += [("row", note.row, at), ("column", note.column, at)]
        for what, name, at in named:
            known = table.rows if what == "row" else table.columns
            if name is not None and name not in known:
                faults.add(at, f"no {what} {name!r}", faults.suggestion(name, known))


@cache
def _entry_points() -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _check_publication(item: Node, name: str, faults: Faults) -> None:
    """Read a publication from outside the package; its faults are named by its file and line."""
    try:
        if file_of(name).parent != FOLDER:
            Publication.read(name)
    except DataError as error:
        faults.add(item, str(error))
    except GridError as error:
        for fault in error.faults:
            line = f":{fault.line}" if fault.line is not None else ""
            whole = fault.key == "grid"  # what would be right is then that of a grid file
            problem = fault.problem if whole else f"{fault.key}: {fault.problem}"
            remedy = "docs/how-to/report.md describes the form" if whole else fault.remedy
            faults.add(item, f"{error.path}{line}: {problem}", remedy)
