"""The datasets of a cell: what its method learns from, and what its tasks are trained and evaluated
on.
"""

from __future__ import annotations

from pathlib import Path

from raxalign.analysis.cells import Cell
from raxalign.config.grid import load
from raxalign.plan.expansion.expand import expand
from raxalign.plan.plan import Plan
from raxalign.tracking.data import EVALUATION, TRAINING, datasets_of
from tests.grids import write_grid

WORDS = "w O\n\n"


def cell_of(plan: Plan, method: str) -> Cell:
    (trial,) = [trial for trial in plan.trials if trial.method == method]
    return Cell(method, trial.params, trial.encoder, trial.sentences, (trial.key,), {})


def test_a_map_that_is_fitted_after_a_task_s_training_alone_has_its_datasets(
    tmp_path: Path,
) -> None:
    """No evaluation reads the aligned encoder of the trial, so its plan does not have that."""
    for name in ("train.en", "dev.en", "dev.de"):
        (tmp_path / name).write_text(WORDS, encoding="utf-8")
    files = '{train: "train.{pivot}", dev: "dev.{lang}"}'
    plan = expand(
        load(
            write_grid(
                tmp_path,
                languages="{each: [de]}",
                sentences="100",
                methods=("none: {}", "rotation: {}"),
                tasks=(f"slots: {{data: {files}, readout: refit}}",),
            )
        )
    )
    of_task = [
        ("slots train/en", TRAINING),
        ("slots dev/en", TRAINING),
        ("slots dev/de", EVALUATION),
    ]
    found = {
        method: [(data.name, data.context) for data in datasets_of(plan, cell_of(plan, method))]
        for method in ("none", "rotation")
    }
    assert set(of_task) <= set(found["none"])
    assert not any(name.startswith("phrasebook") for name, _ in found["none"]), (
        "the text that the encoder was made from is not the cell's"
    )
    assert found["rotation"][0] == ("phrasebook de-en", TRAINING)
    assert set(found["rotation"]) - set(found["none"]) == {("phrasebook de-en", TRAINING)}
