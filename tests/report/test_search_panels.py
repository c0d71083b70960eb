"""Panels of searches: what is drawn where, with values that can be counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from raxalign.config.spaces import Space
from raxalign.plan.plan import Plan
from raxalign.plan.study import Objective, Study
from raxalign.plan.tried import StudyRecord, Tried
from raxalign.report.figures import search_panels as panels
from raxalign.report.figures.drawing import draw, opened_canvas
from raxalign.report.figures.labels import wrapped
from raxalign.report.figures.search_panels import Seen

NO_PLAN = Plan("p", "en", 1, (), {}, {})
SPACES = (
    Space("lambda", "log_uniform", 1e-4, 1.0),
    Space("epochs", "int", 1, 3),
    Space("layers", "choice", choices=("last", "1-2")),
)
ONE = (Objective("xnli", "avg_zero_shot", "accuracy"),)
TWO = (*ONE, Objective("xnli", "en", "accuracy"))
POINTS = (
    ({"lambda": 1e-4, "epochs": 1, "layers": "last"}, (0.20, 0.5)),
    ({"lambda": 1e-2, "epochs": 2, "layers": "1-2"}, (0.40, 0.3)),
    ({"lambda": 1.0, "epochs": 3, "layers": "last"}, (0.05, 0.6)),
    ({"lambda": 0.1, "epochs": 3, "layers": "last"}, (0.45, 0.1)),
)


def seen(
    method: str = "finetune", objectives: tuple[Objective, ...] = ONE, lang: str = "de"
) -> Seen:
    study = Study(
        f"{method}-{lang}",
        *(method, "mini", (lang,), 2000, 0, SPACES, objectives, "tpe", 0, 4, None, ()),
    )
    tried = tuple(
        Tried(number, values, "done", scores[: len(objectives)])
        for number, (values, scores) in enumerate(POINTS)
    )
    best = (3,) if len(objectives) == 1 else (0, 1, 2, 3)
    shares = {
        objective.name: {"lambda": 0.7, "epochs": 0.2, "layers": 0.1} for objective in objectives
    }
    return Seen(study, StudyRecord(study.name, tried, best, True, shares), 0, NO_PLAN.measured)


def test_the_best_so_far_is_a_staircase_over_whole_trials_within_the_axes() -> None:
    (panel,) = panels.history([seen()])
    assert list(panel.curves[0].y) == pytest.approx([20.0, 40.0, 40.0, 45.0])
    assert (panel.curves[0].steps, panel.whole) == ("post", True)
    with opened_canvas([panel]) as figure:
        low, high = figure.axes[0].get_ylim()
        assert all(float(tick).is_integer() for tick in figure.axes[0].get_xticks())
    assert low < 5.0 < 45.0 < high


def test_a_front_is_the_border_of_what_is_reached_by_both_metrics() -> None:
    (panel,) = panels.fronts([seen(objectives=TWO)])
    assert panel.x == "xnli accuracy, zero-shot mean, dev (%)"
    assert panel.y == "xnli accuracy, en, dev (%)"
    (curve,) = panel.curves
    front = [(5.0, 60.0), (20.0, 50.0), (40.0, 30.0), (45.0, 10.0)]
    assert list(zip(curve.x, curve.y, strict=True)) == [pytest.approx(point) for point in front]
    assert curve.steps == "pre"  # at 30 % of the first metric 30 % of the second are reached
    lower = tuple(Objective(o.task, o.lang, o.metric, lower=True) for o in TWO)
    (panel,) = panels.fronts([seen(objectives=lower)])
    assert panel.curves[0].steps == "post"


def test_choices_and_whole_numbers_stand_on_the_axis_as_they_are() -> None:
    by_name = {panel.x: panel for panel in panels.slices([seen()])}
    assert list(by_name) == ["λ", "epochs", "layers"]
    assert by_name["layers"].tick_names == ["last", "1-2"]
    assert list(by_name["layers"].points[0].x) == [0.0, 1.0, 0.0, 0.0]
    assert by_name["epochs"].whole
    assert by_name["λ"].log
    assert by_name["λ"].tick_names == ["1e-4", "1e-3", "0.01", "0.1", "1"]
    narrow = replace(by_name["λ"], points=[replace(by_name["λ"].points[0], x=[0.1], y=[20.0])])
    with opened_canvas([narrow]) as figure:  # the whole space, however few points are there
        low, high = figure.axes[0].get_xlim()
    assert low < 1e-4 < 1.0 < high
    short = Space("learning_rate", "log_uniform", 2e-4, 8e-4)
    assert panels._decades(short) == pytest.approx([2e-4, 4e-4, 8e-4])


def test_languages_share_the_panel_of_a_param_in_colours_of_their_own() -> None:
    shown = panels.slices([seen(lang="de"), seen(lang="tr")])
    assert len(shown) == len(SPACES)
    assert [(cloud.label, cloud.colour) for cloud in shown[0].points] == [
        ("de, 2,000 pairs", 0),
        ("tr, 2,000 pairs", 1),
    ]


def test_methods_are_compared_at_the_effort_that_both_have(tmp_path: Path) -> None:
    assert panels.equal_effort([seen()]) == []
    other = seen("strong_contrastive")
    (told,) = panels.equal_effort([seen(), other])
    best, ends = other.expected()
    assert told.startswith("de, 2,000 pairs: expected best of 4 trials of each, xnli accuracy,")
    assert f"strong_contrastive {best[3]:.1f} [{ends[3][0]:.1f}, {ends[3][1]:.1f}]." in told
    # sum over v of v (P(V <= v)^4 - P(V < v)^4), over 5, 20, 40 and 45 %
    assert best[3] == pytest.approx((5 + 20 * 15 + 40 * 65 + 45 * 175) / 256)
    assert "finetune" in draw(panels.expectations([seen(), other]), tmp_path, "expected")


def test_a_label_is_broken_into_lines_of_about_the_same_length() -> None:
    assert wrapped("xnli accuracy, zero-shot mean, dev (%)", 34) == (
        "xnli accuracy,\nzero-shot mean, dev (%)"
    )
    assert wrapped("short", 34) == "short"
