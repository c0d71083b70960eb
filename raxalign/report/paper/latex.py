"""Text for LaTeX that pdfLaTeX, XeLaTeX and LuaLaTeX all read: special characters, signs, and words
of scripts that not every engine or font can set; and text from right to left within other text.
"""

from __future__ import annotations

import re
import unicodedata

from markupsafe import Markup

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
