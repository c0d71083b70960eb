"""Figures: which cells a curve or a panel is of, and how it is drawn."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raxalign.plan.plan import Plan
from raxalign.report.cells.choice import best_on_dev, of_methods
from raxalign.report.cells.judge import Judge
from raxalign.report.cells.results import Results
from raxalign.report.figures.drawing import draw, opened_canvas
from raxalign.report.figures.encoder_dots import encoder_panels
from raxalign.report.figures.marks import colour_of, marker_of
from raxalign.report.figures.panels import Curve, Dots, Heat, Panel, Points
from raxalign.report.sections.curves import axis_panels, size_panels
from raxalign.report.sections.transfer import pareto_panels

PLAN = Plan("p", "en", 1, (), {}, {})


def of_axis(method: str, score: float, split: str, **params: Any) -> dict[str, Any]:
    facts = {"trial": f"{method}{params}", "method": method, "params": params, "encoder": "e"}
    facts |= {"languages": ["de"], "sentences": 10, "seed": 0, "task": "xnli", "task_params": {}}
    own = {"lang": "de", "metric": "accuracy", "split": split, "evaluation": f"{params}"}
    return {**facts, **own, "value": score}


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
    found = []
    for (way, weight), value in values.items():
        own = {"lambda": weight, "direction": way}
        found.append(of_axis("finetune", value, "test", **own))
        found.append(of_axis("finetune", 0.9 if way == "to-other" else 0.1, "dev", **own))
    plan = replace(PLAN, axes={"finetune": ("lambda", "direction")})
    (panel,) = axis_panels(Results.of(found, plan), Judge(), "finetune", "lambda")
    assert panel.title == "xnli (direction=to-other)"
    assert [list(curve.y) for curve in panel.curves if curve.label == "test"] == [[30.0, 50.0]]


def test_where_there_is_room_for_some_methods_these_are_the_first_and_the_best_on_dev() -> None:
    found = [of_axis(f"m{i}", 0.1 * i, split) for i in range(5) for split in ("dev", "test")]
    results = Results.of(found, PLAN)
    best = best_on_dev(results, 3, "xnli", "accuracy")
    assert [cell.method for cell in best] == ["m0", "m3", "m4"]
    assert "At most 3 of the 5 methods" in of_methods(results, 3)
    assert of_methods(results, 5) == ""


@pytest.mark.slow
def test_every_sort_of_panel_is_drawn_in_the_page_s_ink(tmp_path: Path) -> None:
    curve = Curve("a", [1, 10], [1, 2], [(0.9, 1.3), None], dashed=True)
    level = Curve("b", (), [1.5], level=True)
    heat = Heat([[1.0, float("nan")], [2.0, 3.0]], ["1", "2"], ["1", "2"])
    panels = [
        Panel("curves", "x", "y", (curve, level), log=True, ticks=[1, 10]),
        Panel("heat", "α", "layer", heat=heat),
        Panel("points", "x", "y", points=(Points("a", [1], [2], ["de"]),), zero=True),
    ]
    svg = draw(panels, tmp_path, "all")
    assert "currentColor" in svg
    assert "#1a1b1c" not in svg
    assert "#1a1b1c" in (tmp_path / "all.svg").read_text(encoding="utf-8")
    assert set(re.findall(r'id="([^"]+)"', svg)) >= set(re.findall(r"url\(#([^)]+)\)", svg))
    assert (tmp_path / "all.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "all.png").read_bytes().startswith(b"\x89PNG")


def test_64_series_have_64_looks() -> None:
    assert len({(colour_of(place), marker_of(place)) for place in range(64)}) == 64


def test_a_method_has_one_look_in_all_panels_of_a_figure() -> None:
    """Each task has its own best methods on dev; the colour of a method does not depend on them."""
    found = [
        {**of_axis(f"m{i}", 0.9 if i == best else 0.01 * i, split), "task": task, "sentences": n}
        for task, best in (("a", 3), ("b", 9))
        for i in range(12)
        for n in (10, 20)
        for split in ("dev", "test")
    ]
    panels = size_panels(Results.of(found, PLAN), Judge())
    looks = {(c.label, c.colour) for panel in panels for c in panel.curves}
    assert len({label for label, _ in looks}) == len(looks) == len({place for _, place in looks})


@pytest.mark.slow
def test_names_of_points_do_not_cover_each_other_and_legends_fit() -> None:
    """Ten languages of two methods next to each other, and ten encoders with long names."""
    names = ["de", "fr", "es", "bg", "el", "ru", "tr", "ar", "vi", "zh"]
    clouds = [Points(f"m{i}", [50 + j / 9 for j in range(10)], [i] * 10, names) for i in (0, 1)]
    with opened_canvas([Panel("", "x", "y", points=clouds)]) as figure:
        boxes = [text.get_window_extent() for text in figure.axes[0].texts if text.get_visible()]
        assert len(boxes) >= 15
        assert not any(a.overlaps(b) for place, a in enumerate(boxes) for b in boxes[:place])
    dots = [Dots(f"scratch, layers={i} vocab_size=30000 window=128", [1.0], i) for i in range(10)]
    with opened_canvas([Panel("", "", "y", dots=dots, names=["de"])]) as figure:
        legend = figure.legends[0].get_window_extent()
        assert legend.x0 >= 0
        assert legend.x1 <= figure.bbox.width
        assert figure.axes[0].get_window_extent().height > 100


def test_the_front_of_pivot_and_transfer_links_what_no_other_method_beats_in_both() -> None:
    values = {"none": (0.8, 0.3), "a": (0.7, 0.5), "b": (0.6, 0.4), "c": (0.5, 0.6)}
    found = [
        {**of_axis(method, value, "test"), "lang": lang, "evaluation": method}
        for method, (pivot, other) in values.items()
        for lang, value in (("en", pivot), ("de", other), ("fr", other))
    ]
    (panel,) = pareto_panels(Results.of(found, PLAN), Judge())
    shown = {cloud.label: (cloud.x[0] / 100, cloud.y[0] / 100) for cloud in panel.points}
    assert shown == {method: pytest.approx(both) for method, both in values.items()}
    ends = [tuple(round(number) for number in link) for link in panel.links]
    assert ends == [(50, 60, 70, 50), (70, 50, 80, 30)]


def test_encoders_that_differ_in_their_seed_alone_share_a_dot_with_an_interval() -> None:
    values = {"seed=0 window=8": 0.4, "seed=1 window=8": 0.6, "seed=0 window=4": 0.3}
    found = [
        {**of_axis("none", value, "test"), "encoder": f"scratch {name}", "evaluation": name}
        for name, value in values.items()
    ]
    results = Results.of(found, PLAN)
    (panel,) = encoder_panels(results, Judge(), "xnli")
    long, short = panel.dots
    assert (long.label, short.values) == ("scratch window=8", [30.0])
    assert long.values == [pytest.approx(50)]
    half = 12.706 * 10  # Student's t with one degree of freedom, and the error of the mean
    assert long.ends == [pytest.approx((50 - half, 50 + half), abs=0.01)]


@pytest.mark.slow
def test_drawings_on_a_page_share_no_name_and_spend_no_letters(tmp_path: Path) -> None:
    """Their styles are classes, and names and paths are as short as they can be."""
    panel = Panel("", "x", "y", points=(Points("a", [1, 2, 3, 4], [2, 3, 4, 5]),))
    drawings = [draw([panel], tmp_path, name) for name in ("retrieval-transfer", "pivot-transfer")]
    names = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in drawings]
    assert not names[0] & names[1]
    assert max(len(name) for name in names[0] | names[1]) <= 10
    for svg, own in zip(drawings, names, strict=True):
        rules = dict(re.findall(r"\.(g[0-9a-f]{8})\{([^}]+)\}", svg))
        assert set(re.findall(r'class="(g[0-9a-f]{8})"', svg)) == set(rules)
        assert any("fill: #2f7fc1" in style for style in rules.values())
        linked = set(re.findall(r'href="#([^"]+)"', svg))
        assert linked
        assert linked <= own
        assert not re.search(r"\d\.\d{3}", svg.split("</style>")[-1])
        paths = re.findall(r'\sd="([^"]+)"', svg)
        assert paths
        assert not [path for path in paths if re.search(r"\n|[A-Za-z] | [A-Za-z]", path)]
        assert "rotate(-0 " not in svg
