"""The error rate of files and of word pairs beside gold links."""

import pytest

from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.errors import DataError, RaxalignError
from raxalign.pairing.build import pairs_schema
from raxalign.single.aer import ErrorRateRequest


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def pairs(folder, *rows):
    """Word pairs of sentences with one link each."""
    with DatasetWriter(folder, pairs_schema(), {}) as writer:
        for id_, src, tgt, *link in rows:
            row = {"id": id_, "src": src.split(), "tgt": tgt.split()}
            row |= {"src_links": link[:1], "tgt_links": link[1:]}
            writer.write({name: [value] for name, value in row.items()})
    return folder


def test_scores_by_hand(tmp_path):
    # A = 4 links, S = 3, P = S and 2 more; A & S = 2, A & P = 3.
    links = write(tmp_path / "links", "0-0 1-1\n0-0 5-5\n")
    gold = write(tmp_path / "gold", "0-0 2-2 1p1\n0-0 0p1\n")
    found = ErrorRateRequest(links, gold).scores()
    counts = {"sentences": 2, "links": 4, "sure": 3, "possible": 5}
    f1 = 2 * (3 / 4) * (2 / 3) / (3 / 4 + 2 / 3)
    scores = {"precision": 3 / 4, "recall": 2 / 3, "f1": f1, "aer": 1 - 5 / 7}
    assert {name: found[name] for name in counts | scores} == pytest.approx(counts | scores)
    links, gold = write(tmp_path / "links", "1-2\n"), write(tmp_path / "gold", "2-1\n")
    swapped = ErrorRateRequest(links, gold, gold_first=1, links_first=1, swap=True)
    assert swapped.scores()["aer"] == 0


def test_naacl_gold_is_compared_with_the_lines_that_it_names(tmp_path):
    links = write(tmp_path / "links", "0-0\n3-3\n0-1 1-0\n7-7\n")
    gold, told = write(tmp_path / "gold", "1 1 1 S\n3 1 2 S\n3 2 2 S\n3 0 2 S\n"), []
    found = ErrorRateRequest(links, gold, "naacl").scores(tell=told.append)
    assert told == [f"{gold}: 1 of 4 links is left out: of a word with the null word"]
    assert (found["sentences"], found["links"]) == (2, 3)
    assert found["precision"] == found["recall"] == pytest.approx(2 / 3)


def test_word_pairs_are_matched_by_their_ids_and_what_they_lack_is_left_out(tmp_path):
    rows = (9, "x", "y", 0, 0), (2, "a b", "c d", 1, 1), (0, "a b", "c d", 0, 0)
    folder = pairs(tmp_path / "pairs", *rows)
    gold, told = write(tmp_path / "gold", "0-0\n0-0\n0-0 1-1\n"), []
    found = ErrorRateRequest(folder, gold).scores(tell=told.append)
    scores = {"sentences": 2, "links": 2, "sure": 3, "precision": 1.0, "recall": 2 / 3}
    assert {name: found[name] for name in scores} == pytest.approx(scores)
    assert told == [
        f"1 sentence pairs of {gold} are not among the word pairs (`raxalign pairs` drops repeated"
        " ones without `--overlap keep`) and are left out"
    ]


def test_word_pairs_of_other_words_than_the_gold_text_are_refused(tmp_path):
    folder = pairs(tmp_path / "pairs", (0, "a b", "c", 1, 0))
    told = "sentence pair 1 has a link of word 2 with word 2, and the text has 2 and 1 words"
    with pytest.raises(DataError, match=told):
        ErrorRateRequest(folder, write(tmp_path / "gold", "1-1\n")).scores()
    folder, gold = pairs(tmp_path / "others", (7, "a", "c", 0, 0)), write(tmp_path / "g", "0-0\n")
    with pytest.raises(RaxalignError, match="none of its sentence pairs is annotated"):
        ErrorRateRequest(folder, gold).scores()


@pytest.mark.parametrize("links", ["0-0\n", "0-0\n0-0\n0-0\n"])
def test_other_numbers_of_lines_are_refused(tmp_path, links):
    gold = write(tmp_path / "gold", "0-0\n0-0\n")
    with pytest.raises(DataError, match=r"links: has \d lines, .*gold is about 2 sentence pairs"):
        ErrorRateRequest(write(tmp_path / "links", links), gold).scores()


def test_gold_links_that_seem_to_count_from_one_are_told(tmp_path):
    told, links = [], write(tmp_path / "links", "0-0 1-1\n" * 12)
    gold = write(tmp_path / "gold", "1-1 2-2\n" * 12)
    ErrorRateRequest(links, gold).scores(tell=told.append)
    assert told == [
        f"warning: no link in {gold} has a first word: does the file count from 1 (--one-based)?"
    ]
    told.clear()
    assert ErrorRateRequest(links, gold, gold_first=1).scores(tell=told.append)["aer"] == 0
    assert told == []
