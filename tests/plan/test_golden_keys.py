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
    "aligned finetune": "16 d44999143ab89d46",
    "aligned mean_shift": "4 f9287f4b7ca94ca0",
    "aligned none": "2 8cea531068f97fe5",
    "aligned rotation": "8 31431d2ce4b7410c",
    "aligned strong_contrastive": "8 47831bf2f0452771",
    "bitext phrasebook": "6 1f551ce6dd59abb5",
    "encoder scratch": "1 8cf7a6899e620956",
    "evaluation mlqa": "52 18337fc4623834d5",
    "evaluation pos": "52 6c3ce1198d583c6b",
    "evaluation retrieval": "38 f6857d11a4652541",
    "evaluation sentence_retrieval": "38 b1ab2e4952dbeae3",
    "evaluation xnli": "52 ca4c591dba6272c7",
    "pairs fast_align": "6 bc6945bb403e73a3",
    "seen types": "2 026475679e0a0911",
    "text parallel": "6 f01cbe9558725b3f",
    "trials": "52 8e342004ce6b7efb",
    "tuned mlqa": "28 05ac98ac1681de31",
    "tuned pos": "28 9824e28da2b015e2",
    "tuned xnli": "28 1172325cca181993",
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
