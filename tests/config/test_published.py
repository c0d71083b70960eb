"""The papers' figures: their arithmetic, and rules that name what there is."""

import math
import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from raxalign.catalog import catalog
from raxalign.errors import GridError
from raxalign.grid import published
from raxalign.grid.file import load
from raxalign.grid.published import Publication, names
from raxalign.options.params import removed_options
from tests.grids import write_grid

REPORT = Path(__file__).parents[2] / "docs" / "how-to" / "report.md"
OLD = {"values": "[71.3, 73.5, 72.4]", "metric": "metric: accuracy", "all": "all}"}
OLD |= {"note": "row: shifted, column", "unit": "accuracy_percent"}
TABLES = [(name, label) for name in names() for label in Publication.read(name).tables]


def figures(value):
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize(("name", "label"), TABLES)
def test_averages_are_means_of_their_columns_but_where_a_note_says_so(name, label):
    table = Publication.read(name).tables[label]
    noted = {(note.row, note.column): note for note in table.notes if note.instead is not None}
    for row, entry in table.rows.items():
        cells = dict(zip(table.columns, entry.values, strict=True))
        for column, scope in table.means.items():
            parts = [
                cell
                for name, cell in cells.items()
                if name not in table.means and (scope == "all" or name != "en")
            ]
            if cells[column] is None or None in parts:
                continue
            note, printed = noted.get((row, column)), figures(cells[column])
            for index, figure in enumerate(figures(note.instead) if note else printed):
                mean = math.fsum(figures(part)[index] for part in parts) / len(parts)
                # of figures that are rounded themselves
                near = pytest.approx(mean, abs=0.0051 if note else 0.0551)
                assert figure == near, (row, column)
            if note:
                assert note.disputed
                assert printed != pytest.approx(figures(note.instead), abs=0.0501), (row, column)


@pytest.mark.parametrize(("name", "label"), TABLES)
def test_rules_name_methods_tasks_and_options_that_there_are(name, label):
    table = Publication.read(name).tables[label]
    cells = [(row, column) for row in table.rows for column in table.columns]
    rules = {(r, c): table.rule(r, c) for r, c in cells if c not in table.means}
    for place, rule in rules.items():
        if rule is None:
            continue
        tasks = [kind for kind in rule.task or () if kind in catalog("tasks")]
        options = set().union(*(known(catalog("tasks")[kind]) for kind in tasks))
        assert not tasks or {*rule.task_params, *rule.expects} <= options, place
        for kind in rule.method or ():
            assert kind in catalog("methods"), (place, kind)
            given = {name.partition(".")[0] for name in (*rule.params, *rule.prefers)}
            other = given - known(catalog("methods")[kind])
            assert not other or len(rule.method) > 1, (place, other)


def known(plugin):
    """The options of a kind, and those that were taken away, which its keys still have."""
    fields = {field.alias or name for name, field in plugin.Params.model_fields.items()}
    return fields | {*removed_options(plugin.Params)}


def test_a_publication_that_there_is_not_is_refused_with_the_nearest(tmp_path):
    told = r"unknown publication 'coa2020' \(did you mean cao2020\?\)"
    with pytest.raises(GridError, match=told):
        load(write_grid(tmp_path, more="published: [coa2020]\n"))
    grid = load(write_grid(tmp_path, more="published: [cao2020, pan2021]\n"))
    assert grid.published == ("cao2020", "pan2021")


def test_a_joined_rule_adds_and_replaces():
    table = Publication.read("cao2020").tables["xnli_methods"]
    rule = table.rule("zero-shot/finetune", "de")
    assert (rule.task, rule.lang, rule.metric) == (("xnli",), "de", "accuracy")
    assert (rule.method, dict(rule.task_params)) == (("finetune",), {"setting": "zero-shot"})
    assert table.rule("zero-shot/xlm-mlm-tlm", "de") is None


def my_table(folder, **changes):
    """The table of docs/how-to/report.md in a file, with texts in it replaced."""
    (text,) = re.findall(r"```yaml\n(paper:.*?)```", REPORT.read_text(encoding="utf-8"), re.DOTALL)
    for name, new in changes.items():
        assert OLD[name] in text
        text = text.replace(OLD[name], new)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "my_table.yaml").write_text(text, encoding="utf-8")
    return folder / "my_table.yaml"


def test_the_table_of_the_docs_is_named_by_its_path_relative_to_the_grid(tmp_path):
    file = my_table(tmp_path / "tables")
    grid = load(write_grid(tmp_path, more="published: [cao2020, tables/my_table.yaml]\n"))
    assert grid.published == ("cao2020", str(file))
    assert Publication.read(grid.published[1]).short == "Doe 2024"
    assert Publication.short_name(grid.published[1]) == "my_table"
    assert "my_table" not in names()


FAULTS = {
    "values": ("[71.3, 73.5]", 14, "tables.xnli.rows.baseline.values: 2 values for 3 columns"),
    "metric": ("metrik: accuracy", 11, "match.metrik: unknown key (did you mean metric?)"),
    "note": ("row: shiftet, column", 22, "no row 'shiftet' (did you mean shifted?)"),
    "all": ("every}", 10, "'every' is not permitted"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_user_s_table_is_named_by_its_file_and_line(fault, tmp_path):
    new, line, message = FAULTS[fault]
    file = my_table(tmp_path, **{fault: new})
    with pytest.raises(GridError) as told:
        load(write_grid(tmp_path, more="published: [my_table.yaml]\n"))
    assert f": {file}:{line}: " in str(told.value)
    assert message in str(told.value)
    assert "1 fault\n" in str(told.value)


def test_a_table_that_is_not_there_or_not_yaml_is_named(tmp_path):
    grid = write_grid(tmp_path, more="published: [my_table.yaml]\n")
    missing = re.escape(str(tmp_path / "my_table.yaml"))
    for text, told in (
        (None, ": there is no such file"),
        ("paper: [\n", ":[12]: YAML: "),
        ("- paper\n", ":1: a list at the top of the file"),
    ):
        if text is not None:
            (tmp_path / "my_table.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(GridError, match=f"{missing}{told}"):
            load(grid)


def test_a_user_s_table_does_not_take_the_name_of_another(tmp_path):
    my_table(tmp_path / "a"), my_table(tmp_path / "b")
    with pytest.raises(GridError, match=r"the name 'my_table' is taken by .*a/my_table.yaml"):
        load(write_grid(tmp_path, more="published: [a/my_table.yaml, b/my_table.yaml]\n"))
    (tmp_path / "cao2020.yaml").write_text(my_table(tmp_path).read_text(encoding="utf-8"))
    with pytest.raises(GridError, match=r"'cao2020' is taken by a publication of raxalign"):
        load(write_grid(tmp_path, more="published: [cao2020.yaml]\n"))


def test_an_edited_table_is_read_anew(tmp_path):
    file = my_table(tmp_path)
    assert Publication.read(str(file)).tables["xnli"].unit == "accuracy_percent"
    my_table(tmp_path, unit="accuracy_fraction")
    assert Publication.read(str(file)).tables["xnli"].unit == "accuracy_fraction"


def test_a_file_added_to_the_folder_at_run_time_is_a_publication(tmp_path, monkeypatch):
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    assert names() == ()
    my_table(tmp_path)
    assert names() == ("my_table",)
    assert Publication.read("my_table").short == "Doe 2024"


def test_an_entry_point_names_the_package_that_holds_the_file(tmp_path, monkeypatch):
    my_table(tmp_path / "some_tables")
    (tmp_path / "some_tables" / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    there = EntryPoint("my_table", "some_tables", published.GROUP)
    gone = EntryPoint("gone", "some_tables", published.GROUP)
    monkeypatch.setattr(published, "_entry_points", lambda: {"my_table": there, "gone": gone})
    grid = load(write_grid(tmp_path, more="published: [my_table]\n"))
    assert grid.published == ("my_table",)
    assert Publication.read("my_table").short == "Doe 2024"
    with pytest.raises(GridError, match=r"the package some_tables has no file gone\.yaml"):
        load(write_grid(tmp_path, more="published: [gone]\n"))
