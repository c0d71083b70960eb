"""A report as a value, which is rendered as HTML, Markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

Mark = Literal["", "better", "worse"]
State = Literal["value", "published", "absent", "empty"]
Verdict = Literal[
    "", "better", "worse", "no difference", "not after correction", "cannot tell", "=", "baseline"
]


def identifier(name: str) -> str:
    """Return a name that can stand in links and file names.

    >>> identifier("grid-first: retrieval-bleu-test")
    'grid-first-retrieval-bleu-test'
    """
    return re.sub(r"[^\w.-]+", "-", name)


@dataclass(frozen=True)
class Entry:
    """One cell: `text` (a mean) with `spread` (its interval); `below` is a published figure.
    `delta` is the difference to that, or, where there is none, to the baseline; `worse` is whether
    it is for the worse (None: unknown).

    `mark` says that the value is significantly better or worse than that of the baseline; `notes`
    are numbers of the table's notes, from 1; `state` tells a measured value from a published one
    alone, one that was not run, and a cell that nobody fills. In a matrix `verdict` says in words
    what the test against the baseline says, `says` adds the difference that could be seen, and
    `shade` colours the cell by the difference, from -4 (for the worse) to 4.
    """

    text: str
    spread: str = ""
    below: str = ""
    delta: str = ""
    mark: Mark = ""
    notes: tuple[int, ...] = ()
    state: State = "value"
    worse: bool | None = None
    verdict: Verdict = ""
    says: str = ""
    shade: int = 0


EMPTY = Entry("–", state="empty")
"""A cell that nothing fills."""


@dataclass(frozen=True)
class Line:
    """One row of a table: its label, the small print under it, and one cell per column. Rows of one
    `group` are shown together under its name.
    """

    label: str
    entries: tuple[Entry, ...]
    sub: str = ""
    notes: tuple[int, ...] = ()
    group: str = ""


@dataclass(frozen=True)
class Table:
    """A table with its caption and numbered notes; the column of labels is headed by `corner`. A
    table with an empty `anchor` gets a numbered one in the document.
    """

    anchor: str
    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    caption: str = ""
    notes: tuple[str, ...] = ()
    corner: str = "method"
    folded: bool = False

    def __post_init__(self) -> None:
        """Make the anchor one that a page can link to."""
        object.__setattr__(self, "anchor", identifier(self.anchor))

    @property
    def unmeasured(self) -> tuple[Line, ...]:
        """The lines without a measured value, where the table has others."""
        idle = [
            line for line in self.lines if all(entry.state != "value" for entry in line.entries)
        ]
        return tuple(idle) if len(idle) < len(self.lines) else ()


@dataclass(frozen=True)
class Figure:
    """A drawn figure: `name` is its files' stem, `svg` the text that a page embeds."""

    anchor: str
    title: str
    name: str
    svg: str = field(repr=False)
    caption: str = ""


@dataclass(frozen=True)
class Listing:
    """A text for a reader to copy, as it stands in a file."""

    title: str
    text: str = field(repr=False)


@dataclass(frozen=True)
class Part:
    """One headed part of the document: a heading, a paragraph, and the contents under them. Parts
    of the same anchor, which several sections may return, are joined.
    """

    anchor: str
    title: str
    lead: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Headline:
    """What a reader sees first: what became of the grid's claims, the answer, and matrices, that of
    the main task first.
    """

    sentence: str
    matrices: tuple[Table, ...] = ()
    claims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Share:
    """What one section adds to the report: parts, facts on how it was made, texts to copy, files
    (name -> text) next to the page, and what a reader sees first (of several the first).
    """

    parts: tuple[Part, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    headline: Headline | None = None
    listings: tuple[Listing, ...] = ()


@dataclass(frozen=True)
class Document:
    """The whole report; `facts` say how it was made, `listings` what it was made from, and
    `unfinished` what is missing.
    """

    title: str
    subtitle: str
    facts: tuple[tuple[str, str], ...]
    parts: tuple[Part, ...]
    legend: tuple[str, ...] = ()
    headline: Headline | None = None
    listings: tuple[Listing, ...] = ()
    unfinished: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """The facts that are notes."""
        return tuple(value for name, value in self.facts if name == "note")


@dataclass
class TableNotes:
    """The notes of a table while it is made: the same text has one number."""

    texts: list[str] = field(default_factory=list)

    def number(self, text: str) -> int:
        """Return the number of a note, from 1."""
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1

    def numbers(self, texts: Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of several, ascending."""
        return tuple(sorted({self.number(text) for text in texts}))


def with_notes(table: Table, texts: Sequence[str]) -> Table:
    """Return a table, whose lines and cells have numbers of texts from 1, with its notes in the
    order of reading. Those that hold for every measured cell, or line, stand once in the caption,
    and those that nothing refers to are left out.
    """
    cells = [entry for line in table.lines for entry in line.entries if entry.state == "value"]
    rows = [line for line in table.lines if any(entry.state == "value" for entry in line.entries)]
    everywhere: set[int] = set()
    for noted in (rows, cells):
        if len(noted) > 1:
            everywhere |= set.intersection(*(set(one.notes) for one in noted))
    caption = " ".join([table.caption, *(texts[number - 1] for number in sorted(everywhere))])
    order: dict[int, int] = {}
    for line in table.lines:
        for number in (*line.notes, *(number for entry in line.entries for number in entry.notes)):
            if number not in everywhere:
                order.setdefault(number, len(order) + 1)

    def own(notes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(order[number] for number in notes if number not in everywhere))

    lines = tuple(
        replace(
            line,
            notes=own(line.notes),
            entries=tuple(replace(entry, notes=own(entry.notes)) for entry in line.entries),
        )
        for line in table.lines
    )
    notes = tuple(texts[number - 1] for number in order)
    return replace(table, lines=lines, caption=caption, notes=notes)
