"""Stages and trials in one process, without Ray: the phrasebook, a scratch encoder, all methods of
a small grid.
"""

import shutil
from dataclasses import replace
from typing import Any

import pytest
import torch

from raxalign.catalog import catalog
from raxalign.encoders.models import transformer
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import RaxalignError, TrainingDiverged
from raxalign.grid.expansion.expand import expand
from raxalign.grid.file import load
from raxalign.grid.plan import Meeting
from raxalign.methods.base import MethodInputs
from raxalign.methods.rotation import Rotation
from raxalign.stages import Workshop
from raxalign.store import lease
from raxalign.store.storage import Storage
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.sentence_retrieval import SentenceRetrieval
from raxalign.train.runtime import Runtime
from raxalign.values.results import remarks
from tests.every import EVERY, needs_eflomal
from tests.forks import forks
from tests.grids import write_grid

pytestmark = pytest.mark.slow


def open_at(path, place=None):
    """A workshop of a grid, whose storage is next to it, or the place that it is given."""
    root = place or path.parent / "storage"
    return Workshop(expand(load(path)), Storage(str(root)), Runtime())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A storage of several grids, whose encoder and pairs are the same."""
    return tmp_path_factory.mktemp("shared")


ONE: dict[str, Any] = {"languages": "{each: [de]}", "sentences": "100", "size": 200}
"""Parts of a grid of one language and one size."""


def small_grid(folder, run):
    """Three methods on two languages, with a `run` section."""
    tuned = "finetune: {batch_size: 16, learning_rate: 1.0e-3}"
    methods = ("none: {}", "rotation: {center: true}", tuned)
    return write_grid(
        folder, **{**ONE, "languages": "{together: [de, fr]}"}, methods=methods, run=run
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small grid that was run: (workshop, keys of the stages that were made, in order)."""
    folder = tmp_path_factory.mktemp("grid")
    workshop, made = open_at(small_grid(folder, "precision: fp32")), []
    workshop.announce = lambda stage, seconds: made.append(stage.key)
    for trial in workshop.plan.trials:
        workshop.run_trial(trial.key)
    return workshop, made


def test_what_the_plan_calls_untouched_is_the_encoder_itself_to_the_last_digit(
    tmp_path, place, monkeypatch
):
    """All evaluations are run, those too that a plan leaves out; what it lets run of the same
    points differs.
    """
    at = ("rotation", "sentence_rotation", "linear", "centering", "znorm")
    at += ("iterative_normalization", "lsar", "lir")
    at = at if EVERY else at[::3]
    freeze = "freeze: lower, steps: 2, batch_size: 16, learning_rate: 1.0e-2"
    methods = (
        "none: {}",
        *(f"{name}: {{layers: [1, last]}}" for name in at),
        "mean_shift: {alpha: [0, 1]}",
        f"strong_contrastive: {{{freeze}}}",
    )
    sizes = "data: phrasebook, phrasebook: {train: 16, dev: 6, test: 12}, epochs: 1, hidden: 8"
    tasks = (
        "retrieval: {}",
        "low: {kind: sentence_retrieval, layers: 1}",
        "space: {kind: representation, layers: last}",
        "token_translation: {alpha: [1.0], max_blocks: 2, max_sentences: 10}",
        f"ner: {{tagger: bilstm_crf, layers: last, {sizes}}}",
    )
    path = write_grid(tmp_path, methods=methods, tasks=tasks, **ONE)
    told = {trial.key: set(trial.untouched) for trial in expand(load(path)).trials}
    monkeypatch.setattr(Meeting, "untouched", lambda *_: {})
    workshop = open_at(path, place)
    plan = workshop.plan
    scores = {
        (trial.key, record["task"]): record["scores"]
        for trial in plan.trials
        for record in workshop.run_trial(trial.key)
    }
    (base,) = [trial.key for trial in plan.trials if trial.method == "none"]
    missed = {(key, task) for key, tasks in told.items() for task in tasks}
    assert len(missed) == len(at) * 4 + len(at) * 2 + 5 + 1 + 1, (
        "readouts below, readouts at the top, a shift of nothing, one at the top, a frozen half"
    )
    assert [pair for pair in missed if scores[pair] != scores[base, pair[1]]] == []
    moved = [key for key in told if key != base and "space" not in told[key]]
    assert len(moved) == len(at) + 1 + 1
    assert [key for key in moved if scores[key, "space"] == scores[base, "space"]] == []


@pytest.mark.parametrize(("kind", "answer"), [("xnli", "neutral"), ("pos", "predicted")])
def test_readouts_are_fitted_again_on_the_trained_encoder(tmp_path, place, kind, answer):
    """The vectors under `refit` are those of the method on the encoder that the task's training
    left, and on words as the task reads them.
    """
    sizes = (
        f"kind: {kind}, data: phrasebook, phrasebook: {{train: 60, dev: 12, test: 24}}, epochs: 1,"
        " learning_rate: 1.0e-3"
    )
    tasks = (f"kept: {{readout: keep, {sizes}}}", f"again: {{readout: refit, {sizes}}}")
    path = write_grid(tmp_path, methods=("rotation: {}",), tasks=tasks, **ONE)
    workshop = open_at(path, place)
    plan = workshop.plan
    (trial,) = plan.trials
    kept, again = workshop.run_trial(trial.key)
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
    first, second = (
        workshop.ledger.predictions(record["key"]).to_pylist() for record in (kept, again)
    )
    for lang, same in (("en", True), ("de", False)):
        answers = [
            [row[answer] for row in rows_ if row["lang"] == lang] for rows_ in (first, second)
        ]
        assert (answers[0] == answers[1]) is same


@pytest.mark.parametrize("kind", ["xnli", "pos"])
def test_a_training_that_reads_the_pivot_alone_is_the_one_through_the_shifted_encoder(
    tmp_path, place, kind
):
    """Frozen up to the shift, the encoder without it is trained to the same weights, bit by bit,
    and the shifted one takes them.
    """
    task = (
        f"{kind}: {{data: phrasebook, phrasebook: {{train: 60, dev: 12, test: 24}}, epochs: 2,"
        " learning_rate: 1.0e-3}"
    )
    methods = ("none: {}", "mean_shift: {layers: 1, alpha: [0.5, 4.0]}")
    path = write_grid(tmp_path, methods=methods, tasks=(task,), **ONE)
    workshop = open_at(path, place)
    plan = workshop.plan
    for trial in plan.trials:
        (record,) = workshop.run_trial(trial.key)
        stage = plan.stages[plan.stages[record["key"]].inputs["trained"]]
        task = catalog("tasks")[kind]
        plugin = task(task.Params.model_validate_json(stage.options))
        aligned, by_hand = workshop.aligned(trial.aligned), tmp_path / trial.key
        given = (TaskInputs("en"), Runtime(seed=0), by_hand)
        by_hand.mkdir()
        plugin.train(aligned, ("en",), *given)
        files = sorted(path.name for path in by_hand.iterdir())
        assert any(name.startswith(kind) for name in files)
        for name in files:
            assert (by_hand / name).read_bytes() == (workshop.ensure(stage.key) / name).read_bytes()
        outcome = plugin.evaluate(aligned, ("en", "de"), *given)
        assert record["scores"] == [vars(score) for score in outcome.scores]
    tuned = (stage for stage in plan.stages.values() if stage.kind == "tuned")
    assert [stage.params.get("frozen") for stage in tuned] == [None, "1"]


def run_as_process(line, path):
    """Run the only trial of a grid, say when its evaluation begins, and wait there."""
    lease.LOOK, own = 0.01, SentenceRetrieval.evaluate

    def evaluate(self, *given):
        line.send("evaluates")
        line.recv()
        return own(self, *given)

    SentenceRetrieval.evaluate = evaluate
    workshop = replace(open_at(path), tell=line.send)
    line.send(workshop.run_trial(workshop.plan.trials[0].key)[0]["created"])


def test_an_evaluation_that_two_processes_need_at_once_is_made_by_one_of_them(tmp_path):
    parts = {**ONE, "methods": ("none: {}",), "tasks": ("sentence_retrieval: {}",)}
    path = write_grid(tmp_path, encoder="phrasebook", **parts)
    lines, others = zip(*(forks().Pipe() for _ in range(2)), strict=True)
    processes = [forks().Process(target=run_as_process, args=(end, path)) for end in others]
    try:
        processes[0].start()
        assert lines[0].recv() == "evaluates"
        processes[1].start()
        assert "holds the lock of the same evaluation" in lines[1].recv()
        lines[0].send("go on")
        assert lines[0].recv() == lines[1].recv(), "both have the one record"
    finally:
        for process in processes:
            if process.pid:
                process.kill()


def test_sentence_pairs_are_those_of_the_word_pairs(tmp_path, place):
    """A task that reads sentences alone gets the same rows without a word aligner."""
    tasks = ("sentence_retrieval: {}", "retrieval: {}")
    path = write_grid(tmp_path, methods=("none: {}",), tasks=tasks, **ONE)
    workshop = open_at(path, place)
    plan = workshop.plan
    (trial,) = plan.trials
    found = workshop.run_trial(trial.key)[0]
    pairs = workshop.ensure(plan.stages[trial.evaluations["retrieval"]].inputs["heldout/de"])
    task = SentenceRetrieval(SentenceRetrieval.Params())
    inputs = TaskInputs("en", bitext={"de": pairs})
    outcome = task.evaluate(workshop.aligned(trial.aligned), ("de",), inputs, Runtime(), None)
    assert found["notes"]["links"] == {}
    assert found["scores"] == [vars(score) for score in outcome.scores]
    assert workshop.ledger.predictions(found["key"]).equals(outcome.predictions)


@needs_eflomal
def test_each_seed_has_links_of_its_own_of_a_word_aligner_without_a_seed(tmp_path, place):
    parts = {**ONE, "methods": ("rotation: {}",), "seeds": "[0, 1]", "aligner": "eflomal"}
    workshop = open_at(write_grid(tmp_path, **parts), place)
    records = [workshop.run_trial(trial.key)[0] for trial in workshop.plan.trials]
    read = [workshop.plan.stages[trial.aligned].inputs for trial in workshop.plan.trials]
    notes = [workshop.store.manifest("pairs", inputs["pairs/de"]).notes for inputs in read]
    assert notes[0]["links_digest"] != notes[1]["links_digest"]
    tests = [workshop.plan.stages[record["key"]].inputs["heldout/de"] for record in records]
    assert tests[0] == tests[1]


def test_each_stage_is_made_once_and_a_finished_trial_evaluates_nothing_again(
    finished, monkeypatch
):
    workshop, made = finished
    stored = {key for key, stage in workshop.plan.stages.items() if stage.kind != "evaluation"}
    assert len(made) == len(stored)
    assert set(made) == stored
    again = lambda *given: pytest.fail("it is evaluated again")  # noqa: E731
    monkeypatch.setattr(Workshop, "evaluate", again)
    for trial in workshop.plan.trials:
        records = [workshop.ledger.read(key) for key in trial.evaluations.values()]
        assert workshop.run_trial(trial.key) == records
    assert len(made) == len(stored)


def test_text_that_untrained_weights_have_read_is_not_read_again_by_other_methods(
    finished, tmp_path, monkeypatch
):
    workshop, _ = finished
    (folder,) = (workshop.storage.local / "states").iterdir()  # of the encoder, not of `finetune`
    other = open_at(small_grid(tmp_path, "precision: fp32"))
    shutil.copytree(folder, other.storage.local / "states" / folder.name)
    hidden = transformer.TransformerEncoder.hidden

    def probe(encoder, batch, **options):
        assert not batch.languages, "a text is read again"
        return hidden(encoder, batch, **options)

    monkeypatch.setattr(transformer.TransformerEncoder, "hidden", probe)
    trials = [trial for trial in workshop.plan.trials if trial.method in ("none", "rotation")]
    assert len(trials) == 2
    for trial in trials:
        for old, new in zip(workshop.run_trial(trial.key), other.run_trial(trial.key), strict=True):
            assert old["scores"] == new["scores"]


def test_values_are_the_same_where_no_states_can_be_kept(finished, tmp_path):
    workshop, _ = finished
    without = open_at(small_grid(tmp_path, "precision: fp32"))
    without.storage.local.mkdir()
    (without.storage.local / "states").write_text("a file where a folder should be")
    for trial in workshop.plan.trials:
        old, new = workshop.run_trial(trial.key), without.run_trial(trial.key)
        assert [one["scores"] for one in old] == [one["scores"] for one in new]


@pytest.mark.parametrize("readout", ["keep", "refit"])
def test_the_test_sets_of_a_shared_training_run_are_read_once(tmp_path, monkeypatch, readout):
    """`rotation`, kept or fitted again on what was trained, and `none` have one training run."""
    sizes = "data: phrasebook, phrasebook: {train: 60, dev: 12, test: 24}, epochs: 1"
    tasks = (f"xnli: {{readout: {readout}, {sizes}}}",)
    path = write_grid(tmp_path, methods=("none: {}", "rotation: {}"), tasks=tasks, **ONE)
    shops = open_at(path), open_at(path, tmp_path / "without")
    shops[1].storage.local.mkdir()
    (shops[1].storage.local / "states").write_text("a file where a folder should be")
    read, states = [], transformer._packed_states

    def noted(encoder, packed, layers):
        read.extend(packed.languages)  # none of the probe
        return states(encoder, packed, layers)

    monkeypatch.setattr(transformer, "_packed_states", noted)
    counts, scores = [], []
    for shop in shops:
        for trial in shop.plan.trials:
            shop._ensure_inputs(shop.plan.stages[trial.evaluations["xnli"]])
        for trial in shop.plan.trials:
            before = len(read)
            scores.append(shop.run_trial(trial.key)[0]["scores"])
            counts.append(len(read) - before)
    assert counts[0] == counts[2] == counts[3] > counts[1] == 0
    assert scores[:2] == scores[2:]


def test_what_one_evaluation_alone_reads_after_training_is_not_kept(tmp_path):
    tasks = ("xnli: {data: phrasebook, phrasebook: {train: 60, dev: 12, test: 24}, epochs: 1}",)
    workshop = open_at(write_grid(tmp_path, methods=("none: {}",), tasks=tasks, **ONE))
    (trial,) = workshop.plan.trials
    workshop.run_trial(trial.key)
    assert not [path for path in (workshop.storage.local / "states").rglob("*") if path.is_file()]


def test_states_that_other_versions_have_read_are_not_used(finished, monkeypatch):
    workshop, _ = finished
    key = next(key for key, stage in workshop.plan.stages.items() if stage.kind == "encoder")
    encoder, reader = workshop.encoder(key), Rotation(Rotation.Params())
    workshop.keep_states(encoder, key, reader)
    before = encoder.kept.folder
    assert before.is_dir()
    monkeypatch.setattr("raxalign.stages.workshop.versions", lambda: {"transformers": "9.9"})
    workshop.keep_states(encoder, key, reader)
    assert encoder.kept.folder != before


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
    """Of 30 test lines two have a blank side, and of 10 dev lines none; none is too long. One dev
    line and one of 5 training lines have marks that Moses has escaped.
    """
    pairs = [(f"wort {i} " * (1 + i % 300), f"word {i}") for i in range(60)]
    pairs[40:42] = [(" ", "blank"), ("leer", "\u200b")]
    pairs[12] = pairs[22] = ("das &apos;s", "it &apos;s")
    for side, code in enumerate(("de", "en")):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (tmp_path / f"text.{code}").write_text(lines, encoding="utf-8")
    parts = {"methods": ("none: {}",), "tasks": ("sentence_retrieval: {}",)}
    path = write_grid(tmp_path, encoder="phrasebook", **{**ONE, **parts, "sentences": "5"})
    before = "source: phrasebook\n  size: 200\n  split: {test: 30, dev: 30}"
    after = "source: moses\n  path: text\n  max_words: 9\n  split: {test: 30, dev: 10}"
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")
    workshop = open_at(path)
    plan = workshop.plan
    (record,) = workshop.run_trial(plan.trials[0].key)
    assert record["notes"]["left_out"] == {"de": {"test": [2, 30]}}
    assert record["notes"]["escaped"] == {"de": {"dev": [1, 10]}}
    assert "2 of 30 test lines of de have a blank side and are left out" in remarks(
        plan, {record["key"]: record}
    )


def test_with_compile_all_that_trains_runs_compiled_and_records_say_so(tmp_path, monkeypatch):
    used = set()

    def compiled(kind):  # what torch.compile makes is tested in encoders/test_packing
        used.add(kind.__name__)
        return kind.forward

    monkeypatch.setattr(transformer, "_compiled", compiled)
    workshop = open_at(small_grid(tmp_path, "compile: true"))
    plan = workshop.plan
    made = {stage.maker for stage in plan.stages.values() if stage.compiled}
    assert {"scratch", "finetune", "rotation", "retrieval"} <= made
    trial = next(trial for trial in plan.trials if trial.method == "finetune")
    workshop.ensure(trial.aligned)
    assert used == {"BertLayer"}
    assert workshop.aligned(trial.aligned).encoder.compiled
    (record,) = workshop.run_trial(trial.key)
    assert record["compiled"] is True


def test_a_base_in_bfloat16_is_what_trials_start_from_and_records_say_so(tmp_path, place):
    methods = ("none: {}", "finetune: {batch_size: 16, learning_rate: 1.0e-3, lora: {rank: 2}}")
    path = write_grid(tmp_path, methods=methods, run="base_precision: bf16", **ONE)
    workshop = open_at(path, place)
    held = {}
    for trial in workshop.plan.trials:
        (record,) = workshop.run_trial(trial.key)
        assert record["base_precision"] == "bf16"
        encoder = workshop.aligned(trial.aligned).encoder
        assert encoder.base_precision == "bf16"
        held[trial.method] = dict(encoder.model.named_parameters())
    none, tuned = held["none"], held["finetune"]
    assert {p.dtype for p in none.values() if p.ndim > 1} == {torch.bfloat16, torch.float32}
    changed = {name for name, weight in none.items() if not torch.equal(weight, tuned[name])}
    assert changed
    assert all(name.endswith(("query.weight", "value.weight")) for name in changed)
    assert {none[name].dtype for name in changed} == {torch.bfloat16}
    assert {tuned[name].dtype for name in changed} == {torch.float32}


def test_an_encoder_from_outside_that_is_not_held_is_refused(tmp_path, monkeypatch):
    workshop = open_at(
        write_grid(tmp_path, methods=("none: {}",), run="base_precision: bf16", **ONE)
    )
    kind = catalog("encoders")["scratch"]
    load_as = kind.load
    monkeypatch.setattr(
        kind,
        "load",
        lambda self, given, at: load_as(self, replace(given, base_precision="fp32"), at),
    )
    with pytest.raises(RaxalignError, match=r"kind scratch do not read .*base_precision"):
        workshop.run_trial(workshop.plan.trials[0].key)


def test_a_training_that_diverges_leaves_no_encoder_and_no_result(tmp_path, place):
    """Its error is the user's: it names step, losses and rate, and the other trials of the grid
    have their results.
    """
    methods = ("none: {}", "finetune: {batch_size: 16, learning_rate: 1000}")
    workshop = open_at(write_grid(tmp_path, methods=methods, **ONE), place)
    plan = workshop.plan
    none, finetune = plan.trials
    workshop.run_trial(none.key)
    told = r"diverged at step 4 of 7: loss \S+ \(\S+ at the start\), learning_rate 1000"
    with pytest.raises(TrainingDiverged, match=f"finetune: training {told}"):
        workshop.run_trial(finetune.key)
    assert not workshop.store.has("aligned", finetune.aligned)
    there = workshop.ledger.keys()
    assert there >= set(none.evaluations.values())
    assert not there & set(finetune.evaluations.values())
