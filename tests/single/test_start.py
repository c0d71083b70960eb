"""`raxalign init`: a grid file to start from, out of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from raxalign.config.grid import load
from raxalign.errors import RaxalignError
from raxalign.plan.expansion.expand import expand
from raxalign.single.start import CHOICES, grids_folder, write_grid

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("name", CHOICES)
def test_a_grid_is_written_that_plans_and_has_comments(name: str, tmp_path: Path) -> None:
    written = write_grid(name, tmp_path / "first.yaml")
    assert (
        len([line for line in written.read_text(encoding="utf-8").splitlines() if "#" in line]) >= 3
    )
    plan = expand(load(written), allow_missing=True)
    assert plan.name == name
    assert plan.trials


def test_without_a_place_it_is_named_after_the_grid_and_lies_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert write_grid("mine") == Path("mine.yaml")
    assert (tmp_path / "mine.yaml").read_bytes() == (
        REPOSITORY / "grids" / "mine.yaml"
    ).read_bytes()


def test_a_file_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("of my own")
    with pytest.raises(
        RaxalignError, match=r"mine\.yaml: is there already; give another name with --out"
    ):
        write_grid("mine", tmp_path / "mine.yaml")
    assert (tmp_path / "mine.yaml").read_text() == "of my own"


def test_an_unknown_grid_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        RaxalignError, match="init mein: is not one of the grids; there are quickstart, paper, mine"
    ):
        write_grid("mein")


def test_an_installed_package_has_its_own_copy_of_the_grids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raxalign" / "grids").mkdir(parents=True)
    (tmp_path / "raxalign" / "grids" / "quickstart.yaml").write_text("")
    monkeypatch.setattr("raxalign.__file__", str(tmp_path / "raxalign" / "__init__.py"))
    assert grids_folder() == tmp_path / "raxalign" / "grids"


def test_the_fine_tuning_of_mine_has_hundreds_of_steps_at_the_smallest_size(tmp_path: Path) -> None:
    grid = load(write_grid("mine", tmp_path / "mine.yaml"))
    trials = [t for t in expand(grid, allow_missing=True).trials if t.kind == "finetune"]
    rates = {trial.params["learning_rate"] for trial in trials}
    assert len(rates) == 2
    assert max(rates) == 1e-3  # that of small encoders
    steps = {t.sentences * t.params["epochs"] // t.params["batch_size"] for t in trials}  # type: ignore[operator]
    assert min(steps) >= 300
