"""Comparisons of a grid: with what, over which runs, corrected over which tests, and the reasons
where nothing can be tested.
"""

from collections import defaultdict
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

from raxalign.analysis.cells import Cell
from raxalign.analysis.significance import Runs, holm
from raxalign.catalog import catalog
from raxalign.errors import DamagedArtifact, RaxalignError
from raxalign.tasks.retrieval import Retrieval
from raxalign.values.comparisons import (
    NO_PREDICTIONS,
    OTHER_LANGUAGES,
    comparisons,
    fallen,
)
from raxalign.values.predictions import Predictions
from raxalign.values.results import rows
from tests.grids import small_plan
from tests.ledgers import made_up, nli, words

GRID = {"languages": "{together: [de, fr]}", "sentences": "100", "seeds": "[0, 1]"}
GRID |= {"tasks": ("retrieval: {}", "xnli: {setting: zero-shot, data: phrasebook}")}
GRID["methods"] = ("none: {}", "rotation: {center: [false, true]}", "finetune: {batch_size: 16}")


WORDS, XNLI = ("retrieval", "contextual_accuracy", "test"), ("xnli", "accuracy", "test")


def compared(opened, ledger, baseline=None, **asked):
    found = rows(opened.plan, ledger or opened.storage.ledger)
    made = cells_of(opened, found)
    return comparisons(made, opened.plan, ledger, baseline=baseline, **asked)


def cells_of(opened, found):
    return Cell.grouped(found, opened.plan.pivot, opened.plan.measured)


def one(found, opened, cell, task, lang):
    (entry,) = [
        entry
        for entry in found
        if opened.plan.cell_name(entry.cell) == cell
        and entry.name[:2] == (task, lang)
        and entry.name[2] in ("accuracy", "contextual_accuracy")
    ]
    return entry


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_up(tmp_path_factory.mktemp("grid"), **GRID)


@pytest.fixture(scope="module")
def found(made):
    return compared(*made)


def test_chance_is_what_the_plan_says_and_not_how_many_seeds_there_are(tmp_path):
    plan = small_plan(tmp_path, **{**GRID, "seeds": "[0]"})
    chance = Predictions(plan, None)
    trials = {trial.method: trial.evaluations for trial in plan.trials}
    found = {method: chance.has_chance(keys["retrieval"]) for method, keys in trials.items()}
    assert found == {"none": False, "rotation": False, "finetune": True}
    assert all(chance.has_chance(keys["xnli"]) for keys in trials.values())
    trained = {m: plan.stages[keys["xnli"]].inputs["trained"] for m, keys in trials.items()}
    assert trained["none"] == trained["rotation"] != trained["finetune"]


def test_links_of_a_word_aligner_without_a_seed_are_chance_and_the_pairs_of_the_test_are_not(
    tmp_path,
):
    plan = small_plan(tmp_path, **{**GRID, "seeds": "[0]", "aligner": "eflomal"})
    trials = {trial.method: trial.evaluations["retrieval"] for trial in plan.trials}
    found = {method: Predictions(plan, None).has_chance(key) for method, key in trials.items()}
    assert found == {"none": False, "rotation": True, "finetune": True}


def test_every_value_is_compared_with_the_encoder_as_it_was(found):
    own = [entry for entry in found if entry.cell.method == "none"]
    assert {entry.baseline for entry in own} == {None}
    assert {entry.verdict for entry in own} == {None}
    others = [entry for entry in found if entry.cell.method != "none"]
    assert {entry.baseline.method for entry in others if entry.baseline} == {"none"}
    langs = {"de-en", "fr-en", "en", "de", "fr", "avg", "avg_zero_shot"}
    assert {entry.name[1] for entry in others} == langs, "the means too"
    for entry in others:
        apart = entry.value.mean - entry.baseline_value.mean
        assert entry.comparison.difference == pytest.approx(apart)


def test_runs_of_one_training_are_paired_and_others_are_not(made, found):
    pairs = {
        (cell, task): entry.comparison.paired
        for cell in ("rotation center=true", "finetune")
        for task, lang in (("xnli", "avg"), ("retrieval", "de-en"))
        if (entry := one(found, made[0], cell, task, lang)).comparison
    }
    assert pairs.pop(("rotation center=true", "xnli"))
    assert set(pairs.values()) == {False}
    assert len(pairs) == 3


def test_holm_is_over_all_that_one_table_shows(found):
    tables = defaultdict(list)
    for entry in found:
        if entry.comparison is not None:
            tables[entry.name[0], entry.name[2], entry.name[3]].append(entry)
    family = tables["xnli", "accuracy", "test"]
    assert len(family) == 3 * 5  # two rotations and finetune; three languages and two means
    adjusted = holm([entry.comparison.p for entry in family])
    assert [entry.p_adjusted for entry in family] == adjusted
    for entry, p in zip(family, adjusted, strict=True):
        assert entry.comparison.p is not None
        unmarked = "not after correction" if entry.comparison.p < 0.05 else "cannot tell"
        marked = "better" if entry.comparison.difference > 0 else "worse"
        assert entry.verdict == (unmarked if p >= 0.05 else marked)


def test_no_difference_is_said_where_the_interval_lies_within_what_matters(made, found):
    wide, narrow = compared(*made, equivalence=500.0), compared(*made, equivalence=0.001)
    for plain, loose, strict in zip(found, wide, narrow, strict=True):
        assert plain.verdict != "no difference", "the words are not used unless asked for"
        if plain.verdict in ("better", "worse", None) or not plain.tested:
            assert loose.verdict == plain.verdict
        else:
            assert (loose.verdict, loose.says) == ("no difference", "no difference above 500")
            assert loose.margin == pytest.approx(5.0), "in the unit of the stored values"
        test = strict.comparison
        sure = test is not None and test.low == test.high == 0.0
        assert (strict.verdict == "no difference") == (sure and strict.tested)


def test_what_cannot_be_told_says_what_could_have_been_seen(found):
    untold = [e for e in found if e.verdict == "cannot tell" and e.tested and e.detectable]
    assert untold
    for entry in untold:
        assert entry.comparison.high is not None
        assert entry.detectable is not None
        half = entry.comparison.high - entry.comparison.difference
        assert entry.detectable > half, "half of the interval is seen half of the time"
        few = entry.detectable > 1
        many = f"cannot tell (MDE {100 * entry.detectable:.2g})"
        assert entry.says == ("cannot tell (too few runs and examples)" if few else many)


def test_a_mean_over_languages_is_tested_for_languages_like_these_where_there_are_four(
    made, found, tmp_path
):
    few = one(found, made[0], "finetune", "xnli", "avg")
    assert few.over_languages.untested.startswith("fewer than 4 languages")
    assert one(found, made[0], "finetune", "xnli", "de").over_languages is None
    larger = {**GRID, "languages": "{together: [de, fr, es, bg]}"}
    opened, ledger = made_up(tmp_path, **larger)
    several = one(compared(opened, ledger, tables={WORDS}), opened, "finetune", "retrieval", "avg")
    sample, test = several.over_languages, several.comparison
    assert sample.languages == 4
    assert sample.difference == pytest.approx(test.difference)
    assert None not in (sample.low, sample.high, test.low, test.high)
    assert sample.low < sample.difference < sample.high


def test_all_pairs_are_compared_once_with_one_correction(made, found):
    opened, _ = made
    pairs = compared(*made, baseline="all")
    methods = {opened.plan.cell_name(entry.cell) for entry in found}
    whole = [entry for entry in pairs if entry.name[:2] == ("xnli", "avg")]
    against = {
        frozenset(opened.plan.cell_name(cell) for cell in (entry.cell, entry.baseline) if cell)
        for entry in whole
    }
    assert len(whole) == len(against) == len(methods) * (len(methods) - 1) / 2
    table = [entry for entry in pairs if entry.name[0] == "xnli" and entry.tested]
    adjusted = holm([entry.comparison.p for entry in table])
    assert [entry.p_adjusted for entry in table] == adjusted
    ordinary = {opened.plan.cell_name(e.cell): e for e in found if e.name == whole[0].name}
    for entry in whole:
        if entry.baseline is not None and entry.baseline.method == "none":
            same = ordinary[opened.plan.cell_name(entry.cell)]
            assert entry.comparison == same.comparison


def test_an_interval_without_0_is_never_beside_cannot_tell(tmp_path):
    """Skills that differ by little: some differences are seen one by one, and not in the table."""
    opened, ledger = filled(tmp_path, {"none": 0.5, "rotation": 0.7, "finetune": 0.58}, "[0, 1, 2]")
    verdicts = defaultdict(set)
    for entry in compared(opened, ledger):
        found = entry.comparison
        if found is not None and found.low is not None and found.high is not None:
            verdicts[found.low > 0 or found.high < 0].add(entry.verdict)
    assert verdicts[False] == {"cannot tell"}
    assert verdicts[True] == {"better", "not after correction"}


def test_some_tables_alone_are_judged_as_among_all(made, found):
    opened, ledger = made
    whole = cells_of(opened, rows(opened.plan, ledger))
    alone = comparisons(whole, opened.plan, ledger, tables={XNLI})
    wanted = [entry for entry in found if (entry.name[0], *entry.name[2:]) == XNLI]
    facts = attrgetter("name", "p_adjusted", "verdict")
    assert list(map(facts, alone)) == list(map(facts, wanted))


def test_one_run_of_something_with_chance_cannot_be_told(tmp_path):
    opened, ledger = made_up(tmp_path, **{**GRID, "seeds": "[0]"})
    found = compared(opened, ledger, tables={WORDS, XNLI})
    trained = one(found, opened, "finetune", "retrieval", "de-en")
    assert (trained.interval, trained.p_adjusted) == (None, None)
    assert (trained.verdict, trained.untested) == ("cannot tell", Runs.ONE_RUN)
    assert one(found, opened, "rotation center=true", "xnli", "de").untested == Runs.ONE_RUN
    closed_form = one(found, opened, "rotation center=true", "retrieval", "de-en")
    assert closed_form.interval is not None
    assert closed_form.p_adjusted is not None


def test_another_baseline_is_named_as_in_the_tables(made):
    opened, ledger = made
    found = compared(opened, ledger, "Rotation center=TRUE", tables={XNLI})
    assert one(found, opened, "rotation center=true", "xnli", "de").baseline is None
    entry = one(found, opened, "finetune", "xnli", "de")
    assert opened.plan.cell_name(entry.baseline) == "rotation center=true"
    assert entry.baseline.sentences == entry.cell.sentences == 100
    against = one(found, opened, "none", "xnli", "de")
    assert against.comparison.paired
    for name, told in (
        ("rotation", "any of: rotation center=false, rotation center=true; name one"),
        ("rotatoin", "no result is called 'rotatoin'; there are: none, rotation center=false"),
    ):
        with pytest.raises(RaxalignError, match=told):
            compared(opened, ledger, name)


def test_without_a_baseline_or_predictions_nothing_is_told(made, tmp_path):
    rotations = {**GRID, "methods": ("rotation: {center: [false, true]}",)}
    opened, ledger = made_up(tmp_path, **rotations)
    alone = compared(opened, ledger)
    assert {(entry.baseline, entry.verdict) for entry in alone} == {(None, None)}
    assert all(entry.interval for entry in alone)
    unread = [entry for entry in compared(made[0], None) if entry.cell.method != "none"]
    assert {(entry.interval, entry.verdict, entry.untested) for entry in unread} == {
        (None, "cannot tell", NO_PREDICTIONS)
    }


def filled(folder, skills, seeds):
    """Results whose accuracies are about the skills of the methods (XNLI's pivot a quarter
    more).
    """

    def write(ledger, opened, trial, key):
        rng, task = np.random.default_rng(int(key[:8], 16)), opened.plan.stages[key].maker
        make, pivot = (nli, ("en",)) if task == "xnli" else (words, ())
        scores, table = make((*pivot, *trial.languages), skills[trial.method], rng)
        ledger.write(key, {"scores": scores, "params": {}, "task": task}, table)

    return made_up(folder, write, **{**GRID, "seeds": seeds})


@pytest.mark.parametrize("seeds", ["[0]", "[0, 1, 2]"])
def test_a_classifier_that_may_be_guessing_is_marked_even_after_one_run(tmp_path, seeds):
    opened, ledger = filled(tmp_path, {"none": 0.31, "rotation": 0.6, "finetune": 0.6}, seeds)
    found = compared(opened, ledger, tables={WORDS, XNLI})
    assert catalog("tasks")["xnli"].guessing == 1 / 3
    assert one(found, opened, "none", "xnli", "de").at_chance
    assert not one(found, opened, "none", "xnli", "en").at_chance
    assert not one(found, opened, "finetune", "xnli", "de").at_chance
    retrieval = [entry.at_chance for entry in found if entry.name[0] == "retrieval"]
    assert not any(retrieval), "it has no labels to guess among"


def test_a_language_that_falls_far_below_the_encoder_as_it_was_is_told(tmp_path):
    opened, ledger = filled(tmp_path, {"none": 0.8, "rotation": 0.6, "finetune": 0.2}, "[0, 1, 2]")
    found = compared(opened, ledger, tables={WORDS})
    assert one(found, opened, "finetune", "retrieval", "de-en").falls_far
    mild = one(found, opened, "rotation center=true", "retrieval", "de-en")
    assert (mild.verdict, mild.falls_far) == ("worse", False)


def test_a_collapse_is_named_after_one_run_where_nothing_can_be_tested(tmp_path):
    opened, ledger = filled(tmp_path, {"none": 0.8, "rotation": 0.6, "finetune": 0.2}, "[0]")
    found = compared(opened, ledger, tables={WORDS})
    far = one(found, opened, "finetune", "retrieval", "de-en")
    assert (far.verdict, far.tested, far.falls_far) == ("cannot tell", False, True)
    assert not one(found, opened, "rotation center=true", "retrieval", "de-en").falls_far
    named = fallen(cells_of(opened, rows(opened.plan, ledger)), opened.plan)
    places = {(entry.cell.method, entry.name[0]) for entry in named}
    assert places == {("finetune", "retrieval"), ("finetune", "xnli")}
    assert {entry.name[1] for entry in named} <= {"de-en", "fr-en", "de", "fr", "en"}
    fewer = replace(far.measured, better="lower")
    assert not replace(far, measured=fewer).falls_far


def test_values_under_outdated_readouts_say_so_and_those_of_the_pivot_do_not(tmp_path):
    tasks = ("retrieval: {}", "xnli: {setting: zero-shot, data: phrasebook, readout: keep}")
    opened, ledger = made_up(tmp_path, **{**GRID, "tasks": tasks})
    found = {
        (entry.cell.method, *entry.name[:2]): entry.outdated
        for entry in compared(opened, ledger)
        if entry.outdated
    }
    moved = [("rotation", "xnli", lang) for lang in ("de", "fr", "avg", "avg_zero_shot")]
    assert found == dict.fromkeys(moved, "`readout: keep`")


def test_a_value_that_its_predictions_do_not_give_is_not_tested(tmp_path):
    def write(ledger, opened, trial, key):
        scores, table = words(trial.languages, 0.5, np.random.default_rng(0))
        for score in scores:
            score["value"] += 0.01 * (score["lang"] == "de-en")
        ledger.write(key, {"scores": scores, "params": {}, "task": "retrieval"}, table)

    opened, ledger = made_up(tmp_path, write, **{**GRID, "tasks": ("retrieval: {}",)})
    found = compared(opened, ledger)
    assert one(found, opened, "finetune", "retrieval", "de-en").untested == NO_PREDICTIONS
    assert one(found, opened, "finetune", "retrieval", "avg").untested == NO_PREDICTIONS
    assert one(found, opened, "finetune", "retrieval", "fr-en").untested == ""


@pytest.mark.parametrize("predicted", [True, False])
def test_means_over_other_languages_are_not_compared_nor_subtracted(tmp_path, predicted):
    opened, ledger = made_up(
        tmp_path, **{**GRID, "languages": "{each: [de, fr, es]}", "tasks": ("retrieval: {}",)}
    )
    left_out = ("rotation", ["es"])
    every = rows(opened.plan, ledger)
    there = [row for row in every if (row["method"], row["languages"]) != left_out]
    found = comparisons(cells_of(opened, there), opened.plan, ledger if predicted else None)
    mean = one(found, opened, "rotation center=true", "retrieval", "avg")
    assert (mean.comparison, mean.difference) == (None, None)
    assert (mean.verdict, mean.untested) == (None, OTHER_LANGUAGES)
    assert (mean.interval is not None) is predicted
    other = one(found, opened, "finetune", "retrieval", "avg")
    assert other.untested == ("" if predicted else NO_PREDICTIONS)
    assert other.difference is not None


def test_means_are_tested_in_whatever_order_the_seeds_come(tmp_path):
    opened, ledger = made_up(tmp_path, **{**GRID, "seeds": "[2, 10]", "tasks": ("retrieval: {}",)})
    mean = one(compared(opened, ledger, tables={WORDS}), opened, "finetune", "retrieval", "avg")
    assert (mean.untested, mean.value.n) == ("", 2)


def test_where_the_task_declares_lower_as_better_the_smaller_value_is_called_better(
    tmp_path, monkeypatch
):
    opened, ledger = made_up(tmp_path, **{**GRID, "seeds": "[0, 1, 2, 3, 4]"})

    def verdicts():
        return [
            entry.verdict
            for entry in compared(opened, ledger, tables={WORDS})
            if entry.name[1] == "de-en"
        ]

    usual = verdicts()
    opened.plan._measured.clear()
    turned = {"higher": "lower"}
    lower = [replace(one, better=turned.get(one.better, one.better)) for one in Retrieval.metrics]
    monkeypatch.setattr(Retrieval, "metrics", tuple(lower))
    turned = {"better": "worse", "worse": "better"}
    assert "better" in usual
    assert verdicts() == [turned.get(verdict or "", verdict) for verdict in usual]


def test_damaged_predictions_are_named_and_nothing_is_tested_with_them(tmp_path):
    opened, ledger = made_up(tmp_path, **GRID)
    key = next(t.evaluations["retrieval"] for t in opened.plan.trials if t.method == "none")
    found = rows(opened.plan, ledger)
    Path(opened.root, "ledger", key, "predictions.parquet").write_bytes(b"no table")
    with pytest.raises(DamagedArtifact, match=r"predictions\.parquet"):
        comparisons(cells_of(opened, found), opened.plan, ledger)
    again = compared(opened, ledger)
    assert ("none", "retrieval") not in {(entry.cell.method, entry.name[0]) for entry in again}
    left = one(again, opened, "finetune", "retrieval", "de-en")
    assert left.interval is not None
    assert left.comparison is None
