"""Corpora that are too short are found by counting lines."""

import pytest

from raxalign.config.grid import load
from raxalign.plan.checks.bitexts import shortages
from raxalign.plan.expansion.expand import expand

GRID = """
name: short
encoder: {{kind: scratch}}
languages: {{each: [de, fr]}}
corpus: {{source: moses, path: "{{lang}}-{{pivot}}", split: {{test: 2, dev: 1}}{more}}}
text: {{source: moses, path: "{{lang}}-{{pivot}}"}}
sentences: {sentences}
methods: {{ppa: {{}}}}
tasks: {{sentence_retrieval: {{}}}}
"""


@pytest.fixture
def told(tmp_path):
    def shortages_of(sentences, more=""):
        (tmp_path / "grid.yaml").write_text(
            GRID.format(sentences=sentences, more=more), encoding="utf-8"
        )
        return shortages(expand(load(tmp_path / "grid.yaml"), allow_missing=True))

    for lang, n_lines in (("de", 10), ("fr", 3)):
        for code in (lang, "en"):
            (tmp_path / f"{lang}-en.{code}").write_text("x\n" * n_lines, encoding="utf-8")
    return shortages_of


def test_what_the_largest_training_text_lacks_is_told_by_language(told, tmp_path):
    assert told("[5, 9, 8]") == (
        (
            f"{tmp_path}/de-en.de: de-en: 9 training sentences were asked for, and there are 10"
            " lines, 3 of them for dev and test; ask for at most 7, make `split` smaller, or set"
            " `shortage: use-all`"
        ),
        (
            f"{tmp_path}/fr-en.fr: fr-en: 9 training sentences were asked for, and there are 3"
            " lines, 3 of them for dev and test; make `split` smaller, or name a corpus with more"
            " text"
        ),
    )


def test_enough_text_and_shortages_that_are_allowed_are_not_told(told):
    assert [message.split(": ")[1] for message in told("[5, 7]")] == ["fr-en"]
    assert told("[5, 9]", ", shortage: use-all") == ()


def test_files_that_are_not_there_are_passed_over(told, tmp_path):
    for path in tmp_path.glob("*-en.en"):
        path.unlink()
    assert told("900") == ()
