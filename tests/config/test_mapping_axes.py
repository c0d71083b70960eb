"""Lists within the mapping of a method's option."""

from __future__ import annotations

from typing import Any

from tests.config.small import change


def points(read: Any, lora: str) -> list[Any]:
    grid = read(change("  none: {}", f"  finetune: {{lora: {lora}}}"))
    return [point.lora for point in grid.methods[0].points]


def test_lists_in_a_mapping_are_axes_like_any_other(read: Any) -> None:
    found = points(read, "[none, {rank: [4, 8], alpha: [8, 16]}, {}]")
    assert [
        point if point == "none" else (point.rank, point.alpha, point.targets) for point in found
    ] == [
        "none",
        (4, 8.0, "auto"),
        (4, 16.0, "auto"),
        (8, 8.0, "auto"),
        (8, 16.0, "auto"),
        (8, 16.0, "auto"),
    ]


def test_a_mapping_of_single_values_is_one_point(read: Any) -> None:
    (point,) = points(read, "{rank: 2, targets: 'value, query'}")
    assert (point.rank, point.targets) == (2, "query,value")


def test_a_mapping_that_a_list_makes_twice_is_a_fault(faults: Any) -> None:
    text = change("  none: {}", "  finetune: {lora: [{rank: [4, 8]}, {rank: 8}]}")
    assert [line.split(" (")[0] for line in faults(text)] == [
        "line 10: methods.finetune.lora[1]: a mapping is given twice"
    ]
