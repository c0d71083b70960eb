"""`import raxalign as rx`: the commands as functions, and the pages that show them."""

from __future__ import annotations

import ast
import csv
import json
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import raxalign as rx
from raxalign.report.compared import ComparisonTables
from raxalign.report.tables import FIELDS, csv_parts
from raxalign.single.align import AlignRequest
from raxalign.sweep.grid import _interrupt_twice
from raxalign.values.results import rows
from tests.e2e.runs import attempted
from tests.grids import write_grid
from tests.ledgers import made_up

DOCS = Path(__file__).parents[1] / "docs"


def page(folder: Path) -> list[str]:
    """The blocks of docs/reference/python.md, its grid written."""
    text = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    (grid,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (folder / "grid.yaml").write_text(grid, encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def notebook(folder: Path) -> list[str]:
    """The cells of the notebook; the last expression of each is evaluated, not shown."""
    text = (DOCS / "tutorial" / "first-table.ipynb").read_text(encoding="utf-8")
    cells = json.loads(text)["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


Blocks = Callable[[Path], list[str]]
PAGES = pytest.mark.parametrize("blocks", [page, notebook], ids=["python.md", "first-table.ipynb"])


@PAGES
def test_the_examples_of_the_docs_use_public_names_alone(blocks: Blocks, tmp_path: Path) -> None:
    nodes = [node for block in blocks(tmp_path) for node in ast.walk(ast.parse(block))]
    imports = [node for node in nodes if isinstance(node, ast.Import)]
    imported = {alias.name for node in imports for alias in node.names}
    imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    used = {node.attr for node in attributes if ast.unparse(node.value) == "rx"}
    assert {name for name in imported if name.startswith("raxalign")} == {"raxalign"}
    assert used
    assert used <= set(rx.__all__)


def without_ray(opened: rx.Opened) -> SimpleNamespace:
    """Run the trials of a grid in this process."""
    return SimpleNamespace(failed=attempted(opened.plan, opened.storage))


@pytest.mark.slow
@PAGES
def test_the_examples_of_the_docs_run_and_leave_comparisons(
    blocks: Blocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray_head: str
) -> None:
    """Those of the page under Ray, those of the notebook without it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rx, "plan", partial(rx.plan, address=ray_head))
    if blocks is notebook:
        monkeypatch.setattr(rx, "run", without_ray)
    names: dict[str, Any] = {}
    for block in blocks(tmp_path):
        exec(block, names)
    assert not names["finished"].failed
    found = rx.compare(names["plan"]).to_pylist()
    assert all(row["low"] <= row["value"] <= row["high"] for row in found if row["low"] is not None)
    assert any(row["difference_low"] is not None for row in found)


def test_every_public_name_is_there_and_an_opened_grid_says_what_it_is(tmp_path: Path) -> None:
    assert {name for name in rx.__all__ if getattr(rx, name) is None} == set()
    path, place = write_grid(tmp_path), str(tmp_path / "storage")
    opened = rx.plan(str(path), storage=place)
    counts = f"{len(opened.plan.trials)} trials, {len(opened.plan.stages)} stages"
    assert repr(opened) == f"<grid small: {counts}, storage {place}>"


class Tables(NamedTuple):
    """A grid of two tasks with made-up results, and its tables."""

    opened: rx.Opened
    results: pa.Table
    compared: pa.Table


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    parts = {"languages": "{together: [de]}", "sentences": "100", "more": ""}
    opened, _ = made_up(tmp_path_factory.mktemp("grid"), **parts)
    return Tables(opened, rx.results(opened, split="all"), rx.compare(opened))


def test_curves_are_those_of_the_report_and_a_grid_with_fewer_sizes_has_none(
    tables: Tables, tmp_path: Path
) -> None:
    sizes = {"languages": "{together: [de]}", "sentences": "[100, 200, 800]", "more": ""}
    opened, _ = made_up(tmp_path, **sizes)
    found = rx.curves(opened, "xnli")
    assert found.table == ("xnli", "accuracy", "test")
    named = ", ".join(f"{method} [100, 200, 800]" for method in found.shown)
    assert str(found) == f"<curves of xnli accuracy test on {found.encoder}: {named}>"
    assert found.following == 3200
    assert found.ahead("rotation")[0] == 3200
    for method, size, pairs in found.worths("rotation"):
        value = found.curves.at(method, size).value
        assert found.curves.at("rotation", pairs.value).value == pytest.approx(value, abs=1e-3)
    assert rx.curves(opened).table[0] == "retrieval"
    for task in (None, "xnli"):
        with pytest.raises(rx.RaxalignError, match="there are no curves, which take results of"):
            rx.curves(tables.opened, task)


def test_results_are_those_of_the_test_set_unless_others_are_asked_for(tables: Tables) -> None:
    opened, every, _ = tables
    both = [row["split"] for row in every.to_pylist()]
    assert set(both) == {"test", "dev"}
    for asked, table in (("test", rx.results(opened)), ("dev", rx.results(opened, split="dev"))):
        assert table.column("split").to_pylist() == [split for split in both if split == asked]


def test_results_are_those_of_the_command_with_types_of_their_own(tables: Tables) -> None:
    opened, table, _ = tables
    found = rows(opened.plan, opened.storage.ledger)
    printed = list(csv.DictReader(csv_parts(found, FIELDS)))
    assert table.num_rows == len(printed) > 50
    for row, wanted in zip(table.to_pylist(), printed, strict=True):
        assert row["value"] == float(wanted["value"])
        assert json.loads(row["params"]) == json.loads(wanted["params"])
        for name in ("trial", "task", "lang", "metric"):
            assert row[name] == wanted[name]
    assert table.to_pandas()["value"].dtype == "float64"


def test_the_name_of_a_grid_file_stands_for_what_plan_returns(tables, monkeypatch):
    monkeypatch.setenv("RAXALIGN_STORAGE", tables.opened.root)
    assert rx.results(tables.opened.grid.path, "all").equals(tables.results)
    assert rx.compare(str(tables.opened.grid.path)).equals(tables.compared)


def test_every_option_is_a_column_with_a_type_of_its_own(tables: Tables) -> None:
    for table in (tables.results, tables.compared):
        kinds = {name: str(table.schema.field(name).type) for name in table.column_names}
        assert {kinds["method.lambda"], kinds["task.learning_rate"]} == {"double"}
        assert (kinds["method.center"], kinds["method.layers"]) == ("bool", "string")
        assert (kinds["method.steps"], kinds["encoder.hidden_size"]) == ("int64", "int64")
        for row in table.to_pylist():
            params = json.loads(row["params"])
            assert row["method.lambda"] == params.get("lambda")
            assert row["method.center"] == params.get("center")
            assert (row["method.steps"] == 0) == (row["method"] == "finetune")  # left out of keys
            assert (row["encoder.kind"], row["encoder.hidden_size"]) == ("scratch", 32)
            assert (row["task.measure"] is None) == (row["task"] == "xnli")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'raxalign' has no attribute 'runn'"):
        rx.runn  # noqa: B018


SPLIT = {"test": 60, "dev": 30}


def test_a_mapping_is_planned_as_the_file_that_holds_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for lang in ("no", "en"):
        Path(f"no-en.{lang}").write_text("".join(f"{lang} {n}\n" for n in range(300)))
    grid = {
        "name": "mapped",
        "encoder": "phrasebook",
        "languages": {"each": ("no",)},
        "corpus": {"source": "moses", "path": Path("{lang}-{pivot}"), "split": SPLIT},
        "pairs": {"aligner": "fast_align"},
        "sentences": 100,
        "methods": {"none": {}, "finetune": {"lambda": [1e-3, 1], "learning_rate": 1e-5}},
        "tasks": {"retrieval": {}},
    }
    mapped = rx.plan(grid)
    assert mapped.plan.languages == ("no", "en")
    assert mapped.grid.path == tmp_path / "mapped.yaml"
    assert not mapped.grid.path.exists()
    mapped.grid.path.write_text(mapped.grid.text_of_file, encoding="utf-8")
    assert rx.plan("mapped.yaml").plan == mapped.plan


def test_faults_of_a_mapping_are_named_by_their_keys() -> None:
    told = r"  methods\.rotatoin: unknown method 'rotatoin' \(did you mean rotation\?\)"
    with pytest.raises(rx.RaxalignError, match=told) as caught:
        rx.plan({"name": "mapped", "methods": {"rotatoin": {}}, "seeds": [0.5]})
    assert "line" not in str(caught.value)
    with pytest.raises(rx.RaxalignError, match="cannot represent an object"):
        rx.plan({"name": object()})


def test_comparisons_have_the_columns_of_the_csv_and_the_baseline_that_was_asked_for(tables):
    opened, _, compared = tables
    names = compared.column_names
    assert names[: len(ComparisonTables.FIELDS)] == list(ComparisonTables.FIELDS)
    assert all(
        name.startswith(("method.", "encoder.", "task."))
        for name in names[len(ComparisonTables.FIELDS) :]
    )
    other = rx.compare(opened, baseline="rotation")
    for table, baseline in ((compared, "none"), (other, "rotation")):
        assert set(table.column("baseline").to_pylist()) == {baseline}
    with pytest.raises(rx.RaxalignError, match="no result is called 'rotatoin'"):
        rx.compare(opened, baseline="rotatoin")


def test_a_grid_without_results_has_empty_tables_of_the_same_types(tables, tmp_path):
    empty = rx.plan(tables.opened.grid.path, storage=str(tmp_path / "other"))
    for table, full in ((rx.results(empty), tables.results), (rx.compare(empty), tables.compared)):
        assert (table.num_rows, table.schema) == (0, full.schema)


@contextmanager
def hung_up() -> Iterator[None]:
    """A terminal that ends, and its shell: both say so, after the block."""
    try:
        yield
    finally:
        signal.raise_signal(signal.SIGHUP)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_after_an_interrupted_grid_signals_mean_what_they_meant_before(number) -> None:
    known = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    outside = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
    before = [*map(signal.getsignal, known)]
    try:
        with pytest.raises(KeyboardInterrupt), _interrupt_twice(), hung_up():
            signal.raise_signal(number)
        assert [*map(signal.getsignal, known)] == before
    finally:
        signal.signal(signal.SIGHUP, outside)


def test_under_nohup_a_grid_outlives_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with _interrupt_twice():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_calls_that_compute_take_turns(monkeypatch, tmp_path):
    """Torch has one state of random numbers: of two at once each would draw some of the other's."""
    entered, second = [], threading.Thread(target=lambda: call(tmp_path / "other"))

    def make(request, out, **given):
        entered.append(out.name)
        if len(entered) == 1:
            second.start()
            second.join(0.2)
        return {"entered": len(entered)}

    def call(out):
        return rx.align("rotation", "phrasebook", {}, out)

    monkeypatch.setattr(AlignRequest, "make", make)
    assert call(tmp_path / "one") == {"entered": 1}
    second.join()
    assert entered == ["one", "other"]
