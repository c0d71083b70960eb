"""Which keys the precision of encoders enters, and that their blocks are compiled."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from raxalign.config.grid import load
from raxalign.plan.expansion.expand import expand
from raxalign.plan.plan import Plan
from tests.grids import write_grid

TASKS = ("retrieval: {}", "xnli: {data: phrasebook}")


def planned(folder: Path, run: str, **options: str) -> Plan:
    return expand(load(write_grid(folder, tasks=TASKS, run=run, **options)))  # type: ignore[arg-type]


def keys(plan: Plan) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for key, stage in plan.stages.items():
        found[stage.kind].add(key)
    return found


def test_float32_is_what_results_without_a_precision_have(tmp_path):
    assert planned(tmp_path, "precision: fp32").stages == planned(tmp_path, "threads: 2").stages


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_another_precision_has_results_of_its_own_and_the_same_data(tmp_path, precision):
    plain, other = (planned(tmp_path, f"precision: {name}") for name in ("fp32", precision))
    before, after = keys(plain), keys(other)
    assert before.keys() == after.keys()
    for kind in before:
        if kind in {"encoder", "aligned", "tuned", "evaluation"}:
            assert before[kind].isdisjoint(after[kind])
            assert {other.stages[key].precision for key in after[kind]} == {precision}
        else:
            assert before[kind] == after[kind]
    assert {t.key for t in plain.trials}.isdisjoint(t.key for t in other.trials)
    assert Plan.from_json(other.to_json()) == other


def test_compiled_blocks_have_results_of_their_own_and_the_same_data(tmp_path):
    plain, other = (planned(tmp_path, f"compile: {name}") for name in ("false", "true"))
    assert plain.stages == planned(tmp_path, "threads: 2").stages
    before, after = keys(plain), keys(other)
    assert before.keys() == after.keys()
    for kind in before:
        if kind in {"aligned", "tuned", "evaluation"}:
            assert before[kind].isdisjoint(after[kind])
            assert all(other.stages[key].compiled for key in after[kind])
    assert before["bitext"] == after["bitext"]
    assert Plan.from_json(other.to_json()) == other


def test_static_vectors_have_one_result_in_every_precision(tmp_path):
    static = {
        "encoder": "{kind: static, algorithm: word2vec, dimension: 16, epochs: 1}",
        "methods": ("none: {}", "rotation: {}"),
    }
    plain, *others = (
        planned(tmp_path, run, **static)
        for run in ("precision: fp32", "precision: bf16", "compile: true")
    )
    assert all(other.stages == plain.stages for other in others)
