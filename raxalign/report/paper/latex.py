"""Text for LaTeX that pdfLaTeX, XeLaTeX and LuaLaTeX all read: special characters, signs, and words
of scripts that not every engine or font can set.
"""

from __future__ import annotations

import re
import unicodedata

from raxalign.report.paper.scripts import RIGHT_TO_LEFT, runs_left

_SIGNS = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
    '"': "''",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "÷": r"$\div$",
    "·": r"$\cdot$",
    "°": r"\textdegree{}",
    "§": r"\S{}",
    "′": r"$'$",
    "→": r"$\to$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≈": r"$\approx$",
    "○": r"$\circ$",
    "▲": r"$\uparrow$",
    "▼": r"$\downarrow$",
    "„": r"\quotedblbase{}",
    "«": r"\guillemotleft{}",
    "»": r"\guillemotright{}",
    "€": r"\texteuro{}",
    "∞": r"$\infty$",
    "“": "``",
    "”": "''",
    "‘": "`",
    "’": "'",
    "–": "--",
    "—": "---",
    "…": r"\dots{}",
    "\N{NO-BREAK SPACE}": "~",
}
_GREEK = {
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "δ": r"$\delta$",
    "η": r"$\eta$",
    "λ": r"$\lambda$",
    "μ": r"$\mu$",
    "ρ": r"$\rho$",
    "σ": r"$\sigma$",
    "τ": r"$\tau$",
}
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
