"""A param that is chosen for each language: by dev values alone, in a table that says so."""

from __future__ import annotations

from raxalign.plan.plan import Plan
from raxalign.plan.trial import Trial
from raxalign.report.cells.results import Results
from raxalign.report.document import Table
from tests.report.material import share
from tests.report.test_published_tables import CHOICES, shifted


def tables(method: str = "mean_shift") -> dict[str, Table]:
    rows = [{**row, "method": method} for row in shifted(CHOICES)]
    trial = Trial(method, method, {}, "e", ("de",), None, None, "a", {})
    found = Results.of(rows, Plan("p", "en", 1, (trial,), {}, {method: ("alpha",)}))
    return {
        table.title: table for part in share("chosen_on_dev", found).parts for table in part.tables
    }


def test_each_language_has_its_weight_with_its_dev_and_test_values() -> None:
    table = tables()["xnli: mean_shift, α per language"]
    shown = {line.label: [entry.text for entry in line.entries] for line in table.lines}
    assert table.columns == ("de", "fr", "zh")
    assert shown == {
        "α": ["1.5", "0.1", "0"],
        "dev": ["70.0", "80.0", "90.0"],
        "test": ["55.0", "65.0", "30.0"],
    }
    assert {line.group for line in table.lines} == {"mean_shift, α per language, 250,000 pairs"}
    assert "not a purely zero-shot result" in table.caption


def test_a_method_that_declares_no_such_param_has_no_such_table() -> None:
    assert list(tables("centering")) == ["xnli"]


def test_the_lines_along_a_param_are_found_by_looking_at_each_cell_once(monkeypatch) -> None:
    from raxalign.report.cells import results as module

    looked: list[object] = []
    rest = module._rest
    monkeypatch.setattr(
        module, "_rest", lambda cell, param: looked.append(cell) or rest(cell, param)
    )
    rows = [
        {**row, "method": "mean_shift", "params": {"alpha": number / 50}}
        for number in range(50)
        for row in shifted(CHOICES)[:1]
    ]
    trial = Trial("mean_shift", "mean_shift", {}, "e", ("de",), None, None, "a", {})
    found = Results.of(rows, Plan("p", "en", 1, (trial,), {}, {"mean_shift": ("alpha",)}))
    lines = [found.line(cell, "alpha") for cell in reversed(found.cells)]
    assert all(line is lines[0] for line in lines)
    assert [cell.params["alpha"] for cell in lines[0]] == [number / 50 for number in range(50)]
    assert len(looked) == 100  # once to sort them in, once to look them up
    assert found.line(found.cells[0], "strength") == []
