"""What a plan can see: measured where two runs are there, else assumed, and what more seeds do."""

import itertools
from dataclasses import replace

import pytest

from raxalign.analysis.cells import Cell
from raxalign.analysis.power import Assumed, Design
from raxalign.grid.load import choose, open_grid
from raxalign.store.storage import Storage
from raxalign.values.comparisons import comparisons
from raxalign.values.power import (
    ASSUMED,
    ASSUMED_RUNS,
    MEASURED,
    SEEN,
    PlannedSides,
    planned_comparisons,
    planned_sides,
    power_lines,
    power_text,
)
from raxalign.values.results import rows
from tests.grids import small_plan, write_grid
from tests.ledgers import made_up
from tests.ran import ran

GRID = {"languages": "{together: [de, fr]}", "sentences": "100"}
GRID |= {"methods": ("none: {}", "rotation: {}", "finetune: {batch_size: 16}")}
GRID |= {"tasks": ("retrieval: {}", "xnli: {setting: zero-shot, data: phrasebook}")}
GIVEN = Assumed(run_sd=(0.5,))


def names_tested(opened):
    """The names of what the tables of main metrics test."""
    plan, ledger = opened.plan, opened.storage.ledger.without_looks()
    cells = Cell.grouped(rows(plan, ledger), plan.pivot, plan.measured)
    found = [entry for entry in comparisons(cells, plan, ledger) if entry.tested]
    return [e.name for e in found if e.name[2] == plan.main_metric(e.name[0])]


def planned(opened, given=GIVEN):
    found = planned_comparisons(opened.plan, opened.storage, given)
    return {(one.sides.name.split()[0], one.sides.task): one for one in found}


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    return made_up(tmp_path_factory.mktemp("two"), **GRID, seeds="[0, 1]")[0]


@pytest.fixture(scope="module")
def five_runs(two_runs, tmp_path_factory):
    """The same grid with five seeds, of which two have run."""
    path = write_grid(tmp_path_factory.mktemp("five"), **GRID, seeds="[0, 1, 2, 3, 4]")
    return open_grid(path, storage=two_runs.root)


def test_each_method_and_task_is_compared_with_the_baseline(two_runs):
    found = planned(two_runs)
    assert set(found) == {
        (method, task) for method in ("rotation", "finetune") for task in ("retrieval", "xnli")
    }
    sources = {key: one.source for key, one in found.items()}
    assert sources.pop(("rotation", "retrieval")) == MEASURED, "nothing is trained"
    assert set(sources.values()) == {ASSUMED_RUNS}, "two runs do not show how much they differ"
    runs = {key: one.sides.runs for key, one in found.items()}
    assert runs == {
        ("rotation", "retrieval"): (),
        ("finetune", "retrieval"): (2,),
        ("rotation", "xnli"): (2,),  # of one training: compared in pairs
        ("finetune", "xnli"): (2, 2),
    }


def test_each_set_of_languages_is_compared_with_the_baseline_of_its_own(tmp_path):
    sets = {**GRID, "languages": "{sets: {one: [de], both: [de, fr]}}"}
    plan = small_plan(tmp_path, **sets)
    found = [(one.name, one.trials[0].params["languages"]) for one in planned_sides(plan)]
    assert {name.split()[0] for name, _ in found} == {"rotation", "finetune"}
    assert len(found) == 8


def test_a_task_that_one_language_alone_has_is_compared_in_that_language(tmp_path):
    own = "xnli: {languages: [de], setting: zero-shot, data: phrasebook}"
    parts = {**GRID, "languages": "{each: [de, fr]}", "tasks": ("retrieval: {}", own)}
    sides = planned_sides(small_plan(tmp_path, **parts))
    found = {(one.name.split()[0], one.task): one.chance for one in sides}
    assert found == {
        ("rotation", "retrieval"): (False, False),
        ("finetune", "retrieval"): (True, False),
        ("rotation", "xnli"): (True,),
        ("finetune", "xnli"): (True, True),
    }


def test_more_seeds_see_smaller_differences(two_runs, five_runs):
    few = planned(two_runs)
    for key, one in planned(five_runs).items():
        before = few[key].smallest
        assert one.smallest is not None
        assert before is not None
        if one.sides.runs:
            assert one.sides.runs == (5,) * len(one.sides.runs)
            assert one.smallest < before
        else:
            assert one.smallest == pytest.approx(before)


def test_one_run_shows_the_examples_and_none_shows_nothing(tmp_path):
    opened, _ = made_up(tmp_path, **GRID, seeds="[0]")
    one = planned(opened)
    assert one["rotation", "retrieval"].source == MEASURED
    assert one["finetune", "xnli"].source == ASSUMED_RUNS
    wide = planned(opened, Assumed(run_sd=(5.0,)))
    assert wide["finetune", "xnli"].spread.trained[0].between == pytest.approx(0.05**2 / 2), (
        "two runs at least"
    )
    empty = planned_comparisons(opened.plan, Storage(str(tmp_path / "empty")), GIVEN)
    assert {one.source for one in empty} == {ASSUMED}
    *_, last = power_lines(empty, GIVEN, 1.0)
    assert last.startswith("assumed where fewer than 5 runs were measured: runs differ by 0.5")


def test_a_difference_is_found_takes_more_seeds_or_is_beyond_them(two_runs):
    found = planned_comparisons(two_runs.plan, two_runs.storage, GIVEN)

    def told(effect):
        return {line.split("; ")[1] for line in power_lines(found, GIVEN, effect) if "; a" in line}

    tables = [f"among {count} comparisons" for count in (6, 10)]
    assert told(1e6) == {f"a difference of 1e+06 {table} is found" for table in tables}
    never = "is detected by no number of runs"
    assert told(0.01) == {f"a difference of 0.01 {table} {never}" for table in tables}


@pytest.mark.parametrize("sides", [0, 1, 2])
def test_what_is_assumed_before_a_first_run_is_what_the_closed_form_gives(sides):
    given = Assumed(run_sd=((0.0,), (0.5, 0.0), (0.5, 0.5))[sides])
    for runs in range(2, 14 if sides else 3):
        planned = PlannedSides("pos", "accuracy", (), (True,) * sides, (runs,) * sides, "finetune")
        exact = Assumed.POINTS * Design.of(given.spread(min(runs, 10))).smallest()
        assert planned.assumed == pytest.approx(exact, abs=0.0051), "beyond 10 runs: that of 10"
    one = PlannedSides("pos", "accuracy", (), (True,), (1,), "finetune")
    assert one.assumed is None, "a single run is not tested"


def test_a_plan_counts_the_comparisons_that_its_tables_will_have(two_runs):
    """For two methods: two languages and their mean, and at a task that is trained the pivot and
    the mean without it.
    """
    for sides in planned_sides(two_runs.plan):
        count = {"retrieval": 6, "xnli": 10}[sides.task]
        names = [name for name in names_tested(two_runs) if name[0] == sides.task]
        assert sides.among == len(names) == count


def test_every_pair_of_languages_of_a_setting_across_them_is_counted(tmp_path):
    """Two languages and the pivot: nine pairs, their mean and that without the pivot's own; with
    one that is not aligned seven more pairs and their mean, of which a map changes all but one.
    """
    task = "mlqa: {setting: g-xlt, data: phrasebook, selection: last"
    parts = {**GRID, "seeds": "[0, 1]"}

    def counts(tasks):
        return [one.compared for one in planned_sides(small_plan(tmp_path, **parts, tasks=tasks))]

    del parts["tasks"]
    assert counts((f"{task}}}",)) == [11, 11]
    assert counts((f"{task}, languages: [de, fr, es]}}",)) == [18, 19]


def test_comparisons_that_no_table_will_have_are_not_counted(tmp_path):
    """Of what no method aligns a map changes nothing, and one run is not tested."""
    own = "retrieval: {languages: [de, fr, es]}"
    parts = {**GRID, "tasks": (own,), "seeds": "[0, 1]"}
    counts = [sides.compared for sides in planned_sides(small_plan(tmp_path, **parts))]
    assert counts == [3, 5], "a map of de, fr; fine-tuning, with es and its mean"
    one = small_plan(tmp_path, **{**parts, "seeds": "[0]"})
    assert {sides.among for sides in planned_sides(one)} == {3}


def test_of_sets_of_languages_the_mean_over_all_sets_is_counted_too(tmp_path):
    own = {"encoder": "phrasebook", "size": 200, "sentences": "[60]"}
    sets = {"languages": "{sets: {one: [de], both: [de, fr]}}"}
    methods = ("none: {}", "rotation: {}")
    opened = ran(write_grid(tmp_path, **own, **sets, methods=methods, tasks=("retrieval: {}",)))
    one, both = planned_sides(opened.plan)
    assert (one.compared, both.compared) == (3, 4), "fr is left as it is by a map of de"
    assert one.among == len(names_tested(opened)) == 7


def test_a_part_of_a_plan_is_compared_in_the_tables_of_the_whole(two_runs):
    part, _ = choose(two_runs.plan, only="seed=0")
    whole = {sides.task: sides.among for sides in planned_sides(part, two_runs.plan)}
    assert whole == {"retrieval": 6, "xnli": 10}
    alone = {sides.task: sides.among for sides in planned_sides(part)}
    assert alone == {"retrieval": 3, "xnli": 1}, "of one run, that of the map alone is tested"


@pytest.mark.parametrize("sides", [0, 1, 2])
def test_what_the_correction_makes_of_a_smallest_difference_is_near_the_closed_form(sides):
    sds = ((0.0,), (0.5, 0.0), (0.5, 0.5))[sides]
    for runs, among in itertools.product(range(2, 12) if sides else [2], (1, 6, 48, 432, 1500)):
        planned = PlannedSides(
            "pos", "accuracy", (), (True,) * sides, (runs,) * sides, "", None, 1, among
        )
        for examples in (100, 1_000, 10_000):
            spread = Assumed(examples=(examples,), run_sd=sds).spread(runs)
            exact = Design.of(spread, among).smallest() / Design.of(spread).smallest()
            assert 0.65 < planned.harder / exact < 1.35, (runs, among, examples)


def test_a_plan_says_what_the_correction_costs_few_runs(tmp_path):
    parts = {**GRID, "tasks": ("retrieval: {}",), "seeds": "[0, 1, 2]"}
    opened = open_grid(write_grid(tmp_path, **parts), storage=str(tmp_path / "empty"))
    *_, told, assumed = power_text(opened, opened.plan, None, 0.5).splitlines()
    assert told == (
        "  retrieval: Holm's correction over up to 6 comparisons multiplies these by about 1.2"
        " (nothing trained), 2 (3 runs), if no other is significant"
    )
    assert assumed.startswith("assumed: ")


def test_a_claim_of_one_run_has_no_minimum_detectable_effect(tmp_path):
    parts = {**GRID, "tasks": ("retrieval: {}",), "methods": ("none: {}", "finetune: {}")}
    parts |= {"more": "claims: [finetune > none in retrieval]\n"}
    for seeds, said in (
        (1, "one run is not tested"),
        (2, "minimum detectable effect (80 % power)"),
    ):
        own = {**parts, "seeds": f"[{', '.join(map(str, range(seeds)))}]"}
        (folder := tmp_path / f"{seeds}").mkdir()
        opened, _ = made_up(folder, **own)
        told = power_text(opened, opened.plan, None, 0.5)
        assert told.startswith(f"claim: finetune > none in retrieval ({said}")


def test_the_seeds_that_a_difference_takes_are_those_that_the_corrected_test_needs(two_runs):
    (one,) = [
        one
        for one in planned_comparisons(two_runs.plan, two_runs.storage, GIVEN)
        if one.sides.task == "xnli" and one.sides.name.startswith("finetune")
    ]
    alone = replace(one, sides=replace(one.sides, among=1))
    effect = next(step / 100 for step in range(1, 100) if alone.more_runs_for(step / 100) == 1)
    assert (one.more_runs_for(effect) or 0) > 1


def test_a_plan_says_what_it_can_see_until_all_has_run(two_runs, five_runs, tmp_path):
    assert power_text(two_runs, two_runs.plan, None, 0.5) == ""
    assert MEASURED in power_text(five_runs, five_runs.plan, None, 0.5)
    new = open_grid(five_runs.grid.path, storage=str(tmp_path / "empty"))
    first, *lines, _, correction, assumed = power_text(new, new.plan, None, 0.5).splitlines()
    assert first == SEEN
    known = "3.5 with 5 and 5 runs and 600 examples"
    assert f"  xnli (accuracy), finetune with 100 pairs: {known}" in lines
    exact = Design.of(Assumed(examples=(600,)).spread(5)).smallest()
    assert 100 * exact == pytest.approx(3.5, abs=0.1), "with the plan's own number of examples"
    assert "Holm's correction over up to 10 comparisons" in correction
    assert assumed.startswith("assumed: runs differ by 0.5 points")
    given = power_text(new, new.plan, None, 5.0)
    assert "runs differ by 5 points (--run-sd)" in given
    assert first in given
    assert not set(lines) & set(given.splitlines())


def test_a_method_from_a_file_is_planned_like_any_other(tmp_path):
    code = "from raxalign.methods.centering import Centering as Whole\n\n\n"
    (tmp_path / "moved.py").write_text(f"{code}class Moved(Whole):\n    pass\n", encoding="utf-8")
    parts = {**GRID, "methods": ("none: {}", "moved: {}"), "more": "plugins: [moved.py]\n"}
    path = write_grid(tmp_path, **parts)
    found = planned(open_grid(path, storage=str(tmp_path / "storage")))
    assert ("moved", "retrieval") in found


def test_the_work_of_more_seeds_is_that_of_the_runs_that_were_made(two_runs, five_runs):
    few, many = (planned(one)["finetune", "retrieval"] for one in (two_runs, five_runs))
    assert few.seconds > 0
    assert many.seconds == pytest.approx(few.seconds), "three of five seeds have not run"
