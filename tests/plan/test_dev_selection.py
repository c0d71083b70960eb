"""The dev part as an input of methods that select their weights by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raxalign.config.grid import load
from raxalign.errors import RaxalignError
from raxalign.plan.expansion.expand import expand
from raxalign.plan.plan import Plan
from tests.grids import write_grid

METHODS = (
    "finetune: {selection: [none, dev]}",
    "distillation: {selection: dev}",
    "mlm: {selection: dev}",
)


def plan_of(folder: Path, **parts: Any) -> Plan:
    return expand(load(write_grid(folder, languages="{each: [de]}", **parts)))


def dev_inputs(plan: Plan, method: str) -> set[tuple[str, str]]:
    """(kind of the stage, its part) of every dev input of a method."""
    return {
        (plan.stages[key].kind, str(plan.stages[key].params["part"]))
        for stage in plan.stages.values()
        if (stage.kind, stage.maker) == ("aligned", method)
        for name, key in stage.inputs.items()
        if name.startswith("dev/")
    }


def test_selection_by_dev_loss_reads_the_dev_part_in_the_form_that_the_method_trains_on(
    tmp_path: Path,
) -> None:
    plan = plan_of(tmp_path, methods=METHODS)
    assert dev_inputs(plan, "finetune") == {("pairs", "heldout")}
    assert dev_inputs(plan, "distillation") == {("bitext", "heldout")}
    assert dev_inputs(plan, "mlm") == {("bitext", "heldout")}


def test_dev_pairs_are_those_of_the_run_over_the_trials_own_sentences(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, methods=("finetune: {selection: dev}",))
    sizes = set()
    for trial in plan.trials:
        pairs = plan.stages[plan.stages[trial.aligned].inputs["dev/de"]]
        training = plan.stages[pairs.inputs["training"]]
        assert training.params["sentences"] == trial.sentences
        sizes.add(trial.sentences)
    assert sizes == {100, 200}


def test_without_selection_no_method_reads_the_dev_part(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, methods=("finetune: {}", "mlm: {}"))
    assert not dev_inputs(plan, "finetune") | dev_inputs(plan, "mlm")


def test_selection_without_a_dev_part_is_refused_with_the_options_to_change(tmp_path: Path) -> None:
    path = write_grid(tmp_path, methods=("finetune: {selection: dev}",))
    text = path.read_text(encoding="utf-8")
    assert "dev: 30" in text
    path.write_text(text.replace("dev: 30", "dev: 0"), encoding="utf-8")
    with pytest.raises(RaxalignError, match=r"`selection: dev` needs a dev part, and `split\.dev`"):
        expand(load(path))
