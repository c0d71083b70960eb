"""Comparisons that are looked at again with more runs: each command says so and corrects for it."""

from dataclasses import replace

import pyarrow as pa
import pytest

from raxalign.analysis.power import Assumed, Design
from raxalign.analysis.significance import holm
from raxalign.grid.load import open_grid
from raxalign.grid.plan import Plan
from raxalign.inspect.garbage import collect
from raxalign.lazy import np
from raxalign.report.answer import stored_answer
from raxalign.report.compared import ComparisonTables, Ranking
from raxalign.values.claims import JudgedClaim
from raxalign.values.comparisons import comparisons
from raxalign.values.power import power_text
from raxalign.values.scoreboard import Scoreboard
from tests.grids import write_grid
from tests.ledgers import fill_all, made_up, words
from tests.report.material import results_of

GRID = {"languages": "{together: [de, fr]}", "sentences": "100"}
GRID |= {"methods": ("none: {}", "rotation: {}", "finetune: {batch_size: 16}")}
GRID |= {"tasks": ("retrieval: {}", "xnli: {setting: zero-shot, data: phrasebook}")}
GRID["more"] = "claims: [finetune > none in xnli]\n"


@pytest.fixture
def few(tmp_path):
    return made_up(tmp_path, **GRID, seeds="[0, 1]")[0]


def more(few, folder, seeds="[0, 1, 2, 3]"):
    """The same grid and storage with more seeds, all of which have run."""
    folder.mkdir()
    opened = open_grid(write_grid(folder, **GRID, seeds=seeds), storage=few.root)
    fill_all(opened.storage.ledger, opened)
    return opened


def compared(opened, baseline=None):
    results = results_of((opened, opened.storage.ledger))
    return comparisons(results.cells, opened.plan, opened.storage.ledger, baseline=baseline)


def looks(found):
    return {(e.cell.method, e.name[0]): [x.runs for x in e.earlier] for e in found if e.tested}


def test_a_second_look_with_more_runs_is_told_and_corrected_for(few, tmp_path):
    assert "look at" not in ComparisonTables(compared(few), few.plan).text()
    found = compared(opened := more(few, tmp_path / "more"))
    assert looks(found)["finetune", "xnli"] == [2]
    assert looks(found)["rotation", "retrieval"] == [], "it has the same runs as before"
    family = [e for e in found if e.table == ("xnli", "accuracy", "test") and e.tested]
    adjusted = holm([min(1.0, 6 * entry.comparison.p) for entry in family])
    assert [entry.p_adjusted for entry in family] == adjusted
    day = family[0].earlier[0].when[:10]
    told = (
        f"Second look at these comparisons (the first with 2 runs, {day}): p-values are corrected"
    )
    assert told in ComparisonTables(found, opened.plan).text()
    assert {row["look"] for row in ComparisonTables(found, opened.plan).rows()} == {1, 2}
    compared(more(few, tmp_path / "most", "[0, 1, 2, 3, 4]"), "finetune")
    assert {len(e.earlier) for e in compared(opened) if e.tested} == {0, 1}, "as before"


def test_a_row_has_the_looks_at_its_languages(tmp_path):
    """Another grid of other languages on the same storage is looked at for the first time; the
    pivot's rows, and what they are part of, are not.
    """

    def earlier(folder, languages, **parts):
        place = tmp_path / folder
        place.mkdir()
        parts = {**GRID, "seeds": "[0, 1]", **parts, "languages": languages}
        opened = open_grid(write_grid(place, **parts), storage=str(tmp_path / "storage"))
        fill_all(opened.storage.ledger, opened)
        found = [e for e in compared(opened) if e.tested and e.cell.method == "finetune"]
        return {(e.name[0], e.name[1]): len(e.earlier) for e in found}

    words, labels = ("retrieval", "de-en"), ("xnli", "de")
    first = earlier("de", "{together: [de]}")
    assert first[words] == first[labels] == first["xnli", "en"] == 0
    found = earlier("es", "{together: [es]}")
    assert found["retrieval", "es-en"] == found["xnli", "es"] == found["xnli", "avg_zero_shot"] == 0
    assert found["xnli", "en"] == found["xnli", "avg"] == 1
    found = earlier("both", "{together: [de, es, fr]}")
    assert [found["xnli", lang] for lang in ("de", "es", "fr", "avg", "en")] == [1, 1, 0, 2, 2]
    other = "source: phrasebook\n  size: 300\n  split: {test: 20, dev: 20}"
    found = earlier("de of another split", "{together: [de]}", corpus=other)
    assert (found[words], found[labels]) == (2, 2), "some sentences may be the same"


def test_a_metric_that_is_added_with_other_options_was_not_looked_at_before(tmp_path):
    def earlier(folder, options, seeds):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        task = f"xnli: {{setting: zero-shot, data: phrasebook, metrics: {{f: {options}}}}}"
        parts = {**GRID, "tasks": (GRID["tasks"][0], task), "seeds": seeds}
        opened = open_grid(write_grid(place, **parts), storage=str(tmp_path / "storage"))
        fill_all(opened.storage.ledger, opened)
        found = [e for e in compared(opened) if e.tested and e.cell.method == "finetune"]
        return {e.name[2]: [look.runs for look in e.earlier] for e in found if e.name[0] == "xnli"}

    assert earlier("one", "{kind: macro_f1}", "[0, 1]") == {"accuracy": [], "f": []}
    other = "{kind: macro_f1, leave_out: neutral}"
    assert earlier("two", other, "[0, 1, 2]") == {"accuracy": [2], "f": []}
    assert earlier("one", "{kind: macro_f1}", "[0, 1, 2, 3]") == {"accuracy": [2, 3], "f": [2]}


def test_the_same_runs_are_one_look_whatever_command_shows_them(few, tmp_path):
    stored_answer(few.plan, few.storage.ledger)
    compared(few, "all")
    compared(few, "finetune")
    JudgedClaim.all_in(few)
    collect([few.grid.path], few.root, delete=True)
    assert {tuple(x) for x in looks(compared(few)).values()} == {()}
    opened = more(few, tmp_path / "more")
    (claim,) = JudgedClaim.all_in(opened)
    (test,) = claim.tests
    assert test.p == pytest.approx(min(1.0, 6 * test.entry.comparison.p)), "of a claim too"


def test_what_a_plan_detects_is_no_look(few, tmp_path):
    power_text(few, few.plan, 1.0, 0.5)
    assert not any(looks(compared(more(few, tmp_path / "more"))).values())


def test_what_is_equal_by_construction_leaves_the_family(few, monkeypatch):
    before = [e for e in compared(few) if e.name[0] == "retrieval" and e.tested]
    monkeypatch.setattr(Plan, "stays", lambda _, trial, task, *at: trial.kind == "rotation")
    found = [e for e in compared(few) if e.name[0] == "retrieval" and e.baseline is not None]
    assert {e.says for e in found if e.cell.method == "rotation"} == {"="}
    assert {e.p_adjusted for e in found if e.cell.method == "rotation"} == {None}
    assert sum(e.tested for e in found) == len(before) / 2
    text = ComparisonTables(found, few.plan).text()
    assert " = \n" in text.replace("=\n", "= \n").replace("  = ", " = ")


def test_what_is_equal_in_all_examples_and_runs_leaves_the_family(tmp_path):
    """The plan does not know it: two methods that nothing tells apart."""

    def same(ledger, opened, trial, key):
        """Rotation has the predictions of the encoder as it was in German alone."""
        source = "none" if trial.method == "rotation" else trial.method
        rng = np.random.default_rng([len(source), trial.seed or 0])
        scores, table = words(("de",), 0.4, rng)
        more, other = words(("fr",), 0.4, np.random.default_rng(int(key[:8], 16)))
        stage = opened.plan.stages[key]
        record = {"scores": [*scores, *more], "params": stage.params["task"], "task": stage.maker}
        ledger.write(key, record, pa.concat_tables([table, other]))

    opened, _ = made_up(tmp_path, same, **{**GRID, "tasks": ("retrieval: {}",), "more": ""})
    found = [e for e in compared(opened) if e.cell.method == "rotation" and e.baseline is not None]
    said = {e.name[1]: e.says for e in found if e.name[2] == "contextual_accuracy"}
    assert said["de-en"] == "="
    assert "=" not in (said["fr-en"], said["avg"])
    assert {e.p_adjusted for e in found if e.name[1] == "de-en"} == {None}
    family = [e for e in compared(opened) if e.table == found[0].table]
    tested = [e for e in family if e.tested]
    assert [e.p_adjusted for e in tested] == holm([e.comparison.p for e in tested])


def test_the_first_sentence_of_a_later_look_says_so(few, tmp_path):
    assert "look" not in stored_answer(few.plan, few.storage.ledger)
    opened = more(few, tmp_path / "more")
    first, rest = stored_answer(opened.plan, opened.storage.ledger).split(". At XNLI ")
    assert first.endswith("(second look, corrected)")
    assert rest.split(". ")[0].endswith("second look, corrected)")


def test_ranks_differ_from_the_baseline_where_the_table_says_so(few):
    results: Scoreboard = results_of((few, few.storage.ledger))
    table = ("retrieval", "contextual_accuracy", "test")
    pairs = [e for e in compared_cells(results, few, "all") if e.table == table]
    shown = [e for e in compared_cells(results, few, None) if e.table == table]
    for verdict in ("better", "cannot tell"):
        said = [replace(e, verdict=verdict) if e.baseline else e for e in shown]
        (ranking,) = Ranking.of(pairs, said)
        last = next(
            rank
            for cell, rank in zip(ranking.cells, ranking.ranks, strict=True)
            if cell.method == "none"
        )
        assert (last.best == last.worst == 3) == (verdict == "better")


def compared_cells(results, opened, baseline):
    return comparisons(results.cells, opened.plan, opened.storage.ledger, baseline=baseline)


@pytest.mark.parametrize("sds", [(0.5, 0.5), (0.5, 0.0), (2.0, 2.0), (2.0, 0.0)])
def test_a_printed_minimum_detectable_effect_has_its_power_or_is_not_printed(sds):
    rng = np.random.default_rng(0)
    for runs in (2, 3, 4, 5):
        spread = Assumed(run_sd=sds).spread(runs)
        true, found = Design.of(spread), []
        for _ in range(200):
            sides = [
                replace(side, between=side.between * rng.chisquare(runs - 1) / (runs - 1))
                for side in spread.trained
            ]
            found.append(Design.detectable(replace(spread, trained=tuple(sides))))
        if runs < 5:
            assert set(found) == {None}
            continue
        power = np.mean([true.power(effect) for effect in found])
        assert 0.75 <= power <= 0.85, (runs, Assumed.POINTS * np.median(found))
