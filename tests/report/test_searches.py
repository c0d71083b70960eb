"""Searches in the report, in `plan`, `status` and `results --best`."""

import pytest

from raxalign.inspect.plans import PlanView
from raxalign.report.compose import compose
from raxalign.search.words import SearchReport
from raxalign.store.ledger import Ledger
from raxalign.store.storage import Storage
from raxalign.tracking.runs import PlanRuns
from raxalign.values.results import rows
from tests.report.material import leave_undrawn, results_of, share
from tests.searches import METRIC, TWO, open_search, run, search_grid, source_of


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Two methods with six trials each, confirmed with two seeds."""
    folder = tmp_path_factory.mktemp("searched")
    opened = open_search(search_grid(folder, "trials: 6, confirm: 2", methods=TWO))
    run(source_of(opened))
    return opened.again()


@pytest.fixture(scope="module")
def document(searched, tmp_path_factory):
    """Its report, with empty figures."""
    ledger, folder = searched.storage.ledger, tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        leave_undrawn(patch)
        return compose(rows(searched.plan, ledger), searched.plan, folder, ledger=ledger).document


def test_the_report_shows_what_was_chosen_and_how(searched, document):
    part = next(part for part in document.parts if part.anchor == "searches")
    lines = part.tables[0].lines
    assert [line.label.split()[0] for line in lines] == ["finetune", "slow"]
    record = searched.plan.studies[0].record(searched.storage)
    best = record.chosen
    dev, test = f"{100 * best.score:.1f}", f"{100 * (1 - best.score):.1f}"
    # the planted scores do not depend on the seed
    assert [entry.text for entry in lines[0].entries][:4] == [dev, dev, test, "6"]
    assert lines[0].label.startswith(f"finetune λ={best.values['lambda']:g} layers=")


def test_pruned_trials_are_counted_and_not_shown_as_results(tmp_path):
    found = open_search(search_grid(tmp_path, "trials: 16, confirm: 0, pruner: asha"))
    run(source_of(found))
    opened = found.again()
    (study,) = opened.plan.studies
    record, ledger = study.record(opened.storage), opened.storage.ledger
    results = results_of((opened, ledger))
    (part,) = share("searches", results, ledger=ledger, figures=tmp_path).parts
    (line,) = part.tables[0].lines
    ended = len(record.pruned)
    assert 0 < ended < 16
    assert line.entries[3].text == f"{16 - ended}, {ended} more pruned"


def test_tables_have_confirmed_points_alone_and_mark_them(document):
    tables = {table.anchor: table for part in document.parts for table in part.tables}
    labels = [line.label for line in tables["grid-xnli-accuracy-test"].lines]
    assert [label.split(" ")[0] for label in labels] == ["finetune", "slow"]
    assert all(label.endswith(" (searched)") for label in labels)
    assert "chosen-xnli" not in tables  # a search has its own table
    figures = [figure.name for part in document.parts for figure in part.figures]
    assert not [name for name in figures if "curve" in name]


def test_a_plan_says_at_most_how_many_trials_and_their_time(tmp_path):
    opened = open_search(search_grid(tmp_path, "trials: 6, confirm: 2"))
    lines = PlanView(opened.plan, opened.storage, opened.grid.run).text().splitlines()
    assert "nothing is left to run (without the trials of searches)" in lines
    assert SearchReport(opened.plan, opened.storage).plan_lines() == [
        "search finetune de, 100 sentences: at most 6 trials, then the best configuration with 2"
        " fresh seeds (tpe over lambda 0.01 to 10 (log), layers last | 1)"
    ]
    run(source_of(opened), most=2)
    (line,) = SearchReport(opened.again().plan, opened.storage).plan_lines()
    assert "at most 6 trials, 2 tried, then" in line
    assert "about 60 s of worker time" in line  # four trials and two seeds, 10 s each


def test_status_and_best_say_how_far_and_how_good(searched):
    plan, root = searched.plan, searched.root
    record = plan.studies[0].record(Storage(root))
    best = record.chosen
    line = SearchReport(plan, Storage(root)).status_lines()[0]
    assert line.startswith("search finetune de, 100 sentences: 6 of at most 6 trials, finished;")
    assert f"best {METRIC} {100 * best.score:.1f} % on dev" in line
    told = SearchReport(plan, Storage(root)).best_lines(rows(plan, Ledger(root)))
    assert told[0] == "finetune de, 100 sentences (6 trials):"
    assert f"{METRIC} {100 * (1 - best.score):.1f} ± 0.0 % on test over 2 seeds" in told[1]


def test_runs_of_a_search_have_study_and_number_and_no_test_values(searched):
    ledger = searched.storage.ledger
    for trial in searched.plan.trials:
        tags = PlanRuns(searched.plan).trial(trial).tags
        assert tags["raxalign.study"] == trial.searched.study
        assert tags["raxalign.study_trial"] == str(trial.searched.number)
        records = ledger.read_many(list(trial.evaluations.values()))
        names = PlanRuns(searched.plan).trial_metrics(trial, records)
        tested = {name for name in names if "/dev_" not in name}
        assert bool(tested) == trial.searched.confirmed
