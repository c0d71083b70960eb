"""Stages and trials in one process, without Ray: the phrasebook, a scratch encoder, all methods of
a small grid.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from raxalign.catalog import catalog
from raxalign.config.grid import load
from raxalign.encoders.models import packing
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import StorageError, TrainingDiverged
from raxalign.methods.base import MethodInputs
from raxalign.methods.rotation import Rotation
from raxalign.plan.expansion.expand import expand
from raxalign.plan.touch import Meeting
from raxalign.plan.values.remarks import remarks
from raxalign.plan.values.results import rows
from raxalign.stages import Workshop, run_trial
from raxalign.store.artifacts import ArtifactStore
from raxalign.store.storage import Storage
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.sentence_retrieval import SentenceRetrieval
from raxalign.train.runtime import Runtime
from tests.grids import write_grid

pytestmark = pytest.mark.slow


def open_at(path):
    """A workshop of a grid, whose storage is next to it."""
    return Workshop(expand(load(path)), Storage(str(path.parent / "storage")), Runtime())


def opened(folder, **grid):
    """A workshop of a small grid of one language, or as the options say."""
    grid = {"languages": "{each: [de]}", "sentences": "100", "size": 200, **grid}
    return open_at(write_grid(folder, **grid))


def small_grid(folder, run):
    """A workshop of three methods on two languages, with a `run` section."""
    methods = (
        "none: {}",
        "rotation: {center: true}",
        "finetune: {batch_size: 16, learning_rate: 1.0e-3}",
    )
    return opened(folder, languages="{together: [de, fr]}", methods=methods, run=run)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small grid that was run: (workshop, keys of the stages that were made, in order)."""
    workshop, made = small_grid(tmp_path_factory.mktemp("grid"), "precision: fp32"), []
    workshop.announce = lambda stage, seconds: made.append(stage.key)
    for trial in workshop.plan.trials:
        run_trial(workshop, trial.key)
    return workshop, made


def test_two_processes_that_need_one_stage_make_it_once(tmp_path):
    """Threads here; each waits for the other's lock, as two processes do."""
    plan = expand(load(write_grid(tmp_path, languages="{each: [de]}", sentences="100", size=200)))
    (pairs, *_) = [key for key, stage in plan.stages.items() if stage.kind == "pairs"]
    made, root = [], str(tmp_path / "storage")
    shops = [
        Workshop(plan, Storage(root), Runtime(), lambda stage, seconds: made.append(stage.key))
        for _ in range(2)
    ]
    with ThreadPoolExecutor(2) as pool:
        found = [call.result() for call in [pool.submit(shop.ensure, pairs) for shop in shops]]
    assert found[0] == found[1]
    assert sorted(made) == sorted(plan.closure([pairs]))


AT = (
    *("rotation", "sentence_rotation", "linear", "centering", "znorm", "iterative_normalization"),
    *("lsar", "lir"),
)


def test_what_the_plan_calls_untouched_is_the_encoder_itself_to_the_last_digit(
    tmp_path, monkeypatch
):
    """All evaluations are run, those too that a plan leaves out; what it lets run of the same
    points differs.
    """
    freeze = "freeze: lower, steps: 2, batch_size: 16, learning_rate: 1.0e-2"
    methods = (
        "none: {}",
        *(f"{name}: {{layers: [1, last]}}" for name in AT),
        "mean_shift: {alpha: [0, 1]}",
        f"strong_contrastive: {{{freeze}}}",
    )
    sizes = "data: phrasebook, phrasebook: {train: 16, dev: 6, test: 12}, epochs: 1, hidden: 8"
    tasks = (
        "retrieval: {}",
        "low: {kind: sentence_retrieval, layers: 1}",
        "space: {kind: representation, layers: last}",
        "token_translation: {}",
        f"pos: {{tagger: bilstm_crf, layers: last, {sizes}}}",
    )
    grid = {"methods": methods, "tasks": tasks, "sentences": "60", "size": 150}
    plan = opened(tmp_path, **grid).plan
    told = {trial.key: set(trial.untouched) for trial in plan.trials}
    monkeypatch.setattr(Meeting, "untouched", lambda *_: {})
    workshop = opened(tmp_path, **grid)
    scores = {
        (trial.key, record["task"]): record["scores"]
        for trial in workshop.plan.trials
        for record in run_trial(workshop, trial.key)
    }
    (base,) = [trial.key for trial in workshop.plan.trials if trial.method == "none"]
    missed = {(key, task) for key, tasks in told.items() for task in tasks}
    assert len(missed) == 8 * 4 + 8 * 2 + 5 + 1 + 1, (
        "readouts below, readouts at the top, a shift of nothing, one at the top, a frozen half"
    )
    assert [pair for pair in missed if scores[pair] != scores[base, pair[1]]] == []
    moved = [key for key in told if key != base and "space" not in told[key]]
    assert len(moved) == 8 + 1 + 1
    assert [key for key in moved if scores[key, "space"] == scores[base, "space"]] == []


PHRASES = "data: phrasebook, phrasebook: {train: 60, dev: 12, test: 24}, learning_rate: 1.0e-3"


@pytest.mark.parametrize(("kind", "answer"), [("xnli", "neutral"), ("pos", "predicted")])
def test_readouts_are_fitted_again_on_the_trained_encoder(tmp_path, kind, answer):
    """The vectors under `refit` are those of the method on the encoder that the task's training
    left, and on words as the task reads them.
    """
    ways = {"kept": "keep", "again": "refit"}.items()
    tasks = [f"{n}: {{readout: {way}, kind: {kind}, epochs: 1, {PHRASES}}}" for n, way in ways]
    workshop = opened(tmp_path, methods=("rotation: {}",), tasks=tasks)
    plan = workshop.plan
    (trial,) = plan.trials
    kept, again = run_trial(workshop, trial.key)
    stage = plan.stages[again["aligned"]]
    refitted = workshop.aligned(again["aligned"])
    tuned, start = (
        AlignedEncoder(workshop.encoder(key))
        for key in (stage.inputs["encoder"], plan.stages[trial.aligned].inputs["encoder"])
    )

    def read(aligned):
        return aligned.words([["ein", "Haus"]], "de").vectors_NLH

    assert torch.equal(read(AlignedEncoder(refitted.encoder)), read(tuned))
    assert not torch.allclose(read(tuned), read(start), atol=1e-3)
    pairs = {"de": workshop.ensure(stage.inputs["pairs/de"]) / "data"}
    pooling = {"xnli": "last", "pos": "first"}[kind]
    by_hand = Rotation(Rotation.Params(pooling=pooling)).align(
        tuned.encoder, MethodInputs(("de",), "en", pairs=pairs), Runtime()
    )
    assert torch.allclose(read(refitted), read(by_hand), atol=1e-5)
    assert kept["aligned"] == trial.aligned
    if kind == "xnli":
        assert [record["notes"]["readout"] for record in (kept, again)] == ["keep", "refit"]
    tables = [workshop.ledger.predictions(record["key"]).to_pylist() for record in (kept, again)]
    for lang, same in (("en", True), ("de", False)):
        one, other = ([row[answer] for row in table if row["lang"] == lang] for table in tables)
        assert (one == other) is same


@pytest.mark.parametrize("kind", ["xnli", "pos"])
def test_a_training_that_reads_the_pivot_alone_is_the_one_through_the_shifted_encoder(
    tmp_path, kind
):
    """Frozen up to the shift, the encoder without it is trained to the same weights, bit by bit,
    and the shifted one takes them.
    """
    methods = ("none: {}", "mean_shift: {layers: 1, alpha: [0.5, 4.0]}")
    workshop = opened(tmp_path, methods=methods, tasks=(f"{kind}: {{epochs: 2, {PHRASES}}}",))
    plan, task = workshop.plan, catalog("tasks")[kind]
    for trial in plan.trials:
        (record,) = run_trial(workshop, trial.key)
        stage = plan.stages[plan.stages[record["key"]].inputs["trained"]]
        plugin, by_hand = task(task.Params.model_validate_json(stage.options)), tmp_path / trial.key
        by_hand.mkdir()
        aligned, more = workshop.aligned(trial.aligned), (TaskInputs("en"), Runtime(seed=0))
        plugin.train(aligned, ("en",), *more, by_hand)
        files = sorted(path.name for path in by_hand.iterdir())
        assert any(name.startswith(kind) for name in files)
        for name in files:
            assert (by_hand / name).read_bytes() == (workshop.ensure(stage.key) / name).read_bytes()
        outcome = plugin.evaluate(aligned, ("en", "de"), *more, by_hand)
        assert record["scores"] == [vars(score) for score in outcome.scores]
    frozen = [s.params.get("frozen") for s in plan.stages.values() if s.kind == "tuned"]
    assert frozen == [None, "1"]


def test_sentence_pairs_are_those_of_the_word_pairs(tmp_path):
    """A task that reads sentences alone gets the same rows without a word aligner."""
    tasks = ("sentence_retrieval: {}", "retrieval: {}")
    workshop = opened(tmp_path, methods=("none: {}",), tasks=tasks)
    plan = workshop.plan
    (trial,) = plan.trials
    found = run_trial(workshop, trial.key)[0]
    pairs = workshop.ensure(plan.stages[trial.evaluations["retrieval"]].inputs["heldout/de"])
    inputs = TaskInputs("en", bitext={"de": pairs})
    task = SentenceRetrieval(SentenceRetrieval.Params())
    outcome = task.evaluate(workshop.aligned(trial.aligned), ("de",), inputs, Runtime(), None)
    assert found["notes"]["links"] == {}
    assert found["scores"] == [vars(score) for score in outcome.scores]
    assert workshop.ledger.predictions(found["key"]).equals(outcome.predictions)


def test_each_stage_is_made_once_and_a_finished_trial_evaluates_nothing_again(finished):
    workshop, made = finished
    stored = {key for key, stage in workshop.plan.stages.items() if stage.kind != "evaluation"}
    assert set(made) == stored
    before = {key: workshop.ledger.read(key)["created"] for key in sorted(workshop.ledger.keys())}
    again = [record for trial in workshop.plan.trials for record in run_trial(workshop, trial.key)]
    assert {record["key"]: record["created"] for record in again} == before
    assert len(made) == len(set(made))


def test_records_say_what_they_are_made_of_and_what_the_tokenizer_knew(finished):
    workshop, _ = finished
    trial = next(trial for trial in workshop.plan.trials if trial.method == "finetune")
    record = workshop.ledger.read(trial.evaluations["retrieval"])
    assert record["aligned"] == trial.aligned
    assert record["versions"]["raxalign"]
    assert all(digest for digest in record["notes"]["links"].values())
    assert {name.split("/")[0] for name in record["notes"]["links"]} == {"de", "fr"}
    notes = record["notes"]
    assert set(notes["unknown"]) == {"de", "en", "fr"}
    assert max(notes["unknown"].values()) < 0.05
    assert {maker: set(rates) for maker, rates in notes["unknown_in_training"].items()} == {
        "finetune": {"de-en", "fr-en"},
        "scratch": {"de", "en", "fr"},
    }


def test_held_out_lines_that_were_left_out_are_recorded_and_remarked_on(tmp_path):
    """Of 30 test lines two have a blank side, and of 10 dev lines none; none is too long."""
    pairs = [(f"wort {i} " * (1 + i % 300), f"word {i}") for i in range(60)]
    pairs[40:42] = [(" ", "blank"), ("leer", "\u200b")]
    for side, code in enumerate(("de", "en")):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / f"text.{code}").write_text(lines, encoding="utf-8")
    path = write_grid(
        tmp_path,
        encoder="phrasebook",
        languages="{each: [de]}",
        sentences="5",
        methods=("none: {}",),
        tasks=("sentence_retrieval: {}",),
    )
    text = path.read_text(encoding="utf-8").replace(
        "source: phrasebook\n  size: 400\n  split: {test: 30, dev: 30}",
        "source: moses\n  path: text\n  max_words: 9\n  split: {test: 30, dev: 10}",
    )
    path.write_text(text, encoding="utf-8")
    workshop = open_at(path)
    plan = workshop.plan
    (record,) = run_trial(workshop, plan.trials[0].key)
    assert record["notes"]["left_out"] == {"de": {"test": [2, 30]}}
    assert "2 of 30 test lines of de have a blank side and are left out" in remarks(
        plan, {record["key"]: record}
    )


def test_bf16_has_results_of_its_own_that_order_the_methods_as_float32_does(finished, tmp_path):
    exact, _ = finished
    rounded = small_grid(tmp_path, "precision: bf16")
    for trial in rounded.plan.trials:
        records = run_trial(rounded, trial.key)
        assert {record["precision"] for record in records} == {"bf16"}
    assert rounded.ledger.keys().isdisjoint(exact.ledger.keys())
    before, after = means(exact), means(rounded)
    assert sorted(before, key=before.get) == sorted(after, key=after.get)
    for method, value in before.items():
        assert after[method] == pytest.approx(value, abs=0.05)


def test_with_compile_all_that_trains_runs_compiled_and_records_say_so(tmp_path, monkeypatch):
    used = set()

    def compiled(kind):  # what torch.compile makes is tested in encoders/test_packing
        used.add(kind.__name__)
        return kind.forward

    monkeypatch.setattr(packing, "_compiled", compiled)
    workshop = small_grid(tmp_path, "compile: true")
    plan = workshop.plan
    made = {stage.maker for stage in plan.stages.values() if stage.compiled}
    assert {"scratch", "finetune", "rotation", "retrieval"} <= made
    trial = next(trial for trial in plan.trials if trial.method == "finetune")
    workshop.ensure(trial.aligned)
    assert used == {"BertLayer"}
    assert workshop.aligned(trial.aligned).encoder.compiled
    (record,) = run_trial(workshop, trial.key)
    assert record["compiled"] is True


def means(workshop):
    """The contextual accuracy of each method, the mean over languages on test."""
    found = {}
    for row in rows(workshop.plan, workshop.ledger):
        if (row["metric"], row["split"]) == ("contextual_accuracy", "test"):
            found.setdefault(row["method"], []).append(row["value"])
    return {method: sum(values) / len(values) for method, values in found.items()}


def test_a_training_that_diverges_leaves_no_encoder_and_no_result(tmp_path):
    """Its error is the user's: it names step, losses and rate, and the other trials of the grid
    have their results.
    """
    methods = ("none: {}", "finetune: {batch_size: 16, learning_rate: 1000}")
    workshop = opened(tmp_path, methods=methods)
    none, finetune = workshop.plan.trials
    run_trial(workshop, none.key)
    told = r"finetune: training diverged at step 4 of 7: loss \S+ \(\S+ at the start\), learning_ra"
    with pytest.raises(TrainingDiverged, match=rf"{told}te 1000"):
        run_trial(workshop, finetune.key)
    assert not workshop.store.has("aligned", finetune.aligned)
    assert workshop.ledger.keys() == set(none.evaluations.values())


def test_predictions_recompute_to_the_scores(finished):
    workshop, _ = finished
    trial = next(trial for trial in workshop.plan.trials if trial.method == "rotation")
    found = {
        (row["lang"], row["metric"]): row["value"]
        for row in rows(workshop.plan, workshop.ledger)
        if row["trial"] == trial.key and row["split"] == "test"
    }
    directions = {}
    for row in workshop.ledger.predictions(trial.evaluations["retrieval"]).to_pylist():
        if row["lang"] == "de-en" and row["split"] == "test" and not row["identical"]:
            directions.setdefault(row["direction"], []).append(row["correct"])
    mean = sum(sum(correct) / len(correct) for correct in directions.values()) / len(directions)
    assert found["de-en", "contextual_accuracy_all"] == pytest.approx(mean)


def test_a_damaged_input_is_made_again_before_it_is_used(finished):
    workshop, made = finished
    key = next(
        key
        for key, stage in workshop.plan.stages.items()
        if stage.kind == "pairs" and stage.params["part"] == "heldout"
    )
    folder = workshop.store.open("pairs", key)
    victim = folder / "linked_types.arrow"
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 0xFF
    victim.write_bytes(bytes(data))
    store = ArtifactStore(workshop.store.root)
    with pytest.warns(UserWarning, match="linked_types"):
        assert not store.verify("pairs", key)
    with pytest.raises(StorageError):
        store.open("pairs", key)
    workshop.ensure(key)
    assert made.count(key) == 2
    assert json.loads((folder / "manifest.json").read_text())["key"] == key
