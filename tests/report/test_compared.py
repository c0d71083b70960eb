"""Comparisons as text: all pairs with ranks, and means for languages like these."""

import re
from dataclasses import replace

import pytest

from raxalign.analysis.cells import cells
from raxalign.plan.values.comparisons import comparisons
from raxalign.plan.values.results import rows
from raxalign.report.cells.ranking import rankings
from raxalign.report.cells.results import Results, table_of
from raxalign.report.compared import all_pairs, as_text
from tests.ledgers import made_up
from tests.report.material import leave_undrawn, share


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_up(
        tmp_path_factory.mktemp("grid"),
        languages="{together: [de, fr, es, bg]}",
        sentences="100",
        methods=("none: {}", "rotation: {center: [false, true]}"),
        tasks=("retrieval: {}",),
    )


def text(made, baseline, **options):
    opened, ledger = made
    plan = opened.plan
    found = cells(rows(plan, ledger), plan.pivot, plan.measured)
    compared = comparisons(found, plan, ledger, baseline=baseline)
    assert all_pairs(compared) == (baseline == "all")
    return as_text(compared, plan, **options)


def test_all_pairs_are_named_by_both_methods_and_ranked(made):
    shown = text(made, "all")
    assert "(test), %, all pairs" in shown
    assert "rotation center=true against rotation center=false" in shown
    (line,) = [line for line in shown.splitlines() if line.startswith("ranks ")][:1]
    assert line.startswith(
        "ranks for languages like these (95 % over all pairs; scratch, 100 pairs)"
    )
    ranked = re.findall(r"(none|rotation center=\w+) (\d)", line)
    assert sorted(number for _, number in ranked) in (["1", "2", "3"], ["1", "1", "3"])


def test_two_methods_are_not_ranked_nor_are_all_against_one(made):
    assert "ranks " not in text(made, None)


def test_the_column_for_languages_like_these_is_shown_where_it_is_asked_for(made):
    assert "languages like these" not in text(made, None)
    shown = text(made, None, over_languages=True)
    means = [line for line in shown.splitlines() if re.search(r"rotation \S+ .* avg ", line)]
    assert means
    assert all(re.search(r"\[\S+, \S+\], p [<0-9.]+", line) for line in means)


def test_the_report_draws_the_ranks_of_three_methods_and_not_of_two(made, tmp_path, monkeypatch):
    leave_undrawn(monkeypatch)
    opened, ledger = made
    results = Results.of(rows(opened.plan, ledger), opened.plan)
    (part,) = share("ranks", results, ledger=ledger, figures=tmp_path).parts
    (figure,) = part.figures
    assert figure.name == "ranks-retrieval"
    assert "for languages like these" in figure.caption
    two = replace(results, cells=results.cells[:2])
    assert not share("ranks", two, ledger=ledger, figures=tmp_path).parts


def test_groups_of_a_ranking_are_places_in_its_own_order(made):
    opened, ledger = made
    plan = opened.plan
    found = cells(rows(plan, ledger), plan.pivot, plan.measured)
    entries = [
        entry
        for entry in comparisons(found, plan, ledger, baseline="all")
        if table_of(entry.name) == ("retrieval", "contextual_accuracy", "test")
    ]
    (ranking,) = rankings(entries)
    assert [rank.rank for rank in ranking.ranks] == sorted(rank.rank for rank in ranking.ranks)
    name = next(entry.name for entry in entries if entry.name[1] == "avg")
    values = [cell.values[name].mean for cell in ranking.cells]
    assert values == sorted(values, reverse=True)
    for group in ranking.groups:
        assert group == tuple(range(group[0], group[-1] + 1))
