"""The papers' figures as data: `raxalign/published/<name>.yaml`, one file a paper, one entry a
table.

A table has `source` (its number in the paper), `title`, `split`, `unit`, `columns`, `rows` (label
-> `values` in the order of the columns; null is a cell that the paper leaves empty, a list is one
value for each of the rule's `metrics`) and `notes` on itself or on one cell. Which results stand
beside a figure is said by rules: the table's `match`, the column's (`where`; without one a column
is a language) and the row's, joined in this order. A row without a rule is shown as published and
never measured. `means` are columns that are means over the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCALAR = bool | int | float | str | None
FOLDER = Path(__file__).resolve().parent.parent / "published"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rule(_Frozen):
    """By which trials and scores a figure is measured; what is not given does not matter, a list
    holds the values that will do.

    Must hold: `task` and `method` (kinds), `name` (the task's in the grid), `lang`, `metric` or
    `metrics`, `task_params`, `params`, `encoder` and `not_encoder` (parts of its label); none of
    `not_params` may. Should hold, and where not, the cell says so: `sentences`, `prefers` (method's
    params), `expects` (task's params; of several tasks the one most like them is taken). Of a
    method's or task's param, null means that there is none of that name. Scores over layers and
    weights (token translation) are named by `stem`, `layer` and `alpha`; `best_of` takes the best
    of a stem, and `show` what of it is shown.
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
    show: Literal["value", "layer", "alpha"] = "value"

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
    """One table of a paper; see the module for its parts. `analysis` names the analysis of a task's
    predictions that measures it.
    """

    source: str
    title: str
    split: Literal["dev", "test"] = "test"
    unit: str | None = None
    columns: tuple[str, ...]
    means: Mapping[str, Literal["all", "zero-shot"]] = Field(default_factory=dict)
    match: Rule | None = None
    where: Mapping[str, Rule] = Field(default_factory=dict)
    rows: Mapping[str, PublishedRow]
    notes: tuple[Note, ...] = ()
    analysis: str | None = None

    def rule(self, row: str, column: str) -> Rule | None:
        """The joined rule of a cell that is no mean; None where nothing measures it. An analysis
        measures what has a mean over languages.
        """
        own = self.rows[row].match
        if own is None or self.match is None:
            return None
        lang = column if self.analysis is None else "avg"
        return self.match.joined(self.where.get(column, Rule(lang=lang))).joined(own)


class Publication(_Frozen):
    """The tables of one paper: `short` is how it is cited, `encoder` the labels of the encoder that
    it measured.
    """

    paper: str
    short: str
    encoder: tuple[str, ...]
    notes: tuple[str, ...] = ()
    tables: Mapping[str, PublishedTable]


@cache
def names() -> tuple[str, ...]:
    """The publications that there are; one listing, no file is read."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def read(name: str) -> Publication:
    """The publication of a name in `names()`; raises ValueError (pydantic's) where its file breaks
    the form, or a row has the wrong length.
    """
    from ruamel.yaml import YAML

    data: Any = YAML(typ="safe", pure=True).load(
        (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    )
    publication = Publication.model_validate(data)
    for label, table in publication.tables.items():
        for row, entry in table.rows.items():
            if len(entry.values) != len(table.columns):
                raise ValueError(
                    f"{name}: {label}: {row}: {len(entry.values)} values for {len(table.columns)}"
                    " columns"
                )
        known = {
            (note.row or row, note.column or column)
            for note in table.notes
            for row in table.rows
            for column in table.columns
        }
        if not known <= {(row, column) for row in table.rows for column in table.columns}:
            raise ValueError(f"{name}: {label}: a note on a row or column that is not there")
    return publication
