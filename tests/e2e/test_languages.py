"""A grid over languages of many scripts, with codes of every form, from its text to its report."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.e2e.runs import Site

pytestmark = pytest.mark.slow

_LETTERS = {
    "eng_Latn": "abdegimnorst",
    "ha": "ɓɗƙabcdefghi",
    "am": "ሀለሐመሠረሰቀበተነአ",
    "yo": "ẹọṣàèìòùbdfg",
    "qaa": "ⴰⴱⴲⴳⴴⴵⴶⴷⴸⴹⴺⴻ",
    "zh-Hant": "龍鳳龜馬魚鳥門車東風雲電",
}
_GRID = """
name: scripts
pivot: eng_Latn
encoder: {kind: scratch, layers: 2, hidden_size: 32, heads: 2, intermediate: 64, vocab_size: 400,
  steps: 20, batch_size: 16}
languages: {each: [ha, am, yo, qaa, zh-Hant]}
corpus:
  source: moses
  path: text/{lang}-{pivot}
  codes: {zh-Hant: zh_tw}
  split: {test: 30, dev: 30}
pairs: {aligner: fast_align}
sentences: 150
methods:
  none: {}
  rotation: {}
tasks:
  retrieval: {}
  sentence_retrieval: {}

"""


def _words(lang: str, concept: int) -> str:
    """An invented word; Chinese has one character per concept."""
    letters = _LETTERS[lang]
    if lang == "zh-Hant":
        return chr(ord("\u4e00") + 40 * concept)
    first, second = divmod(concept, len(letters))
    return f"{letters[first]}{letters[second]}{letters[first]}"


def _write(folder: Path) -> None:
    """Write 300 sentence pairs per language, word for word."""
    draw = random.Random(0)
    meant = [[draw.randrange(60) for _ in range(draw.randint(4, 8))] for _ in range(300)]
    folder.mkdir()
    for lang in _LETTERS:
        own = "zh_tw" if lang == "zh-Hant" else lang
        space = "" if lang == "zh-Hant" else " "
        for code, gap, spoken in ((own, space, lang), ("eng_Latn", " ", "eng_Latn")):
            lines = [gap.join(_words(spoken, number) for number in said) for said in meant]
            path = folder / f"{own}-eng_Latn.{code}"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_a_grid_over_five_scripts_runs_to_its_report(tmp_path: Path) -> None:
    _write(tmp_path / "text")
    (tmp_path / "grid.yaml").write_text(_GRID, encoding="utf-8")
    site = Site(tmp_path / "grid.yaml", tmp_path / "storage")
    planned = site.run(command="plan")
    assert planned.returncode == 0, planned.stderr
    assert "nothing is known about the language qaa" in planned.stdout
    done = site.run()
    assert done.returncode == 0, done.stderr
    pairs = {str(row["lang"]) for row in site.results() if row["task"] == "retrieval"}
    assert {"ha-eng_Latn", "am-eng_Latn", "zh-Hant-eng_Latn"} <= pairs
    written = site.run(command="report")
    assert written.returncode == 0, written.stderr
    written_page = tmp_path / "scripts-report" / "report.md"
    page = written_page.read_text(encoding="utf-8").replace("\\_", "_")
    assert "ha (Hausa), am (Amharic), yo (Yoruba), qaa, zh-Hant (Chinese (Traditional))" in page
    assert "pivot eng_Latn (English)" in page
    assert "zh-Hant-eng_Latn" in page
    assert "nothing is known about the language qaa" in page
