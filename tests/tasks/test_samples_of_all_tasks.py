"""Stored predictions of every task of the package, on tiny data: each value that a table shows is
tested, and the sample that is tested is of that value.
"""

from __future__ import annotations

import pytest

from raxalign.analysis.cells import MEANS
from raxalign.catalog import catalog
from raxalign.values.comparisons import NO_PREDICTIONS, comparisons
from raxalign.values.results import rows
from raxalign.values.scoreboard import Scoreboard
from tests.grids import ENCODER, write_grid
from tests.ran import ran
from tests.tasks.conftest import UNTESTED
from tests.tasks.smallest import TASKS, write_task_files

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("all")
    write_task_files(folder)
    file = write_grid(
        folder,
        encoder=ENCODER.replace("steps: 30", "steps: 2"),
        languages="{together: [de]}",
        sentences="[100]",
        methods=("none: {}", "rotation: {}"),
        tasks=[f"{name}: {options}" for name, options in TASKS.items()],
    )
    return ran(file)


def test_every_value_of_a_table_that_is_compared_has_predictions(opened):
    ledger = opened.storage.ledger
    results = Scoreboard.of(rows(opened.plan, ledger), opened.plan)
    found = comparisons(results.cells, opened.plan, ledger)
    assert {entry.name[0] for entry in found} == set(catalog("tasks"))
    untested = {
        entry.name[2]
        for entry in found
        if entry.untested == NO_PREDICTIONS and entry.name[1] not in MEANS
    }
    neutral = {entry.name[2] for entry in found if not entry.measured.sign}
    assert untested == UNTESTED | neutral
