"""Keys that stored results lie under: who changes one raises a VERSION or has a reason, and changes it here too."""

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
TASKS = ("retrieval: {}", "sentence_retrieval: {}", "xnli: {data: phrasebook}", "mlqa: {data: phrasebook}", "pos: {data: phrasebook}")
GOLDEN = {
    "aligned finetune": "16 06851a2127cfc90d",
    "aligned mean_shift": "4 8d6792c276bae524",
    "aligned none": "2 d456fa1fa4116a9c",
    "aligned rotation": "8 46d8135621495577",
    "aligned strong_contrastive": "8 23c43f33292fe1b0",
    "bitext phrasebook": "6 1f551ce6dd59abb5",
    "encoder scratch": "1 c22339fd821691de",
    "evaluation mlqa": "52 076584ff3d7c5b70",
    "evaluation pos": "52 bec4b081a32e4e94",
    "evaluation retrieval": "38 0dc9539fdf86081a",
    "evaluation sentence_retrieval": "38 bc650651e2a43ae5",
    "evaluation xnli": "52 ff1a974d403a5cc4",
    "pairs fast_align": "6 bc6945bb403e73a3",
    "seen types": "2 026475679e0a0911",
    "text parallel": "6 f01cbe9558725b3f",
    "trials": "52 9da6a7c534ca1b34",
    "tuned mlqa": "28 7d737306fa930f42",
    "tuned pos": "28 7275d4c5b6fd98e7",
    "tuned xnli": "28 7f450edf4cfdafce",
}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return expand(load(write_grid(tmp_path_factory.mktemp("golden"), methods=METHODS, tasks=TASKS, seeds="[0, 1]")))


@pytest.mark.parametrize("kind", GOLDEN)
def test_keys_are_those_of_stored_results(plan: Plan, kind: str) -> None:
    assert found(plan)[kind] == GOLDEN[kind]


def test_every_kind_of_key_is_held(plan: Plan) -> None:
    assert found(plan).keys() == GOLDEN.keys()


def found(plan: Plan) -> dict[str, str]:
    """For each kind of stage, by its maker, and for trials: the number of keys and the beginning of a digest over all of them."""
    keys: dict[str, list[str]] = defaultdict(list)
    for key, stage in plan.stages.items():
        keys[f"{stage.kind} {stage.maker}"].append(key)
    keys["trials"] = [trial.key for trial in plan.trials]
    return {kind: f"{len(some)} {digest(sorted(some))[:16]}" for kind, some in sorted(keys.items())}
