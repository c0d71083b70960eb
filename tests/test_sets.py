"""Sets of languages as an axis: an aligned encoder for each, all evaluated on the languages of all
sets, with the stages that these share made once.
"""

from collections import Counter
from pathlib import Path

import pytest

from raxalign.analysis.cells import Cell
from raxalign.cli._options import named_in
from raxalign.errors import DataError, GridError
from raxalign.grid.load import choose, open_grid, select
from raxalign.report.answer import stored_answer
from raxalign.report.compared import ComparisonTables
from raxalign.report.tables import as_text, blocks, short_tables
from raxalign.stages import Workshop
from raxalign.store.storage import Storage
from raxalign.tracking.runs import PlanRuns
from raxalign.train.runtime import Runtime
from raxalign.values.claims import JudgedClaim
from raxalign.values.comparisons import LEFT, comparisons
from raxalign.values.results import rows
from raxalign.values.scoreboard import Scoreboard
from tests.grids import write_grid
from tests.ran import ran as run_all

SETS = "{sets: {romance: [es, fr], diverse: [es, el]}}"
POS = (
    "pos: {{data: phrasebook, phrasebook: {{train: 60, dev: 30, test: 40}}, epochs: 2,"
    " selection: {}}}"
)
TWO = "two: {kind: sentence_retrieval}"
WORDS = "words: {kind: retrieval}"
GIVEN = {"encoder": "phrasebook", "languages": SETS, "size": 200, "sentences": "[60]"}
GIVEN |= {"methods": ("none: {}", "rotation: {}"), "tasks": (POS.format("pivot-dev"), TWO, WORDS)}


def planned(folder, languages=SETS, **parts):
    folder.mkdir(exist_ok=True)
    return open_grid(write_grid(folder, **{**GIVEN, "languages": languages, **parts})).plan


def evaluated(plan, method, task):
    """The keys of a task's evaluations of a method, by the set."""
    found = (trial for trial in plan.trials if trial.method == method)
    return {str(trial.params.get("languages")): trial.evaluations[task] for trial in found}


def test_what_sets_share_is_made_once(tmp_path):
    plan = planned(tmp_path)
    kinds = Counter((stage.kind, stage.maker) for stage in plan.stages.values())
    wanted = {("bitext", "phrasebook"): 6, ("tuned", "pos"): 1, ("encoder", "phrasebook"): 1}
    wanted |= {("seen", "types"): 3, ("aligned", "none"): 1}
    wanted |= {("aligned", "rotation"): 2 * 3}  # of each set and, es, alone; again after training
    assert {kind: kinds[kind] for kind in wanted} == wanted
    assert all(len({*evaluated(plan, "none", task).values()}) == 1 for task in ("pos", "two"))
    assert len({*evaluated(plan, "rotation", "two").values()}) == 2


def test_all_sets_are_evaluated_on_the_languages_of_all(tmp_path):
    plan = planned(tmp_path)
    for task, languages in (("pos", ["en", "es", "fr", "el"]), ("words", ["es", "fr", "el"])):
        stages = {name: plan.stages[key] for name, key in evaluated(plan, "rotation", task).items()}
        assert [stage.params["languages"] for stage in stages.values()] == [languages] * 2
        assert stages["romance"].unseen == ("el",)
        assert stages["diverse"].unseen == ("fr",)


@pytest.mark.parametrize("unseen", [SETS, "{together: [es, fr]}"])
def test_none_shares_its_evaluations_with_a_grid_that_names_the_language(tmp_path, unseen):
    own = "languages: [es, fr, el], "
    tasks = tuple(t.replace("{", "{" + own, 1) for t in (POS.format("last"), TWO, WORDS))
    whole = planned(tmp_path / "whole", "{together: [es, fr, el]}", tasks=tasks)
    other = planned(tmp_path / "unseen", unseen, tasks=tasks)
    for task in ("pos", "two", "words"):
        shared = {*evaluated(other, "none", task).values()}
        assert shared == {*evaluated(whole, "none", task).values()}


def test_an_evaluation_is_not_shared_where_aligned_languages_choose_its_weights(tmp_path):
    plan = planned(tmp_path, tasks=(POS.format("mean-dev"),))
    assert len({*evaluated(plan, "none", "pos").values()}) == 2


def test_no_model_trains_on_held_out_sentences_of_another_set_or_an_unseen_language(tmp_path):
    tasks = ("words: {kind: retrieval, languages: [es, fr, el, bg]}",)
    plan = planned(tmp_path, tasks=tasks, methods=("finetune: {}",))
    left_out = {
        str(stage.params["lang"]): {name.partition("/")[2] for name in stage.inputs}
        for stage in plan.stages.values()
        if stage.kind == "bitext" and stage.params["part"] == "training"
    }
    every = {"es", "fr", "el", "bg"}
    assert left_out == {lang: every - {lang} for lang in every}


def test_a_set_is_a_point_of_the_axis(tmp_path):
    plan = planned(tmp_path, more="exclude: [{method: rotation, languages: romance}]\n")
    names = [(trial.method, trial.params["languages"], trial.languages) for trial in plan.trials]
    assert names == [
        ("none", "romance", ("es", "fr")),
        ("none", "diverse", ("es", "el")),
        ("rotation", "diverse", ("es", "el")),
    ]
    (trial,) = select(plan, only="languages=diverse,method=none").trials
    assert trial.languages == ("es", "el")
    assert PlanRuns(plan).trial(trial).params["languages"] == "diverse"
    assert PlanRuns(plan).trial(trial).tags["raxalign.languages"] == "es el"
    assert PlanRuns(plan).cell(trial).params["languages"] == "diverse"
    assert {t.params["languages"] for t in select(plan, only="language=fr").trials} == {"romance"}
    assert named_in(tmp_path / "grid.yaml")["languages"] == ("romance", "diverse")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    claims = (
        "claims:\n  - rotation > none in two\n"
        "  - rotation languages=romance > rotation languages=diverse in two\n"
    )
    return run_all(write_grid(folder, **{**GIVEN, "tasks": (TWO,), "more": claims}))


def test_readouts_that_sets_share_are_those_of_a_fit_of_all(ran, tmp_path):
    parts = {"languages": "{together: [es, fr]}", "methods": ("rotation: {}",), "tasks": (TWO,)}
    whole = planned(tmp_path, **parts)
    (trial,) = whole.trials
    workshop = Workshop(whole, Storage(str(tmp_path / "storage")), Runtime())
    fitted = workshop.ensure(trial.aligned)
    joined = next(t for t in ran.plan.trials if t.method == "rotation" and "fr" in t.languages)
    assert list(ran.plan.stages[joined.aligned].prepared) == ["fit/es"]
    shared = Path(ran.storage.artifacts.folder("aligned", joined.aligned))
    for name in ("transforms.safetensors", "transforms.json"):
        assert (shared / name).read_bytes() == (fitted / name).read_bytes()


def by_name(opened):
    plan = opened.plan
    found = Cell.grouped(rows(plan, opened.storage.ledger), plan.pivot, plan.measured)
    return {plan.cell_name(cell): cell for cell in found}


def test_means_are_those_of_the_set(ran):
    found = {name: cell.values for name, cell in by_name(ran).items()}
    assert [*found] == [
        f"{method} languages={name}"
        for name in ("romance", "diverse")
        for method in ("none", "rotation")
    ]
    romance, diverse = (
        {n[1]: v.mean for n, v in found[name].items() if n[2:] == ("accuracy", "test")}
        for name in ("none languages=romance", "none languages=diverse")
    )
    assert romance["avg"] == pytest.approx((romance["es-en"] + romance["fr-en"]) / 2)
    assert diverse["avg"] == pytest.approx((diverse["es-en"] + diverse["el-en"]) / 2)
    assert romance["avg_unseen"] == romance["el-en"] == diverse["el-en"]
    assert romance["avg_all"] == diverse["avg_all"], "one evaluation, the same languages"
    stored = {
        row["params"]["languages"]: row["value"]
        for row in rows(ran.plan, ran.storage.ledger)
        if row["method"] == "none"
        and (row["lang"], row["metric"], row["split"]) == ("avg", "accuracy", "test")
    }
    assert stored == pytest.approx({"romance": romance["avg"], "diverse": diverse["avg"]})


def test_a_set_is_compared_with_its_own_baseline_or_with_another_that_is_named(ran):
    plan, ledger, found = ran.plan, ran.storage.ledger, by_name(ran)
    own = comparisons(list(found.values()), plan, ledger)
    assert {entry.cell.set == entry.baseline.set for entry in own if entry.baseline} == {True}
    assert not any(row["unseen"] for row in ComparisonTables(own, plan).rows()), (
        "all are left as they are"
    )
    left = {(e.cell.set, e.name[1]) for e in own if e.untested == LEFT}
    assert left >= {("romance", "el-en"), ("diverse", "fr-en"), ("diverse", "avg_unseen")}
    romance, diverse = (found[f"rotation languages={name}"] for name in ("romance", "diverse"))
    name = ("two", Cell.ALL_TARGETS, "accuracy", "test")
    across = comparisons(list(found.values()), plan, ledger, baseline=plan.cell_name(romance))
    (mean,) = (entry for entry in across if entry.cell is diverse and entry.name == name)
    assert mean.baseline is romance
    assert mean.tested
    assert mean.difference == pytest.approx(diverse.values[name].mean - romance.values[name].mean)


def test_a_claim_is_within_each_set_or_between_two(ran):
    within, between = JudgedClaim.all_in(ran)
    assert [test.entry.cell.set for test in within.tests] == ["romance", "diverse"]
    (test,) = between.tests
    assert (test.entry.cell.set, test.entry.baseline.set) == ("romance", "diverse")
    assert test.entry.name[1] == Cell.ALL_TARGETS


def test_tables_mark_languages_outside_the_set(ran):
    plan, found = ran.plan, rows(ran.plan, ran.storage.ledger)
    text = as_text(blocks(found, plan))
    assert text.count("°") == 4 + 1, "one per line, and the legend"
    ((_, table),) = short_tables(Scoreboard.of(found, plan))
    assert "fr-en" in table.columns, "it is in some set"
    assert [sum("°" in entry.text for entry in line.entries) for line in table.lines] == [1] * 4
    assert "languages=" in stored_answer(plan, ran.storage.ledger)


@pytest.mark.parametrize(
    ("languages", "told"),
    [
        ("{sets: {}}", "languages.sets: no set is named"),
        ("{sets: [de, fr]}", "is not a mapping of sets"),
        ("{sets: {one: []}}", "languages.sets.one: no language is named"),
        ("{sets: {one: [de, de]}}", "'de' is given twice"),
        ("{sets: {one: [de, en]}}", "'en' is the pivot"),
        ("{sets: {one: [de, fr], two: [fr, de]}}", "has the same languages as the set one"),
        ("{sets: {de: [de, fr]}}", "a set is called 'de', which is a language of the grid"),
        ("{sets: {a b: [de, fr]}}", "'a b' is not a valid name"),
        ("{sets: {one: [de]}, each: [fr]}", "both `each` and `sets`"),
        ("{sets: {one: [de], two: [deu]}}", "'deu' and 'de' are the same language"),
        ("{set: {one: [de]}}", "did you mean sets?"),
    ],
)
def test_sets_that_cannot_be_are_refused(tmp_path, languages, told):
    with pytest.raises(GridError) as raised:
        planned(tmp_path, languages)
    assert told in str(raised.value)


def test_the_file_that_a_corpus_lacks_of_an_unseen_language_is_named(tmp_path):
    for side in ("de", "en"):
        (tmp_path / f"de-en.{side}").write_text("x\n" * 200, encoding="utf-8")
    path = write_grid(tmp_path, languages="{together: [de]}", sentences="[60]", tasks=(WORDS,))
    text = path.read_text(encoding="utf-8")
    text = text.replace("  size: 400\n", "").replace(
        "phrasebook", 'moses\n  path: "{lang}-{pivot}"'
    )
    path.write_text(text.replace("{kind: retrieval}", "{kind: retrieval, languages: [de, sw]}"))
    with pytest.raises(DataError) as raised:
        open_grid(path)
    assert "sw-en.sw" in str(raised.value)
    assert "sw-en.en" in str(raised.value)


def test_the_studies_of_a_set_may_be_chosen_by_its_name(tmp_path):
    search = "search: {metric: two/avg/accuracy, trials: 2}\n"
    methods = ("none: {}", "finetune: {lambda: {uniform: [0, 1]}}")
    plan = planned(tmp_path, tasks=(TWO,), methods=methods, more=search)
    chosen, (study,) = choose(plan, only="languages=diverse")
    assert study.languages == ("es", "el")
    assert [trial.params["languages"] for trial in chosen.trials] == ["diverse"]


def test_a_set_of_one_language_may_have_its_name(tmp_path):
    plan = planned(tmp_path, "{sets: {de: [de], both: [de, fr]}}")
    assert {trial.params["languages"] for trial in plan.trials} == {"de", "both"}


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        (
            {"languages": "{sets: {one: [es, ja]}}", "tasks": (TWO,)},
            "line 5: languages: the phrasebook has no ja; it has",
        ),
        (
            {"tasks": ("words: {kind: retrieval, languages: [es, sw]}",)},
            "tasks.words.languages: the phrasebook has no sw; it has",
        ),
        ({"tasks": (POS.format("target-dev"),)}, "the set romance leaves el unaligned, and `selec"),
        ({"more": "claims: ['none languages=x > rotation in two']\n"}, "unknown set of languages"),
        ({"more": "exclude: [{languages: germanic}]\n"}, "is not in `languages` of this"),
    ],
)
def test_what_does_not_go_with_sets_is_refused(tmp_path, parts, told):
    with pytest.raises(GridError) as raised:
        planned(tmp_path, **parts)
    assert told in str(raised.value)
