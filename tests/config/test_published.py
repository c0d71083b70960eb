"""The papers' figures: their arithmetic, and rules that name what there is."""

import math

import pytest

from raxalign.catalog import catalog
from raxalign.config.grid import load
from raxalign.config.published import names, read
from raxalign.errors import GridError
from tests.grids import write_grid

TABLES = [(name, label) for name in names() for label in read(name).tables]


def figures(value):
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize(("name", "label"), TABLES)
def test_averages_are_means_of_their_columns_but_where_a_note_says_so(name, label):
    table = read(name).tables[label]
    for row, entry in table.rows.items():
        for column, scope in table.means.items():
            printed = entry.values[table.columns.index(column)]
            if printed is None:
                continue
            parts = [
                v
                for c, v in zip(table.columns, entry.values, strict=True)
                if c not in table.means and (scope == "all" or c != "en")
            ]
            if any(part is None for part in parts):
                continue
            own = [
                note
                for note in table.notes
                if note.row == row and note.column == column and note.instead is not None
            ]
            expected = figures(own[0].instead) if own else figures(printed)
            for index, figure in enumerate(expected):
                mean = math.fsum(figures(part)[index] for part in parts) / len(parts)
                assert figure == pytest.approx(mean, abs=0.0501 if not own else 0.0051), (
                    row,
                    column,
                )
            if own:
                assert own[0].disputed
                assert figures(printed) != pytest.approx(expected, abs=0.0501), (
                    f"{row}, {column}: nothing to correct"
                )


@pytest.mark.parametrize(("name", "label"), TABLES)
def test_rules_name_methods_tasks_and_options_that_there_are(name, label):
    table = read(name).tables[label]
    for row in table.rows:
        for column in table.columns:
            rule = None if column in table.means else table.rule(row, column)
            if rule is None:
                continue
            tasks = [kind for kind in rule.task or () if kind in catalog("tasks")]
            for option in (*rule.task_params, *rule.expects):
                assert (
                    any(option in known(catalog("tasks")[kind]) for kind in tasks) or not tasks
                ), (row, option)
            for kind in rule.method or ():
                assert kind in catalog("methods"), (row, kind)
                options = [
                    option
                    for option in (*rule.params, *rule.prefers)
                    if option not in known(catalog("methods")[kind])
                ]
                assert not options or len(rule.method) > 1, (row, options)


def known(plugin):
    return {field.alias or name for name, field in plugin.Params.model_fields.items()}


def test_a_publication_that_there_is_not_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(
        GridError, match=r"unknown publication 'coa2020' \(did you mean cao2020\?\)"
    ):
        load(write_grid(tmp_path, more="published: [coa2020]\n"))
    assert load(write_grid(tmp_path, more="published: [cao2020, pan2021]\n")).published == (
        "cao2020",
        "pan2021",
    )


def test_a_joined_rule_adds_and_replaces():
    rule = read("cao2020").tables["xnli_methods"].rule("zero-shot/finetune", "de")
    assert (rule.task, rule.lang, rule.metric, rule.method) == (
        ("xnli",),
        "de",
        "accuracy",
        ("finetune",),
    )
    assert dict(rule.task_params) == {"setting": "zero-shot"}
    assert read("cao2020").tables["xnli_methods"].rule("zero-shot/xlm-mlm-tlm", "de") is None
