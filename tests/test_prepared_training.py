"""Trainings on pieces that were made before: the same weights, and pieces that are made once."""

from __future__ import annotations

import json

import pytest

from raxalign.config.grid import load
from raxalign.plan.expansion import data
from raxalign.plan.expansion.expand import expand
from raxalign.stages import Workshop
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime
from tests.grids import write_grid
from tests.tiny import tiny_bert

METHODS = (
    "none: {}",
    "finetune: {batch_size: 8, learning_rate: [1.0e-3, 2.0e-3], profile: released}",
    "weak_contrastive: {batch_size: 8, steps: 3, negatives: [linked, all]}",
    "sentence_margin: {batch_size: 8, steps: 3}",
    "ppa: {batch_size: 8, steps: 4, queue_size: 16}",
    "mlm: {batch_size: 8, steps: 3}",
    "tlm: {batch_size: 8, steps: 3}",
    "weam: {batch_size: 8, steps: 3}",
)


def workshop_of(folder, made):
    path = write_grid(
        folder, methods=METHODS, languages="{together: [de, fr]}", sentences="60", size=150
    )
    plan, root = expand(load(path)), str(folder / "storage")
    return Workshop(
        plan, Storage(root), Runtime(threads=1), lambda stage, seconds: made.append(stage)
    )


def trained(workshop):
    """What each training made, by its key: notes, and the digests of its files."""
    found = {}
    for key, stage in workshop.plan.stages.items():
        if stage.kind == "aligned" and stage.maker != "none":
            workshop.ensure(key)
            manifest = workshop.store.manifest("aligned", key)
            files = {name: entry.sha256 for name, entry in manifest.files.items()}
            found[stage.maker, key] = (json.dumps(manifest.notes, sort_keys=True), files)
    return found


@pytest.mark.slow
def test_trainings_on_mapped_pieces_end_with_the_same_weights(tmp_path, monkeypatch):
    made = []
    (tmp_path / "read").mkdir()
    plain = trained(workshop_of(tmp_path / "read", made))
    assert not any(stage.kind == "pieces" for stage in made)
    made.clear()
    monkeypatch.setattr(data, "LEAST_SENTENCES", 1)
    (tmp_path / "mapped").mkdir()
    mapped = workshop_of(tmp_path / "mapped", made)
    assert trained(mapped) == plain
    kinds = [stage.kind for stage in made]
    assert kinds.count("pieces") == len(
        [stage for stage in mapped.plan.stages.values() if stage.kind == "pieces"]
    )
    assert kinds.count("aligned") == len(plain)


def test_damaged_pieces_are_set_aside_and_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "LEAST_SENTENCES", 1)
    made = []
    workshop = workshop_of(tmp_path, made)
    key = next(key for key, stage in workshop.plan.stages.items() if stage.kind == "pieces")
    folder = workshop.ensure(key)
    before = (folder / "src" / "ids.npy").read_bytes()
    (folder / "src" / "ids.npy").write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    workshop.store.verify("pieces", key)
    again = workshop.ensure(key)
    assert (again / "src" / "ids.npy").read_bytes() == before
    assert [stage.key for stage in made].count(key) == 2


TASK = (
    "xnli: {data: phrasebook, phrasebook: {train: 60, dev: 12, test: 12}, epochs: 1,"
    " setting: translate-train, code_switching: sentence, batch_size: 16}",
)


def tuned(folder, made):
    """A workshop over a grid with one task, and what the task's training made."""
    folder.mkdir()
    encoder = tiny_bert(folder / "encoder", ["the", "a", "is", "der", "die", "ein"])
    grid = {"methods": ("none: {}",), "languages": "{each: [de]}", "sentences": "60", "size": 150}
    path = write_grid(folder, encoder=str(encoder), tasks=TASK, **grid)
    plan, root = expand(load(path)), str(folder / "storage")
    store, tell = ArtifactStore(root), lambda stage, seconds: made.append(stage)
    workshop = Workshop(plan, Storage(root), Runtime(threads=2), tell)
    (key,) = [key for key, stage in plan.stages.items() if stage.kind == "tuned"]
    workshop.ensure(key)
    manifest = store.manifest("tuned", key)
    files = {name: entry.sha256 for name, entry in manifest.files.items()}
    return key, manifest.notes, files


def test_a_task_trained_on_shared_rows_ends_with_the_same_weights(tmp_path, monkeypatch):
    made = []
    plain = tuned(tmp_path / "read", made)
    assert [stage.maker for stage in made] == ["none", "xnli"]
    made.clear()
    monkeypatch.setattr(data, "LEAST_SENTENCES", 1)
    assert tuned(tmp_path / "mapped", made) == plain
    assert sorted((stage.kind, stage.maker) for stage in made) == [
        ("aligned", "none"),
        ("pieces", "xnli"),
        ("pieces", "xnli"),
        ("tuned", "xnli"),
    ]
