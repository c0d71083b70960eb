"""Pieces that are made before trials: where they have a stage, what depends on it, and training
pairs that are chosen by them.
"""

import pytest

from raxalign.config.grid import load
from raxalign.corpora.text.dataset import read_table
from raxalign.errors import DataError, GridError, RaxalignError
from raxalign.plan.estimates.cost import to_make
from raxalign.plan.expansion import data
from raxalign.plan.expansion.encoders import all_encoders
from raxalign.plan.expansion.expand import expand
from raxalign.plan.plan import Plan
from raxalign.stages import Workshop
from raxalign.store.storage import Storage
from raxalign.train.runtime import Runtime
from tests.grids import small_plan, write_grid
from tests.tiny import tiny_bert

METHODS = ("none: {}", "rotation: {}", "finetune: {lambda: [0.1, 1.0]}", "mlm: {}", "tlm: {}")


def plan_of(folder, **options):
    sizes = {"languages": "{each: [de]}", "sentences": "[9_999, 10_000]", "methods": METHODS}
    return small_plan(folder, size=12_000, **{**sizes, **options})


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return plan_of(tmp_path_factory.mktemp("grid"))


def of_kind(plan, kind):
    return [stage for stage in plan.stages.values() if stage.kind == kind]


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
    assert pieces <= set(to_make(plan, set(), set()))
    assert pieces.isdisjoint(to_make(plan, set(), {mlm.key}))


def test_pieces_of_word_pairs_do_not_wait_for_the_aligner_unless_they_are_cut_out(plan, tmp_path):
    behind = plan.closure([stage.key for stage in of_kind(plan, "pieces")])
    assert "pairs" not in {plan.stages[key].kind for key in behind}
    largest = "pairs: {align_on: largest, aligner: fast_align}"
    path = write_grid(
        tmp_path, size=12_000, languages="{each: [de]}", sentences="10_000", methods=METHODS
    )
    text = path.read_text(encoding="utf-8").replace("pairs: {aligner: fast_align}", largest)
    path.write_text(text, encoding="utf-8")
    sliced = expand(load(path))
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
    for lang in ("de", "en"):
        (folder / f"rows.{lang}").write_text(f"{lang} haus\tred house\tneutral\n" * 60_000)
        for name in ("few", "dev"):
            (folder / f"{name}.{lang}").write_text(f"{lang} {name}\tred\tneutral\n" * 100)
    methods = ("none: {}", "finetune: {lambda: [0.1, 1.0]}")
    sizes = {"sentences": "[100]", "methods": methods, "tasks": TRANSLATED}
    return plan_of(folder, **{**sizes, **options})


def test_many_rows_of_a_task_have_one_stage_per_language_for_all_trainings(tmp_path):
    plan = plan_of_tasks(tmp_path)
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


def test_no_key_depends_on_the_pieces_of_rows(tmp_path, monkeypatch):
    keys = {key for key, stage in plan_of_tasks(tmp_path).stages.items() if stage.kind != "pieces"}
    monkeypatch.setattr(data, "LEAST_SENTENCES", 10**12)
    without = plan_of_tasks(tmp_path)
    assert not rows_of(without)
    assert without.stages.keys() == keys


def test_rows_of_other_files_or_options_are_other_stages(tmp_path):
    before = {stage.key for stage in rows_of(plan_of_tasks(tmp_path))}
    fewer = TRANSLATED[0].replace("data:", "max_train: 20_000, data:")
    other = rows_of(plan_of_tasks(tmp_path, tasks=(fewer,)))
    assert before.isdisjoint(stage.key for stage in other)
    slower = TRANSLATED[0].replace("data:", "learning_rate: 1.0e-3, max_length: 64, data:")
    same = {stage.key for stage in rows_of(plan_of_tasks(tmp_path, tasks=(slower,)))}
    assert len(same) == 2
    assert same == before


def test_static_encoders_have_no_pieces_of_rows(tmp_path):
    vectors = "{kind: static, dimension: 8, min_count: 1}"
    methods = ("none: {}",)
    assert not rows_of(plan_of_tasks(tmp_path, encoder=vectors, methods=methods))


def test_a_missing_file_of_rows_is_reported_as_before(tmp_path):
    task = 'xnli: {data: {train: "nothing.{pivot}", dev: "dev.{lang}"}}'
    with pytest.raises(DataError, match=r"nothing\.en: No such file"):
        plan_of_tasks(tmp_path, tasks=(task,))


def test_taggers_and_answers_have_stages_of_rows_too(tmp_path):
    (tmp_path / "rows.en").write_text("haus O\n\n" * 200_000)
    (tmp_path / "dev.en").write_text("haus O\n")
    for lang in ("de", "en"):
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


LINES = ["a", "a b c", "a b", "b b b b", "c a b", "a b c a", "b", "c"]


@pytest.fixture
def folder(tmp_path):
    tiny_bert(tmp_path / "small", ["a", "b", "c"], layers=2)
    for lang in ("de", "en"):
        text = "".join(f"{line}\n" for line in LINES)
        (tmp_path / f"text.{lang}").write_text(text, encoding="utf-8")
    return tmp_path


def grid_of(folder, line="", source="phrasebook\n  size: 400"):
    path = write_grid(folder, languages="{each: [de]}", sentences="[2]")
    text = path.read_text(encoding="utf-8").replace("encoder: {kind: scratch", "encoder: small #")
    text = text.replace("source: phrasebook\n  size: 400", f"{line}source: {source}")
    path.write_text(text, encoding="utf-8")
    return load(path)


def bitexts(plan):
    return {s.params["part"]: s for s in plan.stages.values() if s.kind == "bitext"}


PIECES = "pieces: {encoder: small, min_pieces: 3, max_pieces: 7}\n  "


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
    limited = bitexts(expand(grid_of(folder, "max_basic_tokens: 99\n  max_words: 9\n  ")))
    assert {"max_basic_tokens"}.isdisjoint(plain["training"].params)
    assert limited["training"].params["max_basic_tokens"] == 99
    assert limited["training"].params["max_words"] == 9
    assert limited["heldout"].key == plain["heldout"].key


def test_the_encoder_counts_among_those_of_the_grid(folder):
    labels = [spec.label for spec in all_encoders(grid_of(folder, PIECES))]
    assert len(labels) == 2
    assert len(set(labels)) == 1


def test_training_pairs_are_the_first_ones_that_have_the_pieces(folder):
    source = 'moses\n  path: "text"\n  training_from: start\n  overlap: keep'
    grid = grid_of(folder, PIECES, source)
    text = grid.text_of_file.replace("{test: 30, dev: 30}", "{test: 1, dev: 1}")
    grid.path.write_text(text, encoding="utf-8")
    plan, root = expand(load(grid.path)), folder / "storage"
    workshop = Workshop(plan, Storage(str(root)), Runtime())
    made = workshop.ensure(bitexts(plan)["training"].key)
    assert read_table(made / "data").column("id").to_pylist() == [1, 4]


def test_a_kind_of_encoder_is_refused_since_it_is_made_from_this_text(folder):
    with pytest.raises(RaxalignError, match=r"corpus: pieces: encoder: 'scratch' is a kind of"):
        expand(grid_of(folder, "pieces: {encoder: scratch}\n  "))


def test_an_encoder_has_to_be_named(folder):
    with pytest.raises(GridError, match=r"corpus\.pieces\.encoder"):
        grid_of(folder, "pieces: {min_pieces: 3}\n  ")
