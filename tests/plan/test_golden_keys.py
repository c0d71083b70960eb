"""The keys of every plug-in, in grids with one model per language and with one model of all. Stored
results lie under them: who changes one raises a VERSION or has a reason, and makes golden_keys.json
anew (see tests/golden.py).
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from raxalign.catalog import catalog
from raxalign.errors import RaxalignError
from raxalign.tasks.mteb import Mteb
from tests.golden import GRIDS, keys_of, plan_of

HERE = Path(__file__).parent
GOLDEN = json.loads((HERE / "golden_keys.json").read_text(encoding="utf-8"))
OLDER = json.loads((HERE / "older_options.json").read_text(encoding="utf-8"))
"""Options that were taken away after 0.1.0, as its plans have them of who had not set them."""
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


@pytest.mark.parametrize("name", OLDER)
def test_a_plan_of_0_1_0_is_opened_whatever_options_were_taken_away_since(name):
    folder, kind = name.split("/")
    catalog(folder)[kind].Params.stored(json.dumps(OLDER[name]))


def test_a_task_with_an_option_that_was_taken_away_hides_no_result_and_is_not_run(tmp_path):
    plan = plan_of("small", tmp_path)
    key = plan.trials[0].evaluations["pos"]
    older = replace(plan.stages[key], options='{"data": "phrasebook", "encoding": "latin-1"}')
    plan = replace(plan, stages={**plan.stages, key: older})
    assert plan.main_metric("pos") == "accuracy"
    with pytest.raises(RaxalignError, match=r"not those of pos in this version \(encoding\): run"):
        older.plugin()
