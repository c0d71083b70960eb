"""Several grids in one table: what is the same stands in one line or table, what is not is said."""

import re

import pytest
from typer.testing import CliRunner

import raxalign as rx
from raxalign.cli import app
from raxalign.plan.values.comparisons import comparisons
from raxalign.plan.values.results import rows
from raxalign.report.cells.joined import joined
from raxalign.report.tables import blocks
from tests.grids import write_grid
from tests.ledgers import fill_all
from tests.report.material import results_of, write

RETRIEVAL = "contextual_accuracy"


def grid(folder, name, storage="storage", **parts):
    """A grid of a name with made-up results."""
    options = {"encoder": "phrasebook", "languages": "{together: [de, fr]}"}
    options |= {"sentences": "100", "seeds": "[0, 1, 2]", "size": 700}
    options |= {"methods": ("none: {}", "rotation: {}"), "tasks": ("retrieval: {unseen_in: 500}",)}
    file = write_grid(folder, name=f"{name}.yaml", **{**options, **parts})
    file.write_text(file.read_text().replace("name: small", f"name: {name}"))
    opened = rx.plan(file, storage=str(folder / storage))
    fill_all(opened.storage.ledger, opened)
    return opened


def shown(grids, task="retrieval"):
    """The names of the lines of a task's main table."""
    both = joined(grids)
    found = blocks(rows(both.plan, both.storage.ledger), both.plan)
    (block,) = [block for block in found if block.title.startswith(f"{task}: {RETRIEVAL} ")]
    return [line[0] for line in block.lines]


def compared(both):
    """The comparisons of joined grids."""
    results = results_of((both, both.storage.ledger))
    return comparisons(results.cells, both.plan, both.storage.ledger)


def test_lines_are_named_by_their_grid_but_those_that_several_share(tmp_path, monkeypatch):
    first = grid(tmp_path, "first", methods=("none: {}", "rotation: {center: [false, true]}"))
    second = grid(tmp_path, "second", methods=("none: {}", "rotation: {}", "linear: {}"))
    both = joined([first, second])
    assert both.plan.name == "first+second"
    lines = ["none", "rotation center=false", "first: rotation center=true", "second: linear"]
    assert shown([first, second]) == lines
    assert both.plan.apart == ()
    keys = {trial.key for opened in (first, second) for trial in opened.plan.trials}
    assert {trial.key for trial in both.plan.trials} == keys
    monkeypatch.setenv("RAXALIGN_STORAGE", both.root)
    files = [str(opened.grid.path) for opened in (first, second)]
    assert "first: rotation" in CliRunner().invoke(app, ["results", *files]).stdout
    assert CliRunner().invoke(app, ["results", *files, "--best"]).exit_code == 2
    table = rx.results([first, second.grid.path])
    assert set(table.column("trial").to_pylist()) <= keys


def test_a_grid_without_a_baseline_is_compared_with_that_of_another_in_one_table(tmp_path):
    first = grid(tmp_path, "first")
    second = grid(tmp_path, "second", methods=("linear: {}", "centering: {}"))
    found = [one for one in compared(joined([first, second])) if one.baseline is not None]
    methods = {"first: rotation", "second: linear", "second: centering"}
    assert {c.cell.method for c in found} == methods
    assert {c.baseline.method for c in found} == {"first: none"}
    both = rx.compare([first, second]).to_pylist()
    together = {(row["method"], row["lang"], row["metric"]): row for row in both}
    # the tests are the same ones, the correction is over more of them
    for row in rx.compare(first).to_pylist():
        other = together[f"first: {row['method']}", row["lang"], row["metric"]]
        assert (other["p"], other["difference"]) == (row["p"], row["difference"])
        assert row["p"] is None or other["p_adjusted"] >= row["p_adjusted"]


def test_tests_that_differ_have_tables_of_their_own_and_the_reason_is_said(tmp_path):
    first = grid(tmp_path, "first")
    second = grid(tmp_path, "second", tasks=("retrieval: {unseen_in: 500, k: 5}",))
    both = joined([first, second])
    tasks = {task for trial in both.plan.trials for task in trial.evaluations}
    assert tasks == {"first: retrieval", "second: retrieval"}
    assert shown([first, second], "first: retrieval") == ["none", "rotation"]
    (why,) = both.plan.apart
    assert why.startswith("the tests of retrieval of first and of second differ (")
    assert why.endswith("(evaluation retrieval: task.k 10 or 5)")


def test_data_that_differs_is_said_and_each_grid_keeps_its_own_baseline(tmp_path):
    scratch = "{kind: scratch, layers: 2, hidden_size: 32, heads: 2, intermediate: 64, steps: 5}"
    first = grid(tmp_path, "first", encoder=scratch)
    second = grid(tmp_path, "second", encoder=scratch, sentences="120", size=720)
    both = joined([first, second])
    told = " ".join(both.plan.apart)
    assert "the encoders scratch" in told
    assert "corpus.size 700 or 720" in told
    for found in compared(both):
        if found.baseline is not None:
            assert found.baseline.method.partition(":")[0] == found.cell.method.partition(":")[0]
            assert found.baseline.encoder == found.cell.encoder


@pytest.mark.usefixtures("undrawn")
def test_the_report_of_several_grids_has_all_their_texts_and_what_differs(tmp_path):
    first = grid(tmp_path, "first")
    methods = ("none: {}", "rotation: {center: [false, true]}")
    second = grid(tmp_path, "second", aligner="eflomal", methods=methods)
    both, out = joined([first, second]), tmp_path / "out"
    write((both, both.storage.ledger), out, published=[], sources=both.sources)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert not re.search(r'id="[^"]*\s', page)
    assert not [path for path in (out / "figures").iterdir() if re.search(r"[\s:]", path.name)]
    for name in ("first/first.yaml", "second/second.yaml"):
        assert f"<summary><b>{name}</b></summary>" in page
    assert "pairs fast_align or pairs eflomal" in page


def test_grids_of_other_pivots_storages_or_of_one_name_are_refused(tmp_path):
    first, second = grid(tmp_path, "first"), grid(tmp_path, "second", storage="other")
    with pytest.raises(rx.RaxalignError, match="one storage"):
        joined([first, second])
    with pytest.raises(rx.RaxalignError, match="names of their own"):
        joined([first, first])
    assert joined([first]) is first
