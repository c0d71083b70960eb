"""Keys that stored results lie under: who changes one raises a VERSION or has a reason, and changes
it here too.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from raxalign.config.grid import load
from raxalign.plan.expansion.expand import expand
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
    "aligned finetune": "16 1e1b406fdb560548",
    "aligned mean_shift": "4 a12f649ecf0a6c2f",
    "aligned none": "2 bc4cca13fe582986",
    "aligned rotation": "8 d7dbed8be1f96b19",
    "aligned strong_contrastive": "8 12551cae0335b68e",
    "bitext phrasebook": "6 bbe2927c18314f9e",
    "encoder scratch": "1 8d68fdebaafccf9d",
    "evaluation mlqa": "52 45abdcf78e3c2c28",
    "evaluation pos": "52 8efbb5a89066aa55",
    "evaluation retrieval": "38 425a01f5922b7d2b",
    "evaluation sentence_retrieval": "38 433fe977fe88a43f",
    "evaluation xnli": "52 fc94c2fcee1e2326",
    "pairs fast_align": "6 44ae667ffbe81d07",
    "seen types": "2 140db32e757ed42d",
    "text parallel": "6 3c780322b4d67563",
    "trials": "52 cfc6734011320f07",
    "tuned mlqa": "28 9b1f1a264bcb7735",
    "tuned pos": "28 e3700ff02ee25f66",
    "tuned xnli": "28 237b9868a1d31b54",
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
