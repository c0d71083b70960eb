"""A report as HTML, Markdown and LaTeX: what the templates need escaped, and how captions and cells
are worded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from raxalign.analysis.cells import MEANS, Cell
from raxalign.plan.plan import Plan
from raxalign.plan.trial import plain
from raxalign.plan.values.comparisons import ONE_BY_ONE
from raxalign.plan.values.numbers import UNDECLARED
from raxalign.report.document import Document, Table

if TYPE_CHECKING:
    from jinja2 import Environment


def symbol(axis: str) -> str:
    """Return a param's Greek letter, or its name where it has none.

    >>> symbol("lambda"), symbol("strength")
    ('λ', 'strength')
    """
    return {"lambda": "λ", "alpha": "α"}.get(axis, axis)


def in_columns(lang: str, unseen: Container[str] = ()) -> str:
    """Return the heading of a language's column; `unseen` are those that no method has aligned.

    >>> in_columns("avg_zero_shot"), in_columns("de"), in_columns("sw", {"sw"})
    ('mean, zero-shot', 'de', 'sw, unseen')
    """
    return f"{lang}, unseen" if lang in unseen else MEANS.get(lang, lang)


UNALIGNED = "°"


def marked(text: str, cell: Cell, lang: str) -> str:
    """Return a number with a mark where the set that was aligned leaves out its language."""
    return text + UNALIGNED if cell.set and lang in cell.unseen else text


def unaligned(cells: Iterable[Cell]) -> str:
    """Return what a caption says of the mark; nothing without sets."""
    found = any(cell.set and cell.unseen for cell in cells)
    return f" {UNALIGNED}: the language is not in the set that was aligned." if found else ""


def capitalized(text: str) -> str:
    """Return a text with its first letter in upper case and the others as they are.

    >>> capitalized("mean BLEU")
    'Mean BLEU'
    """
    return text[:1].upper() + text[1:]


def named(cell: Cell, plan: Plan) -> str:
    """Return the method of a cell with the params that vary: ``finetune λ=0.1``."""
    axes = [axis for axis in plan.axes.get(cell.method, ()) if axis in cell.params]
    values = (f"{symbol(axis)}={plain(cell.params[axis])}" for axis in axes)
    return " ".join([cell.method, *values, *plan.marks_of(cell)])


def measured(cell: Cell, plan: Plan, per_language: str | None = None) -> str:
    """Return the text under the name of a published row: the method, its params that vary, without
    the one that has a value per language, and the size of its training set.
    """
    size = f", {cell.sentences:,} pairs" if cell.sentences is not None else ""
    if per_language is None:
        return f"{named(cell, plan)}{size}"
    rest = {name: value for name, value in cell.params.items() if name != per_language}
    return f"{named(replace(cell, params=rest), plan)}, {symbol(per_language)} per language{size}"


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


def as_html(document: Document) -> str:
    """Return one self-contained page, for which nothing is fetched."""
    text = _environment().get_template("report.html.j2").render(document=document)
    return re.sub(r"\n+", "\n", text)


def as_markdown(document: Document) -> str:
    """Return the same tables in Markdown; figures are links to their files."""
    return _rendered("report.md.j2", document=document)


def as_latex(document: Document) -> str:
    """Return the tables with booktabs, in a document that compiles by itself."""
    return _rendered("report.tex.j2", document=document)


def short_latex(table: Table) -> str:
    r"""Return one table with booktabs, to be read into a paper by ``\input``."""
    return _rendered("table.tex.j2", table=table)


def short_markdown(table: Table) -> str:
    """Return one table in Markdown."""
    return _rendered("table.md.j2", table=table)


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
    filters = (tex, letters, breakable, directed, isolated, classes, kept, fenced)
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
_PIECE = re.compile(
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
    return "".join(_piece(found) for part in parts for found in _PIECE.finditer(part))


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


def runs_left(text: str) -> bool:
    """Return whether a whole text, such as a sentence, begins from the right."""
    return re.match(RIGHT_TO_LEFT, text) is not None
