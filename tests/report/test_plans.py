"""Plans and the state of a grid in words, what dev chose with fresh seeds, devices; and cells that
are untouched, in every table.
"""

import json

import pytest
import torch
from typer.testing import CliRunner

from raxalign.analysis.cells import Cell
from raxalign.cli import app
from raxalign.errors import RaxalignError
from raxalign.grid.load import open_grid
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial, Untouched
from raxalign.inspect.doctor import _devices
from raxalign.inspect.plans import PlanView
from raxalign.inspect.status import Status
from raxalign.options.run import RunConfig
from raxalign.report.compose import compose
from raxalign.report.tables import blocks, short_tables
from raxalign.search.words import confirmed
from raxalign.store.artifacts import ArtifactStore, Manifest
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage, Tombstone
from raxalign.values.results import rows
from raxalign.values.scoreboard import Scoreboard
from tests.grids import of_kind, small_plan, write_grid
from tests.ledgers import fill_all, made_up
from tests.report.material import part, published
from tests.report.test_published_tables import row
from tests.searches import search_grid


def plan_of(folder):
    parts = {"languages": "{each: [de]}", "seeds": "[0, 1]", "sentences": "[50, 100]"}
    methods = ("none: {}", "finetune: {}")
    return small_plan(folder, methods=methods, **parts)


def record(plan, ledger, number):
    for key in plan.trials[number].evaluations.values():
        ledger.write(key, {"key": key, "scores": [], "params": {}, "seconds": 1.5}, None)


def test_a_plan_says_what_falls_together_and_what_is_there(tmp_path):
    plan, root = plan_of(tmp_path), str(tmp_path / "storage")
    record(plan, Ledger(root), 0)
    (stage, *_) = of_kind(plan, "bitext")
    ArtifactStore(root).make("bitext", stage.key, lambda folder: {})
    text = PlanView(plan, Storage(root), RunConfig()).text()
    assert "GPU memory" not in text
    counts = ("small: 8 configurations, 5 trials (1 cached)", "none: 1 trial", "finetune: 4 trials")
    shared = ("bitext (1 done)", "none: 4 configurations are 1 trial", "evaluations: 5 (1 done)")
    for told in (*counts, *shared, f"storage: {root}"):
        assert told in text


SHARED = "trials share a GPU with run.gpus_per_worker: "


@pytest.mark.parametrize(
    ("gib", "shares"),
    [(6, "0.5 (24 GiB), 0.25 (40 GiB), 0.11 (80 GiB)"), (20, "0.33 (80 GiB)"), (70, None)],
)
def test_a_plan_says_what_the_largest_of_its_trainings_took_on_a_gpu_and_how_trials_share_one(
    tmp_path, gib, shares
):
    plan, root = plan_of(tmp_path), str(tmp_path / "storage")
    for size, stage in zip((1, gib), of_kind(plan, "aligned"), strict=False):
        notes = {ArtifactStore.GPU_BYTES: size * 2**30}
        ArtifactStore(root).make("aligned", stage.key, lambda _, notes=notes: notes)

    def lines(gpus):
        view = PlanView(plan, Storage(root), RunConfig(gpus_per_worker=gpus))
        return view.text().splitlines()

    took = f"GPU memory: {gib}.0 GiB for the largest training so far"
    told = f"{took}; {SHARED}{shares}" if shares else took
    assert told in lines(None)
    assert told in lines(1)
    assert took in lines(0.25)
    assert took in lines(0)


@pytest.mark.parametrize(("trained_on_gpu", "without_a_number"), [(True, 1.0), (False, 0.0)])
def test_workers_have_gpus_by_the_grid_or_where_a_training_run_was_on_one(
    tmp_path, trained_on_gpu, without_a_number
):
    plan, root = plan_of(tmp_path), str(tmp_path / "storage")
    record(plan, Ledger(root), 1)
    notes = {ArtifactStore.GPU_BYTES: 2**30} if trained_on_gpu else {}
    ArtifactStore(root).make("aligned", of_kind(plan, "aligned")[0].key, lambda _: notes)

    def hours(gpus):
        view = PlanView(plan, Storage(root), RunConfig(gpus_per_worker=gpus))
        assert ("GPU hours" in view.text()) == bool(gpus or (gpus is None and trained_on_gpu))
        return json.loads(view.json())["time"]["gpu_hours"]

    assert hours(1.0) > 0
    given = {gpus: hours(gpus) / hours(1.0) for gpus in (0.0, 0.5, 4.0)}
    assert given == pytest.approx({0.0: 0.0, 0.5: 0.5, 4.0: 4.0})
    assert hours(None) / hours(1.0) == pytest.approx(without_a_number)


def test_a_training_run_holds_the_gpus_of_all_its_workers(tmp_path):
    plan, root = plan_of(tmp_path), str(tmp_path / "storage")
    storage = Storage(root)
    for stage in of_kind(plan, "aligned"):
        manifest = Manifest("aligned", stage.key, {}, {}, 3600.0, "2026-01-01T00:00:00+00:00", "0")
        storage.tombstones.write(Tombstone(manifest, "run.keep: none", manifest.created))

    def hours(workers):
        run = RunConfig(gpus_per_worker=0.5, workers=workers)
        return json.loads(PlanView(plan, storage, run).json())["time"]["gpu_hours"]

    trained = [stage for stage in of_kind(plan, "aligned") if stage.trained]
    assert trained
    assert hours(2) - hours(1) == pytest.approx(0.5 * len(trained))


def test_a_failure_counts_until_its_trial_is_done(tmp_path):
    plan, ledger = plan_of(tmp_path), Ledger(str(tmp_path / "storage"))
    ledger.fail(plan.trials[0].run, {"message": "out of memory"})
    state = Status.of(plan, ledger)
    assert (state.done, len(state.failed), state.missing) == (0, 1, 4)
    record(plan, ledger, 0)
    state = Status.of(plan, ledger)
    assert (state.done, state.failed, state.missing, state.evaluations_done) == (1, {}, 4, 1)


def test_json_has_the_bytes_on_disk_and_what_was_not_kept(tmp_path):
    plan, root = plan_of(tmp_path), str(tmp_path / "storage")
    store = ArtifactStore(root)
    keys = [key for key, stage in plan.stages.items() if stage.kind == "aligned"][:2]
    for key in keys:
        store.make("aligned", key, lambda folder: {"size": (folder / "x").write_bytes(b"xyz")})
    Storage(store.root).drop("aligned", keys[0], "run.keep: none")
    data = json.loads(PlanView(plan, Storage(root), RunConfig(keep="none")).json())
    stages = {stage["key"]: stage for stage in data["stages"]}
    assert [stages[key]["done"] for key in keys] == [False, True]
    assert [stages[key]["dropped"] for key in keys] == [True, False]
    assert [stages[key]["bytes"] for key in keys] == [3, 3]
    assert data["disk"]["keep"] == "none"
    assert set(data["disk"]["after"]) == set(data["disk"]["peak"]) == {"all", "none"}


@pytest.mark.parametrize(
    ("capability", "more"), [((7, 5), ""), ((9, 0), "; `run: {precision: bf16}` is faster there")]
)
def test_bf16_is_recommended_on_a_card_that_computes_in_it(monkeypatch, capability, more):
    monkeypatch.setattr("raxalign.inspect.doctor._has_driver", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a card")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert _devices() == f"device   a card{more}"


def test_what_dev_chose_and_the_baseline_get_seeds_that_the_grid_does_not_have(made, results):
    opened, name = made[0], ("xnli", "avg_zero_shot", "accuracy", "dev")
    best = {}
    for task in results.tasks:
        for points in results.points_of_methods(task):
            best[points[0].key] = len(points)
            means = [cell.values[name].mean for cell in points if task == "xnli"]
            assert means == sorted(means, reverse=True)
    assert 3 in best.values(), "finetune has three points"
    again = confirmed(opened, 3).plan
    assert again.name == "small-confirmed"
    assert {trial.cell for trial in again.trials} == set(best)
    assert {trial.seed for trial in again.trials} <= {None, 2, 3, 4}
    trained = [trial for trial in again.trials if trial.method == "finetune"]
    assert len(trained) == 3 * len({trial.cell for trial in trained})
    assert len({trial.cell for trial in trained}) < 6, "not all points were chosen"
    fresh = {trial.aligned for trial in trained}
    assert not fresh & {trial.aligned for trial in opened.plan.trials}


def test_fresh_runs_are_results_of_their_own_and_leave_those_of_the_grid_alone(tmp_path):
    opened, ledger = made_up(tmp_path, sentences="100")
    before = rows(opened.plan, ledger)
    again = confirmed(opened, 2)
    command = ["grid", str(opened.grid.path), "--storage", opened.root, "--confirm", "2"]
    assert "small-confirmed" in CliRunner().invoke(app, [*command, "--dry-run"]).output
    fill_all(ledger, again)
    assert rows(opened.plan, ledger) == before
    found = Cell.grouped(rows(again.plan, ledger), "en", again.plan.measured)
    name = ("xnli", "avg", "accuracy", "test")
    assert {cell.values[name].n for cell in found if cell.method == "finetune"} == {2}
    assert confirmed(opened, 2).plan == again.plan, "the choice does not see the fresh runs"


def test_an_unfinished_grid_and_a_search_are_refused_with_what_to_do(tmp_path):
    path = write_grid(tmp_path)
    with pytest.raises(RaxalignError, match=r"run `raxalign grid grid\.yaml` first"):
        confirmed(open_grid(path, storage=str(tmp_path / "storage")), 3)
    path = search_grid(tmp_path, "budget: 4 trials")
    with pytest.raises(RaxalignError, match=r"search\.confirm"):
        confirmed(open_grid(path, storage=str(tmp_path / "storage")), 3)


def test_a_part_of_a_grid_chooses_nothing(tmp_path):
    command = ["grid", str(write_grid(tmp_path)), "--confirm", "3", "--limit", "1"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert "--confirm chooses among all trials" in done.output


WHY = Untouched("fitted at layer 12", "layer 8", "8", "k")
TOLD = (
    "Untouched: {task} reads layer 8, but {method} is fitted at layer 12; the result would be that"
    " of the encoder itself."
)


def trial(method, *evaluations, untouched=(), sentences=250_000):
    keys = {task: f"{method}/{task}" for task in evaluations}
    params = {"supervision": "parallel"} if method == "rotation" else {}
    facts = (method, method, params, "bert-base-multilingual-cased", ("de",), sentences, None)
    return Trial(*facts, method, keys, dict.fromkeys(untouched, WHY))


TRIALS = (
    trial("none", "pos", "xnli", sentences=None),
    trial("rotation", "pos", untouched=("xnli",)),
    trial("znorm", untouched=("pos", "xnli")),
)


def found(*trials):
    own = ("method", "params", "encoder", "sentences")
    rows = [
        row(0.5, trial=one.key, task=task, evaluation=key, seed=None)
        | {name: getattr(one, name) for name in own}
        for one in trials
        for task, key in one.evaluations.items()
    ]
    return rows, Plan("p", "en", 3, trials, {}, {})


def test_the_grid_s_own_tables_say_untouched_and_why():
    section = part("own_tables", Scoreboard.of(*found(*TRIALS)))
    low, xnli = section.tables
    shown = [(line.label, line.sub, line.entries[0].text) for line in low.lines]
    assert shown == [
        ("none", "the same for every seed", "50.0"),
        ("rotation", "250,000 pairs, the same for every seed", "50.0"),
        ("znorm", "250,000 pairs", "untouched"),
    ]
    entries = [line.entries[0] for line in xnli.lines]
    assert [entry.text for entry in entries] == ["50.0", "untouched", "untouched"]
    assert [entry.notes for entry in entries] == [(), (1,), (2,)]
    methods = ("rotation", "znorm")
    assert xnli.notes == tuple(TOLD.format(task="xnli", method=method) for method in methods)


def test_a_short_table_names_in_its_caption_what_it_does_not_show():
    made = short_tables(Scoreboard.of(*found(*TRIALS)))
    tables = {entry[0]: table for entry, table in made}
    assert [line.label for line in tables["xnli"].lines] == ["none"]
    told = "Not shown, as they change nothing that it reads: rotation, znorm."
    assert told in tables["xnli"].caption
    assert "it reads: znorm." in tables["pos"].caption


def test_a_published_table_says_it_too_beside_the_printed_figure():
    sections, records = published(Scoreboard.of(*found(*TRIALS)), ["cao2020"])
    table = next(table for table in sections[0].tables if table.anchor == "cao2020-xnli_methods")
    own = {line.label: line for line in table.lines if line.group == "zero-shot"}
    place = table.columns.index("de")
    entry = own["word-rotation"].entries[place]
    assert (entry.text, entry.state, entry.below != "") == ("untouched", "absent", True)
    (note,) = (table.notes[number - 1] for number in entry.notes)
    assert note == TOLD.format(task="xnli", method="rotation")
    (record,) = (r for r in records if r[1:4] == ("xnli_methods", "zero-shot/word-rotation", "de"))
    assert record[-1] == "untouched"
    assert own["finetune"].entries[place].text == "not run"


@pytest.mark.usefixtures("undrawn")
def test_every_form_of_the_report_holds_the_word_and_the_reason(tmp_path):
    document = compose(*found(*TRIALS), tmp_path).document
    for text in (document.html(), document.markdown(), document.latex()):
        assert text.count("untouched") >= 3
        assert "the result would be that of the encoder itself" in text


def test_results_in_a_terminal_have_a_line_for_it_and_json_has_no_row():
    low, xnli = blocks(*found(*TRIALS))
    rotation, znorm = ((method, "250,000", "untouched") for method in ("rotation", "znorm"))
    assert low.lines == (("none", "", "50.0"), (*rotation[:2], "50.0"), znorm)
    assert xnli.lines[1:] == (rotation, znorm)
    told = [TOLD.format(task="xnli", method=method) for method in ("rotation", "znorm")]
    assert xnli.note.splitlines() == told


@pytest.fixture
def plan(tmp_path):
    parts = {"languages": "{each: [de]}", "sentences": "50", "tasks": ("retrieval: {}",)}
    methods = ("none: {}", "rotation: {layers: 1}", "znorm: {}")
    return small_plan(tmp_path, methods=methods, **parts)


def test_a_trial_with_nothing_to_run_is_neither_done_nor_to_run(plan, tmp_path):
    storage, run = Storage(str(tmp_path / "storage")), RunConfig()
    ledger = storage.ledger
    text = PlanView(plan, storage, run).text()
    assert "small: 3 configurations, 3 trials (0 cached)" in text
    assert "note: 1 evaluation is untouched and will not run" in text
    assert '"cached": 0' in PlanView(plan, storage, run).json()
    state = Status.of(plan, ledger)
    assert (state.trials, state.missing, state.idle) == (2, 2, 1)
    for one in plan.trials:
        for key in one.evaluations.values():
            ledger.write(key, {"key": key, "scores": [], "params": {}, "seconds": 1.0}, None)
    assert "3 trials (2 cached)" in PlanView(plan, storage, run).text()
    assert Status.of(plan, ledger).text(plan) == (
        "small: 2 of 2 trials done, 0 failed, 0 to run; 2 of 2 evaluations; 1 more have nothing"
        " to run"
    )
    assert rows(plan, ledger) == []
