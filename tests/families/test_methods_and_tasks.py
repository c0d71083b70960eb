"""Methods and tasks of the catalogue on families of encoders, in pairs: every family is read,
trained, and trained on its head, and each method and task meets encoders with a head and without
one, and decoders. With RAXALIGN_TEST_ALL (``make test-all``) each of them meets each family.
"""

from __future__ import annotations

import copy
from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import torch

from raxalign.catalog import catalog
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import RaxalignError
from raxalign.grid.load import open_grid
from raxalign.single.evaluate import EvaluateRequest
from raxalign.train.runtime import Runtime
from tests.every import EVERY
from tests.families.catalogue import FAMILIES
from tests.families.subject import Subject
from tests.methods.contract import TRANSFORMER_METHODS, asked_for, make, vectors
from tests.methods.toy import toy_inputs
from tests.tasks.smallest import TASKS, write_task_files

pytestmark = pytest.mark.slow

GRID = """
name: families
pivot: en
encoder: {encoder}
languages: {{each: [de]}}
corpus: {{source: phrasebook, size: 120, split: {{test: 20, dev: 20}}}}
pairs: {{aligner: fast_align}}
sentences: 60
methods: {{none: {{}}}}
tasks:
"""


NO_TRANSFORM = ("XLM", "EuroBERT", "mDeBERTa-v3", "RemBERT")
"""Families whose masked-LM head has no transform that weam can copy, which it says."""


def task_grid(root, encoder):
    """A grid with every task of the catalogue on a small corpus, its files written under `root`."""
    path = root / "grid.yaml"
    if not path.is_file():
        root.mkdir(parents=True, exist_ok=True)
        write_task_files(root)
        path.write_text(
            GRID.format(encoder=encoder)
            + "".join(f"  {name}: {options}\n" for name, options in TASKS.items()),
            encoding="utf-8",
        )
    return opened(path)


@cache
def opened(path):
    return open_grid(path, storage=str(path.parent / "storage"))


def traits(name):
    """What every method and every task meets: a family with a head or without, and decoders."""
    family = FAMILIES[name]
    return {f"head {family.head}", f"decoder {family.decoder}"}


def sorts():
    """Each method and task, and what it does with an encoder."""
    found = {}
    for kind in TRANSFORMER_METHODS:
        trains = "learning_rate" in catalog("methods")[kind].Params.model_fields
        head = make(kind, Path("inputs")).needs().head
        found["method", kind] = f"trains {trains}, head {head}"
    for kind in TASKS:
        trains = "epochs" in catalog("tasks")[kind].Params.model_fields
        found["task", kind] = f"trains {trains}, head False"
    return found


def pairs():
    """(family, "method" or "task", its kind) of every test, by family."""
    sort_of = sorts()
    if EVERY:
        return [(name, *subject) for name, subject in product(FAMILIES, sort_of)]
    chosen: list[tuple[str, tuple[str, str]]] = []
    used: Counter[object] = Counter()

    def choose(name, subject):
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


def of(role):
    return [(name, kind) for name, own, kind in PAIRS if own == role]


@pytest.mark.parametrize(("name", "kind"), of("method"))
def test_a_method_aligns_saves_and_loads_or_refuses_what_has_no_head(
    name, kind, subject_of, root, tmp_path
):
    subject, inputs = subject_of(name), root / "inputs"
    method, encoder = make(kind, inputs), copy.deepcopy(subject.encoder)
    unknown = kind == "weam" and name in NO_TRANSFORM
    if method.needs().head and (unknown or not subject.family.head):
        with pytest.raises(RaxalignError, match=r"masked-LM head|mask token"):
            method.align(encoder, asked_for(method, inputs), Runtime(seed=1))
        return
    aligned = method.align(encoder, asked_for(method, inputs), Runtime(seed=1))
    found = vectors(aligned)
    assert torch.isfinite(found).all()
    aligned.save(tmp_path)
    loaded = AlignedEncoder.load(tmp_path, lambda: subject.encoder)
    assert torch.equal(vectors(loaded), found)


@pytest.mark.parametrize(("name", "task"), of("task"))
def test_a_task_evaluates_or_refuses_what_has_no_head(name, task, subject_of, root):
    """As `raxalign evaluate` runs it."""
    subject, kind = subject_of(name), catalog("tasks")[task]
    grid = task_grid(root / "tasks", subject.folder)
    request = EvaluateRequest(str(subject.folder), tasks=(task,), device="cpu")
    spec = next(spec for spec in grid.grid.tasks if spec.name == task)
    if kind(spec.params).needs().head and not subject.family.head:
        with pytest.raises(RaxalignError, match=r"masked-LM head|mask token"):
            request.evaluate(grid)
        return
    rows, _ = request.evaluate(grid)
    assert any(row["metric"] == kind(spec.params).main_metric for row in rows)


def test_every_method_and_task_is_tried_and_every_family_by_every_sort():
    sort_of = sorts()
    assert set(TASKS) == set(catalog("tasks"))
    assert {(role, kind) for _, role, kind in PAIRS} == set(sort_of)
    assert len({(name, sort_of[role, kind]) for name, role, kind in PAIRS}) == len(FAMILIES) * len(
        set(sort_of.values())
    )
