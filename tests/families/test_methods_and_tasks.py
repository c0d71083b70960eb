"""Methods and tasks of the catalogue on families of encoders, in pairs: every method and task meets
every trait of the families, and every family every sort of method and task. With
RAXALIGN_TEST_ALL (``make test-all``) each method and task meets each family.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import torch

from raxalign.catalog import catalog
from tests.families.catalogue import FAMILIES
from tests.families.checks import TASKS, Subject, check_method, check_task
from tests.methods.contract import TRANSFORMER_METHODS, make
from tests.methods.toy import toy_inputs

pytestmark = pytest.mark.slow


def traits(name: str) -> set[str]:
    """What a method or a task may find in a family: its tokenizer, a head, a causal model."""
    family = FAMILIES[name]
    made = getattr(family.tokenizer, "func", family.tokenizer).__name__
    return {made, f"head {family.head}", f"decoder {family.decoder}"}


def sorts() -> Mapping[tuple[str, str], str]:
    """Each method and task, and its sort: whether it trains, and on the masked-LM head."""
    found = {}
    for kind in TRANSFORMER_METHODS:
        trains = "learning_rate" in catalog("methods")[kind].Params.model_fields
        head = make(kind, Path("inputs")).needs().head
        found["method", kind] = f"method, trains {trains}, head {head}"
    for kind in TASKS:
        trains = "epochs" in catalog("tasks")[kind].Params.model_fields
        found["task", kind] = f"task, trains {trains}"
    return found


def pairs() -> list[tuple[str, str, str]]:
    """(family, "method" or "task", its kind) of every test, by family."""
    sort_of = sorts()
    if os.environ.get("RAXALIGN_TEST_ALL"):
        return [(name, *subject) for name, subject in product(FAMILIES, sort_of)]
    chosen: list[tuple[str, tuple[str, str]]] = []
    used: Counter[object] = Counter()

    def choose(name: str, subject: tuple[str, str]) -> None:
        chosen.append((name, subject))
        used.update((name, subject, (name, sort_of[subject])))

    for subject in sort_of:
        missing = set().union(*map(traits, FAMILIES))
        while missing:
            name = max(FAMILIES, key=lambda name: (len(missing & traits(name)), -used[name]))
            missing -= traits(name)
            choose(name, subject)
    for name, sort in product(FAMILIES, sorted(set(sort_of.values()))):
        if not used[name, sort]:
            choose(name, min((s for s in sort_of if sort_of[s] == sort), key=used.__getitem__))
    places = list(FAMILIES)
    return [(name, *subject) for name, subject in sorted(chosen, key=lambda c: places.index(c[0]))]


PAIRS = pairs()


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("families")
    toy_inputs(root / "inputs", 16, ("de", "fr"))
    return root


@pytest.fixture(scope="module")
def subject_of(root):
    return cache(lambda name: Subject.of(name, root / "families"))


def of(role: str) -> list[tuple[str, str]]:
    return [(name, kind) for name, own, kind in PAIRS if own == role]


@pytest.mark.parametrize(("name", "kind"), of("method"))
def test_a_method_aligns_saves_and_loads_or_refuses_what_has_no_head(
    name, kind, subject_of, root, tmp_path
):
    check_method(subject_of(name), kind, root / "inputs", tmp_path)


@pytest.mark.parametrize(("name", "task"), of("task"))
def test_a_task_evaluates_or_refuses_what_has_no_head(name, task, subject_of, root):
    check_task(subject_of(name), task, root / "tasks")


def test_every_method_and_task_is_tried_and_every_family_by_every_sort():
    sort_of = sorts()
    assert {(role, kind) for _, role, kind in PAIRS} == set(sort_of)
    assert len({(name, sort_of[role, kind]) for name, role, kind in PAIRS}) == len(FAMILIES) * len(
        set(sort_of.values())
    )
