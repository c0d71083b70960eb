"""Figures: which cells a curve or a panel is of, and how it is drawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from raxalign.plan.plan import Plan
from raxalign.report.cells.choice import best_on_dev, of_methods
from raxalign.report.cells.results import Results
from raxalign.report.figures.drawing import draw
from raxalign.report.figures.panels import Curve, Heat, Panel, Points
from raxalign.report.sections.axis_curves import axis_panels


def of_axis(method: str, score: float, split: str, **params: Any) -> dict[str, Any]:
    facts = {
        "trial": f"{method}{params}",
        "method": method,
        "params": params,
        "encoder": "e",
        "languages": ["de"],
        "sentences": 10,
        "seed": 0,
    }
    return {
        **facts,
        "task": "xnli",
        "task_params": {},
        "lang": "de",
        "metric": "accuracy",
        "split": split,
        "evaluation": f"{params}",
        "value": score,
    }


def test_a_curve_over_one_option_keeps_all_others_as_they_are() -> None:
    """The best direction on dev is that of λ 1; its test values alone are drawn, though the other
    direction has a better one at λ 0.1.
    """
    values = {
        ("to-pivot", 0.1): 0.9,
        ("to-pivot", 1.0): 0.2,
        ("to-other", 0.1): 0.3,
        ("to-other", 1.0): 0.5,
    }
    found = [
        of_axis("finetune", value, "test", **{"lambda": weight, "direction": way})
        for (way, weight), value in values.items()
    ]
    found += [
        of_axis(
            "finetune",
            0.9 if way == "to-other" else 0.1,
            "dev",
            **{"lambda": weight, "direction": way},
        )
        for way, weight in values
    ]
    plan = Plan("p", "en", 1, (), {}, {"finetune": ("lambda", "direction")})
    (panel,) = axis_panels(Results.of(found, plan), "finetune", "lambda")
    assert panel.title == "xnli (direction=to-other)"
    assert [list(curve.y) for curve in panel.curves if curve.label == "test"] == [[30.0, 50.0]]


def test_where_there_is_room_for_some_methods_these_are_the_first_and_the_best_on_dev() -> None:
    found = [of_axis(f"m{i}", 0.1 * i, split) for i in range(5) for split in ("dev", "test")]
    results = Results.of(found, Plan("p", "en", 1, (), {}, {}))
    assert [cell.method for cell in best_on_dev(results.cells, 3, "xnli", "accuracy")] == [
        "m0",
        "m3",
        "m4",
    ]
    assert "At most 3 of the 5 methods" in of_methods(results, 3)
    assert of_methods(results, 5) == ""


def test_every_sort_of_panel_is_drawn_in_the_page_s_ink(tmp_path: Path) -> None:
    panels = [
        Panel(
            "curves",
            "x",
            "y",
            (
                Curve("a", [1, 10], [1, 2], [0.1, None], dashed=True),
                Curve("b", (), [1.5], level=True),
            ),
            log=True,
            ticks=[1, 10],
        ),
        Panel(
            "heat",
            "α",
            "layer",
            heat=Heat([[1.0, float("nan")], [2.0, 3.0]], ["1", "2"], ["1", "2"]),
        ),
        Panel("points", "x", "y", points=(Points("a", [1], [2], ["de"]),), zero=True),
    ]
    svg = draw(panels, tmp_path, "all")
    assert "currentColor" in svg
    assert "#1a1b1c" not in svg
    assert "#1a1b1c" in (tmp_path / "all.svg").read_text(encoding="utf-8")
    assert set(re.findall(r'id="([^"]+)"', svg)) >= set(re.findall(r"url\(#([^)]+)\)", svg))
