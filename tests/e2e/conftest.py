from __future__ import annotations

import shutil
from contextlib import chdir
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import pytest

from tests.e2e.runs import Site
from tests.grids import write_grid
from tests.once import once

METHODS = (
    "none: {}",
    "rotation: {center: [false, true]}",
    "finetune: {lambda: 1.0, batch_size: 1, epochs: 3}",
)


@dataclass(frozen=True)
class Finished(Site):
    """A grid that ran to its end on an empty storage; tests copy it before they break it.

    Attributes:
        no_runs: The empty tracking database that copies begin with.
    """

    no_runs: Path = Path()

    def copy(self, folder: Path, *, tracking: bool = True) -> Site:
        """Copy the storage, and give the copy an empty tracking database unless `tracking` is off:
        the next command then makes it.
        """
        site = super().copy(folder)
        if tracking:
            shutil.copy(self.no_runs, site.storage / "mlflow.db")
        return site

    @cached_property
    def expected(self) -> list[dict[str, object]]:
        return self.results()


@pytest.fixture(scope="session")
def finished(tmp_path_factory, no_runs, ray_head) -> Finished:
    folder = once(tmp_path_factory, "finished", partial(_run, address=ray_head))
    return Finished(folder / "grid.yaml", folder / "storage", ray_head, no_runs)


def _run(folder: Path, address: str) -> None:
    sizes = {"languages": "{each: [de]}", "size": 300, "sentences": "[100]"}
    # each worker loads torch for some seconds
    run = "checkpoint_minutes: 0.01, concurrency: 1, threads: 1"
    grid = write_grid(folder, methods=METHODS, run=run, **sizes)
    # what a user keeps beside a grid may be called like a module of Python
    (folder / "statistics.py").write_text(f"open({str(folder / 'imported')!r}, 'w')\n1 / 0\n")
    with chdir(folder):
        done = Site(grid, folder / "storage", address).run()
    assert done.stdout == ""
    (folder / "stderr").write_text(done.stderr)
