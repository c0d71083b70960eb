import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raxalign.errors import DataError
from raxalign.pairing import links as links_module
from raxalign.pairing.links import Links


def write(tmp_path, content):
    path = tmp_path / "links"
    path.write_bytes(content)
    return path


def test_numbers_of_any_length_blank_lines_and_carriage_returns(tmp_path):
    links = Links.read(write(tmp_path, b"0-0 12-345\r\n\n \t7-8  \n100-2"))
    assert [links.pair(i) for i in range(4)] == [{(0, 0), (12, 345)}, set(), {(7, 8)}, {(100, 2)}]
    links, possible = Links.read_marked(write(tmp_path, b"1-1 2p3\n4p4\n"))
    assert possible.tolist() == [False, True, True]
    assert links.pair(0) == {(1, 1), (2, 3)}
    with pytest.raises(DataError, match="nowhere"):
        Links.read(tmp_path / "nowhere")


@pytest.mark.parametrize("first", [0, 1])
def test_links_are_read_after_a_byte_order_mark_and_after_the_numbers_of_their_lines(
    first, tmp_path, monkeypatch
):
    monkeypatch.setattr(links_module, "_BLOCK", 8)
    lines = [b"0-0 1S1 2p2", b"", b"3P4", b"5s6"]
    numbered = b"".join(b"%d\t%b\r\n" % entry for entry in enumerate(lines, first))
    for content in (b"\xef\xbb\xbf" + b"\n".join(lines), numbered, numbered.replace(b"\t\r", b"")):
        links, possible = Links.read_marked(write(tmp_path, content))
        pairs = [{(0, 0), (1, 1), (2, 2)}, set(), {(3, 4)}, {(5, 6)}]
        assert [links.pair(i) for i in range(len(links))] == pairs
        assert possible.tolist() == [False, False, True, True, False]
    monkeypatch.undo()
    with pytest.raises(DataError, match=r"links:2: begins with 7, not with 1,.*Cut the first"):
        Links.read(write(tmp_path, b"0\t0-0\n7\t1-1\n"))


@pytest.mark.parametrize(
    ("content", "line", "shown"),
    [
        (b"0-0\n1-1 x\n", 2, "'x'"),
        (b"0-0\n\n1-\n", 3, "'1-'"),
        (b"-1-0\n", 1, "'-1-0'"),
        (b"0 0\n", 1, "'0'"),
        (b"0-0-0\n", 1, "'0-0-0'"),
        (b"1-2/1.0\n", 1, "'1-2/1.0'"),
        (b"0-0\n1 -1\n", 2, "'1'"),
        (b"0-0 1-1234567890\n", 1, "'1-1234567890'"),
        (b"0-0\n\xff\n", 2, "'\ufffd'"),
        (b"0-0\n\x00\n", 2, "is not a link"),
    ],
)
def test_what_is_no_link_is_named_with_file_and_line(tmp_path, content, line, shown):
    with pytest.raises(DataError) as caught:
        Links.read(write(tmp_path, content))
    assert str(caught.value).startswith(f"{tmp_path / 'links'}:{line}: ")
    assert shown in str(caught.value)
    assert caught.value.line == line


def test_lines_are_counted_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(links_module, "_BLOCK", 8)
    path = write(tmp_path, b"0-0 1-1\n" * 5 + b"2-2\n3~3\n")
    with pytest.raises(DataError) as caught:
        Links.read(path)
    assert caught.value.line == 7
    path.write_bytes(b"0-0 11-11 2-2\n\n" * 5 + b"7-7")
    links = Links.read(path)
    assert len(links) == 11
    assert links.pair(8) == {(0, 0), (11, 11), (2, 2)}
    assert links.pair(10) == {(7, 7)}


LINK = st.tuples(st.integers(0, 300), st.integers(0, 300))


@settings(max_examples=30)
@given(st.lists(st.sets(LINK, max_size=6), max_size=6))
def test_links_that_are_written_are_read_back(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("pharaoh") / "links"
    Links.of(pairs).write(path)
    assert Links.read(path).digest() == Links.of(pairs).digest()
