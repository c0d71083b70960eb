import pytest

from raxalign.caveats import Caveats


def test_of_two_blocks_the_inner_one_gets_what_is_seen():
    with Caveats.collecting() as outer:
        with Caveats.collecting() as inner:
            found = Caveats.listener()
            found.read("de", 10, 1)
        assert Caveats.listener() is outer
    assert Caveats.listener() is None
    assert inner.notes() == {"unknown": {"de": 0.1}}
    assert outer.notes() == {}


def test_notes_are_shares_by_language_and_the_losses_of_trainings_that_came_to_nothing():
    with Caveats.collecting() as found:
        found.read("zh", 8, 1)
        found.read("zh", 4, 0)
        found.read("de", 5, 0)
        found.read("fr", 0, 0)
        found.not_lowered["xnli"] = (1.1, 1.2)
    unknown = {"de": 0.0, "zh": 0.083333}
    assert found.notes() == {"unknown": unknown, "loss_not_lowered": {"xnli": [1.1, 1.2]}}


FEW = {"entries": 1000, "entries_in_text": 642, "running_words": {"zh": 0.041, "en": 0.3}}
COVERED = (
    "642 of 1,000 entries of the dictionary are in the text; of the word occurrences they cover"
    " 4.1% in zh and 30.0% in en"
)
UNDETERMINED = "9 pairs do not determine a rotation of 32 dimensions"
AMONG = "entries of the dictionary are among the words that have a vector"
PART = "100 entries of the dictionary are in the text"
QUARTER = {
    "de": {"pairs": 900, "entries": 100, "entries_in_text": 24},
    "fr": {"entries": 100, "entries_in_text": 100},
    "es": {"pairs": 9},
}


@pytest.mark.parametrize(
    ("notes", "told"),
    [
        ({"de": {"test": {"warning": UNDETERMINED}}}, {"de test": UNDETERMINED}),
        (QUARTER, {lang: f"{n} of {PART}" for lang, n in (("de", 24), ("fr", 100))}),
        ({"zh-en": FEW}, {"zh-en": COVERED}),
        ({"de": {"entries": 7, "entries_covered": 6}}, {"de": f"6 of 7 {AMONG}"}),
        ({"zh": {**FEW, "warning": UNDETERMINED}}, {"zh": f"{COVERED}; {UNDETERMINED}"}),
        ({"tr": {"warning": UNDETERMINED}, "loss": 0.5}, {"tr": UNDETERMINED}),
    ],
)
def test_the_share_of_a_dictionary_and_little_support_are_told(notes, told):
    assert Caveats.thin_support("x", notes) == {f"x {lang}": text for lang, text in told.items()}


def test_what_a_whole_task_warns_of_is_told_too():
    assert Caveats.thin_support("xnli", {"warning": "not zero-shot"}) == {"xnli": "not zero-shot"}
