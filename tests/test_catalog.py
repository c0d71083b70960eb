"""Discovery by file stem."""

import ast
import re
from pathlib import Path

import pytest
from pydantic import Field

import raxalign
from raxalign.catalog import FOLDERS, Catalog, UnknownKind, catalog
from raxalign.options.params import BaseParams, about, models_in

KINDS = [(folder, kind) for folder in FOLDERS for kind in catalog(folder)]


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


def test_a_set_of_values_is_written_in_one_order_everywhere():
    """Python keeps one object for ``Literal["a", "b"] | None`` and ``Literal["b", "a"] | None``:
    pages would depend on what was imported first.
    """
    orders = {}
    for path in Path(raxalign.__file__).parent.rglob("*.py"):
        for written in re.findall(r"\bLiteral(\[[^\]]*\])", path.read_text(encoding="utf-8")):
            values = tuple(ast.literal_eval(written))
            orders.setdefault(frozenset(values), set()).add(values)
    assert len(orders) > 20
    assert [found for found in orders.values() if len(found) > 1] == []


def without_sentence(model, within=""):
    """The options, and those of the mappings that they take, whose field has not one whole sentence
    on what they are.
    """
    for name, field in model.model_fields.items():
        said = about(model, name)
        if not re.fullmatch(r"[A-Zε](?:(?!\. [A-Z]).)*\.", said) or said.count("`") % 2:
            yield within + (field.alias or name)
        for part in models_in(field.annotation):
            yield from without_sentence(part, f"{within}{field.alias or name}.")


@pytest.mark.parametrize(("folder", "kind"), KINDS)
def test_every_option_says_in_a_sentence_what_it_is(folder, kind):
    assert list(without_sentence(catalog(folder)[kind].Params)) == [], (
        "write a sentence under each of them"
    )


def test_no_sentence_two_sentences_and_half_a_one_are_refused():
    class Within(BaseParams):
        here: int = 0

    class Options(BaseParams):
        none: int = 0
        half: int = Field(0, description="share of pieces")
        two: int = Field(0, description="Share of pieces. From 0 to 1.")
        whole: int = Field(
            0, alias="lambda", description="Share of the pieces of e.g. a sentence, λ in the paper."
        )
        mapping: Within | None = Field(None, description="A mapping.")

    assert list(without_sentence(Options)) == ["none", "half", "two", "mapping.here"]
