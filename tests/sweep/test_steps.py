"""What is missing of a plan, as steps: what each needs, and how long its chain is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from raxalign.plan.estimates.cost import sampled_seconds
from raxalign.plan.load import open_grid
from raxalign.sweep.order import Needs
from raxalign.sweep.remaining import expected_steps
from raxalign.sweep.room import Room
from raxalign.sweep.running import Sweep, steps_of, with_costs
from raxalign.sweep.source import Whole
from tests.grids import write_grid
from tests.sweep.test_running import write


def test_training_trials_are_groups_where_workers_are_several(plan, job) -> None:
    trains = replace(job, workers=2)
    steps = steps_of(plan, [], list(plan.trials), trains)
    assert {step.needs for step in steps} == {Needs.WORKER}
    assert not any(plan.trains(trial) for trial in plan.trials)


def test_chains_are_as_long_as_the_times_that_the_storage_knows(plan, job) -> None:
    done, other = plan.trials
    write(job, done)
    took = sampled_seconds(plan, job.storage, job.storage.ledger.keys())
    assert set(took.values()) == {2.0}
    steps = steps_of(plan, [], [other], job)
    (step,) = with_costs(steps, expected_steps(plan, steps, took | {other.aligned: 5.0}, job))
    assert step.cost == pytest.approx(2.0 * len(other.evaluations) + 5.0)


def test_before_a_first_run_the_text_of_a_training_comes_before_word_pairs(
    tmp_path: Path, job, heard
) -> None:
    path = write_grid(tmp_path, languages="{each: [de, fr]}", size=400, sentences="[200]")
    text = path.read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("encoder:")]
    scratch = "encoder: {kind: scratch, layers: 4, hidden_size: 256, vocab_size: 500, steps: 2000}"
    path.write_text(text.replace(line, scratch), encoding="utf-8")
    plan = open_grid(path, storage=job.storage.root).plan
    job = replace(job, plan="")
    sweep = Sweep(Whole(plan), job, heard, lambda: Room(job, [{"CPU": 1.0}]))
    sweep.ask()
    kinds: list[str] = []
    while "encoder" not in kinds:
        config = sweep.take()
        kinds.append(plan.stages[config["stage"]].kind)
        sweep.ended(config, None, seconds=1.0)
    assert set(kinds) == {"bitext", "text", "encoder"}
    assert kinds.count("text") == 3
