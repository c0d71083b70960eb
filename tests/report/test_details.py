"""What `show` finds by a key, and what `diff` finds between storages and grid files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from raxalign.errors import RaxalignError
from raxalign.plan.plan import Plan
from raxalign.report.terminal.details import as_text, details, look_up
from raxalign.report.terminal.differences import as_json, differences, read_side
from raxalign.report.terminal.differences import as_text as text_of
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.ledger import Ledger
from raxalign.store.spool import Spool
from raxalign.store.storage import Storage
from raxalign.sweep.job import write_plan
from tests.grids import write_grid
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
    of = ("lang", "metric", "split")
    own = [score for score in facts["scores"] if score["task"] == "xnli"]
    scores = {tuple(score[name] for name in of): score for score in own}
    record = Ledger(root).read(trial.evaluations["xnli"])
    for known in record["scores"]:
        found = scores[tuple(known[name] for name in of)]
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


SMALL: dict[str, Any] = {
    "languages": "{together: [de]}",
    "sentences": "100",
    "methods": ("none: {}", "rotation: {}"),
    "tasks": ("retrieval: {}",),
}


@pytest.fixture
def storage(tmp_path: Path) -> str:
    """A storage in which a small grid has run."""
    folder = tmp_path / "one"
    folder.mkdir()
    opened, _ = made_up(folder, **SMALL)
    write_plan(opened.plan, opened.storage)
    return opened.root


def copy(root: str, folder: Path) -> str:
    return str(shutil.copytree(root, folder / "copy"))


def change(root: str, by: float) -> str:
    """Change the first score of one evaluation; returns its key."""
    ledger = Ledger(root)
    key = min(ledger.keys())
    record = ledger.read(key)
    table = ledger.predictions(key)
    shutil.rmtree(Path(root) / "ledger" / key)
    first, *rest = record["scores"]
    record["scores"] = [{**first, "value": first["value"] + by}, *rest]
    ledger.write(key, record, table)
    return key


def compared(one: str, other: str) -> tuple[Any, str]:
    sides = read_side(one), read_side(other)
    found = differences(*sides)
    return found, text_of(found, *sides, width=None)


def test_a_storage_equals_its_copy(storage: str, tmp_path: Path) -> None:
    found, text = compared(storage, copy(storage, tmp_path))
    assert not found.any
    assert text == f"equal: {found.trials} trials with the same keys, and {found.same} values"
    assert found.same > 0


@pytest.mark.parametrize(("by", "near", "apart"), [(5e-7, 1, 0), (0.01, 0, 1)])
def test_values_are_equal_near_or_apart(
    storage: str, tmp_path: Path, by: float, near: int, apart: int
) -> None:
    other = copy(storage, tmp_path)
    change(other, by)
    found, text = compared(storage, other)
    assert (found.near, len(found.apart), found.any) == (near, apart, apart == 1)
    assert f"{found.same} equal, {near} within 1e-06, {apart} further apart" in text
    assert ("(+0.010000)" in text) == (apart == 1)


def test_what_only_one_has_is_named(tmp_path: Path) -> None:
    one = str(write_grid(tmp_path, **SMALL))
    more = {**SMALL, "methods": ("none: {}", "rotation: {}", "znorm: {}")}
    other = str(write_grid(tmp_path, **more, name="other.yaml"))
    found, text = compared(one, other)
    assert list(map(len, found.only)) == [0, 1]
    assert f"only in {other}: znorm" in text
    data = json.loads(as_json(found))
    assert data["only_second"][0][1] == "znorm"
    assert data["causes"] == {}


def test_the_first_cause_of_other_keys_is_named_and_not_what_follows_from_it(
    tmp_path: Path,
) -> None:
    one = str(write_grid(tmp_path, **SMALL))
    other = str(write_grid(tmp_path, **SMALL, name="other.yaml"))
    text = Path(other).read_text(encoding="utf-8")
    changed = text.replace("aligner: fast_align", "aligner: fast_align, one_to_one: false")
    Path(other).write_text(changed.replace("name: small", "name: another"), encoding="utf-8")
    found, shown = compared(one, other)
    assert all("one_to_one" in cause for cause in found.causes)
    assert "one_to_one true or false" in shown
    assert found.any
    assert found.only == ([], [])


def test_a_raised_version_is_a_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from raxalign.methods.rotation import Rotation

    path = str(write_grid(tmp_path, **SMALL))
    before = read_side(path)
    monkeypatch.setattr(Rotation, "VERSION", Rotation.VERSION + 1)
    found = differences(before, read_side(path))
    version = Rotation.VERSION
    assert dict(found.causes) == {f"aligned rotation: VERSION {version - 1} or {version}": 1}


def test_what_is_not_there_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(RaxalignError, match="no such grid file or storage"):
        read_side(str(tmp_path / "absent"))
    with pytest.raises(RaxalignError, match="no grid has run in it"):
        read_side(str(tmp_path))
