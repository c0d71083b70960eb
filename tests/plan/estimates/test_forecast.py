"""Times and bytes before and after a first run: by the size of the work, corrected by what was
measured.
"""

import json
import math
from pathlib import Path

import pytest

import raxalign as rx
from raxalign.encoders.models.folder import config_footprint, footprint_of
from raxalign.inspect.plans import Stock, as_json, as_text
from raxalign.plan.estimates.cost import duration, roughly, seconds_by_key
from raxalign.plan.estimates.forecast import (
    Work,
    estimate_disk,
    forecast,
    quicker_links,
    worker_speed,
)
from raxalign.plan.load import open_grid
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.plan.values.retention import weights_of
from tests.grids import small_plan, write_grid
from tests.ledgers import made_up

BLOCKS = 2 * (4 * 32 * 32 + 2 * 32 * 64 + 9 * 32 + 64)
ALL = 1_000_000_000


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


def test_every_stage_of_a_plan_has_a_time_before_a_first_run(plan):
    left = [key for key, stage in plan.stages.items() if not stage.inline]
    found = forecast(plan, {}, left)
    assert set(found.seconds) == set(left)
    assert found.unknown == {}
    assert found.total == pytest.approx(sum(found.kinds.values()))
    assert "before a first run" in found.told(1)


def test_a_gpu_or_several_cores_make_models_faster_and_not_data(plan):
    (encoder,), pairs = of(plan, "encoder"), of(plan, "pairs")[0]
    one, two, gpu = (
        Work(plan, worker_speed(threads, gpu=gpu))
        for threads, gpu in ((1, False), (2, False), (1, True))
    )
    assert one.seconds(pairs) == two.seconds(pairs) == gpu.seconds(pairs)
    times = [work.seconds(encoder) or 0.0 for work in (one, two, gpu)]
    assert times[0] > times[1] > times[2]


def test_what_has_run_corrects_its_own_kind(plan):
    small, large = (of(plan, "bitext", sentences=size)[0] for size in (100, 200))
    work = Work(plan)
    a, b = work.seconds(small), work.seconds(large)
    (encoder,), pairs = of(plan, "encoder"), of(plan, "pairs")[0]
    found = forecast(plan, {small: 3 * a}, [large, encoder, pairs])
    assert found.seconds[large] == pytest.approx(3 * b)
    assert found.seconds[pairs] == pytest.approx(work.seconds(pairs))
    assert found.seconds[encoder] == pytest.approx(work.seconds(encoder))
    assert found.measured == 1
    assert "1 of 3 from what has run in this storage" in found.told(1)


def test_several_workers_are_never_faster_than_the_longest_stage(plan):
    (encoder,) = of(plan, "encoder")
    text = forecast(plan, {encoder: 100.0}, [encoder]).told(4)
    assert text.startswith("time, about: 2 min of worker time, 2 min with 4 workers (from what")
    assert forecast(plan, {}, []).told(2) == "nothing is left to run"


def test_a_training_of_a_method_and_a_task_reads_the_rows_of_both(tmp_path):
    tasks = ("xnli: {data: phrasebook, epochs: 2, phrasebook: {train: 900}, batch_size: 30}",)
    methods = ("finetune: {batch_size: 10, with_task: {task: xnli}}",)
    parts = {"languages": "{each: [de]}", "sentences": "100"}
    plan = small_plan(tmp_path, tasks=tasks, methods=methods, **parts)
    (aligned,) = of(plan, "aligned")
    read = 2 * 2 * 900 + 2 * 10 * (2 * 900 / 30)
    products = read * 14 * 8 * BLOCKS
    expected = 0.5 + read * 4e-4 + products / (0.5 * 1.2e11)
    assert Work(plan).seconds(aligned) == pytest.approx(expected)
    alone = small_plan(tmp_path, methods=("finetune: {}",), **parts)
    size, without = (Work(one).size(*of(one, "aligned"), has_weights=True) for one in (plan, alone))
    assert size == without, "the task's model is a head on the encoder that is there"


def test_the_start_of_ray_counts_until_the_end_and_not_as_work(plan):
    (encoder,) = of(plan, "encoder")
    found = forecast(plan, {encoder: 45.0}, [encoder])
    assert found.told(1).startswith("time, about: 40 s of worker time (from what")
    assert "time, about: 40 s of worker time, 60 s with the start of Ray (" in found.told(1, 10)
    assert ", 60 s with 2 workers and the start of Ray (" in found.told(2, 10)


ROWS = 3_000


@pytest.fixture
def from_files(tmp_path):
    """A plan with a task whose rows are in files, of 75 bytes per row."""
    rows = "task: {{kind: xnli, data: {{train: 'a.{{pivot}}.tsv', dev: 'b.{{lang}}.tsv'}}{more}}}"
    for name in ("a.en", "b.en", "b.de", "b.fr"):
        text = "premise\thypothesis\tlabel\n" + f"{'A' * 32}\t{'B' * 33}\tneutral\n" * ROWS
        (tmp_path / f"{name}.tsv").write_text(text, encoding="utf-8")
    tasks = rows.format(more=", epochs: 2"), rows.format(more=", epochs: 2, max_train: 100")
    return small_plan(tmp_path, tasks=(tasks[0], tasks[1].replace("task:", "few:", 1)))


def test_the_rows_of_files_are_known_by_their_sizes_and_no_more_than_are_trained_on(from_files):
    work = Work(from_files, 1e30)

    def read(key):
        return ((work.seconds(key) or 0.0) - 0.5) / 4e-4

    tuned = {
        from_files.stages[key].params["task"]["max_train"]: key for key in of(from_files, "tuned")
    }
    assert read(tuned[None]) == pytest.approx(2 * 2 * 75 * ROWS / 150, rel=0.01)
    assert read(tuned[100]) == pytest.approx(2 * 2 * 100)
    for key in of(from_files, "evaluation"):
        assert read(key) == pytest.approx(2 * 2 * 75 * ROWS / 150, rel=0.01), "of en and another"


@pytest.mark.parametrize(("suffix", "size"), [(".tsv", 150), (".conllu", 1_700), (".json", 70)])
def test_rows_take_as_many_bytes_as_their_format_needs(suffix, size, tmp_path, plan):
    file = tmp_path / f"train{suffix}"
    file.write_bytes(b" " * 10 * size)
    assert Work(plan)._rows_in(str(file)) == 10
    assert Work(plan)._rows_in(f"s3://bucket/{file.name}") == math.inf


def test_data_of_unknown_size_has_no_time_and_is_named(tmp_path, from_files):
    for file in tmp_path.glob("*.tsv"):
        file.unlink()
    trained = of(from_files, "tuned")
    tuned = [key for key in trained if not from_files.stages[key].params["task"]["max_train"]]
    found = forecast(from_files, {}, tuned)
    assert found.unknown == {"tuned": len(tuned)}
    assert f"{len(tuned)} training runs on data whose size is not known" in found.told(1)
    everything = forecast(from_files, {}, [*trained, *of(from_files, "bitext")])
    assert everything.told(1).startswith("time, at least: ")
    left = f"; not known before something like it has run: {len(tuned)} tuned"
    assert left in everything.told(1)
    assert forecast(from_files, {}, of(from_files, "bitext")).told(1).startswith("time, about: ")
    one, *others = tuned
    assert forecast(from_files, {one: 5.0}, others).total == 5.0 * len(others)


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
    told = as_text(opened.plan, opened.storage, opened.run).splitlines()
    time, disk = (next(line for line in told if line.startswith(n)) for n in ("time,", "disk,"))
    what = "not known yet: 2 training runs of an encoder whose size is not known yet"
    assert (what in time, what in disk) == (not cached, not cached)
    found = json.loads(as_json(opened.plan, opened.storage, opened.run))
    assert (found["time"]["seconds"] is not None, bool(found["disk"]["peak"])) == (cached, cached)
    assert not cached or found["disk"]["kinds"]["aligned"] == pytest.approx(2 * 711e6, rel=0.02)


def test_the_ledger_counts_as_large_as_it_is_and_before_a_first_run_as_its_sentences(tmp_path):
    opened, ledger = made_up(tmp_path, sentences="100", methods=("none: {}", "rotation: {}"))
    evaluations = of(opened.plan, "evaluation")
    assert estimate_disk(opened.plan, {}).kinds["evaluation"] > len(evaluations) * 3_000
    after = Stock.of(opened.plan, opened.storage).bytes
    written = sum(file.stat().st_size for file in Path(ledger.root, "ledger").rglob("*.*"))
    assert sum(after[key] for key in evaluations) == written
    assert estimate_disk(opened.plan, after).kinds["evaluation"] == written


@pytest.mark.parametrize(
    ("aligner", "seconds", "named"),
    [("eflomal", 100.0, True), ("eflomal", 0.001, False), ("fast_align", 100.0, False)],
)
def test_a_quicker_word_aligner_is_named_where_links_take_most_of_the_time(
    tmp_path, aligner, seconds, named
):
    plan = small_plan(tmp_path, aligner=aligner)
    left = [key for key, stage in plan.stages.items() if not stage.inline]
    times = forecast(plan, dict.fromkeys(of(plan, "pairs"), seconds), left)
    found = quicker_links(plan, times)
    assert ("`pairs: {aligner: fast_align}` is much quicker" in found) is named
    assert found.startswith("  most of it is eflomal, about ") is named


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        pytest.param({"sentences": 300, "corpus": {"size": 600}}, 300, id="some of a corpus"),
        pytest.param({"sentences": ALL, "corpus": {"size": 600}}, 600, id="all of it"),
        pytest.param({"sentences": ALL, "corpus": {"path": "x"}}, math.inf, id="all of a file"),
        pytest.param({"sentences": 300, "corpus": {"path": "x"}}, 300, id="some of a file"),
        pytest.param({"part": "heldout", "split": {"test": 150, "dev": 60}}, 210, id="held out"),
    ],
)
def test_a_bitext_has_what_is_asked_for_and_no_more_than_its_corpus(params, expected):
    stage = Stage("bitext", "x", 1, params)
    plan = Plan("", "en", 0, (), {stage.key: stage}, {})
    assert Work(plan).sentences(stage.key) == expected


@pytest.mark.parametrize("is_sized", [True, False])
def test_all_text_of_a_file_has_no_estimate_and_all_of_a_sized_corpus_its_own(tmp_path, is_sized):
    for lang in ("de", "en"):
        (tmp_path / f"plain.{lang}").write_text("Hallo .\n")
    sized, file = "phrasebook, size: 40, seed: 1", f"moses, path: {tmp_path}/plain"
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        f"name: x\nencoder: phrasebook\nlanguages: {{together: [de]}}\n"
        "corpus: {source: phrasebook, size: 60, split: {test: 10, dev: 10}}\nsentences: [20]\n"
        f"text: {{source: {sized if is_sized else file}}}\n"
        "methods: {mlm: {epochs: 1}}\ntasks: {retrieval: {}}\n"
    )
    plan = rx.plan(grid, storage=str(tmp_path / "storage")).plan
    work, disk = Work(plan), estimate_disk(plan, {})
    found = {work.seconds(key) for kind in ("text", "aligned") for key in of(plan, kind)}
    assert found
    if is_sized:
        assert all(seconds is not None and seconds < 60 for seconds in found)
    else:
        assert found == {None}
    assert disk.unknown.get("text") == (None if is_sized else 2)


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
    disk = estimate_disk(weighty, measured)
    assert disk.kinds["aligned"] == 6 * each
    assert disk.after["all"] - disk.after["none"] == 6 * each
    assert disk.peak["none"] - disk.after["none"] == (1 + 3) * each, "a run and its checkpoint"
    assert estimate_disk(weighty, measured, 2).peak["none"] - disk.after["none"] == 8 * each


def test_checkpoints_of_adapters_take_no_room_worth_naming(tmp_path):
    plan = small_plan(tmp_path, methods=("finetune: {lora: {rank: 4}}",), languages="{each: [de]}")
    disk = estimate_disk(plan, dict.fromkeys(weights_of(plan), 1_000_000))
    assert disk.peak["none"] - disk.after["none"] == 1_000_000, "the run alone"


def test_the_size_of_what_was_made_corrects_that_of_what_was_not(weighty):
    before = estimate_disk(weighty, {})
    assert before.kinds["aligned"] == 6 * 4 * footprint_of(2, 32, 64, 400, 128).parameters
    (training,) = of(weighty, "bitext", part="training")
    after = estimate_disk(weighty, {training: 500_000, next(iter(weights_of(weighty))): 2_000_000})
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
    assert seconds_by_key(opened.plan, opened.storage) == {**evaluations, key: made}


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
