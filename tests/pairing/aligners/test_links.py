from pathlib import Path

import pytest
from pydantic import ValidationError

from raxalign.errors import DataError, RaxalignError
from raxalign.options.sources import LocalFile
from raxalign.pairing.aligners.base import AlignerInputs
from raxalign.pairing.aligners.links import GivenLinks
from raxalign.pairing.links import Links

SRC = [["a", "b", "c"], ["d"], ["e", "f"]]
TGT = [["A", "B"], ["D"], ["E", "F", "G"]]


@pytest.fixture
def given(tmp_path):
    path = tmp_path / "de-en.links"

    def align(content, ids=(0, 1, 2), src=SRC, tgt=TGT, **params):
        path.write_text(content, encoding="ascii")
        inputs = AlignerInputs(list(ids), None, {"links": str(path)}, tmp_path, 1)
        aligner = GivenLinks(GivenLinks.Params(path=str(path), **params))
        forward, reverse = aligner.align(src, tgt, inputs)
        assert forward.digest() == reverse.digest()
        return [forward.pair(i) for i in range(len(forward))]

    align.path = path
    return align


def test_lines_are_those_of_the_corpus_in_the_order_of_the_ids(given):
    content = "0-0\n0-0 2-1\n9-9\n0-0\n1-2 0-1\n"
    src, tgt = ([side[i] for i in (2, 0, 1)] for side in (SRC, TGT))
    found = given(content, ids=(4, 1, 3), src=src, tgt=tgt)
    assert found == [{(1, 2), (0, 1)}, {(0, 0), (2, 1)}, {(0, 0)}], "others are not checked"
    for content, ids, told in (
        ("0-0\n0-0\n", (0, 1, 2), "has 2 lines, the corpus has at least 3"),
        ("0-0\nzero\n\n", (0, 1, 2), r"de-en\.links:2: 'zero' is not a link"),
        ("0-0\n" * 7 + "0-9\n", (7, 2, 5), r"de-en\.links:8: link 0-9 is out of range"),
    ):
        with pytest.raises(DataError, match=told):
            given(content, ids=ids)


def test_options_say_how_links_are_counted_kept_and_turned(given):
    content = "0-0 1p1\n0p0\n0-0 1-1 1p2\n"
    assert given(content) == [{(0, 0), (1, 1)}, {(0, 0)}, {(0, 0), (1, 1), (1, 2)}]
    assert given("1-1 3-2\n1-1\n\n", first=1) == [{(0, 0), (2, 1)}, {(0, 0)}, set()]
    assert given("1-2\n0-0\n2-1\n", swap=True) == [{(2, 1)}, {(0, 0)}, {(1, 2)}]
    with pytest.raises(ValidationError):
        GivenLinks.Params(first=2)


@pytest.mark.parametrize(
    ("content", "params", "line", "link", "remedy"),
    [
        ("0-0\n1-0\n\n", {}, 2, "link 1-0", "`first: 1`"),
        ("1-1\n1-1\n2-0\n", {"first": 1}, 3, "link 2-0", "`first: 0`"),
        ("0-0\n0-0\n0-3\n", {}, 3, "link 0-3", "`swap: true`"),
        ("0-0\n0-0\n2-2\n", {"swap": True}, 3, "link 2-2", "`swap: false`"),
    ],
)
def test_a_link_out_of_range_is_named_with_file_and_line_and_what_to_try(
    given, content, params, line, link, remedy
):
    with pytest.raises(DataError) as caught:
        given(content, **params)
    assert str(caught.value).startswith(f"{given.path}:{line}: {link} is out of range")
    assert remedy in str(caught.value)


def test_the_corpus_own_links_are_taken_without_a_path(tmp_path):
    gold = Links.of([{(0, 0)}, set(), {(1, 2)}])
    aligner = GivenLinks(GivenLinks.Params())
    forward, reverse = aligner.align(SRC, TGT, AlignerInputs([0, 1, 2], gold, {}, tmp_path, 1))
    assert forward is reverse is gold
    with pytest.raises(RaxalignError, match="this corpus has none"):
        aligner.align(SRC, TGT, AlignerInputs([0, 1, 2], None, {}, tmp_path, 1))


def test_text_that_a_tokeniser_divided_is_refused(tmp_path):
    (tmp_path / "links").write_text("0-0\n0-0\n0-0\n", encoding="ascii")
    gold, places = Links.of([{(0, 0)}] * 3), {"links": str(tmp_path / "links")}
    inputs = AlignerInputs([0, 1, 2], gold, places, tmp_path, 1, own_words=False)
    told = r"links: these links count words.*`pretokenized: true`.*`words: any`"
    for params in ({"path": "links"}, {}):
        with pytest.raises(RaxalignError, match=told):
            GivenLinks(GivenLinks.Params(**params)).align(SRC, TGT, inputs)
        links, _ = GivenLinks(GivenLinks.Params(words="any", **params)).align(SRC, TGT, inputs)
        assert [links.pair(i) for i in range(3)] == [{(0, 0)}] * 3


def test_the_file_is_a_source_and_no_part_of_the_params_identity():
    aligner = GivenLinks(GivenLinks.Params(path="/data/{lang}-{pivot}.links"))
    assert aligner.sources("de", "en") == {"links": LocalFile(path=Path("/data/de-en.links"))}
    assert "path" not in aligner.params.identity()
    assert GivenLinks(GivenLinks.Params()).sources("de", "en") == {}
