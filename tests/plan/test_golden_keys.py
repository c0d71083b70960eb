"""The keys of every plug-in, in grids with one model per language and with one model of all. Stored
results lie under them: who changes one raises a VERSION or has a reason, and makes golden_keys.json
anew (see tests/golden.py).
"""

import json
from pathlib import Path

import pytest

from raxalign.catalog import catalog
from raxalign.tasks.mteb import Mteb
from tests.golden import GRIDS, keys_of, plan_of

GOLDEN = json.loads((Path(__file__).parent / "golden_keys.json").read_text(encoding="utf-8"))
KINDS = {"bitext", "text", "pairs", "seen", "encoder", "aligned", "tuned", "evaluation"}
MADE_BY = {"corpora": "bitext", "aligners": "pairs", "encoders": "encoder"}
MADE_BY |= {"methods": "aligned", "tasks": "evaluation"}


@pytest.mark.parametrize("name", GRIDS)
def test_keys_are_those_of_stored_results(name, tmp_path, monkeypatch):
    monkeypatch.setattr(Mteb, "check", lambda *_: [])  # the library is imported for it, in seconds
    assert keys_of(plan_of(name, tmp_path)) == GOLDEN[name]


@pytest.mark.parametrize("folder", MADE_BY)
def test_every_plugin_is_held(folder):
    kind = MADE_BY[folder]
    held = {name.removeprefix(f"{kind} ") for keys in GOLDEN.values() for name in keys}
    assert set(catalog(folder)) - held == set()


@pytest.mark.parametrize("name", ["each", "together"])
def test_every_kind_of_stage_every_method_and_every_task_is_held(name):
    held = GOLDEN[name].keys() | GOLDEN[f"later, {name}"].keys() | GOLDEN["aligner training"].keys()
    assert {entry.split()[0] for entry in GOLDEN[name]} >= KINDS | {"trial", "task", "untouched"}
    assert {f"trial {method}" for method in catalog("methods")} <= held
    assert {f"evaluation {task}" for task in catalog("tasks")} <= held
