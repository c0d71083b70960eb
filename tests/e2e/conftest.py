from __future__ import annotations

import pytest

from tests.e2e.runs import Site
from tests.grids import write_grid

METHODS = (
    "none: {}",
    "rotation: {center: [false, true]}",
    "finetune: {lambda: 1.0, batch_size: 1, epochs: 3}",
)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A grid that ran to its end on an empty storage; tests copy it before they break it."""
    folder = tmp_path_factory.mktemp("finished")
    site = Site(
        write_grid(folder, size=300, sentences="[100]", methods=METHODS), folder / "storage"
    )
    done = site.run()
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    (folder / "stderr").write_text(done.stderr)
    return site
