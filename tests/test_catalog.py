"""Discovery by file stem."""

import ast
from pathlib import Path

import pytest

import raxalign
from raxalign.catalog import Catalog, UnknownKind, catalog


def test_files_are_listed_and_underscored_neighbours_are_not():
    kinds = list(catalog("methods"))
    assert {"none", "rotation", "finetune"} <= set(kinds)
    assert "base" not in kinds
    assert not any(kind.startswith("_") for kind in kinds)


def test_a_misspelt_name_is_told_the_nearest():
    with pytest.raises(UnknownKind, match="did you mean finetune") as told:
        catalog("methods")["fintune"]
    assert told.value.nearest == "finetune"


def test_a_name_like_nothing_is_told_all():
    with pytest.raises(UnknownKind, match=r"known: .*xnli"):
        catalog("tasks")["qqqqqq"]


def test_a_file_with_two_plugins_is_an_error_that_names_it(tmp_path, monkeypatch):
    package = tmp_path / "plugins_of_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "double.py").write_text("class A:\n    VERSION = 1\nclass B:\n    VERSION = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(TypeError, match=r"double\.py.*has 2"):
        Catalog("plugins_of_test", "plug-in")["double"]


def test_a_set_of_values_is_written_in_one_order_everywhere() -> None:
    """Python keeps one object for ``Literal["a", "b"] | None`` and ``Literal["b", "a"] | None``: pages would depend on what was imported first."""
    orders: dict[frozenset[object], set[tuple[object, ...]]] = {}
    for path in Path(raxalign.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.value, ast.Name)
                and node.value.id == "Literal"
                and isinstance(node.slice, ast.Tuple)
            ):
                values = tuple(ast.literal_eval(value) for value in node.slice.elts)
                orders.setdefault(frozenset(values), set()).add(values)
    assert [found for found in orders.values() if len(found) > 1] == []
