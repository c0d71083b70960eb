"""A grid over encoders of four families, with three kinds of tokenizers, from its plan to its
report.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.runs import Site
from tests.families.catalogue import FAMILIES, build
from tests.grids import write_grid
from tests.once import once

pytestmark = pytest.mark.slow

ENCODERS = {
    "wordpiece": "mBERT",
    "unigram": "XLM-R",
    "bytes": "ModernBERT",
    "headless": "multilingual-e5",
}
TASKS = (
    "retrieval: {}",
    "xnli: {data: phrasebook, epochs: 1, phrasebook: {train: 9, dev: 6, test: 6}}",
    "ner: {data: phrasebook, epochs: 1, phrasebook: {train: 8, dev: 4, test: 4}}",
)
METHODS = ("none: {}", "rotation: {}", "tlm: {steps: 2, batch_size: 8}")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The grid, run to its end."""
    folder = once(tmp_path_factory, "families", _run)
    return Site(folder / "grid.yaml", folder / "storage")


def _run(folder: Path) -> None:
    for name, family in ENCODERS.items():
        build(FAMILIES[family], folder / name)
    grid = write_grid(
        folder,
        encoder=f"[{', '.join(f'./{name}' for name in ENCODERS)}]",
        languages="{each: [de]}",
        size=200,
        sentences="60",
        methods=METHODS,
        tasks=TASKS,
    )
    done = Site(grid, folder / "storage").run()
    assert done.returncode == 0, done.stderr


def test_each_encoder_has_a_result_of_each_method_and_task_that_it_suits(site: Site) -> None:
    found = Counter(
        (Path(str(row["encoder"])).name, row["method"])
        for row in {
            (str(row["encoder"]), str(row["method"]), str(row["task"])): row
            for row in site.results()
        }.values()
    )
    methods = {name: {"none", "rotation", "tlm"} for name in ENCODERS}
    methods["headless"].discard("tlm")
    assert found == {(name, method): 3 for name in ENCODERS for method in methods[name]}


def test_the_combination_that_is_dropped_is_counted_with_its_reason(site: Site) -> None:
    planned = site.run(command="plan")
    assert "tlm requires a masked-LM head, which headless does not have: 1 point" in planned.stdout


def test_the_report_tells_encoders_apart_and_names_what_was_left_out(site: Site) -> None:
    written = site.run(command="report")
    assert written.returncode == 0, written.stderr
    page = (site.grid.parent / "small-report" / "report.md").read_text(encoding="utf-8")
    for name in ENCODERS:
        assert f"none ({name}, 1 seed)" in page
        assert f"rotation ({name}, 60 pairs, 1 seed)" in page
    assert "tlm (headless" not in page
    assert "- left out: tlm requires a masked-LM head, which headless does not have" in page
    assert "Of the grid's encoders only wordpiece is shown." in page
