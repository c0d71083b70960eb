"""Times by what has run, and bytes before and after a first run."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raxalign.encoders.models.folder import config_footprint, footprint_of
from raxalign.grid.estimates import Budget, Forecast, Times, duration, roughly
from raxalign.grid.load import open_grid
from raxalign.inspect.plans import Disk, PlanView, Stock
from raxalign.options.run import RunConfig
from raxalign.store.artifacts import Manifest
from raxalign.store.storage import Tombstone
from raxalign.values.retention import weights_of
from tests.grids import small_plan, write_grid
from tests.ledgers import made_up


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    tasks = ("retrieval: {}", "xnli: {data: phrasebook, epochs: 2, phrasebook: {train: 900}}")
    folder = tmp_path_factory.mktemp("grid")
    return small_plan(folder, tasks=tasks, sentences="[100, 200]")


@pytest.fixture(scope="module")
def weighty(tmp_path_factory):
    methods = ("finetune: {lambda: [0.1, 1.0]}",)
    how = {"languages": "{each: [de]}", "sentences": "[1000]", "seeds": "[0, 1, 2]"}
    return small_plan(tmp_path_factory.mktemp("weighty"), size=3000, methods=methods, **how)


def of(plan, kind, **params):
    return [
        key
        for key, stage in plan.stages.items()
        if stage.kind == kind and params.items() <= stage.params.items()
    ]


def test_what_is_like_nothing_that_has_run_has_no_time_and_is_named(plan):
    (encoder,), bitexts = of(plan, "encoder"), of(plan, "bitext")
    before = Forecast.of(plan, {}, [encoder, *bitexts])
    assert before.seconds == {}
    assert set(before.unknown) == {encoder, *bitexts}
    named = f"not known before something like it has run: 1 encoder, {len(bitexts)} bitext"
    assert before.told(1) == f"time, {named}"
    found = Forecast.of(plan, {encoder: 10.0}, [encoder, *bitexts])
    assert found.told(1).startswith("time, at least: 10 s of worker time (from what has run")
    assert found.told(1).endswith(
        f"; not known before something like it has run: {len(bitexts)} bitext"
    )
    assert Forecast.of(plan, {}, []).told(2) == "nothing is left to run"


def test_what_has_run_gives_the_time_of_its_own_kind_by_its_sentences(plan):
    small, large = (of(plan, "bitext", sentences=size)[0] for size in (100, 200))
    found = Forecast.of(plan, {small: 3.0}, [large, *of(plan, "pairs")])
    assert found.seconds == {large: pytest.approx(6.0)}
    assert found.kinds == {"bitext": pytest.approx(6.0)}


def test_hours_of_a_budget_are_those_of_workers_of_their_cores_or_of_their_gpus(plan):
    """An hour of data holds no GPU, and one of training both workers with half a GPU each."""
    data, encoder, trained = of(plan, "bitext")[0], of(plan, "encoder")[0], of(plan, "tuned")[0]
    seconds = {data: 3600.0, encoder: 1800.0, trained: 7200.0}
    run = RunConfig(workers=2, threads=3, gpus_per_worker=0.5)
    for text, hours in (("7 hours", 5.5), ("1 core-hour", 16.5), (".5 gpu hours", 2.25)):
        budget = Budget.of(text, run)
        assert budget.hours(plan, seconds) == pytest.approx(hours)
    assert (budget.amount, budget.told(2.25, 40)) == (0.5, "2.2 of 40 GPU-hours")
    assert Budget.of("1 GPU-hour", RunConfig()).run.gpus_per_worker == 1


# none, or as much as can be measured: below that a float has no digits left
AMOUNT = st.just(0.0) | st.floats(1e-9, 99)


@given(st.lists(st.tuples(AMOUNT, AMOUNT), min_size=1), st.floats(0.1, 9))
def test_the_look_that_comes_first_is_narrowing_most_per_hour(looks, other):
    named = {str(number): look for number, look in enumerate(looks)}
    width, hours = named[Budget.first(named)]
    assert all(width * h >= w * hours * (1 - 1e-9) for w, h in looks if h and hours)
    assert not hours or all(h for _, h in looks), "what takes no time waits for nothing"
    scaled = Budget.first({name: (w, other * h) for name, (w, h) in named.items()})
    assert named[scaled][0] * hours == pytest.approx(width * named[scaled][1])


def test_before_anything_has_run_a_training_begins_before_a_fit(tmp_path):
    methods = ("rotation: {}", "finetune: {}")
    plan = small_plan(tmp_path, methods=methods, languages="{each: [de]}", sentences="100")
    aligned = of(plan, "aligned")
    found = Forecast.of(plan, {}, aligned).unknown
    trained = [key for key in aligned if "learning_rate" in plan.stages[key].params["method"]]
    assert 0 < len(trained) < len(aligned)
    assert sorted(aligned, key=found.__getitem__, reverse=True)[: len(trained)] == trained


def test_more_epochs_take_more_time_and_another_encoder_has_its_own(tmp_path):
    scratch = "{kind: scratch, layers: 2, hidden_size: 32, vocab_size: 400, steps: "
    plan = small_plan(
        tmp_path,
        encoder=f"[{scratch}2}}, {scratch}3}}]",
        methods=("finetune: {epochs: [1, 4]}",),
        languages="{each: [de]}",
        sentences="100",
    )
    aligned = of(plan, "aligned")
    first = {plan.stages[k].params["method"]["epochs"]: k for k in aligned if plan.start_of(k)}
    one, four = first[1], first[4]
    assert plan.start_of(one) == plan.start_of(four)
    found = Forecast.of(plan, {one: 2.0}, aligned)
    assert found.seconds == {one: 2.0, four: 8.0}


def test_the_start_of_ray_and_several_workers_count_until_the_end_and_not_as_work(plan):
    (encoder,) = of(plan, "encoder")
    found = Forecast.of(plan, {encoder: 45.0}, [encoder])
    assert found.told(1).startswith("time, about: 40 s of worker time (from what")
    told = found.told(1, starts=True)
    assert "time, about: 40 s of worker time, 60 s with the start of Ray (" in told
    assert ", 60 s with 2 workers and the start of Ray (" in found.told(2, starts=True)
    assert ", 40 s with 4 workers (" in found.told(4), "no faster than the longest stage"


@pytest.mark.parametrize(
    ("hours", "told"), [(2.0, ", 2 GPU hours, "), (0.5, ", 0.5 GPU hours, "), (16.2, ", 16 GPU h")]
)
def test_hours_of_gpus_are_named_where_there_are_some(plan, hours, told):
    (encoder,) = of(plan, "encoder")
    found = Forecast.of(plan, {encoder: 7200.0}, [encoder])
    assert f" of worker time{told}" in found.told(2, gpu_hours=hours)
    assert "GPU" not in found.told(2)


def test_what_reads_a_trained_encoder_is_not_expected_to_be_as_quick_as_what_reads_a_map(tmp_path):
    """Evaluations of maps share the reading of the encoder that they start from."""
    methods = ("none: {}", "rotation: {}", "linear: {}", "finetune: {}", "sentence_margin: {}")
    opened, ledger = made_up(tmp_path, methods=methods, languages="{each: [de]}", sentences="100")
    by_method = {t.method: t.evaluations["retrieval"] for t in opened.plan.trials}
    took = {by_method["rotation"]: 5.0, by_method["finetune"]: 90.0}
    left = {"linear": 5.0, "sentence_margin": 90.0}
    found = Forecast.of(opened.plan, took, [by_method[method] for method in left])
    assert found.seconds == {by_method[method]: seconds for method, seconds in left.items()}
    times = Times(opened.plan, opened.storage).sampled(ledger.keys())
    assert {by_method["linear"], by_method["finetune"]} <= times.keys()


@pytest.mark.parametrize(
    ("aligner", "seconds", "named"),
    [("eflomal", 100, True), ("eflomal", 0.001, False), ("fast_align", 100, False)],
)
def test_a_quicker_word_aligner_is_named_where_links_take_most_of_the_time(
    tmp_path, aligner, seconds, named
):
    opened, _ = made_up(tmp_path, aligner=aligner, sentences="100", methods=("rotation: {}",))
    storage, pairs = opened.storage, of(opened.plan, "pairs")
    for key, stage in opened.plan.stages.items():  # what they took is known, and none is there
        if not stage.inline:
            took = float(seconds if key in pairs else 1)
            made = Manifest(stage.kind, key, {}, {}, took, "2026-01-01T00:00:00+00:00", "0")
            storage.tombstones.write(Tombstone(made, "run.keep: none", made.created))
    Path(storage.root, "ledger").rename(tmp_path / "none of it has run")
    told = PlanView(opened.plan, storage, opened.run).text()
    assert ("`pairs: {aligner: fast_align}` is much quicker" in told) is named


NAMED = {"hidden_size": 768, "num_hidden_layers": 12, "vocab_size": 119547}


@pytest.mark.parametrize("cached", [False, True])
def test_trainings_of_an_encoder_of_unknown_size_have_no_total_and_are_named(
    tmp_path, monkeypatch, cached
):
    parts = {"encoder": "bert-base-multilingual-cased", "methods": ("none: {}", "finetune: {}")}
    file = write_grid(tmp_path, languages="{together: [de, fr]}", **parts)
    cache = tmp_path / "hub" / "models--bert-base-multilingual-cased"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache.parent))
    if cached:
        (cache / "refs").mkdir(parents=True)
        (cache / "refs" / "main").write_text("a" * 40)
        (cache / "snapshots" / ("a" * 40)).mkdir(parents=True)
        (cache / "snapshots" / ("a" * 40) / "config.json").write_text(json.dumps(NAMED))
    opened = open_grid(file, storage=str(tmp_path / "storage"))
    told = PlanView(opened.plan, opened.storage, opened.run).text().splitlines()
    disk = next(line for line in told if line.startswith("disk,"))
    what = "not known yet: 2 training runs of an encoder whose size is not known yet"
    assert (what in disk) == (not cached)
    found = json.loads(PlanView(opened.plan, opened.storage, opened.run).json())
    assert bool(found["disk"]["peak"]) == cached
    assert not cached or found["disk"]["kinds"]["aligned"] == pytest.approx(2 * 711e6, rel=0.02)


def test_the_ledger_counts_as_large_as_it_is_and_before_a_first_run_as_its_sentences(tmp_path):
    opened, ledger = made_up(tmp_path, sentences="100", methods=("none: {}", "rotation: {}"))
    evaluations = of(opened.plan, "evaluation")
    assert Disk.of(opened.plan, {}).kinds["evaluation"] > len(evaluations) * 3_000
    after = Stock.of(opened.plan, opened.storage).bytes
    written = sum(file.stat().st_size for file in Path(ledger.root, "ledger").rglob("*.*"))
    assert sum(after[key] for key in evaluations) == written
    assert Disk.of(opened.plan, after).kinds["evaluation"] == written


def test_a_config_gives_the_parameters_of_multilingual_bert():
    config = {"hidden_size": 768, "num_hidden_layers": 12, "vocab_size": 119547}
    config |= {"intermediate_size": 3072, "max_position_embeddings": 512}
    found = config_footprint(config)
    assert found.width == 768
    assert found.parameters == pytest.approx(177_974_523, rel=0.01)  # of its masked LM, counted
    assert config_footprint({"hidden_size": 768}) is None


def test_weights_count_once_per_run_or_not_at_all(weighty):
    each = 1_000_000
    measured = dict.fromkeys(weights_of(weighty), each)
    assert len(measured) == 6
    disk = Disk.of(weighty, measured)
    assert disk.kinds["aligned"] == 6 * each
    assert disk.after["all"] - disk.after["none"] == 6 * each
    assert disk.peak["none"] - disk.after["none"] == (1 + 3) * each, "a run and its checkpoint"
    assert Disk.of(weighty, measured, 2).peak["none"] - disk.after["none"] == 8 * each


def test_checkpoints_of_adapters_take_no_room_worth_naming(tmp_path):
    plan = small_plan(tmp_path, methods=("finetune: {lora: {rank: 4}}",), languages="{each: [de]}")
    disk = Disk.of(plan, dict.fromkeys(weights_of(plan), 1_000_000))
    assert disk.peak["none"] - disk.after["none"] == 1_000_000, "the run alone"


def test_the_size_of_what_was_made_corrects_that_of_what_was_not(weighty):
    before = Disk.of(weighty, {})
    assert before.kinds["aligned"] == 6 * 4 * footprint_of(2, 32, 64, 400, 128).parameters
    (training,) = of(weighty, "bitext", part="training")
    after = Disk.of(weighty, {training: 500_000, next(iter(weights_of(weighty))): 2_000_000})
    assert after.kinds["bitext"] > 500_000
    assert after.measured == 2
    assert after.kinds["aligned"] == 6 * 2_000_000
    assert "disk, about: run.keep: none" in after.told("none")


def test_the_seconds_of_what_is_stored_are_known_by_key(tmp_path):
    opened, _ = made_up(tmp_path, sentences="100", methods=("none: {}",))
    key = of(opened.plan, "bitext")[0]
    opened.storage.artifacts.make("bitext", key, lambda _: {})
    made = opened.storage.artifacts.manifest("bitext", key).seconds
    evaluations = dict.fromkeys(of(opened.plan, "evaluation"), 2.0)
    assert Times(opened.plan, opened.storage).by_key() == {**evaluations, key: made}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "5 s"), (7, "5 s"), (8, "10 s"), (27.4, "25 s"), (27.5, "30 s"), (89, "90 s")),
        *((90, "2 min"), (599, "10 min"), (5399, "90 min"), (5400, "1.5 h"), (11_000, "3 h")),
    ],
)
def test_an_estimate_looks_no_more_exact_than_it_is(seconds, text):
    assert roughly(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(89.4, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h")]
)
def test_a_duration_is_in_words(seconds, text):
    assert duration(seconds) == text
