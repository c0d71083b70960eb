from __future__ import annotations

from pathlib import Path

import pytest

from raxalign.config._faults import Faults
from raxalign.config.yaml_file import read
from raxalign.errors import GridError


def plain(tmp_path: Path, text: str) -> object:
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8")
    faults = Faults()
    root, _ = read(path, faults)
    assert not faults
    return root.plain()


def refused(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "file.yaml"
    path.write_bytes(content)
    with pytest.raises(GridError) as caught:
        read(path, Faults())
    return str(caught.value)


def test_words_that_yaml_1_1_reads_as_truth_are_texts(tmp_path: Path) -> None:
    assert plain(tmp_path, "a: [no, yes, on, off, y, n, NO]\nno: 1") == {
        "a": ["no", "yes", "on", "off", "y", "n", "NO"],
        "no": 1,
    }


def test_truth_and_nothing_are_read(tmp_path: Path) -> None:
    assert plain(tmp_path, "a: [true, False, ~, null]\nb:") == {
        "a": [True, False, None, None],
        "b": None,
    }


def test_numbers_are_read_at_any_depth(tmp_path: Path) -> None:
    read_back = plain(tmp_path, "a: {b: [1e-3, 1.0e-3, 10_000, -5, 0x1F, 0o17, 010, 1_0.5, .inf]}")
    assert read_back == {"a": {"b": [1e-3, 1e-3, 10_000, -5, 31, 15, 10, 10.5, float("inf")]}}
    assert [type(v) for v in read_back["a"]["b"][:3]] == [float, float, int]  # type: ignore[index]


def test_what_only_looks_like_a_number_is_a_text(tmp_path: Path) -> None:
    assert plain(tmp_path, "a: [9-12, 1:30, 2020-01-01, '5', !!str 7]") == {
        "a": ["9-12", "1:30", "2020-01-01", "5", "7"]
    }


def test_anchors_and_merged_mappings_are_read(tmp_path: Path) -> None:
    assert plain(tmp_path, "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a") == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 3},
        "c": {"x": 1, "y": 2},
    }


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    assert plain(tmp_path, "\ufeffa: 1") == {"a": 1}


def test_every_value_knows_the_line_of_its_key(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("a:\n  b:\n    c: 1\n  d:\n  - x\n  - {e:\n      2}\n")
    root, _ = read(path, Faults())
    a = root.value["a"]
    assert (
        a.line,
        a.value["b"].line,
        a.value["b"].value["c"].line,
        a.value["d"].value[1].line,
    ) == (1, 2, 3, 6)
    assert a.value["d"].value[1].value["e"].key == "a.d[1].e"


def test_every_duplicate_key_is_told_with_both_lines(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("a: 1\nb: {c: 1,\n  c: 2}\na: 3\n")
    faults = Faults()
    read(path, faults)
    assert [(fault.line, fault.key, fault.problem) for fault in faults.found] == [
        (3, "b.c", "given twice"),
        (4, "a", "given twice"),
    ]
    assert "line 2" in next(iter(faults.found)).remedy


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"# nothing\n", "the file is empty"),
        (b"a: 1\nb: [1, 2\nc: 3\n", "line 3: YAML"),
        (b"a: 1\n\tb: 2\n", "line 2: YAML"),
        (b"a: b: c\n", "line 1: YAML"),
        (b"a: 1\nb: \xff\n", "line 2: YAML: invalid UTF-8"),
        (b"a: 1\nb: x\x00y\n", "line 2: YAML"),
        (b"a: 1\n---\nb: 2\n", "a second document"),
        (b"a: {b: x/{lang}.txt}\n", "in quotes"),
        (b"a: *nothing\n", "line 1: YAML"),
        (b"%YAML 1.1\n---\na: no\n", "line 1: YAML: the file is YAML 1.1"),
        (b"- a\n- b\n", "line 1: grid: a list at the top of the file"),
        (b"just words\n", "line 1: grid: 'just words' at the top of the file"),
        (b"a: " + b"[" * 600 + b"]" * 600, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_grid_is_refused_with_its_line(
    tmp_path: Path, content: bytes, said: str
) -> None:
    assert said in refused(tmp_path, content)


@pytest.mark.parametrize(
    "text", ["a: &a [*a]", "a: !!python/object:os.system x", "a: !mine x", "{[1, 2]: x}"]
)
def test_aliases_into_themselves_tags_and_odd_keys_are_faults(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    faults = Faults()
    read(path, faults)
    assert len(faults) == 1


def test_a_few_aliases_cannot_make_a_huge_tree(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(
        "a0: &a0 [x]\n"
        + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10))
    )
    faults = Faults()
    read(path, faults)
    assert faults


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    for path, said in ((tmp_path / "none.yaml", "there is no such file"), (tmp_path, "directory")):
        with pytest.raises(GridError, match=said) as caught:
            read(path, Faults())
        assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "remedy"),
    [
        ("a: 1\nb:\n\tc: 2\n", 3, "the line has a tab; indent with blanks"),
        ("a: 1\nb:2\nc: 3\n", 2, "put a blank after the colon of 'b:2'"),
        ("a:\n  b: 1\n c: 2\n", 3, "indent the keys of one mapping by the same number of blanks"),
        ("a: 1\nb: {lang}-x\n", 2, "put texts that hold {lang} or {pivot} in quotes"),
    ],
)
def test_a_fault_of_syntax_is_at_its_line_and_says_what_to_do(
    text: str, line: int, remedy: str, tmp_path: Path
) -> None:
    told = refused(tmp_path, text.encode())
    assert f"line {line}: YAML: " in told
    assert told.endswith(f"({remedy})")
