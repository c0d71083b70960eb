"""Languages and their codes."""

import pytest

from raxalign.errors import RaxalignError
from raxalign.languages import LANGUAGES, language


def test_norwegian_is_a_language():
    assert language("no").name == "Norwegian"


def test_languages_without_spaces_know_their_segmenter():
    assert [
        (code, language(code).spaced, language(code).segmenter) for code in ("zh", "th", "de")
    ] == [
        ("zh", False, "jieba"),
        ("th", False, "pythainlp"),
        ("de", True, None),
    ]


def test_a_name_in_place_of_a_code_is_understood():
    with pytest.raises(RaxalignError, match="did you mean tr"):
        language("Turkish")


def test_codes_and_scripts_are_well_formed():
    assert all(
        code.islower() and 2 <= len(code) <= 3 and len(entry.script) == 4
        for code, entry in LANGUAGES.items()
    )
