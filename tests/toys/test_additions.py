"""Each of the eight kinds of addition is one file outside the package, and its effect is seen in
the results: the grid of docs/how-to/plugins.md, whose numbers are known by hand.

Words are (digits, capitals) and a translation differs in its capitals alone: linked words are 1
apart, and a method that shifts by a share of the mean difference leaves 1 - share.
"""

import csv
import importlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import pytest

import raxalign
from raxalign import catalog as catalog_module
from raxalign.analysis.cells import Cell
from raxalign.catalog import FOLDERS, PluginFault, PluginFile, catalog
from raxalign.grid.load import Opened, open_grid
from raxalign.report.tables import as_text as tables_text
from raxalign.report.tables import blocks as blocks_of
from raxalign.stages import Workshop
from raxalign.train.runtime import Runtime
from raxalign.values.comparisons import comparisons
from raxalign.values.results import rows
from tests.report.material import leave_undrawn, write
from tests.toys.pages import write_page

PACKAGE = Path(raxalign.__file__).parent
KINDS = {"my_method": "methods", "gap": "tasks", "count_off": "corpora", "shapes": "encoders"}
KINDS |= {"crossed": "aligners", "close": "metrics", "closest": "sections"}


@dataclass(frozen=True)
class Ran:
    """The grid of the page after all of its trials ran in this process, with its report."""

    opened: Opened
    workshop: Workshop
    found: list[dict[str, Any]]
    report: Path

    def values(self, metric: str) -> dict[float | None, float]:
        """The value of a metric by the strength of the method (None: the original encoder)."""
        return {
            row["params"].get("strength"): row["value"]
            for row in self.found
            if (row["task"], row["lang"], row["metric"]) == ("gap", "de-en", metric)
        }


def run_page(grid):
    """Plan, run, read results and write the report, whose figures are empty files."""
    opened = open_grid(grid, storage=str(grid.parent / "storage"))
    workshop = Workshop(opened.plan, opened.storage, Runtime())
    for trial in opened.plan.trials:
        workshop.run_trial(trial.key)
    found, report = rows(opened.plan, workshop.ledger), grid.parent / "report"
    with pytest.MonkeyPatch.context() as patch:
        leave_undrawn(patch)
        write((opened, workshop.ledger), report)
    return Ran(opened, workshop, found, report)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The grid of the page, after which the package is what it was."""
    files = [path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".yaml", ".j2"}]
    before = [path.stat().st_mtime_ns for path in files]
    found = run_page(write_page(tmp_path_factory.mktemp("page")))
    assert [path.stat().st_mtime_ns for path in files] == before
    assert set(KINDS.values()) == set(FOLDERS), "every folder of plug-ins has an example"
    return found


def stages(ran, kind):
    return [stage for stage in ran.opened.plan.stages.values() if stage.kind == kind]


def write_changed(folder, name, *changes):
    """Write the page with changes of one of its files; returns the grid's path."""
    grid = write_page(folder)
    text = (folder / name).read_text(encoding="utf-8")
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / name).write_text(text, encoding="utf-8")
    return grid


@pytest.mark.parametrize("name", KINDS)
def test_an_addition_is_one_file_that_stands_alone(name, tmp_path):
    file = PluginFile.open(write_page(tmp_path, only=f"{name}.py"))
    assert (file.name, file.folder) == (name, KINDS[name])
    assert catalog(file.folder)[file.kind].__module__.startswith("raxalign_outside.")
    assert name not in catalog(file.folder)


UNSOUND = {
    "shapes.py": (
        ".repeat(1, len(layers), 1)\n",
        ".repeat(1, len(layers) + 1, 1)\n",
        r"encoder shapes: _Encoder.iter_words gave vectors of shape \(\d+, 2, 2\), not",
    ),
    "my_method.py": (
        "(means[1] - means[0])",
        "(means[1] - means[0]) / 0",
        "method my_method: align returned the transform of de at layer 0 with a shift that has NaN",
    ),
    "gap.py": (
        "(src - tgt)",
        "(src * float('nan'))",
        r"task gap: distance of de-en \(test\) is nan, which is not a result",
    ),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_what_is_not_a_number_or_has_other_shapes_names_the_addition_and_its_file(name, tmp_path):
    before, after, message = UNSOUND[name]
    grid = write_changed(tmp_path, name, (before, after))
    with pytest.raises(PluginFault, match=rf"{re.escape(name)}:\d+: {message}"):
        run_page(grid)


TWICE = """
def _of(*given):
    found = rx.Outcome.of(*given)
    return rx.Outcome([*found.scores] * 2, found.predictions)
"""


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('{inputs.pivot}", "test"', '{inputs.pivot}", "tset"', r"de-en \(tset\) is not of a lang"),
        ('found[f"{lang}-', 'found[f"no-', r"distance of no-en \(test\) is not of a language of"),
        ("return rx.Outcome.of(found, ", "return _of(found, ", "distance of de-en .* there twice"),
        ('main_metric = "distance"', 'main_metric = "other"', "main metric other has no value on"),
    ],
)
def test_scores_that_no_reader_of_results_would_find_are_refused(before, after, message, tmp_path):
    more = ("import raxalign as rx\n", f"import raxalign as rx\n{TWICE}")
    other = ("    metrics = (", '    metrics = (rx.Measured("other", "Another."), ')
    with pytest.raises(PluginFault, match=rf"gap\.py:\d+: task gap: .*{message}"):
        run_page(write_changed(tmp_path, "gap.py", more, other, (before, after)))


def test_a_task_that_changes_the_encoder_changes_no_result_of_another(tmp_path):
    function = "def _count(encoder):\n    encoder.times = getattr(encoder, 'times', 0) + 1\n"
    changes = (
        ("import raxalign as rx\n", f"import raxalign as rx\n\n\n{function}"),
        ("    accepts =", "    class Params(rx.Params):\n        turn: int = 1\n\n    accepts ="),
        ("aligned.toward(lang)\n", "aligned.toward(lang)\n            _count(view.encoder)\n"),
        ("(src - tgt)", "((src - tgt) * view.encoder.times)"),
    )
    grid = write_changed(tmp_path, "gap.py", *changes)
    again = "tasks:\n  again: {kind: gap, turn: 2}\n"
    grid.write_text(grid.read_text(encoding="utf-8").replace("tasks:\n", again))
    found = [row for row in run_page(grid).found if row["metric"] == "distance"]
    values = {(row["task"], str(row["params"]), row["lang"]): row["value"] for row in found}
    assert {task for task, _, _ in values} == {"gap", "again"}
    assert all(value == values["gap", *rest] for (_, *rest), value in values.items())


def test_a_method_changes_the_results_by_what_it_does(ran):
    assert ran.values("distance") == pytest.approx({None: 1.0, 0.5: 0.5, 1.0: 0.0})


def test_a_corpus_gives_the_sentences_of_the_word_pairs_and_a_word_aligner_their_links(ran):
    count = 0
    for stage in stages(ran, "pairs"):
        for pair in datasets.load_from_disk(str(ran.workshop.ensure(stage.key) / "data")):
            number = pair["id"]
            assert pair["src"] == [f"a{2 * number}", f"b{2 * number + 1}"]
            assert pair["tgt"] == [f"B{2 * number + 1}", f"A{2 * number}"]
            assert (pair["src_links"], pair["tgt_links"]) == ([0, 1], [1, 0])
            count += 1
    assert count == 20 + 8  # training and test


def test_an_encoder_gives_the_vectors_that_everything_is_measured_on(ran):
    (stage,) = stages(ran, "encoder")
    words = ran.workshop.encoder(stage.key).words([["a0", "B1"]], "de", layers=(0,), pooling="mean")
    assert words.vectors_NLH[:, 0].tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert {row["encoder"] for row in ran.found} == {"shapes"}


def test_a_task_keeps_a_row_of_predictions_per_example(ran):
    trial = next(trial for trial in ran.opened.plan.trials if trial.method == "none")
    table = ran.workshop.ledger.predictions(trial.evaluations["gap"])
    assert table["distance"].to_pylist() == [1.0] * 16  # two links in each of 8 sentences


def test_a_metric_is_in_results_and_comparisons_and_in_no_key(ran, tmp_path):
    assert ran.values("close") == {None: 0.0, 0.5: 1.0, 1.0: 1.0}
    plan, ledger = ran.opened.plan, ran.workshop.ledger
    entries = comparisons(Cell.grouped(ran.found, plan.pivot, plan.measured), plan, ledger)
    half = (entry for entry in entries if entry.cell.params.get("strength") == 0.5)
    (compared,) = (entry for entry in half if entry.name[2] == "close")
    assert (compared.comparison.difference, compared.comparison.examples) == (1.0, 8)
    assert compared.verdict == "better"
    without = write_changed(tmp_path, "grid.yaml", ("gap: {metrics: [close]}", "gap: {}"))
    assert open_grid(without).plan.stages == plan.stages


def test_a_distance_is_shown_as_it_is_and_a_share_in_percent(ran):
    shown = tables_text(blocks_of(ran.found, ran.opened.plan))
    assert re.search(r"gap: distance \(test\), lower is better\n.*\n─+\nnone +1\.000\n", shown)
    assert re.search(r"gap: close \(test\), %\n.*\n─+\nnone +0\.0\n", shown)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ('unit="share"', r"is 1\.4, outside the range 0 to 1 of its unit share\."),
        ("range=(0.0, 1.3)", r"is 1\.4, outside the range 0 to 1\.3\."),
        ('unit="count"', r"is 1\.4, which is not a whole number, as its unit count says\."),
    ],
)
def test_a_value_that_its_declaration_excludes_is_refused_when_it_is_evaluated(
    declared, message, tmp_path
):
    changes = (
        ('better="lower"', f'better="lower", {declared}'),
        (".norm(dim=1)", ".norm(dim=1).mul(1.4)"),
    )
    grid = write_changed(tmp_path, "gap.py", *changes)
    where = re.escape(f"{tmp_path / 'gap.py'}:6: task gap: distance of de-en (test) ")
    with pytest.raises(PluginFault, match=f"{where}{message} Correct the score, or its unit"):
        run_page(grid)


def test_a_report_section_stands_under_its_heading_and_a_published_figure_beside_the_measured(ran):
    page = (ran.report / "report.html").read_text(encoding="utf-8")
    for text in ("<h2>Closest words</h2>", "The smallest distance", "Distances of linked words"):
        assert text in page
    with (ran.report / "published.csv").open(encoding="utf-8") as file:
        (record,) = csv.DictReader(file)
    assert record["publication"] == "my_paper"
    assert (record["published"], record["measured"]) == ("0.25", "0.5")
    assert float(record["difference"]) == 0.25


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The plug-ins of the page as a package that a user has installed."""
    package, info = tmp_path / "my_package", tmp_path / "my_package-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").touch()
    groups = {}
    for name, folder in KINDS.items():
        file = PluginFile.open(write_page(package, only=f"{name}.py"))
        plugin = catalog(folder)[file.kind].__name__
        groups.setdefault(folder, []).append(f"{name} = my_package.{name}:{plugin}")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    entries = ["\n".join([f"[raxalign.{name}]", *lines, ""]) for name, lines in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(entries))
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    catalog_module._entry_points.cache_clear()
    yield package
    catalog_module._entry_points.cache_clear()
    for module in [name for name in sys.modules if name.split(".")[0] == "my_package"]:
        del sys.modules[module]


def test_a_package_that_is_installed_adds_all_kinds_by_entry_points(installed, tmp_path, ran):
    for name, folder in KINDS.items():
        assert catalog(folder)[name].__module__ == f"my_package.{name}"
        assert catalog(folder).kind(name) == name
    (tmp_path / "grid").mkdir()
    grid = write_page(tmp_path / "grid")
    lines = grid.read_text(encoding="utf-8").splitlines(keepends=True)
    grid.write_text("".join(line for line in lines if not line.startswith("plugins:")))
    found = run_page(grid)
    assert found.opened.plan.plugins == ()
    for metric in ("distance", "close"):
        assert found.values(metric) == ran.values(metric)
    assert "Closest words" in (found.report / "report.html").read_text(encoding="utf-8")
