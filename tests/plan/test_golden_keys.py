"""Keys that stored results lie under: who changes one raises a VERSION or has a reason, and changes
it here too.
"""

from collections import defaultdict

import pytest

from raxalign.config.grid import load
from raxalign.plan.expansion.expand import expand
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
    "aligned finetune": "16 04e81a6e34c44275",
    "aligned mean_shift": "4 7ff0b5263e97f60f",
    "aligned none": "2 7b2d4f53d7deb90b",
    "aligned rotation": "56 efb5c58527c8f1b2",
    "aligned strong_contrastive": "8 d3da51f682c6ccb7",
    "bitext phrasebook": "6 99d4d0c5d8101bff",
    "encoder scratch": "1 91084ac316be0a87",
    "evaluation mlqa": "52 3fba219e0536d87a",
    "evaluation pos": "52 7ddf67bae5a7467b",
    "evaluation retrieval": "38 e666a14618a52b96",
    "evaluation sentence_retrieval": "38 e00a06db77f0c816",
    "evaluation xnli": "52 1774869e4fca4b45",
    "pairs fast_align": "6 f02b624490819164",
    "seen types": "2 405d0064dd7109ad",
    "text parallel": "6 4fbbf0345fd7f1d8",
    "trials": "52 448ee1018a64bd73",
    "tuned mlqa": "28 16c8948fcd45a925",
    "tuned pos": "28 038b0d4d6f98ce52",
    "tuned xnli": "28 6a4082cd7b63c0ea",
}


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return expand(
        load(
            write_grid(
                tmp_path_factory.mktemp("golden"), methods=METHODS, tasks=TASKS, seeds="[0, 1]"
            )
        )
    )


@pytest.mark.parametrize("kind", GOLDEN)
def test_keys_are_those_of_stored_results(plan, kind):
    assert found(plan)[kind] == GOLDEN[kind]


def test_every_kind_of_key_is_held(plan):
    assert found(plan).keys() == GOLDEN.keys()


def found(plan):
    """For each kind of stage, by its maker, and for trials: the number of keys and the beginning of
    a digest over all of them.
    """
    keys = defaultdict(list)
    for key, stage in plan.stages.items():
        keys[f"{stage.kind} {stage.maker}"].append(key)
    keys["trials"] = [trial.key for trial in plan.trials]
    return {kind: f"{len(some)} {digest(sorted(some))[:16]}" for kind, some in sorted(keys.items())}
