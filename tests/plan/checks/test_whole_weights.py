"""What stands against dividing the weights of trainings among workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raxalign.config.run import effective
from raxalign.errors import GridError, RaxalignError
from raxalign.plan.load import open_grid
from tests.grids import TINY, write_grid

BATCH = "strong_contrastive needs all weights of the encoder at once"
TASK = "with_task needs all weights of the encoder at once"
JOINT = ("none: {}", "finetune: {with_task: {task: xnli}}")
AVERAGED = ("xnli: {data: phrasebook, average: last 2, selection: last}",)
METHODS = ("none: {}", "rotation: {}", "finetune: {}")
RUN = "workers: 2, shard_weights: true"


def grid(tmp_path: Path, run: str = RUN, **parts: Any) -> Path:
    given = {"methods": METHODS, "tasks": ("retrieval: {}", "xnli: {data: phrasebook}"), **parts}
    options = {"languages": "{each: [de]}", "sentences": "[100]", "encoder": TINY}
    return write_grid(tmp_path, run=run, **options, **given)


def test_divided_weights_change_no_key(tmp_path):
    whole, divided = (open_grid(grid(tmp_path, run)).plan.stages for run in ("workers: 2", RUN))
    assert whole == divided


@pytest.mark.parametrize(
    ("parts", "key", "told"),
    [
        ({"run": "shard_weights: true"}, "run.shard_weights", "and it has one"),
        ({"run": f"{RUN}, compile: true"}, "run.shard_weights", "run.compile compiles"),
        ({"methods": ("none: {}", "strong_contrastive: {}")}, "methods.strong_contrastive", BATCH),
        ({"methods": JOINT}, "methods.finetune", TASK),
        ({"tasks": AVERAGED}, "tasks.xnli", "average: last 2"),
    ],
)
def test_what_needs_whole_weights_is_refused(parts, key, told, tmp_path):
    with pytest.raises(GridError) as error:
        open_grid(grid(tmp_path, **parts))
    (fault,) = error.value.faults
    assert (fault.key, fault.line is not None) == (key, True)
    assert told in fault.problem
    assert "leave run.shard_weights at false" in fault.remedy


def test_one_worker_is_refused_as_a_flag_too(tmp_path):
    opened = open_grid(grid(tmp_path))
    assert effective(opened.grid.run, workers=3).shard_weights
    with pytest.raises(RaxalignError, match=r"--workers 1: with run\.shard_weights"):
        effective(opened.grid.run, workers=1)
