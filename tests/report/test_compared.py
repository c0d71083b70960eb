"""Comparisons as text: all pairs with ranks, and means for languages like these."""

import re
from dataclasses import replace

import pytest

from raxalign.analysis.cells import Cell
from raxalign.analysis.significance import Comparison
from raxalign.report.compared import ComparisonTables, Ranking, all_pairs
from raxalign.values.comparisons import OTHER_LANGUAGES, Compared, comparisons
from tests.ledgers import made_up
from tests.report.material import results_of, share, with_tests


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    parts = {"languages": "{together: [de, fr, es, bg]}", "sentences": "100"}
    parts |= {"methods": ("none: {}", "rotation: {center: [false, true]}")}
    return made_up(tmp_path_factory.mktemp("grid"), **parts, tasks=("retrieval: {}",))


@pytest.fixture(scope="module")
def results(made):
    return results_of(made)


def text(results, made, baseline, **options):
    compared = comparisons(results.cells, results.plan, made[1], baseline=baseline)
    assert all_pairs(compared) == (baseline == "all")
    return ComparisonTables(compared, results.plan).text(**options)


def test_all_pairs_are_named_by_both_methods_and_ranked(results, made):
    shown = text(results, made, "all")
    assert "(test), %, all pairs" in shown
    assert "rotation center=true against rotation center=false" in shown
    line = next(line for line in shown.splitlines() if line.startswith("ranks "))
    over = "95 % confidence over all 15 comparisons of the table; scratch, 100 pairs"
    assert line[6:].startswith(f"in these languages ({over})")
    ranked = re.findall(r"(none|rotation center=\w+) (\d)", line)
    assert sorted(number for _, number in ranked) in (["1", "2", "3"], ["1", "1", "3"])


def test_two_methods_are_not_ranked_nor_are_all_against_one(results, made):
    assert "ranks " not in text(results, made, None)


def test_the_column_for_languages_like_these_is_shown_where_it_is_asked_for(results, made):
    assert "generalising to new languages" not in text(results, made, None)
    shown = text(results, made, None, over_languages=True)
    means = [line for line in shown.splitlines() if re.search(r"rotation \S+ .* avg ", line)]
    assert means
    assert all(re.search(r"\[\S+, \S+\], p [<0-9.]+", line) for line in means)


@pytest.mark.usefixtures("undrawn")
def test_the_report_draws_the_ranks_of_three_methods_and_not_of_two(results, made, tmp_path):
    tested = with_tests(results, made[1])
    _, part = share("languages", tested, ledger=made[1], figures=tmp_path).parts
    (figure,) = part.figures
    assert figure.name == "ranks-retrieval"
    assert "(corrected over 10 comparisons)" in figure.caption, "those of the table"
    assert "all pairs (15 comparisons)" in figure.caption
    two = replace(results, cells=results.cells[:2])
    parts = share("languages", two, ledger=made[1], figures=tmp_path).parts
    assert [part.anchor for part in parts] == ["languages"]


def test_methods_of_several_sets_are_ranked_by_the_mean_over_the_same_languages(results):
    """By the means over their own sets, romance would be before diverse."""
    values = {"none": {"es": 0.5, "fr": 0.7, "el": 0.2}, "rotation": {"es": 0.55, "fr": 0.74}}
    greek = {("rotation", "romance"): 0.2, ("rotation", "diverse"): 0.4}
    fixed = {"task": "xnli", "task_params": {}, "metric": "accuracy", "split": "test", "seed": 0}
    fixed |= {"encoder": "mini", "sentences": None}
    rows = [
        fixed
        | {"method": method, "params": {"languages": name}, "trial": method + name, "lang": lang}
        | {"evaluation": method + name, "unseen": lang not in of}
        | {"value": greek.get((method, name), 0.2) if lang == "el" else values[method][lang]}
        for method in values
        for name, of in {"romance": ("es", "fr"), "diverse": ("es", "el")}.items()
        for lang in ("es", "fr", "el")
    ]
    measured = results.plan.measured
    cells = Cell.grouped(rows, "en", measured)
    facts = {
        "measured": measured("xnli", "accuracy"),
        "comparison": Comparison(0.1, 0.08, 0.12, 0.01, 2, 2, 100),
    }
    entries = [
        Compared(cell, name, cell.values[name], baseline=base, **facts)
        for place, base in enumerate(cells)
        for cell in cells[place + 1 :]
        for name in cell.values
    ]
    (ranking,) = Ranking.of(entries)
    order = [f"{cell.method} {cell.set}" for cell in ranking.cells]
    assert order[:2] == ["rotation diverse", "rotation romance"], ".563 and .497 over es, fr and el"
    assert {*order[2:]} == {"none romance", "none diverse"}
    apart = [replace(e, comparison=None, untested=OTHER_LANGUAGES) for e in entries]
    assert list(Ranking.of(apart)) == [], "means over other languages have no order"


def test_groups_of_a_ranking_are_places_in_its_own_order(results, made):
    entries = [
        entry
        for entry in comparisons(results.cells, results.plan, made[1], baseline="all")
        if entry.table == ("retrieval", "contextual_accuracy", "test")
    ]
    (ranking,) = Ranking.of(entries)
    assert [rank.rank for rank in ranking.ranks] == sorted(rank.rank for rank in ranking.ranks)
    name = next(entry.name for entry in entries if entry.name[1] == "avg")
    values = [cell.values[name].mean for cell in ranking.cells]
    assert values == sorted(values, reverse=True)
    for group in ranking.groups:
        assert group == tuple(range(group[0], group[-1] + 1))
