"""What `show` finds by a key, and what `diff` finds between storages and grid files."""

import json
import shutil
from pathlib import Path

import pytest

from raxalign.errors import RaxalignError
from raxalign.grid.load import open_grid
from raxalign.grid.stored import StoredPlans
from raxalign.inspect.diff import ComparedSide, Differences
from raxalign.inspect.show import KeyMatch
from raxalign.methods.rotation import Rotation
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.store.spool import Spool
from raxalign.store.storage import Storage
from tests.grids import write_grid
from tests.ledgers import made_up

SMALL = {"languages": "{together: [de]}", "sentences": "100", "tasks": ("retrieval: {}",)}
SMALL |= {"methods": ("none: {}", "rotation: {}")}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A finished grid with one curve and one stage, and its storage."""
    folder = tmp_path_factory.mktemp("grid")
    opened, _ = made_up(folder, languages="{together: [de, fr]}", sentences="100")
    plan, root = opened.plan, opened.root
    StoredPlans(Storage(root)).write(plan)
    spool = Spool(Storage(root), finetuned(plan).key, finetuned(plan).parts)
    for step in range(1, 5):
        spool.report({"finetune/loss": 8.0 / step}, step)
    spool.flush()
    stage = next(stage for stage in plan.stages.values() if stage.kind == "pairs")
    ArtifactStore(root).make(
        "pairs", stage.key, lambda place: {"word_pairs": (place / "data").write_bytes(b"12345")}
    )
    return plan, root


def finetuned(plan):
    return next(trial for trial in plan.trials if trial.method == "finetune")


def test_a_trial_has_its_params_scores_inputs_predictions_and_curves(stored):
    plan, root = stored
    trial = finetuned(plan)
    facts = KeyMatch.look_up(trial.key[:16], Storage(root)).details(Storage(root), examples=2)
    assert (facts["key"], facts["state"], facts["grid"]) == (trial.key, "done", "small")
    assert facts["params"] == dict(trial.params)
    own = [score for score in facts["scores"] if score["task"] == "xnli"]
    known = Ledger(root).read(trial.evaluations["xnli"])["scores"]
    assert {(s["lang"], s["split"], s["value"]) for s in known} <= {
        (score["lang"], score["split"], score["value"]) for score in own
    }
    for score in own:
        assert score["low"] < score["value"] < score["high"]
    assert {score["examples"] for score in own if not score["lang"].startswith("avg")} == {60}
    kinds = {stage["kind"]: stage for stage in facts["stages"]}
    assert set(kinds) >= {"bitext", "pairs", "encoder", "aligned", "tuned"}
    assert kinds["aligned"]["state"] == "not there"
    assert len(facts["predictions"]["xnli"]) == 2 * 2 * 3  # examples, splits, languages
    assert facts["curves"] == {
        "finetune/loss": [(1, 8.0), (2, 4.0), (3, pytest.approx(8 / 3)), (4, 2.0)]
    }
    json.dumps(facts, default=str)


def test_a_trial_that_another_grid_has_with_other_tasks_names_its_evaluations_there(tmp_path):
    storage = Storage(str(tmp_path / "storage"))
    keys = {}
    for epochs in (1, 2):
        task = f"xnli: {{setting: zero-shot, data: phrasebook, epochs: {epochs}}}"
        path = write_grid(tmp_path, **{**SMALL, "tasks": (task,)})
        plan = open_grid(path, storage=storage.root).plan
        StoredPlans(storage).write(plan)
        keys |= {plan.trials[0].evaluations["xnli"]: plan.trials[0].key}
    (trial,) = set(keys.values())
    found = KeyMatch.look_up(trial, storage)
    (other,) = keys.keys() - {*found.evaluations.values()}
    facts = found.details(storage)
    assert facts["elsewhere"] == [f"xnli {other[:12]}"]
    assert f"elsewhere: xnli {other[:12]}" in KeyMatch.as_text(facts, None)


@pytest.mark.parametrize("width", [60, 120, None])
def test_the_text_has_all_of_it_at_any_width(stored, width):
    plan, root = stored
    text = KeyMatch.as_text(
        KeyMatch.look_up(finetuned(plan).key, Storage(root)).details(Storage(root)), width
    )
    parts = ("lambda: 0.1", "xnli: accuracy", "bitext phrasebook", "finetune/loss", "predicted=")
    assert all(part in text for part in parts)


def test_an_evaluation_names_the_trials_that_share_it(stored):
    plan, root = stored
    key = plan.trials[0].evaluations["retrieval"]  # without chance: both seeds share it
    facts = KeyMatch.look_up(key, Storage(root)).details(Storage(root))
    assert (facts["sort"], facts["state"], facts["seconds"]) == ("evaluation", "done", 2.0)
    assert facts["path"] == f"{root}/ledger/{key}"
    sharing = [trial.key for trial in plan.trials if key in trial.evaluations.values()]
    assert facts["trials"] == sharing
    assert {score["task"] for score in facts["scores"]} == {"retrieval"}


def test_a_stage_says_where_it_is_and_who_needs_it(stored):
    plan, root = stored
    made = next(stage for stage in plan.stages.values() if stage.kind == "pairs")
    facts = KeyMatch.look_up(made.key, Storage(root)).details(Storage(root))
    assert (facts["state"], facts["bytes"], facts["files"]) == ("stored", 5, {"data": 5})
    assert (facts["inputs"], facts["version"]) == (dict(made.inputs), made.version)
    assert facts["notes"] == {"word_pairs": 5}
    assert Path(facts["path"]).is_dir()
    assert facts["trials"]
    assert "stage pairs" in KeyMatch.as_text(facts, 80)


def test_a_stage_of_no_plan_is_shown_and_several_keys_or_none_are_an_error(stored):
    storage = Storage(stored[1])
    storage.artifacts.make("text", "f" * 64, lambda place: {"lines": 3})
    facts = KeyMatch.look_up("ffffffffff", storage).details(storage)
    assert (facts["kind"], facts["grid"], facts["notes"]) == ("text", None, {"lines": 3})
    with pytest.raises(RaxalignError, match=r"show : \d+ keys begin like this") as error:
        KeyMatch.look_up("", storage)
    assert "and " in str(error.value).splitlines()[-1]
    with pytest.raises(RaxalignError, match="no trial, stage or evaluation"):
        KeyMatch.look_up("xyz", storage)


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """A storage in which a small grid has run."""
    opened, _ = made_up(tmp_path_factory.mktemp("one"), **SMALL)
    StoredPlans(opened.storage).write(opened.plan)
    return opened.root


def compared(one, other):
    found = Differences.of(one, other)
    return found, found.text(None)


@pytest.mark.parametrize(("by", "near", "apart"), [(0, 0, 0), (5e-7, 1, 0), (0.01, 0, 1)])
def test_values_are_equal_near_or_apart(storage, tmp_path, by, near, apart):
    other = str(shutil.copytree(storage, tmp_path / "copy"))
    ledger = Ledger(other)
    key = min(ledger.keys())
    record, table = ledger.read(key), ledger.predictions(key)
    shutil.rmtree(Path(other) / "ledger" / key)
    record["scores"][0]["value"] += by
    ledger.write(key, record, table)
    found, text = compared(storage, other)
    assert (found.near, len(found.apart), found.any) == (near, apart, apart == 1)
    if by:
        assert f"{found.same} equal, {near} within 1e-06, {apart} further apart" in text
    else:
        assert text == f"equal: {found.trials} trials with the same keys, and {found.same} values"
    assert found.same > 0
    assert ("(+0.010000)" in text) == (apart == 1)


def test_what_only_one_has_is_named_and_what_is_not_there_is_refused(tmp_path):
    one = str(write_grid(tmp_path, **SMALL))
    more = {**SMALL, "methods": ("none: {}", "rotation: {}", "znorm: {}")}
    other = str(write_grid(tmp_path, **more, name="other.yaml"))
    found, text = compared(one, other)
    assert list(map(len, found.only)) == [0, 1]
    assert f"only in {other}: znorm" in text
    data = json.loads(found.json())
    assert (data["only_second"][0][1], data["causes"]) == ("znorm", {})
    for place, told in (("absent", "no such grid file or storage"), ("", "no grid has run in it")):
        with pytest.raises(RaxalignError, match=told):
            ComparedSide.read(str(tmp_path / place))


def test_the_first_cause_of_other_keys_is_named_and_not_what_follows_from_it(tmp_path):
    one = str(write_grid(tmp_path, **SMALL))
    aligner = "fast_align, one_to_one: false"
    path = write_grid(tmp_path, **SMALL, aligner=aligner, name="other.yaml")
    path.write_text(path.read_text().replace("name: small", "name: another"), encoding="utf-8")
    found, shown = compared(one, str(path))
    assert all("one_to_one" in cause for cause in found.causes)
    assert "one_to_one true or false" in shown
    assert found.any
    assert found.only == ([], [])


def test_a_raised_version_is_a_cause(tmp_path, monkeypatch):
    path = str(write_grid(tmp_path, **SMALL))
    before, version = ComparedSide.read(path), Rotation.VERSION
    monkeypatch.setattr(Rotation, "VERSION", version + 1)
    found = Differences.between(before, ComparedSide.read(path))
    assert dict(found.causes) == {f"aligned rotation: VERSION {version} or {version + 1}": 1}


def test_the_options_of_a_task_that_is_trained_with_a_method_are_a_cause(tmp_path):
    given = {"methods": ("finetune: {with_task: {task: xnli}}",), "sentences": "100"}
    before, after = (
        ComparedSide.read(str(write_grid(tmp_path, tasks=(f"xnli: {{{options}}}",), **given)))
        for options in ("data: phrasebook", "data: phrasebook, epochs: 5")
    )
    found = Differences.between(before, after)
    assert "tuned xnli: task.epochs 3 or 5" in found.causes
