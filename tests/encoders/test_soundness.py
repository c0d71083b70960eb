"""What a method or an encoder made is used only with finite numbers in the encoder's shapes."""

from __future__ import annotations

import pytest
import torch

from raxalign.catalog import open_file, visible
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.soundness import refuse_unsound
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.errors import RaxalignError
from raxalign.single.align import AlignRequest, make_aligned
from raxalign.single.pairs import PairsRequest, make_pairs
from raxalign.store.storage import Storage
from tests.tiny import tiny_bert

OUTSIDE = """
import raxalign as rx


class Shift(rx.Method):
    VERSION = 1
    reference = "mine"

    class Params(rx.Params):
        value: float = 0.0

    def needs(self):
        return rx.Needs(links=True)

    def align(self, encoder, inputs, runtime):
        import torch

        from raxalign.encoders.models.transforms import Affine, Transform

        shift = torch.full((32,), self.params.value)
        return rx.AlignedEncoder(encoder, (Transform("de", 2, steps=(Affine(shift=shift),)),))
"""


def refused(encoder: TransformerEncoder, step: Affine) -> str:
    aligned = AlignedEncoder(encoder, (Transform("de", 1, steps=(step,)),))
    with pytest.raises(RaxalignError) as caught:
        refuse_unsound(object(), "shifting", aligned)
    return str(caught.value)


def test_a_transform_with_other_shapes_or_without_numbers_is_named(encoder):
    assert "a shift of shape (33,), not (32,)" in refused(encoder, Affine(shift=torch.zeros(33)))
    assert "a weight of shape (32, 8)" in refused(encoder, Affine(weight=torch.zeros(32, 8)))
    found = refused(encoder, Affine(center=torch.full((32,), torch.nan)))
    assert found.startswith("method shifting: align returned the transform of de at layer 1 with a")
    assert "center that has NaN or infinite values. Look for a division by zero" in found
    fine = Affine(torch.zeros(1, 32), torch.eye(32), torch.tensor(0.5))
    refuse_unsound(object(), "x", AlignedEncoder(encoder, (Transform("de", 1, steps=(fine,)),)))


def test_weights_that_are_not_numbers_are_named(encoder: TransformerEncoder) -> None:
    refuse_unsound(object(), "trained", AlignedEncoder(encoder, weights_changed=True))
    with torch.no_grad():
        encoder.model.get_input_embeddings().weight[0, 0] = torch.inf
    with pytest.raises(RaxalignError, match=r"whose weights bert\.embeddings\.word_embeddings"):
        refuse_unsound(object(), "trained", AlignedEncoder(encoder, weights_changed=True))


def test_align_writes_nothing_and_names_the_file_of_a_plug_in(tmp_path):
    (tmp_path / "shifting.py").write_text(OUTSIDE)
    encoder = tiny_bert(tmp_path / "tiny", ["ein", "Haus"])
    pairs = PairsRequest(
        "phrasebook", (), "de", "en", 20, 0, "fast_align", (), "intersection", True
    )
    make_pairs(pairs, tmp_path / "pairs", storage=Storage(str(tmp_path / "storage")))
    request = AlignRequest(
        "shifting", ("value=nan",), str(encoder), {"de": tmp_path / "pairs"}, "en", 0, "cpu"
    )
    wanted = r"shifting\.py:15: method shifting: align returned the transform of de .* a shift that"
    with visible([open_file(tmp_path / "shifting.py")]), pytest.raises(RaxalignError, match=wanted):
        make_aligned(request, tmp_path / "out", storage=Storage(str(tmp_path / "storage")))
    assert not (tmp_path / "out").exists()
