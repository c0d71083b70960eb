"""Pieces that are made before trials: where they have a stage, what depends on it, and training
pairs that are chosen by them.
"""

import pytest

from raxalign.corpora.text.dataset import read_table
from raxalign.errors import DataError, GridError, RaxalignError
from raxalign.grid.expansion import data
from raxalign.grid.expansion.expand import expand
from raxalign.grid.file import load
from raxalign.grid.plan import Plan
from raxalign.stages import Workshop
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime
from tests.grids import SPLIT, of_kind, small_plan, write_grid
from tests.tiny import tiny_bert

LINES = ["a", "a b c", "a b", "b b b b", "c a b", "a b c a", "b", "c"]
PIECES = "\n  pieces: {encoder: small, min_pieces: 3, max_pieces: 7}"
METHODS = ("none: {}", "rotation: {}", "finetune: {lambda: [0.1, 1.0]}", "mlm: {}", "tlm: {}")


def plan_of(folder, **options):
    sizes = {"languages": "{each: [de]}", "sentences": "[9_999, 10_000]", "methods": METHODS}
    return small_plan(folder, size=12_000, **{**sizes, **options})


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return plan_of(tmp_path_factory.mktemp("grid"))


def test_much_text_has_one_stage_of_pieces_for_all_that_read_it(plan):
    read = sorted(
        (plan.stages[stage.inputs["data"]].kind, str(stage.params["columns"]))
        for stage in of_kind(plan, "pieces")
    )
    assert read == [
        ("bitext", "{'src': 'de', 'tgt': 'en'}"),
        ("text", "{'words': 'de'}"),
        ("text", "{'words': 'en'}"),
    ]
    aligned = {stage.maker: stage for stage in of_kind(plan, "aligned") if stage.prepared}
    assert set(aligned) == {"finetune", "mlm", "tlm"}
    assert set(aligned["mlm"].prepared) == {"text/de", "text/en"}


def test_no_key_of_a_result_depends_on_it(plan, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "LEAST_SENTENCES", 10**12)
    without = plan_of(tmp_path)
    assert not of_kind(without, "pieces")
    kept = {key for key, stage in plan.stages.items() if stage.kind != "pieces"}
    assert without.stages.keys() == kept
    assert without.by_key.keys() == plan.by_key.keys()


def test_text_of_a_corpus_of_its_own_counts_as_much(tmp_path):
    more = "text: {source: phrasebook, size: 50}\n"
    plan = plan_of(tmp_path, methods=("mlm: {}",), sentences="100", more=more)
    assert len(of_kind(plan, "pieces")) == 2


def test_stages_of_pieces_come_before_what_reads_them_and_travel_with_the_plan(plan):
    keys = list(plan.stages)
    for stage in of_kind(plan, "aligned"):
        for name, key in stage.prepared.items():
            read = plan.stages[stage.inputs[name]]
            own = read.inputs["training"] if read.kind == "pairs" else read.key
            assert plan.stages[key].inputs["data"] == own
            assert keys.index(own) < keys.index(key) < keys.index(stage.key)
    assert Plan.from_json(plan.to_json()) == plan


def test_pieces_are_made_for_a_training_that_is_not_stored(plan):
    (mlm,) = [s for s in of_kind(plan, "aligned") if s.maker == "mlm" and s.prepared]
    pieces = set(mlm.prepared.values())
    assert pieces <= set(plan.closure([mlm.key]))
    assert pieces.isdisjoint(plan.closure([mlm.key], {mlm.key}))
    assert pieces <= set(plan.to_make(set(), set()))
    assert pieces.isdisjoint(plan.to_make(set(), {mlm.key}))


def test_pieces_of_word_pairs_do_not_wait_for_the_aligner_unless_they_are_cut_out(plan, tmp_path):
    behind = plan.closure([stage.key for stage in of_kind(plan, "pieces")])
    assert "pairs" not in {plan.stages[key].kind for key in behind}
    largest = "fast_align, align_on: largest"
    sliced = plan_of(tmp_path, sentences="10_000", aligner=largest)
    read = {sliced.stages[stage.inputs["data"]].kind for stage in of_kind(sliced, "pieces")}
    assert read == {"bitext", "pairs", "text"}


def rows_of(plan):
    return [stage for stage in of_kind(plan, "pieces") if "data" not in stage.inputs]


TRANSLATED = (
    'xnli: {setting: translate-train, data: {train: "rows.{lang}", dev: "dev.{lang}"}}',
    'few: {kind: xnli, data: {train: "few.{pivot}", dev: "dev.{lang}"}}',
    'short: {kind: pawsx, data: {train: "rows.{pivot}", dev: "dev.{lang}"}, max_train: 9_999}',
    "made: {kind: xnli, data: phrasebook}",
)


def plan_of_tasks(folder, **options):
    methods = ("none: {}", "finetune: {lambda: [0.1, 1.0]}")
    sizes = {"sentences": "[100]", "methods": methods, "tasks": TRANSLATED}
    return plan_of(folder, **{**sizes, **options})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with the files of the tasks."""
    folder = tmp_path_factory.mktemp("tasks")
    for lang in ("de", "en"):
        (folder / f"rows.{lang}").write_text(f"{lang} haus\tred house\tneutral\n" * 60_000)
        for name in ("few", "dev"):
            (folder / f"{name}.{lang}").write_text(f"{lang} {name}\tred\tneutral\n" * 100)
    return folder


@pytest.fixture(scope="module")
def of_tasks(files):
    return plan_of_tasks(files)


def test_many_rows_of_a_task_have_one_stage_per_language_for_all_trainings(of_tasks):
    plan = of_tasks
    stages = {stage.key: stage for stage in rows_of(plan)}
    read = sorted((stage.params["lang"], *stage.digests) for stage in stages.values())
    assert read == [("de", "train/de"), ("en", "train/en")]
    tuned = [stage for stage in of_kind(plan, "tuned") if stage.prepared]
    assert len(tuned) == 3  # of three encoders; what has few rows has none
    assert {name for stage in tuned for name in stage.prepared} == {"rows/de", "rows/en"}
    assert {key for stage in tuned for key in stage.prepared.values()} == stages.keys()
    at = {key: place for place, key in enumerate(plan.stages)}
    assert all(at[key] < at[stage.key] for stage in tuned for key in stage.prepared.values())
    assert Plan.from_json(plan.to_json()) == plan


def test_no_key_depends_on_the_pieces_of_rows(of_tasks, files, monkeypatch):
    keys = {key for key, stage in of_tasks.stages.items() if stage.kind != "pieces"}
    monkeypatch.setattr(data, "LEAST_SENTENCES", 10**12)
    without = plan_of_tasks(files)
    assert not rows_of(without)
    assert without.stages.keys() == keys


def test_rows_of_other_files_or_options_are_other_stages(of_tasks, files):
    before = {stage.key for stage in rows_of(of_tasks)}
    fewer = TRANSLATED[0].replace("data:", "max_train: 20_000, data:")
    other = rows_of(plan_of_tasks(files, tasks=(fewer,)))
    assert before.isdisjoint(stage.key for stage in other)
    slower = TRANSLATED[0].replace("data:", "learning_rate: 1.0e-3, max_length: 64, data:")
    same = {stage.key for stage in rows_of(plan_of_tasks(files, tasks=(slower,)))}
    assert len(same) == 2
    assert same == before


def test_static_encoders_have_no_pieces_of_rows(files):
    vectors = "{kind: static, dimension: 8, min_count: 1}"
    assert not rows_of(plan_of_tasks(files, encoder=vectors, methods=("none: {}",)))


def test_a_missing_file_of_rows_is_reported_as_before(files):
    task = 'xnli: {data: {train: "nothing.{pivot}", dev: "dev.{lang}"}}'
    with pytest.raises(DataError, match=r"nothing\.en: No such file"):
        plan_of_tasks(files, tasks=(task,))


def test_taggers_and_answers_have_stages_of_rows_too(tmp_path):
    (tmp_path / "rows.en").write_text("haus O\n\n" * 200_000)
    for lang in ("de", "en"):
        (tmp_path / f"dev.{lang}").write_text("haus O\n")
        (tmp_path / f"{lang}.json").write_text("a plan reads no rows" * 100_000)
    tasks = (
        'ner: {data: {train: "rows.{pivot}", dev: "dev.{lang}"}}',
        'slow: {kind: ner, epochs: 2, data: {train: "rows.{pivot}", dev: "dev.{lang}"}}',
        'mlqa: {setting: translate-train, data: {train: "{lang}.json", dev: "{lang}.json"}}',
        "few: {kind: mlqa, data: phrasebook}",
    )
    plan = plan_of_tasks(tmp_path, tasks=tasks)
    read = sorted((stage.maker, stage.params["lang"]) for stage in rows_of(plan))
    assert read == [("mlqa", "de"), ("mlqa", "en"), ("ner", "en")]
    tuned = [stage for stage in of_kind(plan, "tuned") if stage.prepared]
    assert {stage.maker for stage in tuned} == {"ner", "mlqa"}
    assert len({stage.key for stage in tuned}) == 9  # three tasks on three encoders


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("encoder")
    tiny_bert(place / "small", ["a", "b", "c"], layers=2)
    for lang in ("de", "en"):
        text = "".join(f"{line}\n" for line in LINES)
        (place / f"text.{lang}").write_text(text, encoding="utf-8")
    return place


def grid_of(folder, more="", source="phrasebook", split=SPLIT):
    corpus = f"source: {source}\n  {split}{more}"
    parts = {"languages": "{each: [de]}", "sentences": "[2]", "encoder": "small"}
    return load(write_grid(folder, corpus=corpus, **parts))


def bitexts(plan):
    return {stage.params["part"]: stage for stage in of_kind(plan, "bitext")}


def test_the_limits_and_their_encoder_are_in_the_keys_of_training_alone(folder):
    plain, limited = bitexts(expand(grid_of(folder))), expand(grid_of(folder, PIECES))
    found = bitexts(limited)
    assert found["heldout"].key == plain["heldout"].key
    assert "pieces" not in plain["training"].params
    assert found["training"].params["pieces"] == {"min_pieces": 3, "max_pieces": 7}
    start = limited.stages[found["training"].inputs["encoder"]]
    assert (start.kind, start.maker, start.inline) == ("encoder", "transformer", True)


def test_limits_of_length_are_in_the_keys_of_training_alone(folder):
    plain = bitexts(expand(grid_of(folder)))
    limited = bitexts(expand(grid_of(folder, "\n  max_basic_tokens: 99\n  max_words: 9")))
    assert {"max_basic_tokens"}.isdisjoint(plain["training"].params)
    assert limited["training"].params["max_basic_tokens"] == 99
    assert limited["training"].params["max_words"] == 9
    assert limited["heldout"].key == plain["heldout"].key


def test_the_encoder_counts_among_those_of_the_grid(folder):
    labels = [spec.name for spec in grid_of(folder, PIECES).every_encoder()]
    assert len(labels) == 2
    assert len(set(labels)) == 1


def test_training_pairs_are_the_first_ones_that_have_the_pieces(folder):
    source = 'moses\n  path: "text"\n  training_from: start\n  overlap: keep'
    plan = expand(grid_of(folder, PIECES, source, "split: {test: 1, dev: 1}"))
    root = folder / "storage"
    workshop = Workshop(plan, Storage(str(root)), Runtime())
    made = workshop.ensure(bitexts(plan)["training"].key)
    assert read_table(made / "data").column("id").to_pylist() == [1, 4]


def test_a_kind_of_encoder_is_refused_since_it_is_made_from_this_text(folder):
    with pytest.raises(RaxalignError, match=r"corpus: pieces: encoder: 'scratch' is a kind of"):
        expand(grid_of(folder, "\n  pieces: {encoder: scratch}"))


def test_an_encoder_has_to_be_named(folder):
    with pytest.raises(GridError, match=r"corpus\.pieces\.encoder"):
        grid_of(folder, "\n  pieces: {min_pieces: 3}")
