"""Which evaluations a method leaves untouched: told by name, never run, and the encoder's own by
key.
"""

import pytest

from raxalign.catalog import catalog
from raxalign.errors import GridError
from raxalign.grid.expansion.expand import expand
from raxalign.grid.expansion.identity import Identity
from raxalign.grid.file import load
from raxalign.grid.plan import Plan, meet
from raxalign.inspect.plans import PlanView
from raxalign.methods.base import Acts
from raxalign.options.run import RunConfig
from raxalign.store.storage import Storage
from raxalign.tasks.base import Reads
from tests.grids import small_plan, write_grid

# grids/paper.yaml as it was when its readouts were all fitted at the last layer, and one task read
# another, with one of its seeds
PAPER = """
name: paper
pivot: en
encoder: bert-base-multilingual-cased
languages: {together: [bg, de, el, es, fr]}
corpus:
  source: opus
  corpus: Europarl
  split: {test: 1024, dev: 1024}
pairs: {aligner: eflomal, symmetrization: intersection, one_to_one: true}
sentences: [10_000, 50_000, 250_000]
seeds: [0]
methods:
  none: {}
  rotation: {center: [false, true], pooling: last}
  sentence_rotation: {}
  linear: {}
  centering: {}
  znorm: {}
  iterative_normalization: {rotate: [false, true]}
  lsar: {}
  lir: {}
  mean_shift: {layers: 6, alpha: [0.5, 1.0]}
  finetune: {lambda: [0.1, 1, 10], profile: released}
  strong_contrastive: {lambda: [0.1, 1, 10]}
  weak_contrastive: {lambda: [0.1, 1, 10]}
  tlm: {epochs: 1}
  mlm: {epochs: 1}
  ppa: {epochs: 1, queue_size: 8192}
  weam: {lambda: [0.1, 1, 10], epochs: 1}
  sentence_margin: {}
  distillation: {epochs: 1}
tasks:
  retrieval: {unseen_in: 250_000}
  sentence_retrieval: {layers: 7, pooling: mean}
  xnli: {setting: zero-shot, data: hub, selection: mean-dev}
published: [cao2020]
run: {workers: 1, gpus_per_worker: 1, threads: 4, max_failures: 2}
"""
HAS = "layers 0 (embeddings) to 2 (scratch)"
COMMIT = "c" * 40
MBERT = "bert-base-multilingual-cased"
BERT = {f"hub:{MBERT}": COMMIT, f"depth:{MBERT}@{COMMIT}": "12"}
READOUTS = ["rotation", "sentence_rotation", "linear", "centering", "znorm"]
READOUTS += ["iterative_normalization", "lsar", "lir"]


def paper(folder, locked):
    (folder / "paper.yaml").write_text(PAPER, encoding="utf-8")
    return expand(load(folder / "paper.yaml"), Identity(locked=locked.get))


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """The paper's plan where the encoder's depth is known."""
    return paper(tmp_path_factory.mktemp("paper"), BERT)


def plan_of(folder, *methods, tasks, **parts):
    parts = {"sentences": "50", "languages": "{each: [de]}", **parts}
    return small_plan(folder, methods=methods, tasks=tasks, **parts)


def untouched(plan):
    return sorted({(trial.method, task) for trial in plan.trials for task in trial.untouched})


def test_a_task_that_reads_below_every_readout_is_named_and_never_run(known):
    missed = [trial for trial in known.trials if trial.untouched]
    assert (len(known.trials), len(missed)) == (88, 30)
    assert {trial.method for trial in missed} == set(READOUTS)
    assert {tuple(trial.evaluations) for trial in missed} == {("retrieval", "xnli")}
    assert [remark for remark in known.remarks() if "untouched" in remark] == [
        "30 evaluations are untouched and will not run, as they would repeat the encoder's own:"
        f" sentence_retrieval reads layer 7, but {', '.join(READOUTS)} are fitted at layer 12; to"
        " fit what is read, set `layers: 7` or a range that contains it"
    ]


def test_an_untouched_evaluation_has_the_key_of_the_encoder_s_own(known):
    trials = known.trials
    (own,) = {trial.evaluations["sentence_retrieval"] for trial in trials if trial.method == "none"}
    assert {why.instead for trial in trials for why in trial.untouched.values()} == {own}
    stages = [stage for stage in known.stages.values() if stage.maker == "sentence_retrieval"]
    read = {stage.inputs["aligned"] for stage in stages}
    assert read.isdisjoint(trial.aligned for trial in trials if trial.untouched)


def test_without_a_baseline_in_the_grid_nothing_runs_for_it(tmp_path):
    plan = plan_of(tmp_path, "rotation: {layers: 1}", tasks=("retrieval: {}",))
    assert (plan.stages, [trial.evaluations for trial in plan.trials]) == ({}, [{}])
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.remarks()[-1] == "1 of 1 trial has nothing to run"
    assert "\nstages: none\n" in PlanView(plan, Storage(str(tmp_path)), RunConfig()).text()


def test_before_the_depth_is_known_all_is_wanted_and_keys_are_those_that_stay(
    known, tmp_path, monkeypatch
):
    monkeypatch.setattr("raxalign.encoders.transformer.cached_config", lambda name, revision: None)
    unknown = paper(tmp_path, {n: value for n, value in BERT.items() if n.startswith("hub:")})
    assert (unknown.unknown_depths, known.unknown_depths) == (("bert-base-multilingual-cased",), ())
    assert untouched(unknown) == []
    assert any(
        "the number of layers of bert-base-multilingual-cased is not known" in remark
        for remark in unknown.remarks()
    )
    for one, other in zip(known.trials, unknown.trials, strict=True):
        assert one.key == other.key
        assert one.evaluations.items() <= other.evaluations.items()


def test_a_shift_of_nothing_is_the_encoder_but_for_what_a_training_leaves_alone(tmp_path):
    tagger = "pos: {data: phrasebook, tagger: bilstm_crf}"
    tasks = ("retrieval: {}", "token_translation: {}", "xnli: {data: phrasebook}", tagger)
    plan = plan_of(tmp_path, "none: {}", "mean_shift: {layers: 1, alpha: [0, 0.5]}", tasks=tasks)
    assert {
        (trial.params["alpha"], *trial.evaluations)
        for trial in plan.trials
        if trial.method == "mean_shift"
    } == {(0.0, "xnli"), (0.5, "retrieval", "token_translation", "xnli", "pos")}
    assert any("mean_shift alpha=0 is without effect" in remark for remark in plan.remarks())


def test_a_readout_is_in_the_way_of_a_training_only_where_that_reads_it(tmp_path):
    """A method that moves the pivot has a training of its own for each language, but not where the
    task never reads what it moved.
    """
    methods = ("none: {}", "centering: {layers: [1, last]}")
    plan = plan_of(tmp_path, *methods, tasks=("xnli: {data: phrasebook}",))
    assert [(trial.params.get("layers"), list(trial.evaluations)) for trial in plan.trials] == [
        (None, ["xnli"]),
        ("1", []),
        ("last", ["xnli"]),
    ]
    assert sum(stage.kind == "tuned" for stage in plan.stages.values()) == 2


def test_static_vectors_have_one_layer_that_all_meet_at(tmp_path):
    vectors = "{kind: static, dimension: 8, min_count: 1}"
    tasks = ("retrieval: {}", "representation: {}")
    plan = plan_of(tmp_path, "rotation: {layers: [0, last]}", tasks=tasks, encoder=vectors)
    assert untouched(plan) == []
    assert {len(trial.evaluations) for trial in plan.trials} == {2}


def made(folder, kind, params):
    plugin = catalog(folder)[kind]
    return plugin(plugin.Params.model_validate(params))


@pytest.mark.parametrize("kind", READOUTS)
def test_readouts_act_at_their_layers_alone(kind):
    assert made("methods", kind, {}).acts(12) == Acts(readouts=frozenset({12}))
    assert made("methods", kind, {"layers": "7-9"}).acts(12) == Acts(readouts=frozenset({7, 8, 9}))


@pytest.mark.parametrize(
    ("kind", "params", "lowest"),
    [
        ("none", {}, None),
        ("mean_shift", {"layers": "6"}, 6),
        ("mean_shift", {"layers": "6", "alpha": 0}, None),
        ("finetune", {"layers": "9-12"}, 0),
        ("strong_contrastive", {"freeze": "lower"}, 7),
        ("weak_contrastive", {"freeze": "upper", "layers": "3"}, 0),
        *((kind, {}, 0) for kind in ("tlm", "mlm", "ppa", "weam", "awesome_align")),
        *((kind, {}, 0) for kind in ("sentence_margin", "distillation")),
    ],
)
def test_shifts_and_trainings_act_from_a_layer_on(kind, params, lowest):
    assert made("methods", kind, params).acts(12) == Acts(stream_from=lowest)


@pytest.mark.parametrize(
    ("kind", "params", "found"),
    [
        ("retrieval", {}, Reads(frozenset({12}))),
        ("sentence_retrieval", {"layers": "7-8"}, Reads(frozenset({7, 8}))),
        ("dictionary_retrieval", {"dictionary": "x"}, Reads(frozenset({12}))),
        ("representation", {}, Reads(frozenset(range(13)))),
        ("representation", {"layers": "3"}, Reads(frozenset({3}))),
        ("token_translation", {"layers": "1-12"}, Reads(stream=12)),
        ("xnli", {}, Reads(frozenset({12}), tunes=True)),
        ("mlqa", {}, Reads(frozenset({12}), tunes=True)),
        ("ner", {}, Reads(frozenset({12}), tunes=True)),
        ("ner", {"data": "phrasebook", "layers": "1"}, Reads(frozenset({12}), tunes=True)),
        ("slots", {"data": "phrasebook", "profile": "paper"}, Reads(frozenset({9, 10, 11, 12}))),
        ("ner", {"tagger": "bilstm_crf", "layers": "3"}, Reads(frozenset({3}))),
    ],
)
def test_a_task_reads_its_layers_or_the_last_that_it_trains(kind, params, found):
    assert made("tasks", kind, params).reads(12) == found


@pytest.mark.parametrize(
    ("acting", "reading", "expected"),
    [
        (Acts(frozenset({12})), Reads(frozenset({12})), True),
        (Acts(frozenset({12})), Reads(frozenset({7})), False),
        (Acts(frozenset({7, 8})), Reads(frozenset({8, 12})), True),
        (Acts(frozenset({12})), Reads(stream=12), False),
        (Acts(stream_from=7), Reads(frozenset({6})), False),
        (Acts(stream_from=7), Reads(frozenset({7})), True),
        (Acts(stream_from=7), Reads(frozenset({3, 9})), True),
        (Acts(stream_from=7), Reads(stream=12), True),
        (Acts(stream_from=0), Reads(frozenset({0})), True),
        (Acts(), Reads(frozenset({12}), 12, tunes=True), False),
    ],
)
def test_two_meet_where_a_readout_is_read_or_the_stream_lies_above(acting, reading, *, expected):
    assert meet(acting, reading) is expected


def test_layers_beyond_the_encoder_are_faults_of_the_file_with_their_lines(tmp_path):
    methods = ("none: {}", "rotation: {layers: [last, '3']}", "finetune: {layers: 1-4}")
    tasks = ("retrieval: {}", "low: {kind: sentence_retrieval, layers: 40}")
    path = write_grid(tmp_path, methods=methods, tasks=tasks)
    lines = path.read_text(encoding="utf-8").splitlines()
    wrong = (("methods.rotation", "3"), ("methods.finetune", "1-4"), ("tasks.low", "40"))
    with pytest.raises(GridError) as told:
        expand(load(path))
    assert [
        (fault.key, lines[(fault.line or 0) - 1].split(":")[0].strip(), fault.problem)
        for fault in told.value.faults
    ] == [
        (f"{key}.layers", key.split(".")[1], f"layers '{layers}': this encoder has the {HAS}")
        for key, layers in wrong
    ]


def test_excluded_points_may_name_any_layer(tmp_path):
    methods = ("none: {}", "rotation: {layers: [last, '3']}")
    excluded = "exclude: [{method: rotation, layers: '3'}]\n"
    trials = small_plan(tmp_path, methods=methods, more=excluded).trials
    assert {trial.params.get("layers") for trial in trials} == {None, "last"}


def test_a_frozen_half_that_holds_the_contrasted_layer_is_found_by_the_plan(tmp_path):
    told = r"layers: layers '1': freeze leaves layer 1 as it is; choose layers from 2 on"
    method = "strong_contrastive: {layers: 1, freeze: lower}"
    with pytest.raises(GridError, match=rf"strong_contrastive\.{told}"):
        plan_of(tmp_path, method, tasks=("retrieval: {}",))


def test_a_part_of_a_plan_tells_of_its_own_trials_alone(known):
    part = known.only(trial for trial in known.trials if trial.method == "znorm")
    assert [remark.split(" ", 1)[0] for remark in part.remarks()] == ["3", "xnli:"]
