"""Trainings on pieces that were made before: the same weights, and pieces that are made once."""

import json

import pytest

from raxalign.grid.expansion import data
from raxalign.grid.expansion.expand import expand
from raxalign.grid.file import load
from raxalign.stages import Workshop
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
    "awesome_align: {steps: 3}",
)


def workshop_of(folder, made, **grid):
    """A workshop over a grid, which records what it makes."""
    folder.mkdir()
    plan = expand(load(write_grid(folder, sentences="60", size=150, **grid)))
    tell = lambda stage, seconds: made.append(stage)  # noqa: E731
    return Workshop(plan, Storage(str(folder / "storage")), Runtime(threads=1), tell)


def trained(workshop, kind="aligned"):
    """What each training made, by its key: notes, and the digests of its files."""
    found = {}
    for key, stage in workshop.plan.stages.items():
        if stage.kind == kind and stage.maker != "none":
            workshop.ensure(key)
            manifest = workshop.store.manifest(kind, key)
            files = {name: entry.sha256 for name, entry in manifest.files.items()}
            found[stage.maker, key] = (json.dumps(manifest.notes, sort_keys=True), files)
    return found


def both(root, made, monkeypatch, kind="aligned", **grid):
    """What the trainings of a grid made on pieces that they read, and on mapped ones; and the
    workshop of the latter.
    """
    plain = trained(workshop_of(root / "read", made, **grid), kind)
    assert not any(stage.kind == "pieces" for stage in made)
    made.clear()
    monkeypatch.setattr(data, "LEAST_SENTENCES", 1)
    mapped = workshop_of(root / "mapped", made, **grid)
    return plain, trained(mapped, kind), mapped


@pytest.mark.slow
def test_trainings_on_mapped_pieces_end_with_the_same_weights(tmp_path, monkeypatch):
    made, grid = [], {"methods": METHODS, "languages": "{together: [de, fr]}"}
    plain, found, workshop = both(tmp_path, made, monkeypatch, **grid)
    assert found == plain
    kinds = [stage.kind for stage in made]
    pieces = [stage for stage in workshop.plan.stages.values() if stage.kind == "pieces"]
    assert kinds.count("pieces") == len(pieces)
    assert kinds.count("aligned") == len(plain)


def test_damaged_pieces_are_set_aside_and_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "LEAST_SENTENCES", 1)
    encoder, made = tiny_bert(tmp_path / "encoder", ["the", "a", "is", "der", "die", "ein"]), []
    grid = {"methods": METHODS[:2], "languages": "{each: [de]}", "encoder": str(encoder)}
    workshop = workshop_of(tmp_path / "grid", made, **grid)
    key = next(key for key, stage in workshop.plan.stages.items() if stage.kind == "pieces")
    folder = workshop.ensure(key)
    before = (folder / "src" / "ids.npy").read_bytes()
    (folder / "src" / "ids.npy").write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    workshop.store.verify("pieces", key)
    again = workshop.ensure(key)
    assert (again / "src" / "ids.npy").read_bytes() == before
    assert [stage.key for stage in made].count(key) == 2


TASK = (
    "xnli: {data: phrasebook, phrasebook: {train: 30, dev: 6, test: 6}, epochs: 1,"
    " setting: translate-train, code_switching: sentence, batch_size: 16}",
)


def test_a_task_trained_on_shared_rows_ends_with_the_same_weights(tmp_path, monkeypatch):
    encoder, made = tiny_bert(tmp_path / "encoder", ["the", "a", "is", "der", "die", "ein"]), []
    grid = {"methods": ("none: {}",), "languages": "{each: [de]}", "encoder": str(encoder)}
    plain, found, _ = both(tmp_path, made, monkeypatch, "tuned", tasks=TASK, **grid)
    assert [files for _, files in found.values()] == [files for _, files in plain.values()]
    assert len(plain) == 1
    expected = ["aligned none", "pieces xnli", "pieces xnli", "tuned xnli"]
    assert sorted(f"{stage.kind} {stage.maker}" for stage in made) == expected
