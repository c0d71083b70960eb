"""Grid -> plan: what is merged, what is shared, and what a key depends on."""

import os
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

from raxalign.errors import DataError, GridError, RaxalignError
from raxalign.grid.expansion.expand import expand
from raxalign.grid.expansion.identity import Identity
from raxalign.grid.expansion.tasks import TaskStages
from raxalign.grid.file import load
from raxalign.grid.load import open_grid, select
from raxalign.grid.plan import Plan
from tests.grids import SPLIT, kinds, of_kind, small_plan, write_grid
from tests.tiny import tiny_bert

CONFIGS, NAMES = ("de_gsd", "de_hdt", "en_gum", "en_ewt"), ("main", "v2")
TASKS = ("retrieval: {}", "xnli: {data: phrasebook}")
PHRASES = f"source: phrasebook\n  {SPLIT}"
OTHER_TEXT = "text: {source: phrasebook, size: 50, seed: 1}\n"
METHODS = (
    "finetune: {selection: [none, dev]}",
    "distillation: {selection: dev}",
    "mlm: {selection: dev}",
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return small_plan(tmp_path_factory.mktemp("grid"))


def german(folder, **parts):
    return small_plan(folder, languages="{each: [de]}", **parts)


def test_points_are_the_product_and_trials_what_differs(plan):
    assert plan.points == 2 * 2 * 5
    methods = Counter(trial.method for trial in plan.trials)
    assert methods == {"none": 2, "rotation": 8, "finetune": 8}


def test_none_has_no_sentences_and_without_chance_there_is_no_seed(tmp_path):
    plan = small_plan(tmp_path, seeds="[0, 1, 2]")
    none = [trial for trial in plan.trials if trial.method == "none"]
    assert [(trial.sentences, trial.seed) for trial in none] == [(None, None)] * 2
    assert {trial.seed for trial in plan.trials if trial.method == "rotation"} == {None}
    assert {trial.seed for trial in plan.trials if trial.method == "finetune"} == {0, 1, 2}


@pytest.mark.parametrize("align_on", ["own", "largest"])
def test_links_that_are_chance_are_made_per_seed_for_training_and_once_for_test(tmp_path, align_on):
    def made(aligner, seeds="[0, 1, 2]"):
        return german(tmp_path, seeds=seeds, aligner=f"{aligner}, align_on: {align_on}")

    def tested_on(plan):
        return {stage.inputs["heldout/de"] for stage in of_kind(plan, "evaluation")}

    plan, once = made("eflomal"), made("eflomal, draws: once")
    rotations = [trial for trial in plan.trials if trial.method == "rotation"]
    assert {trial.seed for trial in rotations} == {0, 1, 2}
    assert len({trial.aligned for trial in rotations}) == len(rotations) == 2 * 2 * 3
    none = [trial for trial in plan.trials if trial.method == "none"]
    assert [trial.seed for trial in none] == [None]
    # every trial is tested on one and the same pairs, those that were made before seeds had draws
    assert tested_on(plan) == tested_on(once)
    assert len(tested_on(plan)) == len(of_kind(plan, "seen")) == 1
    assert {trial.seed for trial in once.trials if trial.method == "rotation"} == {None}
    for seeded in ("fast_align", "thot"):
        assert made(seeded).trials == made(f"{seeded}, draws: once").trials
    one, three = (of_kind(made("eflomal", seeds), "pairs") for seeds in ("[1]", "[0, 1, 2]"))
    assert {s.key for s in one} < {s.key for s in three}


def test_an_evaluation_without_chance_is_shared_by_the_seeds_of_a_task_with_chance(tmp_path):
    plan = german(tmp_path, seeds="[0, 1, 2]", methods=("none: {}",), tasks=TASKS)
    assert [trial.seed for trial in plan.trials] == [0, 1, 2]
    assert len({trial.evaluations["retrieval"] for trial in plan.trials}) == 1
    assert len({trial.evaluations["xnli"] for trial in plan.trials}) == 3


def test_methods_that_leave_weights_alone_share_a_tasks_training(tmp_path):
    xnli = {"tasks": ("xnli: {data: phrasebook}",), "sentences": "100"}
    plan = small_plan(tmp_path, methods=("none: {}", "rotation: {}"), **xnli)
    assert kinds(plan)["tuned"] == 1
    plan = small_plan(tmp_path, methods=("none: {}", "finetune: {}"), **xnli)
    assert kinds(plan)["tuned"] == 3


def test_a_task_is_checked_in_the_languages_that_it_is_for(tmp_path):
    """The phrasebook has no Italian, which is not a fault of a task for German alone; the faults of
    all tasks are reported at once.
    """
    narrow, wide = "xnli: {data: phrasebook, languages: [de]}", "mlqa: {data: phrasebook}"
    parts = {"languages": "{each: [de, it]}", "methods": ("none: {}",), "sentences": "100"}
    parts |= {"encoder": "phrasebook"}  # which is not trained on text in either
    of_german, of_italian = small_plan(tmp_path, tasks=(narrow,), **parts).trials
    assert (list(of_german.evaluations), list(of_italian.evaluations)) == (["xnli"], [])
    tasks = (narrow, wide, "pos: {data: phrasebook}", "retrieval: {unseen_in: 50}")
    with pytest.raises(RaxalignError) as told:
        small_plan(tmp_path, tasks=tasks, **parts)
    first, *lines = str(told.value).splitlines()
    assert first.endswith("grid.yaml: 3 faults")
    keys = [line.split(": ", 2)[1] for line in lines]
    assert keys == ["tasks.mlqa", "tasks.pos", "tasks.retrieval.unseen_in"]
    assert all("phrasebook has no it" in line for line in lines[:2])
    assert "50 is smaller than the grid's largest training set (100)" in lines[2]


def test_faults_of_a_task_have_the_line_of_the_option_or_else_of_what_lacks_it(tmp_path):
    tasks = ("xnli:", "  setting: zero-shot", "  data:", "    train: 'train.{lang}.tsv'")
    tasks += ("    test: 'test.{lang}.tsv'", "ner:", "  data: {train: a, dev: b}")
    path = write_grid(tmp_path, tasks=tasks)
    lines = path.read_text(encoding="utf-8").splitlines()
    with pytest.raises(GridError) as told:
        expand(load(path))
    assert {f.problem.split(" ")[0]: lines[f.line - 1].strip() for f in told.value.faults} == {
        "data.train": "train: 'train.{lang}.tsv'",
        "selection:": "xnli:",
        "data.dev": "data: {train: a, dev: b}",
    }


TSV = "source: tsv\n  path: {train: a.tsv, dev: d.tsv, test: b.tsv}\n  split: files"
CORPORA = [
    (PHRASES, True),
    (PHRASES.replace("dev: 30", "dev: 0"), False),
    (TSV, True),
    (TSV.replace("dev: d.tsv, ", ""), False),
]
"""Lines of `corpus:`, and whether there is a dev part."""


def grid_of_corpus(tmp_path, corpus, **parts):
    """Write a grid of German with these lines of `corpus:`."""
    for name in "abd":
        (tmp_path / f"{name}.tsv").write_text("en\tde\nhouse\tHaus\n", encoding="utf-8")
    return write_grid(tmp_path, languages="{each: [de]}", corpus=corpus, **parts)


@pytest.mark.parametrize(("corpus", "there"), CORPORA)
def test_a_measure_with_a_bank_of_queries_is_refused_where_the_corpus_has_no_dev_part(
    tmp_path, corpus, there
):
    tasks = ("sentence_retrieval:", "  measure: nnn", "plain: {kind: sentence_retrieval}")
    path = grid_of_corpus(tmp_path, corpus, tasks=tasks)
    if there:
        assert expand(load(path)).trials
        return
    with pytest.raises(GridError) as told:
        expand(load(path))
    (fault,) = told.value.faults
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[fault.line - 1].strip() == "measure: nnn"
    assert fault.problem == "measure: nnn needs the dev part of the corpus, and de has none"
    assert fault.remedy.startswith("raise `split.dev` of the corpus, or name its `dev` file")


def training_inputs(plan):
    """The held-out sets that each training text is kept apart from, besides its own."""
    return {
        stage.params["lang"]: {n: plan.stages[k].params["lang"] for n, k in stage.inputs.items()}
        for stage in of_kind(plan, "bitext")
        if stage.params["part"] == "training"
    }


def test_training_text_is_kept_apart_from_all_held_out_text_of_the_model(tmp_path):
    parts = {"sentences": "100", "methods": ("rotation: {}",)}
    assert training_inputs(small_plan(tmp_path, languages="{together: [de, fr, es]}", **parts)) == {
        "de": {"heldout/fr": "fr", "heldout/es": "es"},
        "fr": {"heldout/de": "de", "heldout/es": "es"},
        "es": {"heldout/de": "de", "heldout/fr": "fr"},
    }
    each = small_plan(tmp_path, languages="{each: [de, fr]}", **parts)
    assert training_inputs(each) == {"de": {}, "fr": {}}
    alone = small_plan(tmp_path, languages="{together: [de]}", **parts)
    assert training_inputs(alone) == {"de": {}}
    keep = f"{PHRASES}\n  overlap: keep"
    kept = small_plan(tmp_path, languages="{together: [de, fr]}", corpus=keep, **parts)
    assert training_inputs(kept) == {"de": {}, "fr": {}}


def test_training_from_the_start_changes_the_keys_of_training_alone(tmp_path):
    def keys(line):
        parts = {"sentences": "100", "methods": ("rotation: {}",)}
        stages = of_kind(small_plan(tmp_path, corpus=f"{PHRASES}{line}", **parts), "bitext")
        return {(stage.params["lang"], stage.params["part"]): stage.key for stage in stages}

    plain, start = keys(""), keys("\n  training_from: start")
    assert keys("\n  training_from: end") == plain
    assert {name: start[name] == key for name, key in plain.items()} == {
        (lang, part): part == "heldout" for lang, part in plain
    }


def test_another_configuration_of_a_repository_is_other_data(tmp_path):
    """One commit has many configurations: which of them is read is in the keys, whatever the commit
    is called.
    """
    locked = {f"hub:some/treebanks/{c}@{name}": "c" * 40 for c in CONFIGS for name in NAMES}

    def stages(de, en, revision="main"):
        data = f"data: hub, dataset: some/treebanks, revision: {revision}"
        task = f"pos: {{{data}, codes: {{de: {de}, en: {en}}}}}"
        path = write_grid(tmp_path, methods=("none: {}",), tasks=(task,), languages="{each: [de]}")
        plan = expand(load(path), Identity(locked=locked.get))
        (evaluation,) = plan.trials[0].evaluations.values()
        return evaluation, plan.stages[evaluation].inputs["trained"], plan.stages[evaluation]

    gsd = stages("de_gsd", "en_gum")
    hdt, ewt = stages("de_hdt", "en_gum"), stages("de_gsd", "en_ewt")
    assert gsd[0] != hdt[0]
    assert gsd[1] == hdt[1], "the training reads the pivot alone"
    assert gsd[1] != ewt[1]
    same = stages("de_gsd", "en_gum", "v2")
    assert same[:2] == gsd[:2], "a tag of the same commit is the same data"
    assert set(gsd[2].digests.values()) == {"c" * 40}


def test_word_pairs_are_made_once_a_language_and_size(plan):
    assert kinds(plan)["pairs"] == 2 * (2 + 1)
    assert kinds(plan)["encoder"] == 1


def test_inputs_come_before_what_reads_them(tmp_path):
    plan = small_plan(tmp_path, tasks=TASKS)
    seen = set()
    for key, stage in plan.stages.items():
        assert seen.issuperset(stage.inputs.values())
        seen.add(key)


def test_idle_params_fall_together_and_a_dictionary_counts_as_its_content(tmp_path):
    def trials(supervision, name):
        method = f"rotation: {{supervision: {supervision}, dictionary: {name}}}"
        return [t.key for t in german(tmp_path, methods=(method,), sentences="100").trials]

    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("haus house\n")
    assert len(trials("parallel", "[one.txt, two.txt]")) == 1
    first = trials("dictionary", "one.txt")
    assert first == trials("dictionary", "two.txt")
    (tmp_path / "two.txt").write_text("haus home\n")
    assert first != trials("dictionary", "two.txt")


def two_dictionaries(folder, more="", names="[muse/de.txt, panlex/de.txt, other.txt]"):
    for place in ("muse/de.txt", "panlex/de.txt", "more/panlex/de.txt", "other.txt"):
        file = folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"haus {'-'.join(file.parts[-3:])}\n")
    method = f"rotation: {{supervision: dictionary, dictionary: {names}}}"
    return german(folder, methods=(method,), sentences="100", more=more)


def test_files_of_one_name_are_told_apart_by_as_many_folders_as_that_takes(tmp_path):
    def shown(names):
        plan = two_dictionaries(tmp_path, names=names)
        assert len({trial.cell for trial in plan.trials}) == len(plan.trials)
        return [trial.params["dictionary"] for trial in plan.trials]

    assert shown("[muse/de.txt, other.txt]") == ["de.txt", "other.txt"]
    both = ["muse/de.txt", "panlex/de.txt", "other.txt"]
    assert shown("[muse/de.txt, panlex/de.txt, other.txt]") == both
    deeper = shown("[panlex/de.txt, more/panlex/de.txt, muse/de.txt]")
    assert deeper == [f"{tmp_path.name}/panlex/de.txt", "more/panlex/de.txt", "muse/de.txt"]


def test_one_of_two_files_of_one_name_is_excluded_by_its_folder(tmp_path):
    only = "exclude: [{method: rotation, dictionary: %s}]\n"
    for given in ("panlex/de.txt", "./panlex/de.txt"):
        plan = two_dictionaries(tmp_path, only % given)
        assert [t.params["dictionary"] for t in plan.trials] == ["muse/de.txt", "other.txt"]
    with pytest.raises(GridError, match=r"'de\.txt' is not a value of dictionary of this grid"):
        two_dictionaries(tmp_path, only % "de.txt")


HIDES = """
from raxalign.methods.{kind} import {name}


class Hides({name}):
    VERSION = 1

    def shown(self):
        return {{k: v for k, v in super().shown().items() if k != "layers"}}
"""


def test_configurations_that_results_would_show_as_one_are_refused(tmp_path):
    (tmp_path / "hides.py").write_text(HIDES.format(kind="rotation", name="Rotation"))
    methods = ("rotation: {layers: [1, 2]}", "hides: {layers: [1, 2]}")
    with pytest.raises(GridError, match="two configurations on scratch have one name") as error:
        german(tmp_path, methods=methods, more="plugins: [hides.py]\n")
    (fault,) = error.value.faults
    assert fault.key == "methods.hides"
    assert fault.line is not None
    apart = ("rotation: {layers: [1, 2]}", "hides: {layers: 2}")
    assert len(german(tmp_path, methods=apart, more="plugins: [hides.py]\n").trials) == 6


def test_the_workers_of_the_file_are_in_the_keys_of_trainings_with_dropout_alone(tmp_path):
    methods = ("none: {}", "rotation: {}", "finetune: {dropout: [true, false]}")
    one, three = (planned(tmp_path, f"workers: {n}", methods=methods) for n in (1, 3))
    for plan, workers in ((one, 1), (three, 3)):
        assert {
            (stage.kind, stage.params.get("method", {}).get("dropout")): stage.shares
            for stage in plan.stages.values()
            if not stage.inline
        } == {
            **dict.fromkeys([("bitext", None), ("text", None), ("pairs", None), ("seen", None)], 0),
            **dict.fromkeys([("aligned", None), ("aligned", False), ("evaluation", None)], 0),
            **dict.fromkeys([("aligned", True), ("tuned", None)], workers),
            ("encoder", None): 1,
        }
    stays = {one.stages[key].kind for key in one.stages.keys() & three.stages.keys()}
    assert stays - {"evaluation", "aligned"} == {"bitext", "text", "pairs", "seen", "encoder"}
    for trial, other in zip(one.trials, three.trials, strict=True):
        dropout = trial.params.get("dropout", False)
        assert (trial.aligned == other.aligned) is not dropout
        assert (trial.evaluations["retrieval"] == other.evaluations["retrieval"]) is not dropout
        assert trial.evaluations["xnli"] != other.evaluations["xnli"]


@pytest.mark.parametrize("task", ["sentence_retrieval: {}", "token_translation: {}"])
def test_a_task_that_reads_sentences_depends_on_no_word_aligner(tmp_path, task):
    def results(**parts):
        parts |= {"tasks": (task,), "methods": ("none: {}",), "more": OTHER_TEXT}
        plan = small_plan(tmp_path, **parts)
        assert "pairs" not in kinds(plan)
        return [trial.evaluations for trial in plan.trials]

    assert results() == results(sentences="[150]", aligner="eflomal")
    assert results() != results(size=350), "the end of another corpus"


@pytest.mark.parametrize(
    ("only", "told"),
    [
        ("metod=none", "unknown name 'metod'; did you mean method?"),
        (
            "task=retrieval",
            "a trial has all tasks and sources: `results FILE --task NAME`",
        ),
        ("method", "name=value"),
        ("method=nothing", "no trial has method=nothing; there are: .*none, .*rotation"),
        ("method=none,method=rotation", "--only method=none,method=rotation: no trial has all of"),
    ],
)
def test_a_selection_that_means_nothing_is_refused(plan, only, told):
    with pytest.raises(RaxalignError, match=told):
        select(plan, only=only)


def test_excluded_points_are_counted_and_gone(tmp_path):
    plan = small_plan(tmp_path, more="exclude: [{method: rotation, sentences: 100}]\n")
    assert {trial.sentences for trial in plan.trials if trial.method == "rotation"} == {200}
    assert any("excluded" in note for note in plan.merged)


def test_a_missing_file_is_named_with_all_others(tmp_path):
    methods = ("rotation: {supervision: dictionary, dictionary: 'absent.{lang}.txt'}",)
    with pytest.raises(RaxalignError) as told:
        small_plan(tmp_path, methods=methods)
    assert "absent.de.txt" in str(told.value)
    assert "absent.fr.txt" in str(told.value)
    looked_at = expand(load(write_grid(tmp_path, methods=methods)), allow_missing=True)
    assert looked_at.missing == tuple(str(tmp_path / f"absent.{lang}.txt") for lang in ("de", "fr"))


def test_another_process_makes_the_same_plan(tmp_path):
    path = write_grid(tmp_path, tasks=TASKS)
    code = (
        "import sys; from raxalign.grid.file import load;"
        " from raxalign.grid.expansion.expand import expand\n"
        "p = expand(load(sys.argv[1])); print(*[t.key for t in p.trials], *p.stages)"
    )
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # another order of sets
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", code, str(path)]
    told = subprocess.check_output(command, text=True, env=environment)
    plan = expand(load(path))
    assert told.split() == [*(trial.key for trial in plan.trials), *plan.stages]


def test_an_encoder_with_transforms_of_its_own_is_no_start_for_a_grid(tmp_path):
    tiny_bert(tmp_path / "aligned", ["haus", "house"])
    (tmp_path / "aligned" / "transforms.json").write_text("{}")
    grid = write_grid(tmp_path, encoder="./aligned")
    with pytest.raises(RaxalignError, match="raxalign evaluate"):
        expand(load(grid))
    (tmp_path / "aligned" / "transforms.json").write_text('{"format": 1, "transforms": []}')
    assert expand(load(grid)).trials, "it was trained, and has none"


def test_text_may_come_from_another_corpus_whatever_the_training_sizes(tmp_path):
    def encoders(more, sentences):
        plan = small_plan(tmp_path, methods=("none: {}",), sentences=sentences, more=more)
        return {stage.key for stage in of_kind(plan, "encoder")}

    other = OTHER_TEXT
    assert encoders(other, "[100]") == encoders(other, "[200]")
    assert encoders("", "[100]") != encoders("", "[200]")
    assert encoders(other, "[100]") != encoders(other.replace("50", "60"), "[100]")


@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        ("nowhere", "no such encoder folder"),
        ("empty", "has no config.json, so it is not an encoder"),
        ("grid.yaml", "is a file, not an encoder's folder"),
    ],
)
def test_an_encoder_that_is_not_there_is_a_fault_at_its_line(tmp_path, folder, problem):
    (tmp_path / "empty").mkdir()
    with pytest.raises(GridError) as told:
        small_plan(tmp_path, encoder=f"./{folder}")
    assert f"  line 4: encoder: {tmp_path / folder}: {problem}. Name " in str(told.value)


def test_a_grid_without_a_trial_names_the_line_that_leaves_nothing(tmp_path):
    with pytest.raises(GridError) as told:
        small_plan(tmp_path, methods=("none: {}",), more="exclude: [{method: none}]\n")
    (fault,) = told.value.faults
    assert (fault.line, fault.key) == (17, "exclude")
    assert fault.problem == "no trial is left: 4 of 4 configurations are excluded"


def test_a_missing_file_with_a_near_name_says_which_there_is(tmp_path):
    (tmp_path / "de.txt.bz2").write_bytes(b"")
    method = "rotation: {supervision: dictionary, dictionary: '{lang}.txt'}"
    with pytest.raises(DataError) as told:
        small_plan(tmp_path, methods=(method,))
    said, none = str(told.value), "No such file or directory"
    assert f"{tmp_path}/de.txt: {none} (there is de.txt.bz2: decompress it)" in said
    assert f"{tmp_path}/fr.txt: {none}\n" in f"{said}\n".replace(". P", "\n")


def test_a_size_added_later_leaves_the_training_of_others_alone(plan, tmp_path):
    few = of_kind(small_plan(tmp_path, sentences="[100]"), "pairs")
    trained = {stage.key for stage in few if stage.params["part"] == "training"}
    assert trained
    assert trained <= set(plan.stages)
    assert any("`unseen_in: 200`" in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    ("seeds", "told"), [("3", True), ("[0, 1, 2]", False), ("0", False), ("42", False)]
)
def test_one_number_of_seeds_is_said_to_be_one_training_run(tmp_path, seeds, told):
    warnings = small_plan(tmp_path, seeds=seeds).warnings
    assert any("for 3 runs write seeds: [0, 1, 2]" in warning for warning in warnings) == told


def test_seen_entries_are_read_in_the_order_of_the_method_that_reads_the_dictionary(tmp_path):
    (tmp_path / "d.txt").write_text("dog hund\n", encoding="utf-8")

    def seen(swap):
        method = f"rotation: {{supervision: dictionary, dictionary: d.txt, swap: {swap}}}"
        return of_kind(german(tmp_path, methods=(method,), sentences="100"), "seen")[0]

    stages = seen("false"), seen("true")
    names = [name.partition("/")[0] for stage in stages for name in stage.digests]
    assert names == ["dictionary", "swapped"]
    assert stages[0].key != stages[1].key


def test_unseen_in_keeps_the_test_whatever_the_sizes(tmp_path):
    def tests_of(sentences):
        parts = {"tasks": ("retrieval: {unseen_in: 300}",), "methods": ("none: {}",), "size": 500}
        plan = small_plan(tmp_path, sentences=sentences, **parts)
        return {stage.key for stage in of_kind(plan, "seen")}, plan.warnings

    assert tests_of("[100]") == tests_of("[100, 200]")
    with pytest.raises(RaxalignError, match=r"tasks\.retrieval\.unseen_in: 300 is smaller"):
        tests_of("[100, 400]")


def test_only_and_limit_never_change_what_counts_as_seen(plan):
    part = select(plan, only="method=finetune, sentences=100", limit=1)
    assert len(part.trials) == 1
    assert part.trials[0] == next(
        trial for trial in plan.trials if trial.method == "finetune" and trial.sentences == 100
    )
    assert set(part.stages) < set(plan.stages)


def test_dictionaries_are_looked_for_once_per_language_however_many_points(tmp_path, monkeypatch):
    asked, own = [], TaskStages._trained_on
    monkeypatch.setattr(
        TaskStages, "_trained_on", lambda self, lang: asked.append(lang) or own(self, lang)
    )
    alphas = [round(0.05 * number, 2) for number in range(1, 21)]
    plan = german(tmp_path, methods=(f"mean_shift: {{alpha: {alphas}}}",))
    assert len(plan.trials) == 40  # 20 values x 2 sizes
    assert asked == ["de"]


def dev_inputs(plan, method):
    """(kind of the stage, its part) of every dev input of a method."""
    return {
        (plan.stages[key].kind, str(plan.stages[key].params["part"]))
        for stage in plan.stages.values()
        if (stage.kind, stage.maker) == ("aligned", method)
        for name, key in stage.inputs.items()
        if name.startswith("dev/")
    }


def test_selection_by_dev_loss_reads_the_dev_part_in_the_form_that_the_method_trains_on(tmp_path):
    plan = german(tmp_path, methods=METHODS)
    assert dev_inputs(plan, "finetune") == {("pairs", "heldout")}
    assert dev_inputs(plan, "distillation") == {("bitext", "heldout")}
    assert dev_inputs(plan, "mlm") == {("bitext", "heldout")}
    assert not dev_inputs(german(tmp_path, methods=("finetune: {}", "mlm: {}")), "finetune")


def test_dev_pairs_are_those_of_the_run_over_the_trials_own_sentences(tmp_path):
    plan = german(tmp_path, methods=("finetune: {selection: dev}",))
    sizes = set()
    for trial in plan.trials:
        pairs = plan.stages[plan.stages[trial.aligned].inputs["dev/de"]]
        training = plan.stages[pairs.inputs["training"]]
        assert training.params["sentences"] == trial.sentences
        sizes.add(trial.sentences)
    assert sizes == {100, 200}


@pytest.mark.parametrize("corpus", [corpus for corpus, there in CORPORA if not there])
def test_selection_without_a_dev_part_is_refused_with_the_options_to_change(tmp_path, corpus):
    path = grid_of_corpus(tmp_path, corpus, methods=("finetune: {selection: dev}",))
    told = r"needs the dev part of the corpus, and de has none; raise `split\.dev`"
    with pytest.raises(RaxalignError, match=told):
        expand(load(path))


def planned(folder, run, **options):
    return small_plan(folder, tasks=TASKS, run=run, **options)


def keys(plan):
    found = defaultdict(set)
    for key, stage in plan.stages.items():
        found[stage.kind].add(key)
    return found


def test_other_settings_of_a_run_and_workers_of_a_flag_are_in_no_key(tmp_path):
    plain = planned(tmp_path, "checkpoint_minutes: 1")
    for run in ("precision: fp32", "compile: false", "threads: 2, storage: elsewhere"):
        assert planned(tmp_path, run) == plain
    path = write_grid(tmp_path, tasks=TASKS, run="workers: 2")
    one, three = (open_grid(path, storage=str(tmp_path), workers=n).plan for n in (1, 3))
    assert one == three


@pytest.mark.parametrize("run", ["precision: bf16", "precision: tf32", "compile: true"])
def test_another_precision_and_compiled_blocks_have_results_of_their_own_on_the_same_data(
    tmp_path, run
):
    plain, other = planned(tmp_path, "precision: fp32"), planned(tmp_path, run)
    before, after = keys(plain), keys(other)
    assert before.keys() == after.keys()
    for kind in before:
        if kind in {"encoder", "aligned", "tuned", "evaluation"}:
            assert before[kind].isdisjoint(after[kind])
            stages = [other.stages[key] for key in after[kind]]
            assert all(stage.compiled or stage.precision in run for stage in stages)
        else:
            assert before[kind] == after[kind]
    assert {t.key for t in plain.trials}.isdisjoint(t.key for t in other.trials)
    assert Plan.from_json(other.to_json()) == other


def test_static_vectors_have_one_result_in_every_precision(tmp_path):
    encoder = "{kind: static, algorithm: word2vec, dimension: 16, epochs: 1}"
    runs = ("precision: fp32", "precision: bf16", "compile: true")
    static = {"encoder": encoder, "methods": ("none: {}", "rotation: {}")}
    plain, *others = (planned(tmp_path, run, **static) for run in runs)
    assert all(other.stages == plain.stages for other in others)
