"""Passes that begin above blocks whose outputs were kept, in every architecture."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from raxalign.encoders.models.blocks import recorded, replayable, replayed
from raxalign.errors import RaxalignError
from tests.encoders.architectures import CONFIGS, encoder_of
from tests.encoders.test_architectures import batch


@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in ("albert", "xlm")])
def test_a_pass_over_kept_blocks_has_the_same_bits_and_computes_only_those_above(name, tmp_path):
    encoder, example = encoder_of(name, tmp_path), batch()
    base = encoder.model.base_model
    assert replayable(base)
    edits = {1: lambda states, _: states.flip(-1), 2: lambda states, _: states * 1.5}
    with torch.no_grad():
        with recorded(base, 2) as outputs:
            encoder.hidden(example, edits={1: edits[1]}, upto=2)
        assert len(outputs) == 2
        wanted = encoder.hidden(example, edits=edits)
        for _ in range(2):  # what was kept is not changed by a pass
            with replayed(base, outputs):
                found = encoder.hidden(example, edits=edits)
            assert all(map(torch.equal, found, wanted))
        for weight in [p for p in base.parameters() if p.dim() > 1]:
            weight.mul_(1.1)
        with replayed(base, outputs):
            changed = encoder.hidden(example, edits=edits)
        assert torch.equal(changed[2], wanted[2])
        assert not torch.allclose(changed[3], wanted[3], atol=1e-3)
        assert not torch.allclose(encoder.hidden(example)[2], wanted[2], atol=1e-3)


@pytest.mark.parametrize("name", ["albert", "xlm"])
def test_blocks_that_are_not_one_module_each_are_not_replayed(name: str, tmp_path: Path) -> None:
    assert not replayable(encoder_of(name, tmp_path).model.base_model)


def test_an_error_in_a_pass_leaves_the_blocks_as_they_were(tmp_path: Path) -> None:
    encoder, example = encoder_of("bert", tmp_path), batch()
    base = encoder.model.base_model
    before = [dict(vars(block)) for block in base.encoder.layer]
    with pytest.raises(RaxalignError, match="stop"), replayed(base, [torch.zeros(1)] * 3):
        raise RaxalignError("stop")
    with pytest.raises(RaxalignError, match="stop"), recorded(base, 3):
        raise RaxalignError("stop")
    assert [dict(vars(block)) for block in base.encoder.layer] == before
    with torch.no_grad():
        assert encoder.hidden(example)[3].shape == (2, 9, 32)
