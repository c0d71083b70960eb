"""How many layers an encoder has, told before it is opened: by a folder, by the lock of a grid, by
the hub's local cache.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from raxalign.config.grid import load
from raxalign.config.lock import Lock
from raxalign.encoders.models.hub import cached_config
from raxalign.encoders.scratch import Scratch
from raxalign.encoders.static import Static
from raxalign.encoders.transformer import Transformer
from raxalign.errors import DataError, TransientError
from raxalign.plan.load import Opened, open_grid, resolve
from tests.grids import write_grid

COMMIT = "d" * 40


def nothing(name: str) -> None:
    """A lock without entries."""


@pytest.mark.parametrize("key", ["num_hidden_layers", "n_layers", "num_layers", "n_layer"])
def test_a_config_says_it_by_any_of_its_names(key: str, tmp_path: Path) -> None:
    encoder, config = Transformer(Transformer.Params(name=str(tmp_path))), tmp_path / "config.json"
    for text, depth in ((json.dumps({"hidden_size": 8, key: 5}), 5), ("{}", None)):
        config.write_text(text, encoding="utf-8")
        assert encoder.depth(nothing) == depth
    config.write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"config\.json: cannot be read"):
        encoder.depth(nothing)


def test_own_encoders_know_it_from_their_options() -> None:
    assert Scratch(Scratch.Params(layers=4)).depth(nothing) == 4
    assert Static(Static.Params()).depth(nothing) == 0


def test_a_hub_name_has_the_depth_of_its_revision_in_the_lock(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    lock = {"hub:some/bert": COMMIT, f"depth:some/bert@{COMMIT}": "6"}
    assert Transformer(Transformer.Params(name="some/bert")).depth(lock.get) == 6
    assert Transformer(Transformer.Params(name="some/bert", revision=COMMIT)).depth(lock.get) == 6
    assert (
        Transformer(Transformer.Params(name="some/bert", revision="e" * 40)).depth(lock.get) is None
    )


def test_a_hub_name_that_lies_in_the_local_cache_needs_no_lock(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--some--bert" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text('{"n_layers": 6}', encoding="utf-8")
    assert cached_config("some/bert", COMMIT) == {"n_layers": 6}
    assert (cached_config("some/bert", None), cached_config("some/bert", "e" * 40)) == (None, None)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text(COMMIT, encoding="utf-8")
    assert Transformer(Transformer.Params(name="some/bert")).depth(nothing) == 6


def opened(folder: Path) -> Opened:
    """A grid of a hub name whose revision the lock has."""
    path = write_grid(
        folder,
        methods=("none: {}", "rotation: {}"),
        tasks=("low: {kind: retrieval, layers: 3}",),
        sentences="50",
    )
    text = path.read_text(encoding="utf-8")
    encoder = next(line for line in text.splitlines() if line.startswith("encoder:"))
    path.write_text(text.replace(encoder, "encoder: some/bert"), encoding="utf-8")
    Lock.load(path).with_("hub:some/bert", COMMIT).save()
    return open_grid(path, storage=str(folder / "storage"))


def test_a_grid_looks_the_depth_up_once_and_its_lock_keeps_it(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    asked: list[tuple[str, ...]] = []
    config = {"architectures": ["BertForMaskedLM"], "num_hidden_layers": 12}
    monkeypatch.setattr(
        "raxalign.encoders.transformer.fetched_config", lambda *name: asked.append(name) or config
    )
    first = opened(tmp_path)
    assert (first.plan.unresolved, first.plan.unknown_depths) == ((), ("bert",))
    found = resolve(first, tmp_path)
    assert {task for trial in found.plan.trials for task in trial.untouched} == {"low"}
    again = open_grid(first.grid.path, storage=first.root)
    assert again.plan == found.plan == resolve(again, tmp_path).plan
    assert [name[:2] for name in asked] == [("some/bert", COMMIT)] * 2  # its depth and its head
    assert Lock.load(first.grid.path).get(f"depth:some/bert@{COMMIT}") == "12"
    assert Lock.load(first.grid.path).get(f"head:some/bert@{COMMIT}") == "masked-lm"
    assert load(first.grid.path) == first.grid


def test_a_hub_out_of_reach_leaves_the_depth_open_and_the_plan_says_so(monkeypatch, tmp_path):
    def unreachable(name: str, revision: str, *_: str) -> int:
        raise TransientError(f"{name} at {revision}: no answer")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("raxalign.encoders.transformer.fetched_config", unreachable)
    plan = resolve(opened(tmp_path), tmp_path).plan
    assert plan.unknown_depths == ("bert",)
    assert any("the number of layers of bert is not known" in remark for remark in plan.remarks())
    assert all(trial.evaluations for trial in plan.trials), "no result is missing for it"
