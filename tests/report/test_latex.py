"""Text in LaTeX: signs, words of other scripts, and documents that three engines compile."""

from __future__ import annotations

from pathlib import Path

import pytest

from raxalign.report.document import Document, Entry, Line, Part, Table
from raxalign.report.paper.latex import tex
from raxalign.report.render import as_html, as_latex
from tests.report.compiled import ENGINES, faults

WORDS = {
    "Greek": "σειρά",
    "Cyrillic": "слово",
    "CJK": "语言",
    "Hiragana": "ことば",
    "Hangul": "언어",
    "Devanagari": "हिन्दी",
    "Thai": "ภาษา",
    "Georgian": "ენა",
    "Latin": "tiếng",
}
LEFTWARD = {"Arabic": "كلمة", "Hebrew": "מילה"}


@pytest.mark.parametrize(("script", "word"), WORDS.items())
def test_a_greek_letter_is_a_symbol_alone_and_no_formula_stands_within_a_word(
    script: str, word: str
) -> None:
    assert tex(f"{word} 12") == f"\\raxtext{{{script}}}{{{word}}} 12"
    assert tex("λ=1, α, ρ = .3") == r"$\lambda$=1, $\alpha$, $\rho$ = .3"


@pytest.mark.parametrize(("script", "word"), LEFTWARD.items())
def test_words_from_right_to_left_keep_the_numbers_next_to_them(script: str, word: str) -> None:
    assert tex(f"{word} 12, {word} 3") == (
        f"\\raxleft{{{script}}}{{{word}}} 12, \\raxleft{{{script}}}{{{word}}} 3"
    )
    assert tex(f"{word} 2019 {word}{word}.", sentence=True) == (
        f".\\raxleft{{{script}}}{{{word}{word}}} 2019 \\raxleft{{{script}}}{{{word}}}"
    )
    page = as_html(_document())
    assert f"<bdi>{word}</bdi> 12" in page
    assert f"<bdi>{word} 2019 {word}</bdi>" in page


def test_words_of_european_languages_and_options_stay_as_they_are() -> None:
    assert tex("Größe, řeč, Łódź, œuvre") == "Größe, řeč, Łódź, œuvre"
    assert tex("“x” – `--compare` 5 ± 2 %") == (
        r"``x'' -- \textasciigrave{}-{}-compare\textasciigrave{} 5 $\pm$ 2 \%"
    )


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_words_of_all_scripts_compile_and_no_character_is_missing(
    engine: str, tmp_path: Path
) -> None:
    text = as_latex(_document())
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
