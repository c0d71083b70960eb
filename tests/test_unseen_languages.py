"""Languages that no method has aligned, in tasks with data of their own: values as elsewhere, means
of their own, and no say in what is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from raxalign.analysis.cells import Cell
from raxalign.errors import GridError
from raxalign.grid.load import Opened, open_grid
from raxalign.report.answer import stored_answer
from raxalign.report.tables import short_tables
from raxalign.values.comparisons import LEFT, comparisons
from raxalign.values.power import planned_sides
from raxalign.values.results import DevMean, read_records, rows
from raxalign.values.scoreboard import Scoreboard
from tests.grids import TINY, write_grid
from tests.ran import ran

POS = (
    "pos: {{{languages}data: phrasebook, phrasebook: {{train: 30, dev: 15, test: 20}}, epochs: 1,"
    " selection: {selection}}}"
)


def grid(
    folder: Path, languages: str, own: str = "", *, selection: str = "pivot-dev", **parts: object
) -> Path:
    folder.mkdir(exist_ok=True)
    given = {
        "encoder": TINY,
        "languages": languages,
        "size": 200,
        "sentences": "[60]",
        "methods": ("none: {}", "rotation: {}"),
        "tasks": (POS.format(languages=own, selection=selection),),
    }
    return write_grid(folder, **{**given, **parts})  # type: ignore[arg-type]


def values(opened: Opened, method: str) -> dict[str, float]:
    """The test accuracy of a method by language."""
    found = rows(opened.plan, opened.storage.ledger)
    return {
        row["lang"]: row["value"]
        for row in found
        if (row["method"], row["metric"], row["split"]) == (method, "accuracy", "test")
    }


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    folder = tmp_path_factory.mktemp("unseen")
    return ran(grid(folder, "{together: [de, es]}", "languages: [de, es, fr, bg], "))


@pytest.mark.slow
def test_an_unseen_language_has_the_values_of_a_grid_that_names_it(tmp_path: Path) -> None:
    parts = {"encoder": "phrasebook", "methods": ("none: {}",)}
    unseen = grid(tmp_path / "unseen", "{together: [de]}", "languages: [de, fr], ", **parts)
    named = grid(tmp_path / "named", "{together: [de, fr]}", **parts)
    found, other = (values(ran(path), "none") for path in (unseen, named))
    assert (found["de"], found["fr"]) == (other["de"], other["fr"])


def test_readouts_leave_an_unseen_language_as_it_is(unseen: Opened) -> None:
    none, rotation = values(unseen, "none"), values(unseen, "rotation")
    assert {lang for lang in none if none[lang] != rotation[lang]} <= {
        "de",
        "es",
        "avg",
        "avg_zero_shot",
    }


def test_unseen_languages_have_a_mean_and_a_test_of_their_own(unseen: Opened) -> None:
    found = values(unseen, "none")
    assert found["avg_unseen"] == pytest.approx((found["fr"] + found["bg"]) / 2)
    assert found["avg_zero_shot"] == pytest.approx((found["de"] + found["es"]) / 2)
    assert found["avg"] == pytest.approx((found["de"] + found["es"] + found["en"]) / 3)
    plan, ledger = unseen.plan, unseen.storage.ledger
    every = Cell.grouped(rows(plan, ledger), plan.pivot, plan.measured)
    assert {cell.unseen for cell in every} == {frozenset({"fr", "bg"})}
    name = ("pos", "avg_unseen", "accuracy", "test")
    assert every[0].values[name].mean == pytest.approx(found["avg_unseen"])
    found_by = [entry for entry in comparisons(every, plan, ledger) if entry.name == name]
    assert [entry.untested == LEFT for entry in found_by if entry.cell.method != "none"] == [True]
    assert not any(entry.baseline for entry in found_by), "by construction it is the baseline's"
    names = {e.name for e in comparisons(every, plan, ledger) if e.baseline is not None}
    (sides,) = planned_sides(plan)
    planned = [name for name in names if name[2:] == (sides.metric, "test")]
    assert sides.compared == len(planned) == 5, "de, es, en, and two means"
    told = "It changes nothing in languages that were not aligned (bg and fr)"
    assert told in stored_answer(plan, ledger)
    ((_, table),) = short_tables(Scoreboard.of(rows(plan, ledger), plan))
    heads = ("en", "de", "es", "bg, unseen", "fr, unseen", "mean")
    assert table.columns == (*heads, "mean, unseen", "mean, zero-shot")


def test_unseen_languages_are_in_the_key_of_their_evaluations_alone(unseen, tmp_path):
    mine, theirs = unseen.plan.stages, open_grid(grid(tmp_path, "{together: [de, es]}")).plan.stages
    apart = [stage for key, stage in {**mine, **theirs}.items() if (key in mine) != (key in theirs)]
    assert {stage.maker for stage in apart} == {"pos", "none"}
    assert {stage.kind for stage in apart} == {"evaluation", "aligned"}, "nothing that trains"


def test_a_task_for_unseen_languages_alone_is_evaluated_once_for_all_trials(tmp_path: Path) -> None:
    path = grid(tmp_path, "{each: [de, es]}", "languages: [fr], ", methods=("none: {}",))
    stages = open_grid(path).plan.stages.values()
    covered = [stage.params["languages"] for stage in stages if stage.kind == "evaluation"]
    assert covered == [["en", "fr"]]


def test_the_answer_of_such_a_task_is_about_these_languages(tmp_path: Path) -> None:
    methods = ("none: {}", "finetune: {batch_size: 16}", "rotation: {}")
    opened = ran(grid(tmp_path, "{together: [de]}", "languages: [fr, bg], ", methods=methods))
    assert set(values(opened, "none")) == {"en", "fr", "bg", "avg_unseen"}
    plan, ledger = opened.plan, opened.storage.ledger
    told = stored_answer(plan.only(t for t in plan.trials if t.method != "rotation"), ledger)
    assert "two languages (bg, fr)" in told
    assert "not aligned" not in told, "nothing else is there to tell them from"
    told = stored_answer(plan.only(t for t in plan.trials if t.method != "finetune"), ledger)
    assert "no method changes anything of the languages that the tasks are for" in told


def test_unseen_development_sets_choose_neither_weights_nor_runs(tmp_path: Path) -> None:
    sizes = "{train: 30, dev: 15, test: 15}"
    task = f"xnli: {{languages: [de, fr, bg], data: phrasebook, phrasebook: {sizes}, epochs: 2, "
    tasks = (task + "selection: mean-dev, max_length: 16}",)
    opened = ran(grid(tmp_path, "{together: [de]}", methods=("none: {}",), tasks=tasks))
    plan, (trial,) = opened.plan, opened.plan.trials
    records = read_records(plan, opened.storage.ledger)
    (record,) = (records[key] for key in trial.evaluations.values())
    (chosen,) = record["notes"]["models"].values()
    assert set(chosen["dev_by_epoch"]) == {"en", "de"}
    assert set(chosen["epochs"]) == {"en", "de", "fr", "bg"}
    dev = {"en": 0.5, "de": 0.4, "fr": 0.9, "bg": 0.8}
    for score in record["scores"]:
        score["value"] = dev.get(score["lang"], 1.0)
    (mean,) = DevMean.of(plan, trial, records)
    assert mean.value == pytest.approx(0.45)


@pytest.mark.parametrize(
    ("task", "told"),
    [
        (
            "pos: {languages: [de, deutsch], data: phrasebook}",
            "'deutsch' is not the code of a language",
        ),
        (
            "pos: {languages: [de, fr], data: phrasebook, selection: target-dev}",
            "fr: not among the grid's languages, and `selection: target-dev` chooses weights",
        ),
        (
            "xnli: {languages: [de, fr], data: phrasebook, setting: translate-train, models: each}",
            "`models: each` trains none for them (write `models: together`)",
        ),
        ("pos: {languages: [de, en], data: phrasebook}", "'en' is the pivot"),
        ("pos: {languages: [de, ja], data: phrasebook}", "phrasebook has no ja"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(tmp_path: Path, task: str, told: str) -> None:
    with pytest.raises(GridError) as raised:
        open_grid(grid(tmp_path, "{together: [de]}", tasks=(task,)))
    assert told in str(raised.value)


@pytest.mark.slow
def test_the_pivots_own_transforms_leave_unseen_languages_without_a_model(tmp_path: Path) -> None:
    moving: Sequence[str] = ("none: {}", "rotation: {direction: to-other}")
    path = grid(tmp_path, "{together: [de]}", "languages: [de, fr], ", methods=moving)
    opened = ran(path)
    assert "fr" in values(opened, "none")
    assert "fr" not in values(opened, "rotation")
