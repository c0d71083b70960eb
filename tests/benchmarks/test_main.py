"""All benchmarks in one run: which are run, what is kept of them, and those that fail."""

import sys
from pathlib import Path

import pytest

import benchmarks.__main__ as program
from benchmarks.__main__ import RUNS, Outcome, Run, main, outcome, run, table
from benchmarks.page import BEGIN, END, PAGE, written
from benchmarks.table import Row, at_most

ROOT = Path(__file__).resolve().parents[2]
HELPERS = {"bare", "page", "peak_memory", "plain_task", "processes", "references", "sentences"}
HELPERS |= {"synthetic_text", "table"}
ON_CARDS = {"card", "card_checks"}  # they run alone, where a card is
WORKS = """
from benchmarks.table import Row, at_most, show
show(Row("time", 2.0, at_most(1), 0.5, "bare"))
"""
BREAKS = WORKS + "raise ValueError('no such file')\n"


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A package of benchmarks with two programs, of which one fails after its first row."""
    package = tmp_path / "benchmarks"
    package.mkdir()
    for name, text in (("works", WORKS), ("breaks", BREAKS), ("silent", "")):
        (package / f"{name}.py").write_text(text, "utf-8")
    for name in ("__init__.py", "table.py"):
        (package / name).write_text((ROOT / "benchmarks" / name).read_text("utf-8"), "utf-8")
    monkeypatch.setattr(program, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_every_benchmark_is_in_the_list_and_all_fit_eighteen_minutes():
    there = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - HELPERS - ON_CARDS
    assert {chosen.module for chosen in RUNS} == {name for name in there if name[0] != "_"}
    assert len({chosen.name for chosen in RUNS}) == len(RUNS)
    assert sum(chosen.seconds for chosen in RUNS) <= 18 * 60


def test_a_benchmark_that_fails_keeps_its_rows_and_names_the_error(programs):
    found = run(Run("breaks", "", 1), programs / "rows")
    assert found.rows == (Row("time", 2.0, at_most(1), 0.5, "bare"),)
    assert found.error == "ValueError: no such file"
    lines = table({"breaks": found}).splitlines()
    assert "**missed**" in lines[2]
    assert "| breaks " in lines[3]
    assert "**failed**" in lines[3]
    assert "ValueError: no such file" in lines[3]


def test_a_benchmark_without_a_row_has_failed(programs):
    assert run(Run("silent", "", 1), programs / "rows").error == "it measured nothing"


def test_what_is_kept_is_not_run_again_and_failures_are_not_kept(programs):
    kept = programs / "kept"
    kept.mkdir()
    first = outcome(Run("works", "", 1), kept)
    (programs / "benchmarks" / "works.py").unlink()
    assert outcome(Run("works", "", 1), kept) == first
    assert outcome(Run("breaks", "", 1), kept).error is not None
    assert [path.name for path in kept.iterdir()] == ["works.json"]


@pytest.mark.parametrize(("names", "code"), [(["works"], 0), (["works", "breaks"], 1)])
def test_the_exit_code_is_1_where_one_fails(programs, monkeypatch, names, code):
    monkeypatch.setattr(program, "RUNS", (Run("works", "", 1), Run("breaks", "", 1)))
    monkeypatch.setattr(sys, "argv", ["benchmarks", *names])
    assert main() == code


def test_the_page_gets_the_new_table_in_the_place_of_the_old_one(programs, monkeypatch):
    page = programs / PAGE
    page.parent.mkdir(parents=True)
    page.write_text(f"# Before\n{BEGIN}\nold\n{END}\nafter\n", "utf-8")
    monkeypatch.setattr(program, "RUNS", (Run("works", "", 1),))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--write"])
    assert main() == 0
    once = page.read_text("utf-8")
    assert once.startswith(f"# Before\n{BEGIN}\n\nMeasured on ")
    assert once.endswith(f" |\n\n{END}\nafter\n")
    assert "old" not in once
    assert main() == 0
    assert page.read_text("utf-8").count("| time ") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["csls", "--write"], "name none"), (["cslss"], "there is no benchmark 'cslss'")],
    ids=["a table of some", "an unknown one"],
)
def test_other_arguments_are_refused(monkeypatch, capsys, arguments, message):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    with pytest.raises(SystemExit):
        main()
    assert message in capsys.readouterr().err


def test_a_page_without_its_markers_is_refused():
    with pytest.raises(SystemExit, match="put one line"):
        written(f"{END}\n{BEGIN}", "table")


def test_the_page_of_the_site_has_its_markers():
    assert "new" in written((ROOT / PAGE).read_text("utf-8"), "new")


def test_outcomes_hold_rows_in_their_order():
    rows = tuple(Row(name, 1.0, None, 0.0, "bare") for name in "ab")
    lines = table({"x": Outcome(rows, 1.0, 0.5)}).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["a", "b"]
