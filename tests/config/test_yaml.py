import pytest

from raxalign.errors import GridError
from raxalign.grid.yaml_file import Faults


def tree(text, *, sound=True):
    """The tree of a text, and its faults; `sound`: of which there are none."""
    faults, content = Faults(), text if isinstance(text, bytes) else text.encode()
    root = faults.parse("file.yaml", content.decode("utf-8-sig"))
    assert not (sound and faults)
    return root, list(faults.found)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[no, yes, on, off, y, n, NO]", ["no", "yes", "on", "off", "y", "n", "NO"]),
        ("[true, False, ~, null]", [True, False, None, None]),
        (
            "{b: [1e-3, 1.0e-3, 10_000, -5, 0x1F, 0o17, 010, 1_0.5, .inf]}",
            {"b": [1e-3, 1e-3, 10_000, -5, 31, 15, 10, 10.5, float("inf")]},
        ),
        ("[9-12, 1:30, 2020-01-01, '5', !!str 7]", ["9-12", "1:30", "2020-01-01", "5", "7"]),
        ("[&a {x: 1, y: 2}, {<<: *a, y: 3}, *a]", [{"x": 1, "y": n} for n in (2, 3, 2)]),
        ("", None),
    ],
)
def test_values_are_those_of_yaml_1_2(text, value):
    found = tree(f"\ufeffa: {text}\nno: 1")[0].plain()
    assert found == {"a": value, "no": 1}
    assert str(found["a"]) == str(value), "10 is not 10.0, nor true 1"


def test_every_value_knows_the_line_of_its_key():
    a = tree("a:\n  b:\n    c: 1\n  d:\n  - x\n  - {e:\n      2}\n")[0].value["a"]
    second = a.value["d"].value[1]
    lines = (a.line, a.value["b"].line, a.value["b"].value["c"].line, second.line)
    assert lines == (1, 2, 3, 6)
    assert second.value["e"].key == "a.d[1].e"


def test_every_duplicate_key_is_told_with_both_lines():
    _, faults = tree("a: 1\nb: {c: 1,\n  c: 2}\na: 3\n", sound=False)
    assert [(fault.line, fault.key, fault.problem) for fault in faults] == [
        (3, "b.c", "given twice"),
        (4, "a", "given twice"),
    ]
    assert "line 2" in faults[0].remedy


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"# nothing\n", "the file is empty"),
        (b"a: 1\nb: [1, 2\nc: 3\n", "line 3: YAML"),
        (b"a: b: c\n", "line 1: YAML"),
        (b"a: 1\nb: \xff\n", "line 2: YAML: invalid UTF-8"),
        (b"a: 1\nb: x\x00y\n", "line 2: YAML"),
        (b"a: 1\n---\nb: 2\n", "a second document"),
        (b"a: *nothing\n", "line 1: YAML"),
        (b"%YAML 1.1\n---\na: no\n", "line 1: YAML: the file is YAML 1.1"),
        (b"- a\n- b\n", "line 1: grid: a list at the top of the file"),
        (b"just words\n", "line 1: grid: 'just words' at the top of the file"),
        (b"a: " + b"[" * 600 + b"]" * 600, "nested too deeply"),
        (b"a: 1\nb:\n\tc: 2\n", "line 3: YAML: .*the line has a tab; indent with spaces"),
        (b"a: 1\nb:2\nc: 3\n", "line 2: YAML: .*put a space after the colon of 'b:2'"),
        (b"a:\n  b: 1\n c: 2\n", "line 3: YAML: .*indent the keys of one mapping by the same num"),
        (b"a: 1\nb: {lang}-x\n", r"line 2: YAML: .*put texts that hold \{lang\} or \{pivot\} in q"),
    ],
)
def test_a_file_that_is_no_grid_is_refused_with_its_line(tmp_path, content, said):
    path = tmp_path / "file.yaml"
    path.write_bytes(content)
    with pytest.raises(GridError, match=f"(?s){said}"):
        Faults().read(path)


def test_aliases_into_themselves_tags_odd_keys_and_huge_trees_are_faults():
    for odd in ("a: &a [*a]", "a: !!python/object:os.system x", "a: !mine x", "{[1, 2]: x}"):
        assert len(tree(odd, sound=False)[1]) == 1
    aliases = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert tree("\n".join(["a0: &a0 [x]", *aliases]), sound=False)[1]


def test_missing_files_and_folders_are_named(tmp_path):
    for path, said in ((tmp_path / "none.yaml", "there is no such file"), (tmp_path, "directory")):
        with pytest.raises(GridError, match=said) as caught:
            Faults().read(path)
        assert str(path) in str(caught.value)
