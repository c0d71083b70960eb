"""The rows of the benchmarks, and the table that is made of them."""

from itertools import count

import pytest

from benchmarks.table import ROWS, Failure, Row, at_least, at_most, in_turn, markdown, show, spread

FAST = Row("speed", 0.81, at_least(0.8), 0.034, "bare")
SLOW = Row("time", 1.31, at_most(1.3), 0.0, "bare")


@pytest.mark.parametrize(
    ("budget", "value", "met"),
    [
        (at_least(0.8), 0.8, True),
        (at_least(0.8), 0.79, False),
        (at_most(1.3), 1.3, True),
        (at_most(1.3), 1.31, False),
    ],
)
def test_a_budget_is_met_on_its_side_of_the_limit_and_at_it(budget, value, met):
    assert budget.met(value) is met


def test_cells_have_value_budget_and_noise():
    assert FAST.cells() == ("speed", "0.81", "at least 0.8: met", "3 %", "bare")
    assert SLOW.cells() == ("time", "1.31", "at most 1.3: **missed**", "0 %", "bare")
    memory = Row("memory", 1234.5, None, 0.1, "inputs", "MiB")
    assert memory.cells() == ("memory", "1,234 MiB", "none", "10 %", "inputs")


def test_rows_are_read_back_as_they_were_shown(tmp_path, monkeypatch, capsys):
    file = tmp_path / "rows"
    monkeypatch.setenv(ROWS, str(file))
    bare = Row("memory", 3.0, None, 0.1, "inputs", "MiB")
    for row in (FAST, SLOW, bare):
        show(row)
    assert [Row.of(line) for line in file.read_text("utf-8").splitlines()] == [FAST, SLOW, bare]
    assert "time: 1.31 (budget at most 1.3: MISSED; noise 0 %; bare)" in capsys.readouterr().out


def test_a_row_is_only_printed_where_no_file_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv(ROWS, raising=False)
    monkeypatch.chdir(tmp_path)
    show(FAST)
    assert capsys.readouterr().out.startswith("speed: 0.81 (")
    assert list(tmp_path.iterdir()) == []


def test_the_table_has_a_line_per_row_and_per_failure_in_columns_of_one_width():
    lines = markdown([FAST, Failure("csls --n 5", "ValueError: a | b")]).splitlines()
    assert [len(line) for line in lines] == [len(lines[0])] * 4
    assert lines[0].startswith("| what is measured | value ")
    cells = [cell.strip() for cell in lines[3].replace("\\|", "or").split("|")]
    assert cells[1:-1] == ["csls --n 5", "**failed**", "", "", "ValueError: a or b"]


def test_noise_is_that_of_the_side_whose_median_is_farthest_from_its_best():
    assert spread([1.0, 1.2, 5.0]) == pytest.approx(0.2)
    assert spread([2.0, 2.1, 2.2], [1.0, 1.5, 1.0, 1.5]) == pytest.approx(0.25)
    assert spread([0.0, 0.0, 0.0]) == 0.0


def test_sides_run_in_turn_and_have_the_seconds_of_each_round():
    order, ticks = [], count()
    found = in_turn(
        2, lambda: float(next(ticks)), lambda: order.append("a"), lambda: order.append("b")
    )
    assert order == ["a", "b", "a", "b"]
    assert found == [[1.0, 1.0], [1.0, 1.0]]
