"""Plans and the state of a grid in words."""

from __future__ import annotations

import json
from pathlib import Path

from raxalign.config.grid import load
from raxalign.config.run import RunConfig
from raxalign.plan.expansion.expand import expand
from raxalign.plan.plan import Plan
from raxalign.report.plans import as_json, as_text
from raxalign.report.status import status
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from tests.grids import write_grid


def plan_of(folder: Path) -> Plan:
    parts = {"languages": "{each: [de]}", "seeds": "[0, 1]", "sentences": "[50, 100]"}
    methods = ("none: {}", "finetune: {}")
    return expand(load(write_grid(folder, methods=methods, **parts)))  # type: ignore[arg-type]


def record(plan: Plan, ledger: Ledger, number: int) -> None:
    for key in plan.trials[number].evaluations.values():
        ledger.write(key, {"key": key, "scores": [], "params": {}, "seconds": 1.5}, None)


def test_a_plan_says_what_falls_together_and_what_is_there(tmp_path: Path) -> None:
    plan, root = plan_of(tmp_path), str(tmp_path / "storage")
    record(plan, Ledger(root), 0)
    stage = next(stage for stage in plan.stages.values() if stage.kind == "bitext")
    ArtifactStore(root).make(
        "bitext", stage.key, lambda folder: {"size": (folder / "x").write_bytes(b"x")}
    )
    text = as_text(plan, Storage(root), RunConfig())
    for told in (
        "small: 8 points, 5 trials (1 cached)",
        "none: 1 trial",
        "finetune: 4 trials",
        "bitext (1 done)",
        "none: 4 points are 1 trial",
    ):
        assert told in text
    assert "evaluations: 5 (1 done)" in text
    assert f"storage: {root}" in text


def test_a_failure_counts_until_its_trial_is_done(tmp_path: Path) -> None:
    plan, ledger = plan_of(tmp_path), Ledger(str(tmp_path / "storage"))
    ledger.fail(plan.trials[0].key, {"message": "out of memory"})
    state = status(plan, ledger)
    assert (state.done, len(state.failed), state.missing) == (0, 1, 4)
    record(plan, ledger, 0)
    state = status(plan, ledger)
    assert (state.done, state.failed, state.missing, state.evaluations_done) == (1, (), 4, 1)


def test_json_has_the_bytes_on_disk_and_what_was_not_kept(tmp_path: Path) -> None:
    plan, root = plan_of(tmp_path), str(tmp_path / "storage")
    store = ArtifactStore(root)
    keys = [key for key, stage in plan.stages.items() if stage.kind == "aligned"][:2]
    for key in keys:
        store.make("aligned", key, lambda folder: {"size": (folder / "x").write_bytes(b"xyz")})
    Storage(store.root).drop("aligned", keys[0], "run.keep: none")
    data = json.loads(as_json(plan, Storage(root), RunConfig(keep="none")))
    stages = {stage["key"]: stage for stage in data["stages"]}
    assert [stages[key]["done"] for key in keys] == [False, True]
    assert [stages[key]["dropped"] for key in keys] == [True, False]
    assert [stages[key]["bytes"] for key in keys] == [3, 3]
    assert data["disk"]["keep"] == "none"
    assert set(data["disk"]["after"]) == set(data["disk"]["peak"]) == {"all", "best", "none"}
