"""Grids with `stop`: seeds are added at planned looks, until each claim is answered."""

import json
import shutil
import zipfile
from dataclasses import asdict, replace

import numpy as np
import pytest

from raxalign import api
from raxalign.errors import GridError, RaxalignError, StorageError
from raxalign.grid.claims import PlannedLook
from raxalign.grid.estimates import Budget
from raxalign.grid.load import open_grid
from raxalign.grid.lock import Lock
from raxalign.grid.stored import StoredPlans
from raxalign.inspect.bundle import pack
from raxalign.inspect.status import Status
from raxalign.store.key import digest
from raxalign.store.sealed import seal
from raxalign.sweep.grid import run_whole
from raxalign.sweep.tracker import TrackedGrid
from raxalign.tracking.recorder import Recorder
from raxalign.tracking.runs import PlanRuns
from raxalign.values.claims import JudgedClaim
from tests.e2e.runs import tracked
from tests.grids import write_grid
from tests.ledgers import fill_all, nli, words

GRID = {"languages": "{together: [de, fr]}", "sentences": "100", "seeds": ""}
GRID |= {"methods": ("none: {}", "rotation: {center: [false, true]}", "finetune: {batch_size: 16}")}
GRID |= {"tasks": ("retrieval: {}", "xnli: {setting: zero-shot, data: phrasebook}")}
LARGE, EQUAL = "finetune > none in xnli", "rotation center=true > none in xnli"
STOP = "stop: {at_most: 9, looks: [3, 5, 9]}\n"


def written(folder, stop=STOP, claims=(LARGE, EQUAL), **parts):
    folder.mkdir(exist_ok=True)
    more = f"claims: [{', '.join(claims)}]\n{stop}"
    return write_grid(folder, **{**GRID, **parts}, more=more)


def write(ledger, opened, trial, key):
    """Made-up results in which finetune is far better, and all others are equal."""
    stage, rng = opened.plan.stages[key], np.random.default_rng(int(key[:8], 16))
    skill, langs = 0.9 if trial.kind == "finetune" else 0.4, trial.languages
    scores, table = (
        nli(("en", *langs), skill - 0.2, rng) if stage.maker == "xnli" else words(langs, skill, rng)
    )
    record = {"scores": scores, "params": stage.params["task"], "task": stage.maker}
    ledger.write(key, {**record, "seconds": 2.0, "created": 1_800_000_000.0}, table)


def run(opened):
    fill_all(opened.storage.ledger, opened, write)
    return opened


@pytest.fixture
def first(tmp_path):
    """A grid that has run up to its first look."""
    opened = open_grid(written(tmp_path / "grid"), storage=str(tmp_path / "storage"))
    JudgedClaim.lock(opened)
    return run(opened)


def after(opened, looks):
    """The grid after so many looks, whose next trials have run."""
    for _ in range(looks):
        assert JudgedClaim.next_look(opened)
        opened = run(opened.again())
    return opened


def seeds(opened):
    """The number of seeds of each method."""
    found = {}
    for trial in opened.plan.trials:
        name = f"{trial.method} {trial.params.get('center', '')}".strip()
        found.setdefault(name, set()).add(trial.seed)
    return {name: len(of) for name, of in found.items()}


def says(opened):
    return {found.claim.text: found.says for found in JudgedClaim.all_in(opened)}


def records(opened):
    names = opened.storage.files.names("looks/planned")
    return {name: opened.storage.files.read(f"looks/planned/{name}") for name in names}


def test_only_what_open_claims_are_about_gets_more_seeds(first):
    three = {"none": 3, "rotation False": 3, "rotation True": 3, "finetune": 3}
    assert seeds(first) == three
    opened = after(first, 1)
    assert seeds(opened) == {**three, "none": 5, "rotation True": 5, "finetune": 5}
    opened = after(opened, 1)
    assert seeds(opened) == {**three, "none": 9, "rotation True": 9, "finetune": 5}
    opened = after(opened, 1)
    assert JudgedClaim.next_look(opened) is None
    assert seeds(opened) == {**three, "none": 9, "rotation True": 9, "finetune": 5}


def test_a_grid_looks_until_no_claim_is_open(first, tmp_path, monkeypatch, capsys):
    """All results are there, as of a grid with all seeds: nothing has to run."""
    every = written(tmp_path / "every", "", seeds=f"{list(range(9))}")
    run(open_grid(every, storage=first.root))
    monkeypatch.setattr(Recorder, "sync", lambda *_: None)
    ended = run_whole(first, first.plan, ())
    assert [plan.looks for plan in StoredPlans(first.storage)] == [first.plan.looks]
    assert (ended.done, ended.failed, len(ended.plan.trials)) == (0, {}, 26)
    told = capsys.readouterr().err
    assert f"held (look 2 of 3, 5 of 9 seeds): {LARGE}" in told
    assert "look 3 of 3 taken, at 9 seeds; 26 of at most 36 trials; open: " in told
    assert len(records(first)) == 3


def test_a_claim_stays_as_its_look_has_it(first):
    at = after(first, 2)
    line = JudgedClaim.all_in(at)[0].line
    assert line.startswith(f"held (look 2 of 3, 5 of 9 seeds): {LARGE} (")
    assert says(at)[EQUAL] == "cannot tell (look 2 of 3, 5 of 9 seeds; open)"
    end = after(at, 1)
    assert JudgedClaim.all_in(end)[0].line == line, "none has 9 seeds now"
    assert says(end)[EQUAL] == "cannot tell (look 3 of 3, 9 of 9 seeds)"


def test_a_look_keeps_its_verdicts_for_what_knows_the_plan_and_the_storage_alone(first):
    """MLflow and the card of an export read them: the words are those of the report."""
    assert PlannedLook.last_verdicts(first.storage, first.plan.looks) == []
    at = after(first, 2)
    found = PlannedLook.last_verdicts(at.storage, at.plan.looks)
    assert [told for told, _ in found] == [one.line for one in JudgedClaim.all_in(at)]
    assert found[0][0].startswith(f"held (look 2 of 3, 5 of 9 seeds): {LARGE} (")
    methods = {t.cell: t.method for t in at.plan.trials}
    assert [{methods[cell] for cell in cells} for _, cells in found] == [
        {"finetune", "none"},
        {"rotation", "none"},
    ]
    (told,) = (change for run, change in PlanRuns(at.plan).claimed(found) if run.name == "finetune")
    assert told.tags == {"claims": found[0][0]}


OTHERS = {
    "corpus": {"size": 500},
    "languages": {"languages": "{together: [de, es]}"},
    "aligner": {"aligner": "thot"},
    "test data": {"tasks": (GRID["tasks"][0], GRID["tasks"][1].replace("}", ", epochs: 1}"))},
}
"""Grids with the cells of GRID, whose results are others."""


def worse(ledger, opened, trial, key):
    """Made-up results in which finetune is far worse, and all others are equal."""
    write(ledger, opened, replace(trial, kind=OPPOSITE.get(trial.kind, "finetune")), key)


OPPOSITE = {"finetune": "none"}


@pytest.mark.parametrize("parts", OTHERS.values(), ids=OTHERS)
def test_verdicts_are_of_the_plan_that_was_looked_at_and_of_no_other_one_with_its_cells(
    first, tmp_path, parts
):
    other = open_grid(written(tmp_path / "with", **parts), storage=first.root)
    JudgedClaim.lock(other)
    fill_all(other.storage.ledger, other, worse)
    path = written(tmp_path / "without", "", (), seeds="[0, 1, 2]", **parts)
    without = run(open_grid(path, storage=first.root))
    at = after(first, 1)
    assert {t.cell for t in without.plan.trials} == {t.cell for t in at.plan.trials}
    assert seeds(other.again())["finetune"] == 3, "the other grid's looks give it no seeds"

    def told(opened):
        found = PlannedLook.last_verdicts(opened.storage, opened.plan.looks)
        changes = [change.tags["claims"] for _, change in PlanRuns(opened.plan).claimed(found)]
        lines = [text for text, _ in found]
        assert {line for text in changes for line in text.split("\n")} == {*lines}
        return lines

    assert told(without) == []
    assert told(other) == []
    own = told(at)
    assert own == [one.line for one in JudgedClaim.all_in(at)]
    assert JudgedClaim.next_look(other)
    assert told(other.again()) == [one.line for one in JudgedClaim.all_in(other.again())]
    assert told(at) == own, "the later look of the other grid replaces none"
    assert told(other.again()) != own


def test_looks_at_an_added_metric_are_named_by_its_kind_and_options_too(first, tmp_path):
    def looks(folder, metrics, claims=("finetune > none in xnli f",)):
        task = f"xnli: {{setting: zero-shot, data: phrasebook, metrics: {metrics}}}"
        parts = {"claims": claims, "tasks": (GRID["tasks"][0], task)}
        opened = open_grid(written(tmp_path / folder, **parts), storage=first.root)
        assert {t.key for t in opened.plan.trials} == {t.key for t in first.plan.trials}
        return opened.plan.looks

    one = looks("one", "{f: {kind: macro_f1}}")
    assert looks("two", "{f: {kind: macro_f1, leave_out: neutral}}") != one
    assert (
        looks("three", "{f: {kind: macro_f1}, more: {kind: macro_f1, leave_out: neutral}}") == one
    )
    assert looks("four", "{f: {kind: macro_f1}}", (LARGE, EQUAL)) == first.plan.looks


def test_a_claim_on_an_added_metric_with_other_options_is_locked_anew(first, tmp_path):
    def locked(options, wanted):
        task = f"xnli: {{setting: zero-shot, data: phrasebook, metrics: {{f: {options}}}}}"
        parts = {"claims": ("finetune > none in xnli f", LARGE), "tasks": (GRID["tasks"][0], task)}
        opened = open_grid(written(tmp_path / "locked", **parts), storage=first.root)
        JudgedClaim.lock(opened)
        names = sorted(Lock.load(opened.grid.path).entries)
        assert len([name for name in names if name.startswith("claim: ")]) == wanted
        assert names.count(f"claim: {LARGE}") == 1
        assert len([name for name in names if name.startswith("stop: ")]) == wanted - 1

    locked("{kind: macro_f1}", 2)
    locked("{kind: macro_f1}", 2)
    locked("{kind: macro_f1, leave_out: neutral}", 3)


@pytest.mark.slow
def test_mlflow_shows_of_each_grid_of_a_storage_its_own_verdicts(first, tmp_path, no_runs):
    shutil.copy(no_runs, first.root)
    path = written(tmp_path / "other", "", (), seeds="[0, 1, 2]", size=500)
    path.write_text(path.read_text().replace("name: small", "name: other"))
    at, other = after(first, 1), run(open_grid(path, storage=first.root))
    told, notes = {}, {}
    for opened in (at, other):
        grid, name = TrackedGrid(opened), opened.plan.name
        grid.copy_all()
        assert grid.describe("The answer.") is None
        runs = tracked(grid.target.uri, name)
        told[name] = {run["tags"]["claims"] for run in runs if "claims" in run["tags"]}
        experiment = grid.target.connect().get_experiment_by_name(name)
        notes[name] = experiment.tags["mlflow.note.content"].partition("\n\n[")[0]
    lines = [one.line for one in JudgedClaim.all_in(at)]
    assert told == {"small": {*lines, "\n".join(lines)}, "other": set()}
    assert notes == {
        "small": "\n".join(["The answer.", *(f"\n- {line}" for line in lines)]),
        "other": "The answer.",
    }


def test_a_task_that_is_added_leaves_the_looks_as_they_are(first, tmp_path):
    at = after(first, 1)
    more = (*GRID["tasks"], "pos: {data: phrasebook}")
    added = open_grid(written(tmp_path / "grid", tasks=more), storage=first.root)
    assert added.plan.looks == at.plan.looks
    assert seeds(added) == seeds(at)


def test_looks_of_earlier_versions_are_read_where_they_are_named_after_the_trials_alone(first):
    at = after(first, 1)
    ((name, data),) = records(at).items()
    keys = sorted(trial.key for trial in first.plan.trials)
    earlier = f"{digest([at.grid.stop.told(at.grid.claims, at.plan.metrics), keys])}-1.json"
    assert name != earlier
    at.storage.files.write(f"looks/planned/{earlier}", data)
    at.storage.files.delete(f"looks/planned/{name}")
    again = run(at.again())
    assert seeds(again) == seeds(at)
    assert JudgedClaim.next_look(again)
    assert records(again).keys() == {earlier, earlier.replace("-1.", "-2.")}
    found = PlannedLook.last_verdicts(again.storage, again.again().plan.looks)
    assert found[0][0].startswith(f"held (look 2 of 3, 5 of 9 seeds): {LARGE} (")


def looked(opened, claim):
    """The grid after the next look at a claim, the trials of which have run and no others."""
    (look,) = (one for one in JudgedClaim.next_looks(opened, opened.grid.stop) if one[0] == claim)
    run(replace(opened, plan=opened.plan.only(iter(look.trials))))
    assert JudgedClaim.next_look(opened, claim)
    return opened.again()


def test_claims_that_come_to_their_looks_one_by_one_get_the_verdicts_of_all_at_once(
    first, tmp_path
):
    other = open_grid(first.grid.path, storage=str(tmp_path / "other"))
    together = says(after(run(other), 3))
    assert JudgedClaim.next_look(first)
    opened = looked(first.again(), LARGE)
    wanted = {key for trial in opened.plan.trials for key in trial.evaluations.values()}
    assert len(wanted - opened.storage.ledger.keys()) == 2, "rotation with two more seeds, on xnli"
    told = f"look 2 of 3 taken, at 5 seeds; 18 of at most 36 trials; open: {EQUAL} (after look 1)"
    assert told in state(opened)
    assert JudgedClaim.next_look(opened, LARGE) is None, "it is answered"
    assert JudgedClaim.next_look(opened, EQUAL) == "", "two trials have not run"
    (look,) = JudgedClaim.next_looks(opened, opened.grid.stop)
    assert (look.claim, look.after, len(look.trials)) == (EQUAL, 1, 10)
    opened = looked(looked(opened, EQUAL), EQUAL)
    assert says(opened) == together
    assert JudgedClaim.next_looks(opened, opened.grid.stop) == []
    assert seeds(opened) == {"none": 9, "rotation False": 3, "rotation True": 9, "finetune": 5}
    assert max(api.results(first)["seed"].to_pylist()) == 8, "an opened grid has what came since"


def test_a_claim_that_another_ones_look_answers_takes_no_more_seeds(first):
    """The p-values of 5 of 9 seeds, which count about eight and a half times as large over all
    looks, are .05 / 3 and .05 / 3000: only without the second claim is the first answered.
    """
    assert JudgedClaim.next_look(first)
    opened, (name,) = first.again(), records(first)
    stop, claims, looks = opened.grid.stop, opened.grid.claims, opened.plan.looks
    ((_, look),) = stop.taken(looks, claims, opened.storage)
    level = stop.planned.level(2)
    for claim, p, answered in ((LARGE, 0.7 * level, 0), (EQUAL, 1e-9, 2)):
        seen = {test: (p, None, True) for test in look.seen if test.startswith(claim)}
        found = replace(look, seen=seen, cells=look.verdicts[claim][1], claim=claim)
        opened.storage.files.create(PlannedLook.path(looks, 2, claim), seal(asdict(found)))
        opened = opened.again()
        taken = stop.taken(looks, claims, opened.storage)
        assert len(stop.questions(taken)[1].answers) == answered
        assert (seeds(opened)["finetune"] == 9) == (not answered)
    assert name in records(first)


def test_a_budget_that_is_spent_takes_the_looks_that_cost_nothing(first, monkeypatch, capsys):
    monkeypatch.setattr(Recorder, "sync", lambda *_: None)
    budget = Budget.of("0.001 hours", first.run)
    ended = run_whole(first, first.plan, (), budget)
    told = capsys.readouterr().err
    assert (ended.done, ended.cached, len(records(first))) == (0, 12, 1)
    for claim in (LARGE, EQUAL):
        assert f"{claim} is open after look 1 of 3; its next look would take about 0." in told
    assert "budget: 0.01 of 0.001 hours are spent" in told, "18 evaluations of 2 s"


def test_before_the_first_look_nothing_is_said(first):
    assert says(first) == dict.fromkeys((LARGE, EQUAL), "not run (the first look is at 3 seeds)")


def test_a_difference_within_the_one_that_matters_ends_a_claim(tmp_path):
    stop = STOP.replace("}", ", difference: 60}")
    opened = open_grid(written(tmp_path / "grid", stop), storage=str(tmp_path / "storage"))
    JudgedClaim.lock(opened)
    opened = after(run(opened), 2)
    assert says(opened)[EQUAL] == "no difference above 60 (look 2 of 3, 5 of 9 seeds)"


def test_of_two_drivers_one_looks_and_the_other_runs_what_follows(first):
    assert JudgedClaim.next_look(first)
    before = records(first)
    assert JudgedClaim.next_look(first) == "", "the trials of the next look have not run"
    assert records(first) == before
    assert len(before) == 1


def test_a_grid_that_is_opened_again_is_where_it_was(first):
    opened = after(first, 2)
    again = open_grid(opened.grid.path, storage=opened.root)
    assert again.plan.by_key.keys() == opened.plan.by_key.keys()
    assert says(again) == says(opened)


def test_the_looks_are_locked_before_the_first_trial_and_others_are_looks_too(first, tmp_path):
    (name,) = (name for name in Lock.load(first.grid.path).entries if name.startswith("stop:"))
    assert name.startswith("stop: looks 3, 5, 9; claims ")
    assert Lock.load(first.grid.path).get(name).startswith(JudgedClaim.BEFORE)
    after(first, 1)
    stop = STOP.replace("5, 9", "6, 9")
    changed = open_grid(written(tmp_path / "grid", stop), storage=first.root)
    assert seeds(changed)["finetune"] == 3, "other looks begin anew"
    JudgedClaim.lock(changed)
    after(changed, 1)
    one, other = sorted(
        (
            sorted(p for p, *_ in json.loads(data)["seen"].values())
            for data in records(changed).values()
        ),
        key=min,
    )
    assert other == pytest.approx([min(1.0, 6 * p) for p in one])


def test_status_says_which_claims_are_open(first):
    assert "looks at 3, 5, 9 seeds, none taken yet; 12 of at most 36 trials" in state(first)
    opened = after(first, 2)
    told = f"look 2 of 3 taken, at 5 seeds; 26 of at most 36 trials; open: {EQUAL}"
    assert told in state(opened)
    assert state(after(opened, 1)).endswith("no look is left")


def state(opened):
    return Status.told(opened)[0]


def test_a_look_that_was_changed_is_named(first):
    opened = after(first, 1)
    (name,) = opened.storage.files.names("looks/planned")
    path = f"looks/planned/{name}"
    opened.storage.files.write(path, opened.storage.files.read(path).replace(b"0.", b"1.", 1))
    with pytest.raises(StorageError, match=f"{path}: is not a record of a look .* checksum"):
        opened.again()


def test_a_bundle_says_what_the_grid_says(first, tmp_path):
    opened = after(first, 3)
    list(pack(opened, tmp_path / "bundle.zip"))
    with zipfile.ZipFile(tmp_path / "bundle.zip") as archive:
        (page,) = (name for name in archive.namelist() if name.endswith("report.md"))
        text = archive.read(page).decode()
    assert "held (look 2 of 3, 5 of 9 seeds): finetune" in text


@pytest.mark.parametrize(
    ("budget", "run", "told"),
    [
        ("GPU-hours", {}, "'GPU-hours': is not an amount; write for example `40 GPU-hours`"),
        ("40 days", {}, "'40 days': is not an amount; write for example"),
        ("0 hours", {}, "'0 hours': is not an amount; write for example"),
        ("1 GPU-hour", {"gpus_per_worker": 0}, "no GPU .*: 0.; write core-hours or hours"),
    ],
)
def test_a_budget_that_is_none_is_refused(first, budget, run, told):
    opened = replace(first, run=first.run.model_copy(update=run))
    with pytest.raises(RaxalignError, match=f"^--budget {told}" if "'" in told else told):
        api.run(opened, budget=budget)


def test_a_budget_is_of_a_grid_with_looks(tmp_path):
    opened = open_grid(write_grid(tmp_path), storage=str(tmp_path / "storage"))
    with pytest.raises(RaxalignError, match="--budget is spent on looks at claims"):
        api.run(opened, budget="1 hours")


def test_a_part_of_a_grid_with_looks_is_refused(first):
    with pytest.raises(RaxalignError, match="a grid with `stop` runs the trials that its looks"):
        api.run(first, only="method=finetune")


@pytest.mark.parametrize(
    ("stop", "told"),
    [
        ("{at_most: 9, looks: [5, 3, 9]}", r"looks: \[5, 3, 9\] do not rise"),
        ("{at_most: 2, looks: [3, 5]}", "the last look has 5 seeds, and at_most is 2"),
        ("{at_most: 9, looks: [1, 9]}", "at least 2"),
        ("{at_most: 9, looks: [3, 9], difference: 0}", "more than 0"),
        ("{at_most: 9}", "is missing"),
        ("{at_most: 9, looks: [3, 9], level: 0.1}", "unknown key"),
    ],
)
def test_bad_looks_are_one_message(tmp_path, stop, told):
    with pytest.raises(GridError, match=told) as error:
        open_grid(written(tmp_path, f"stop: {stop}\n"))
    assert len(error.value.faults) == 1
    assert error.value.faults[0].line is not None


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"seeds": "[0, 1]"}, "seeds: does not go with `stop`"),
        ({"claims": ()}, "stop: there is nothing to answer"),
    ],
)
def test_what_does_not_go_with_looks_is_one_message(tmp_path, parts, told):
    with pytest.raises(GridError, match=told) as error:
        open_grid(written(tmp_path, **parts))
    assert len(error.value.faults) == 1
