"""Params that are mappings, in figures and names of points."""

from types import SimpleNamespace
from typing import Any

from raxalign.report.cells.names import named
from raxalign.report.sections.curves import numeric_axes

HELD = {"blocks": "1-2", "embeddings": False}


def results(axis: str, *values: object) -> Any:
    cells = [
        SimpleNamespace(method="strong_contrastive", params={axis: value}, trials=())
        for value in values
    ]
    plan = SimpleNamespace(axes={"strong_contrastive": (axis,)}, studies=())
    return SimpleNamespace(plan=plan, cells=cells)


def test_an_axis_of_mappings_is_not_numeric_and_numbers_are() -> None:
    assert list(numeric_axes(results("freeze", "lower", HELD))) == []
    assert list(numeric_axes(results("lambda", 0.1, 1))) == [("strong_contrastive", "lambda")]
    assert list(numeric_axes(results("lambda", 1, 1.0))) == []


def test_a_mapping_is_named_as_a_grid_file_has_it() -> None:
    found = results("freeze", HELD)
    assert (
        named(found.cells[0], found.plan)
        == "strong_contrastive freeze={blocks: 1-2, embeddings: false}"
    )
