"""An encoder and its transforms, which are used only with finite numbers in its shapes."""

from types import SimpleNamespace

import pytest
import torch

from raxalign.catalog import PluginFile, catalog
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Affine, Transform, Unit
from raxalign.errors import DataError, RaxalignError
from raxalign.methods.base import Effect

H = 32
SENTENCES = [["the", "playing", "dogs"], ["a", "\u00ad", "cat"], ["der"]]


def affine(seed):
    generator = torch.Generator().manual_seed(seed)
    center, shift = torch.randn(2, H, generator=generator)
    weight, _ = torch.linalg.qr(torch.randn(H, H, generator=generator))
    return Affine(center, weight, shift)


def test_affine_subtracts_then_turns_then_shifts():
    x, turn = torch.tensor([[3.0, 5]]), torch.tensor([[0.0, 2], [1, 0]])
    assert Affine(torch.tensor([1.0, 0]), turn, torch.tensor([10.0, 20]))(x).tolist() == [[15, 24]]
    assert Affine(shift=torch.tensor([1.0, 1]))(x).tolist() == [[4.0, 6]]
    assert Affine()(x).tolist() == x.tolist()
    lengths = Unit()(torch.tensor([[3.0, 4], [0, 0]]))
    assert torch.allclose(lengths, torch.tensor([[0.6, 0.8], [0, 0]]))


def test_the_way_back_of_a_map_of_few_pairs_loses_what_it_sends_to_zero_and_adds_no_noise():
    """Of 40 dimensions the map keeps 6, and turns them; float32 rounds its zeros to about 1e-8,
    which must not come back as 1e8.
    """
    draw = torch.Generator().manual_seed(0)
    turn, _ = torch.linalg.qr(torch.randn(40, 40, generator=draw, dtype=torch.float64))
    kept, _ = torch.linalg.qr(torch.randn(40, 6, generator=draw, dtype=torch.float64))
    there = Affine(weight=(kept @ kept.T @ turn).float())
    assert torch.linalg.matrix_rank(there.weight.double()) > 6, "as float64 reads what was rounded"
    x = torch.randn(5, 40, generator=draw)
    back = there.inverse()(there(x))
    assert torch.allclose(back, x @ (kept @ kept.T).float(), atol=1e-5)
    assert torch.linalg.matrix_norm(there.inverse().weight, 2) == pytest.approx(1, abs=1e-4)


def test_steps_apply_in_their_order_to_their_language_and_layer_only(encoder):
    step, plain = affine(0), AlignedEncoder(encoder)
    aligned = AlignedEncoder(encoder, (Transform("en", 2, steps=(step, Unit())),))
    before = plain.words(SENTENCES, "en", layers="1-3")
    after = aligned.words(SENTENCES, "en", layers="1-3")
    expected = Unit()(step(before.vectors_NLH[:, 1])) * before.present_N[:, None]
    assert torch.allclose(after.vectors_NLH[:, 1], expected, atol=1e-6)
    assert not after.vectors_NLH[4].any()  # an absent word
    assert after.present_N.tolist() == [True] * 4 + [False, True, True]
    apart = tuple(Transform("en", 2, steps=(one,)) for one in (step, Unit()))
    both = AlignedEncoder(encoder, apart).words(SENTENCES, "en", layers="1-3")
    assert torch.equal(both.vectors_NLH, after.vectors_NLH)
    assert torch.equal(after.vectors_NLH[:, [0, 2]], before.vectors_NLH[:, [0, 2]])
    german = aligned.words(SENTENCES, "de", layers="2").vectors_NLH
    assert torch.equal(german, before.vectors_NLH[:, 1:2])


def test_what_is_aligned_with_the_pivot_lies_where_one_language_does(encoder):
    german, french, x = affine(0), affine(1), torch.randn(5, H)
    maps = (Transform("de", 2, steps=(german,)), Transform("fr", 2, steps=(french,)))
    own = dict[str, list[Transform]]()
    for found in AlignedEncoder(encoder, maps).seen_from("de", "en").transforms:
        own.setdefault(found.lang, []).append(found)
    assert own.keys() == {"fr", "en"}
    first, second = own["fr"]
    assert torch.allclose(german(second(first(x))), french(x), atol=1e-4)
    assert torch.allclose(own["en"][0](german(x)), x, atol=1e-4)
    unit = AlignedEncoder(encoder, (Transform("de", 2, steps=(Unit(),)),))
    with pytest.raises(RaxalignError, match="take de out of `train_on`"):
        unit.seen_from("de", "en")


def test_a_readout_changes_nothing_above_and_an_inside_transform_does(encoder):
    batch = encoder.collate(encoder.pieces(SENTENCES, "en"))
    plain, real = encoder.hidden(batch), batch.mask_BT == 1
    for layer, sort in ((1, "readout"), (1, "inside"), (0, "inside")):
        move = Transform("en", layer, sort, (affine(0),))
        states = AlignedEncoder(encoder, (move,)).hidden(batch)
        assert all(map(torch.equal, states[:layer], plain[:layer]))
        assert torch.allclose(states[layer][real], affine(0)(plain[layer])[real], atol=1e-6)
        above = zip(states[layer + 1 :], plain[layer + 1 :], strict=True)
        assert {torch.allclose(*pair) for pair in above} == {sort == "readout"}


def test_inside_the_last_layer_is_the_same_as_a_readout_there(encoder):
    moves = (Transform("en", 3, sort, (affine(0),)) for sort in ("readout", "inside"))
    read, inside = (AlignedEncoder(encoder, (move,)) for move in moves)
    batch = encoder.collate(encoder.pieces(SENTENCES, "en"))
    for one, other in zip(read.hidden(batch), inside.hidden(batch), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    one, other = (way.words(SENTENCES, "en").vectors_NLH for way in (read, inside))
    assert torch.allclose(one, other, atol=1e-5)


def test_what_was_hooked_for_an_inside_transform_is_unhooked_even_after_an_error(encoder):
    batch = encoder.collate(encoder.pieces(SENTENCES, "en"))
    plain = encoder.hidden(batch)[-1]
    narrow = (Affine(shift=torch.ones(7)),)
    broken = AlignedEncoder(encoder, (Transform("en", 1, "inside", narrow),))
    with pytest.raises(RuntimeError):
        broken.hidden(batch)
    assert torch.equal(encoder.hidden(batch)[-1], plain)


@pytest.mark.parametrize("sort", ["readout", "inside"])
def test_in_a_mixed_pair_transforms_follow_the_language_of_the_piece(encoder, sort):
    batch = encoder.collate(encoder.pieces([["der", "Hund"]], "de", [["the", "dogs"]], "en"))
    plain = encoder.hidden(batch)[3]
    shifts = {"de": torch.full((H,), 1.0), "en": torch.full((H,), 5.0)}
    moves = (Transform(lang, 3, sort, (Affine(shift=by),)) for lang, by in shifts.items())
    aligned = AlignedEncoder(encoder, tuple(moves))
    moved = (aligned.hidden(batch)[3] - plain)[0].mean(1)
    assert torch.allclose(moved, torch.tensor([1.0, 1, 1, 1, 5, 5, 5]), atol=1e-5)


@pytest.mark.parametrize("sort", ["readout", "inside"])
def test_in_a_mixed_pair_pieces_of_other_languages_stay_bit_for_bit_but_for_what_is_above(
    encoder, sort
):
    batch = encoder.collate(encoder.pieces([["der", "Hund"]], "de", [["the", "dogs"]], "en"))
    plain, german = encoder.hidden(batch), (Transform("de", 2, sort, (affine(0),)),)
    found = AlignedEncoder(encoder, german).hidden(batch)
    assert torch.allclose(found[2][0, :4], affine(0)(plain[2][0, :4]), atol=1e-5)
    assert torch.equal(found[2][0, 4:], plain[2][0, 4:])
    assert all(map(torch.equal, found[:2], plain[:2]))
    above = (found[3] - plain[3])[0, 4:].abs().max()
    assert above > 1e-3 if sort == "inside" else above == 0


def test_gradient_flows_through_transforms(encoder):
    inside, read = Transform("en", 1, "inside", (affine(0),)), Transform("en", 3, steps=(Unit(),))
    aligned = AlignedEncoder(encoder, (inside, read))
    batch = encoder.collate(encoder.pieces(SENTENCES, "en"))
    aligned.hidden(batch)[3][..., 0].sum().backward()
    grad = encoder.model.get_input_embeddings().weight.grad
    assert grad.isfinite().all()
    assert grad.any()


def test_toward_chooses_the_transforms_of_one_direction(encoder):
    always, for_de, for_fr = affine(0), affine(1), affine(2)
    steps = ((always, None), (for_de, "de"), (for_fr, "fr"))
    transforms = (Transform("en", 3, steps=(step,), toward=lang) for step, lang in steps)
    aligned = AlignedEncoder(encoder, tuple(transforms))
    vectors = AlignedEncoder(encoder).words([["the"]], "en").vectors_NLH
    moved = always(vectors)
    for view, wanted in ((aligned, moved), (aligned.toward("fr"), for_fr(moved))):
        assert torch.allclose(view.words([["the"]], "en").vectors_NLH, wanted, atol=1e-5)


def test_inside_depth_is_the_highest_layer_inside(encoder):
    read, one, two = Transform("en", 3), Transform("en", 1, "inside"), Transform("de", 2, "inside")
    assert AlignedEncoder(encoder, (read,)).inside_depth() == 0
    assert AlignedEncoder(encoder, (read, one, two)).inside_depth() == 2


def test_a_layer_that_the_encoder_has_not_is_refused(encoder):
    with pytest.raises(ValueError, match="layer 4"):
        AlignedEncoder(encoder, (Transform("en", 4),))


def make(encoder, *, weights_changed):
    steps = (affine(1), Unit(), Affine(shift=torch.ones(H)))
    inside = Transform("en", 2, "inside", (affine(0),))
    moves = (inside, Transform("en", 3, "readout", steps, "de"))
    return AlignedEncoder(encoder, moves, weights_changed, {"pairs": 3}).toward("de")


def test_saving_writes_weights_only_where_they_changed(encoder, tmp_path):
    make(encoder, weights_changed=False).save(tmp_path / "same")
    make(encoder, weights_changed=True).save(tmp_path / "changed")
    names = sorted(path.name for path in (tmp_path / "same").iterdir())
    assert names == ["transforms.json", "transforms.safetensors"]
    assert (tmp_path / "changed" / "encoder" / "model.safetensors").is_file()
    expected = make(encoder, weights_changed=False).words(SENTENCES, "en", layers="1-3").vectors_NLH

    def never():
        raise AssertionError("its own weights are there")

    for loaded in (
        AlignedEncoder.load(tmp_path / "same", lambda: encoder),
        AlignedEncoder.load(tmp_path / "changed", never),
    ):
        found = loaded.toward("de").words(SENTENCES, "en", layers="1-3").vectors_NLH
        assert torch.equal(found, expected)
        assert loaded.notes == {"pairs": 3}


def test_an_export_comes_back_with_its_transforms_and_a_plain_folder_has_none(
    encoder, tiny_folder, tmp_path
):
    """That it opens with transformers is shown for all families in tests/families."""
    aligned = make(encoder, weights_changed=False)
    aligned.export(tmp_path)
    again = AlignedEncoder.from_export(tmp_path).toward("de")
    found, wanted = (one.words(SENTENCES, "en").vectors_NLH for one in (again, aligned))
    assert torch.equal(found, wanted)
    assert AlignedEncoder.from_export(tiny_folder).transforms == ()


def test_a_damaged_record_is_named(encoder, tmp_path):
    make(encoder, weights_changed=False).save(tmp_path)
    (tmp_path / "transforms.json").write_text("{")
    with pytest.raises(DataError, match=r"transforms\.json"):
        AlignedEncoder.load(tmp_path, lambda: encoder)


OUTSIDE = """
import raxalign as rx


class Shift(rx.Method):
    VERSION = 1
    reference = "mine"

    def needs(self):
        return rx.Needs(links=True)

    def align(self, encoder, inputs, runtime):
        raise NotImplementedError
"""


FITTED = SimpleNamespace(effect=Effect)
TRAINED = SimpleNamespace(effect=lambda: Effect(weights=True))


def refused(encoder, step):
    aligned = AlignedEncoder(encoder, (Transform("de", 1, steps=(step,)),))
    with pytest.raises(RaxalignError) as caught:
        aligned.refuse_unsound(FITTED, "shifting", ("de", "en"))
    return str(caught.value)


def test_a_transform_with_other_shapes_or_without_numbers_is_named(encoder):
    assert "a shift of shape (33,), not (32,)" in refused(encoder, Affine(shift=torch.zeros(33)))
    assert "a weight of shape (32, 8)" in refused(encoder, Affine(weight=torch.zeros(32, 8)))
    found = refused(encoder, Affine(center=torch.full((32,), torch.nan)))
    assert found.startswith("method shifting: align returned the transform of de at layer 1 with a")
    assert "center that has NaN or infinite values. Look for a division by zero" in found
    fine = Affine(torch.zeros(1, 32), torch.eye(32), torch.tensor(0.5))
    AlignedEncoder(encoder, (Transform("de", 1, steps=(fine,)),)).refuse_unsound(
        FITTED, "x", ["de"]
    )


def test_a_transform_of_another_language_or_weights_that_are_not_declared_are_named(encoder):
    with pytest.raises(RaxalignError, match="transform of de at layer 1, and the languages are fr"):
        AlignedEncoder(encoder, (Transform("de", 1),)).refuse_unsound(FITTED, "x", ["fr"])
    with pytest.raises(RaxalignError, match=r"weights that did not change .* Effect\(weights=True"):
        AlignedEncoder(encoder).refuse_unsound(TRAINED, "x", ["fr"])
    with pytest.raises(RaxalignError, match=r"changed weights .* Effect\(weights=False"):
        AlignedEncoder(encoder, weights_changed=True).refuse_unsound(FITTED, "x", ["fr"])


def test_weights_that_are_not_numbers_are_named(encoder):
    AlignedEncoder(encoder, weights_changed=True).refuse_unsound(TRAINED, "trained", ["de"])
    with torch.no_grad():
        encoder.model.get_input_embeddings().weight[0, 0] = torch.inf
    with pytest.raises(RaxalignError, match=r"whose weights bert\.embeddings\.word_embeddings"):
        AlignedEncoder(encoder, weights_changed=True).refuse_unsound(TRAINED, "trained", ["de"])


def test_a_plug_in_is_named_by_its_file_and_line(encoder, tmp_path):
    (tmp_path / "shifting.py").write_text(OUTSIDE)
    step = Affine(shift=torch.full((32,), torch.nan))
    aligned = AlignedEncoder(encoder, (Transform("de", 2, steps=(step,)),))
    wanted = r"shifting\.py:12: method shifting: align returned the transform of de .* a shift that"
    with PluginFile.visible([PluginFile.open(tmp_path / "shifting.py")]):
        kind = catalog("methods")["shifting"]
        with pytest.raises(RaxalignError, match=wanted):
            aligned.refuse_unsound(kind(kind.Params()), "shifting", ("de", "en"))
