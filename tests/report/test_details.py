"""What `show` finds by a key: trials, evaluations, stages, and what has no plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from raxalign.errors import RaxalignError
from raxalign.plan.plan import Plan
from raxalign.report.terminal.details import as_text, details
from raxalign.report.terminal.lookup import look_up
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.store.spool import Spool
from raxalign.store.storage import Storage
from raxalign.sweep.job import write_plan
from tests.ledgers import made_up


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, str]:
    """A finished grid with one curve and one stage, and its storage."""
    folder = tmp_path_factory.mktemp("grid")
    opened, _ = made_up(folder, languages="{together: [de, fr]}", sentences="100")
    plan, root = opened.plan, opened.root
    write_plan(plan, Storage(root))
    spool = Spool(Storage(root), finetuned(plan).key)
    for step in range(1, 5):
        spool.report({"finetune/loss": 8.0 / step}, step)
    spool.flush()
    stage = next(stage for stage in plan.stages.values() if stage.kind == "pairs")
    ArtifactStore(root).make(
        "pairs", stage.key, lambda place: {"word_pairs": (place / "data").write_bytes(b"12345")}
    )
    return plan, root


def finetuned(plan: Plan) -> Any:
    return next(trial for trial in plan.trials if trial.method == "finetune")


def test_a_trial_has_its_params_scores_inputs_predictions_and_curves(stored) -> None:
    plan, root = stored
    trial = finetuned(plan)
    facts = details(look_up(trial.key[:16], Storage(root)), Storage(root), examples=2)
    assert (facts["key"], facts["state"], facts["grid"]) == (trial.key, "done", "small")
    assert facts["params"] == dict(trial.params)
    scores = {
        (score["task"], score["lang"], score["metric"], score["split"]): score
        for score in facts["scores"]
    }
    record = Ledger(root).read(trial.evaluations["xnli"])
    for known in record["scores"]:
        found = scores["xnli", known["lang"], known["metric"], known["split"]]
        assert found["value"] == known["value"]
        assert found["low"] < found["value"] < found["high"]
        assert found["examples"] == 60
    kinds = {stage["kind"]: stage for stage in facts["stages"]}
    assert set(kinds) >= {"bitext", "pairs", "encoder", "aligned", "tuned"}
    assert kinds["aligned"]["state"] == "not there"
    assert len(facts["predictions"]["xnli"]) == 2 * 2 * 3  # examples, splits, languages
    assert facts["curves"] == {
        "finetune/loss": [(1, 8.0), (2, 4.0), (3, pytest.approx(8 / 3)), (4, 2.0)]
    }
    json.dumps(facts, default=str)


def test_the_text_has_all_of_it_at_any_width(stored) -> None:
    plan, root = stored
    facts = details(look_up(finetuned(plan).key, Storage(root)), Storage(root))
    for width in (60, 120, None):
        text = as_text(facts, width)
        for part in (
            "lambda: 0.1",
            "xnli: accuracy",
            "bitext phrasebook",
            "finetune/loss",
            "predicted=",
        ):
            assert part in text


def test_an_evaluation_names_the_trials_that_share_it(stored) -> None:
    plan, root = stored
    key = plan.trials[0].evaluations["retrieval"]  # without chance: both seeds share it
    facts = details(look_up(key, Storage(root)), Storage(root))
    assert (facts["sort"], facts["state"], facts["seconds"]) == ("evaluation", "done", 2.0)
    assert facts["path"] == f"{root}/ledger/{key}"
    sharing = [trial.key for trial in plan.trials if key in trial.evaluations.values()]
    assert facts["trials"] == sharing
    assert {score["task"] for score in facts["scores"]} == {"retrieval"}


def test_a_stage_says_where_it_is_and_who_needs_it(stored) -> None:
    plan, root = stored
    made = next(stage for stage in plan.stages.values() if stage.kind == "pairs")
    facts = details(look_up(made.key, Storage(root)), Storage(root))
    assert (facts["state"], facts["bytes"], facts["files"]) == ("stored", 5, {"data": 5})
    assert (facts["inputs"], facts["version"]) == (dict(made.inputs), made.version)
    assert facts["notes"] == {"word_pairs": 5}
    assert Path(facts["path"]).is_dir()
    assert facts["trials"]
    assert "stage pairs" in as_text(facts, 80)


def test_what_no_plan_has_is_shown_by_its_manifest(stored) -> None:
    _, root = stored
    ArtifactStore(root).make("text", "f" * 64, lambda place: {"lines": 3})
    facts = details(look_up("ffffffffff", Storage(root)), Storage(root))
    assert (facts["kind"], facts["grid"], facts["notes"]) == ("text", None, {"lines": 3})


def test_several_keys_are_listed_and_none_is_an_error(stored) -> None:
    _, root = stored
    with pytest.raises(RaxalignError, match=r"show : \d+ keys begin like this") as error:
        look_up("", Storage(root))
    assert "and " in str(error.value).splitlines()[-1]
    with pytest.raises(RaxalignError, match="no trial, stage or evaluation"):
        look_up("xyz", Storage(root))
