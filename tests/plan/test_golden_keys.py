"""Keys that stored results lie under: who changes one raises a VERSION or has a reason, and changes
it here too.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from raxalign.config.grid import load
from raxalign.plan.expand import expand
from raxalign.plan.plan import Plan
from raxalign.store.key import digest
from tests.grids import write_grid

METHODS = (
    "none: {}",
    "rotation: {center: [false, true]}",
    "finetune: {lambda: [0.1, 1.0], batch_size: 16}",
    "strong_contrastive: {}",
    "mean_shift: {layers: 1}",
)
TASKS = (
    "retrieval: {}",
    "sentence_retrieval: {}",
    "xnli: {data: phrasebook}",
    "mlqa: {data: phrasebook}",
    "pos: {data: phrasebook}",
)
GOLDEN = {
    "aligned finetune": "16 e393924185d33110",
    "aligned mean_shift": "4 3eee646b96c58ac9",
    "aligned none": "2 c4238402eb3976cd",
    "aligned rotation": "8 37f0e3b448963bc8",
    "aligned strong_contrastive": "8 80c8fb6eaaf7f8b0",
    "bitext phrasebook": "6 bbe2927c18314f9e",
    "encoder scratch": "1 e8c4bf480598fd18",
    "evaluation mlqa": "52 710533faef6fba36",
    "evaluation pos": "52 b7903e11c46a8014",
    "evaluation retrieval": "38 0e58e0587cb2da9f",
    "evaluation sentence_retrieval": "38 a1d5fd9205443b06",
    "evaluation xnli": "52 d403ba7f3ddca68a",
    "pairs fast_align": "6 44ae667ffbe81d07",
    "seen types": "2 140db32e757ed42d",
    "text parallel": "6 3c780322b4d67563",
    "trials": "52 99d6b3959be033ef",
    "tuned mlqa": "28 177b71dbbab92575",
    "tuned pos": "28 7e95c11e5fd5569c",
    "tuned xnli": "28 98392ddfeba39f77",
}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return expand(
        load(
            write_grid(
                tmp_path_factory.mktemp("golden"), methods=METHODS, tasks=TASKS, seeds="[0, 1]"
            )
        )
    )


@pytest.mark.parametrize("kind", GOLDEN)
def test_keys_are_those_of_stored_results(plan: Plan, kind: str) -> None:
    assert found(plan)[kind] == GOLDEN[kind]


def test_every_kind_of_key_is_held(plan: Plan) -> None:
    assert found(plan).keys() == GOLDEN.keys()


def found(plan: Plan) -> dict[str, str]:
    """For each kind of stage, by its maker, and for trials: the number of keys and the beginning of
    a digest over all of them.
    """
    keys: dict[str, list[str]] = defaultdict(list)
    for key, stage in plan.stages.items():
        keys[f"{stage.kind} {stage.maker}"].append(key)
    keys["trials"] = [trial.key for trial in plan.trials]
    return {kind: f"{len(some)} {digest(sorted(some))[:16]}" for kind, some in sorted(keys.items())}
