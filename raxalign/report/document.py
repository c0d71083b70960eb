"""A report as a value, which is rendered as HTML, Markdown and LaTeX."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal

from markupsafe import Markup

from raxalign.analysis.cells import Cell
from raxalign.values.comparisons import ONE_BY_ONE
from raxalign.values.numbers import UNDECLARED

if TYPE_CHECKING:
    from jinja2 import Environment

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

    EMPTY: ClassVar[Entry]
    """A cell that nothing fills."""


Entry.EMPTY = Entry("–", state="empty")


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

    def latex(self) -> str:
        r"""Return the table with booktabs, to be read into a paper by ``\input``."""
        return _rendered("table.tex.j2", table=self)

    def markdown(self) -> str:
        """Return the table in Markdown."""
        return _rendered("table.md.j2", table=self)


@dataclass(frozen=True)
class Figure:
    """A drawn figure: `name` is its files' stem, `svg` the text that a page embeds; a `wide` one
    stands alone in its row, of others there are two.
    """

    anchor: str
    title: str
    name: str
    svg: str = field(repr=False)
    caption: str = ""
    wide: bool = False


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
    """What a reader sees first: what became of the grid's claims, and how many have which verdict,
    the answer, and matrices, that of the main task first.
    """

    sentence: str
    matrices: tuple[Table, ...] = ()
    claims: tuple[str, ...] = ()
    verdicts: str = ""


@dataclass(frozen=True)
class Share:
    """What one section adds to the report: parts, facts on how it was made, texts to copy, files
    (name -> text) next to the page, and what a reader sees first (of several the first).
    """

    parts: tuple[Part, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    headline: Headline | None = None
    listings: tuple[tuple[str, str], ...] = ()


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
    listings: tuple[tuple[str, str], ...] = ()
    unfinished: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """The facts that are notes."""
        return tuple(value for name, value in self.facts if name == "note")

    def html(self) -> str:
        """Return one self-contained page, for which nothing is fetched."""
        text = _environment().get_template("report.html.j2").render(document=self)
        return re.sub(r"\n+", "\n", text)

    def markdown(self) -> str:
        """Return the same tables in Markdown; figures are links to their files."""
        return _rendered("report.md.j2", document=self)

    def latex(self) -> str:
        """Return the tables with booktabs, in a document that compiles by itself."""
        return _rendered("report.tex.j2", document=self)


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

    def on(self, table: Table) -> Table:
        """Return a table, whose lines and cells have numbers of these texts, with its notes in the
        order of reading. Those that hold for every measured cell, or line, stand once in the
        caption, and those that nothing refers to are left out.
        """
        cells = [entry for line in table.lines for entry in line.entries if entry.state == "value"]
        rows = [
            line for line in table.lines if any(entry.state == "value" for entry in line.entries)
        ]
        everywhere: set[int] = set()
        for noted in (rows, cells):
            if len(noted) > 1:
                everywhere |= set.intersection(*(set(one.notes) for one in noted))
        caption = " ".join(
            [table.caption, *(self.texts[number - 1] for number in sorted(everywhere))]
        )
        order: dict[int, int] = {}
        for line in table.lines:
            for number in (
                *line.notes,
                *(number for entry in line.entries for number in entry.notes),
            ):
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
        notes = tuple(self.texts[number - 1] for number in order)
        return replace(table, lines=lines, caption=caption, notes=notes)


UNALIGNED = "°"


def marked(text: str, cell: Cell, lang: str) -> str:
    """Return a number with a mark where the set that was aligned leaves out its language."""
    return text + UNALIGNED if cell.set and lang in cell.unseen else text


def unaligned(cells: Iterable[Cell]) -> str:
    """Return what a caption says of the mark; nothing without sets."""
    found = any(cell.set and cell.unseen for cell in cells)
    return f" {UNALIGNED}: the language is not in the set that was aligned." if found else ""


MARKS = {"better": "▲", "worse": "▼"}
SIGNS = {
    **MARKS,
    "no difference": "≈",
    "not after correction": "○",
    "cannot tell": "○",
    "=": "",
    "baseline": "",
}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~$]|&(?=#?\w+;))")
_LINE = re.compile(r"^(\s*)([#+-]|\d+[.)])(?=\s)", re.MULTILINE)
_ANGLES = {
    "variable_start_string": "<<",
    "variable_end_string": ">>",
    "block_start_string": "<%",
    "block_end_string": "%>",
    "comment_start_string": "<#",
    "comment_end_string": "#>",
}
"""How code stands in templates of LaTeX, which is full of braces."""


def caption(name: str, /, **values: object) -> str:
    """Return what ``captions.j2`` says under a name, in one line; dashes are underscores there."""
    return re.sub(r"[ \n]+", " ", macro("captions.j2", name.replace("-", "_"), **values)).strip()


def macro(template: str, name: str, /, **values: object) -> str:
    """Return what a macro of a template makes of some values, without empty lines in a row."""
    return _spaced(getattr(_environment().get_template(template).module, name)(**values))


def _rendered(template: str, **values: Document | Table) -> str:
    environment = _environment(angles=template.endswith(".tex.j2"))
    return _spaced(environment.get_template(template).render(values))


def _spaced(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def markdown(text: object) -> str:
    """Return text for Markdown in one line, in a table or outside of one."""
    return _LINE.sub(r"\1\\\2", _MARKDOWN.sub(r"\\\1", " ".join(str(text).split())))


def letter(number: int) -> str:
    """Return the mark of a note: a, b, ..., z, aa.

    >>> [letter(n) for n in (1, 26, 27)]
    ['a', 'z', 'aa']
    """
    text = ""
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def letters(numbers: tuple[int, ...]) -> str:
    """Return the marks of several notes."""
    return ",".join(map(letter, numbers))


def breakable(text: str) -> str:
    """Return text of a page that may also break after an underscore, a slash, or a comma that is
    not in a number; words from right to left are isolated.
    """
    parts = re.split(r"(?<=[_/])|(?<=,)(?=[^\W\d])", text)
    return Markup("<wbr>").join(map(isolated, parts))


def directed(text: str) -> str:
    """Return text of a cell; a sentence from right to left is isolated as a whole."""
    return Markup("<bdi>{}</bdi>").format(text) if runs_left(text) else isolated(text)


def capitalized(text: str) -> str:
    """Return a text with its first letter in upper case and the others as they are.

    >>> capitalized("mean BLEU")
    'Mean BLEU'
    """
    return text[:1].upper() + text[1:]


def kept(text: str) -> str:
    """Return text of a page whose line breaks are kept, empty lines too."""
    return Markup("&#10;").join(text.split("\n"))


def fenced(text: str) -> str:
    """Return text for Markdown as it stands, between fences that are longer than any of its own."""
    fence = "`" * max([3, *(len(found) + 1 for found in re.findall(r"`+", text))])
    return f"{fence}\n{text.rstrip()}\n{fence}"


def classes(names: Sequence[object]) -> str:
    """Return the class attribute of an element, or nothing where no name is left."""
    found = " ".join(str(name) for name in names if name)
    return Markup(' class="{}"').format(found) if found else ""


@cache
def _environment(*, angles: bool = False) -> Environment:
    """Return the templates' environment; with `angles`, code stands in << >> and <% %>."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("raxalign.report", "templates"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **(_ANGLES if angles else {}),
    )
    environment.globals |= {"marks": MARKS, "signs": SIGNS}
    environment.globals |= {"one_by_one": ONE_BY_ONE, "undeclared": UNDECLARED}
    pages = (breakable, directed, isolated, prose, classes, kept)
    filters = (tex, letters, *pages, fenced, capitalized)
    environment.filters |= {"md": markdown, **{made.__name__: made for made in filters}}
    return environment


_LEFTWARD = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff"
RIGHT_TO_LEFT = f"[{_LEFTWARD}](?:[ '’-]*[{_LEFTWARD}])*"
"""The pattern of words of Hebrew, Arabic and other scripts from right to left."""
_TEXT = "backslash asciitilde asciicircum asciigrave less greater bar degree euro"
_MATH = "pm times div cdot to le ge approx circ uparrow downarrow infty"
_SIGNS = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{sign: rf"\text{name}{{}}" for sign, name in zip("\\~^`<>|°€", _TEXT.split(), strict=True)},
    **{sign: rf"$\{name}$" for sign, name in zip("±×÷·→≤≥≈○▲▼∞", _MATH.split(), strict=True)},
    '"': "''",
    "−": "$-$",
    "§": r"\S{}",
    "′": r"$'$",
    "„": r"\quotedblbase{}",
    "«": r"\guillemotleft{}",
    "»": r"\guillemotright{}",
    "“": "``",
    "”": "''",
    "‘": "`",
    "’": "'",
    "–": "--",
    "—": "---",
    "…": r"\dots{}",
    "\N{NO-BREAK SPACE}": "~",
}
_LETTER = "alpha beta gamma delta eta lambda mu rho sigma tau"
_GREEK = {sign: rf"$\{name}$" for sign, name in zip("αβγδηλμρστ", _LETTER.split(), strict=True)}
"""Symbols where they stand alone; within a word they are letters of it."""
_LETTERS = "À-ÖØ-öø-ĥĨ-ķĹ-ľŁ-ňŊ-ťŨ-ž"
"""The letters besides ASCII that every engine has in its own fonts."""
_OTHER = rf"[^\x00-\x7f{_LETTERS}{''.join(sign for sign in _SIGNS if ord(sign) > 127)}]"
_PIECE = (  # compiled with the first text: tables of a terminal have no need of it
    rf"(?P<left>{RIGHT_TO_LEFT})"
    rf"|(?P<other>[^\W\d_]*(?=[^\W\d_]){_OTHER}(?:[^\W\d_]|{_OTHER})*|{_OTHER})"
    "|--|."
)


def tex(text: object, *, sentence: bool = False) -> str:
    r"""Return text for LaTeX in one line.

    A word of another script is ``\raxtext{its script}{word}``, and one that runs from right to left
    ``\raxleft{its script}{word}``; the report's preamble defines both. A `sentence` that begins
    from the right runs to the left as a whole.

    >>> tex("λ=0.1 & σειρά")
    '$\\lambda$=0.1 \\& \\raxtext{Greek}{σειρά}'
    """
    line = " ".join(str(text).split())
    leftward = sentence and runs_left(line)
    parts = reversed(re.split(f"({RIGHT_TO_LEFT})", line)) if leftward else [line]
    return "".join(_piece(found) for part in parts for found in re.finditer(_PIECE, part))


def _piece(found: re.Match[str]) -> str:
    text = found[0]
    if found["left"]:
        return rf"\raxleft{{{_script(text)}}}{{{text}}}"
    if found["other"]:
        return _GREEK.get(text) or rf"\raxtext{{{_script(text)}}}{{{text}}}"
    return "-{}-" if text == "--" else _SIGNS.get(text, text)


def _script(text: str) -> str:
    """The script of a word, by its first character; for a sign its whole name.

    >>> _script("слово"), _script("語"), _script("⇒")
    ('Cyrillic', 'CJK', 'rightwards double arrow')
    """
    name = unicodedata.name(text[0], f"U+{ord(text[0]):04X}")
    if not text[0].isalpha():
        return name.lower()
    script = re.split("[ -]", name)[0]
    return script if script == "CJK" else script.capitalize()


def isolated(text: object) -> Markup:
    """Return text of a page in which words from right to left are each a ``<bdi>``, so that they do
    not draw the numbers and signs next to them into their direction.

    >>> str(isolated("مرحبا 12 <b>"))
    '<bdi>مرحبا</bdi> 12 &lt;b&gt;'
    """
    parts = re.split(f"({RIGHT_TO_LEFT})", str(text))
    parts[1::2] = map(Markup("<bdi>{}</bdi>").format, parts[1::2])
    return Markup().join(parts)


def prose(text: object) -> Markup:
    """Return sentences of a page, in which the text between backticks is code.

    >>> str(prose("`raxalign ui` opens <b>"))
    '<code>raxalign ui</code> opens &lt;b&gt;'
    """
    parts: list[str] = re.split(r"`([^`]+)`", str(text))
    parts[1::2] = map(Markup("<code>{}</code>").format, parts[1::2])
    parts[::2] = map(isolated, parts[::2])
    return Markup().join(parts)


def runs_left(text: str) -> bool:
    """Return whether a whole text, such as a sentence, begins from the right."""
    return re.match(RIGHT_TO_LEFT, text) is not None
