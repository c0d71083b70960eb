"""A small plan whose tracking database is there, without a run."""

import shutil

import pytest

from raxalign.grid.load import open_grid
from tests.grids import write_grid


@pytest.fixture
def plan(tmp_path, no_runs):
    shutil.copy(no_runs, tmp_path / "mlflow.db")
    path = write_grid(tmp_path, size=300, sentences="[100]", methods=("none: {}",))
    return open_grid(path, storage=str(tmp_path)).plan
