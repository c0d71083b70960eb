"""What is wrong with the encoders of a grid, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from raxalign.encoders.models import flash
from raxalign.errors import RaxalignError
from raxalign.plan.load import open_grid
from raxalign.report.doctor import examine
from tests.grids import write_grid

FLASH = "{kind: transformer, name: some/encoder, attention: flash_attention_2}"


def grid_with(tmp_path: Path, precision: str) -> Path:
    return write_grid(
        tmp_path,
        languages="{each: [de]}",
        sentences="[100]",
        encoder=FLASH,
        run=f"precision: {precision}",
    )


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_flash_attn_in_another_precision_is_a_fault_of_the_grid(tmp_path, precision):
    with pytest.raises(
        RaxalignError, match=rf"encoder: .*in bfloat16 alone.* is {precision}\. Set"
    ):
        open_grid(grid_with(tmp_path, precision))


def test_flash_attn_in_bfloat16_is_planned_on_a_machine_that_does_not_have_it(tmp_path):
    assert open_grid(grid_with(tmp_path, "bf16")).plan.trials


def remarks(path: Path, tmp_path: Path) -> list[str]:
    lines, _ = examine(path, str(tmp_path / "storage"))
    return [line for line in lines if line.startswith("note") and "flash" in line]


def test_doctor_names_what_this_machine_lacks_for_flash_attn(tmp_path, monkeypatch):
    path, card = grid_with(tmp_path, "bf16"), tmp_path / "card"
    monkeypatch.setattr(flash, "_CARD", card)
    monkeypatch.setattr(flash, "_LIBRARY", "no_such_library")
    (line,) = remarks(path, tmp_path)
    assert "does not have an NVIDIA card and the package flash-attn (`pip install" in line
    card.touch()
    (line,) = remarks(path, tmp_path)
    assert "does not have the package flash-attn (`pip install flash-attn`). The machines" in line
    monkeypatch.setattr(flash, "_LIBRARY", "json")
    assert remarks(path, tmp_path) == []
