"""Pieces that are made before trials: where they have a stage, and what depends on it."""

from __future__ import annotations

import pytest

from raxalign.config.grid import load
from raxalign.plan import prepared
from raxalign.plan.cost import to_make
from raxalign.plan.expand import expand
from raxalign.plan.plan import Plan
from tests.grids import write_grid

METHODS = ("none: {}", "rotation: {}", "finetune: {lambda: [0.1, 1.0]}", "mlm: {}", "tlm: {}")


def plan_of(folder, **options):
    sizes = {"languages": "{each: [de]}", "sentences": "[9_999, 10_000]", "methods": METHODS}
    return expand(load(write_grid(folder, size=20_000, **{**sizes, **options})))


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> Plan:
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
    monkeypatch.setattr(prepared, "LEAST_SENTENCES", 10**12)
    without = plan_of(tmp_path)
    assert not of_kind(without, "pieces")
    assert without.stages.keys() == {
        key for key, stage in plan.stages.items() if stage.kind != "pieces"
    }
    assert without.by_key.keys() == plan.by_key.keys()


def test_text_of_a_corpus_of_its_own_counts_as_much(tmp_path):
    plan = plan_of(
        tmp_path,
        methods=("mlm: {}",),
        sentences="100",
        more="text: {source: phrasebook, size: 50}\n",
    )
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
    behind = {
        plan.stages[key].kind for key in plan.closure([s.key for s in of_kind(plan, "pieces")])
    }
    assert "pairs" not in behind
    largest = "pairs: {align_on: largest, aligner: fast_align}"
    path = write_grid(
        tmp_path, size=20_000, languages="{each: [de]}", sentences="10_000", methods=METHODS
    )
    text = path.read_text(encoding="utf-8").replace("pairs: {aligner: fast_align}", largest)
    path.write_text(text, encoding="utf-8")
    sliced = expand(load(path))
    read = {sliced.stages[stage.inputs["data"]].kind for stage in of_kind(sliced, "pieces")}
    assert read == {"bitext", "pairs", "text"}
