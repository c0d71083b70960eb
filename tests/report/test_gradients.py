"""The gradients of joint trainings in the report: from the curves of their trials to panels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raxalign.report.figures.panels import Panel
from raxalign.store.spool import Spool
from tests.ledgers import made_up
from tests.report.material import results_of, share

MEASURES = ("gradient_cosine", "task_gradient", "method_gradient")
METHODS = (
    "none: {}",
    "finetune: {batch_size: 16, with_task: {task: xnli, gradients: 2}}",
    "in_turn: {kind: finetune, batch_size: 16, with_task: {task: xnli, schedule: alternate}}",
)


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> list[Panel]:
    """What is drawn."""
    found: list[Panel] = []

    def draw(panels: list[Panel], _: Path, __: str) -> str:
        found.extend(panels)
        return "<svg></svg>"

    monkeypatch.setattr("raxalign.report.figures.drawing.draw", draw)
    return found


def shown(folder: Path, blocks: int, seeds: str = "[0, 1]") -> Any:
    """The section of a grid whose joint trials measured the cosine 0.1 × seed + 0.01 × step, and
    norms of 1 more, in each of some blocks.
    """
    grid = {"languages": "{together: [de]}", "sentences": "100", "seeds": seeds, "more": ""}
    opened, ledger = made_up(folder, **grid, methods=METHODS, tasks=("xnli: {data: phrasebook}",))
    places = ["all", "embeddings", *(f"block-{n}" for n in range(1, blocks + 1))]
    for trial in opened.plan.trials:
        spool = Spool(opened.storage, trial.key)
        spool.report({"xnli/loss": 1.0}, 1)
        for step in (3, 1) if trial.method == "finetune" and blocks else ():
            value = 0.1 * (trial.seed or 0) + 0.01 * step
            for measure in MEASURES:
                more = value + (measure != "gradient_cosine")
                spool.report({f"xnli/{measure}/{place}": more for place in places}, step)
        spool.flush()
    return share("gradients", results_of((opened, ledger)), ledger=ledger, figures=folder)


def test_a_row_has_a_panel_per_measure_with_the_means_of_its_trainings(tmp_path, panels):
    (part,) = shown(tmp_path, 2).parts
    assert [figure.name for figure in part.figures] == ["gradients"]
    assert {panel.title for panel in panels} == {"finetune (joint with xnli), 100 pairs"}
    cosine, task, method = panels
    assert cosine.y == "cosine of the two gradients"
    assert task.y == "norm of the task's gradient"
    assert method.y == "norm of the method's gradient"
    assert cosine.zero
    assert not task.zero
    for panel, more in ((cosine, 0), (task, 1), (method, 1)):
        assert [line.label for line in panel.series] == ["all", "embeddings", "block-1", "block-2"]
        for line in panel.series:
            assert line.x == [1, 3]
            assert line.y == pytest.approx([more + 0.06, more + 0.08])
            assert line.band[1] == pytest.approx((more + 0.03, more + 0.13))
    assert "left out" not in part.figures[0].caption


def test_of_many_blocks_those_at_equal_distances_are_drawn(tmp_path, panels):
    (part,) = shown(tmp_path, 12, seeds="[0]").parts
    lines = [line.label for line in panels[0].series]
    assert lines == ["all", "embeddings", *(f"block-{n}" for n in (1, 3, 5, 8, 10, 12))]
    assert "Some blocks are left out" in part.figures[0].caption


def test_a_joint_training_without_measured_gradients_has_no_such_part(tmp_path, panels):
    assert shown(tmp_path, 0).parts == ()
    assert panels == []
