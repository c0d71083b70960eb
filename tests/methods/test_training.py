"""What trainings do on a toy: they lower the loss, count rows and resolve their options."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from raxalign.encoders.models.masking import MaskedLM, MaskRule
from raxalign.errors import RaxalignError
from raxalign.methods.families.rows import Bitexts
from raxalign.methods.finetune import Finetune
from raxalign.methods.mlm import Mlm
from raxalign.methods.tlm import Tlm
from raxalign.options.params import removed_options
from raxalign.train.objective import Step
from tests.methods.contract import masked_losses, train, weights
from tests.methods.planted import method
from tests.methods.toy import toy_encoder, toy_places, toy_rows

BOTH = ("de", "fr")
ONE_EACH = {"de": {"sentences": 24}, "fr": {"sentences": 19}}
PPA = {"queue_size": 16, "steps": 16}
LOWERED = [
    ("code_switching", {}, {}),
    ("finetune", {"profile": "paper", "batch_size": 24}, {"steps": 8}),
    ("finetune", {"profile": "released", "batch_size": 24, "learning_rate": 2e-3}, {"steps": 8}),
    ("strong_contrastive", {"lambda": 0}, {"sentences": 43}),
    ("weak_contrastive", {"lambda": 0}, {"sentences": 43}),
    ("sentence_margin", {"pooling": "cls", "steps": 12}, {"sentences": 43}),
    ("distillation", {"learning_rate": 2e-3}, {"sentences": 43, "teacher_cached": True}),
    ("mlm", {"data": "text"}, {"rows": 62, **ONE_EACH}),
    ("mlm", {"data": "bitext"}, {"rows": 86, **ONE_EACH}),
    ("tlm", {}, {"rows": 43}),
    ("weam", {}, {}),
    ("awesome_align", {"so": 4}, {"de": {"sentences": 24, "read": 24}}),
    ("ppa", PPA, {"held_back": 1}),
]


@pytest.mark.parametrize(("kind", "options", "counted"), LOWERED)
def test_training_lowers_the_loss_and_counts_the_rows_of_all_languages(
    kind, options, counted, root
):
    plain = {"learning_rate": 5e-3, "warmup": 0, "batch_size": 24, "steps": 8, "dropout": False}
    aligned = train(kind, root, languages=BOTH, **plain | options)
    assert aligned.weights_changed
    assert aligned.notes["last_loss"] < 0.9 * aligned.notes["first_loss"]
    assert {name: aligned.notes[name] for name in counted} == counted
    assert all(p.requires_grad for p in aligned.encoder.model.parameters())
    before = toy_encoder(root / "encoder").model.state_dict()
    assert list(aligned.encoder.model.state_dict()) == list(before), "new heads are left behind"


PAPER, RELEASED = {"profile": "paper"}, {"profile": "released"}
CONTRAST = {"batch_size": 128, "learning_rate": 1e-4, "steps": 100_000, "warmup": 4000}
CONTRAST |= {"pooling": "first", "max_length": 96, "same_type": "keep", "temperature": 0.1}
MARGIN = {"batch_size": 4096, "learning_rate": 1e-4, "steps": 500_000, "margin": 0.3}
TLM = {"min_pieces": 10, "max_pieces": 128, "learning_rate": 3e-5, "mask_share": 0.15, "epochs": 10}
QUEUE = {"queue_start": "random", "normalize_z": False, "min_pieces": 10, "queue_size": 32_000}
WEAM = {"reduction": "sum", "mask_share": 0.3, "batch_size": 32, "epochs": 2, "learning_rate": 5e-5}
LIVE = {"align_target": "live"}
PROFILES = [
    ("finetune", PAPER, LIVE | {"batch_size": 2, "lambda": 1.0}),
    ("finetune", PAPER, {"reduction": "sum", "special_pairs": False}),
    ("finetune", RELEASED, {"batch_size": 8, "part": 4, "shuffle": False}),
    ("strong_contrastive", PAPER, CONTRAST | {"lambda": 1.0}),
    ("strong_contrastive", RELEASED, {"projector_bias": False}),
    ("strong_contrastive", PAPER | {"steps": 0, "epochs": 2}, {"epochs": 2}),
    ("strong_contrastive", {}, {"lambda": 0.1}),
    ("sentence_margin", RELEASED, MARGIN | {"scale": 100.0, "pooling": "cls"}),
    ("sentence_margin", {}, {"pooling": "mean"}),
    ("tlm", PAPER, TLM),
    ("tlm", PAPER | {"max_pieces": 0}, {"max_pieces": 0}),
    ("tlm", {}, {"min_pieces": 1, "max_pieces": 0}),
    ("ppa", PAPER, QUEUE),
    ("weam", PAPER, WEAM),
    ("weam", {}, {"reduction": "mean"}),
]


@pytest.mark.parametrize(("kind", "options", "expected"), PROFILES)
def test_a_profile_fills_in_what_is_not_given_and_its_name_is_no_part_of_the_identity(
    kind, options, expected
):
    found = method(kind, **options).canonical()
    assert {name: found[name] for name in expected} == expected
    assert "profile" not in found
    assert None not in found.values()
    gone = removed_options(type(method(kind).params))
    given = {name: value for name, value in found.items() if name not in gone}
    assert method(kind, **given, profile=options.get("profile", "sane")).canonical() == found


NONE = {"regularizer": "none"}
SAME = [
    ("finetune", {"batch_size": 8}, {}),
    ("strong_contrastive", PAPER | {"epochs": 7}, PAPER),
    ("strong_contrastive", PAPER | {"projector_bias": False}, RELEASED),
    ("strong_contrastive", {"lambda": 0}, NONE),
    ("strong_contrastive", NONE | {"lambda": 3}, NONE),
    ("sentence_margin", RELEASED | {"epochs": 3}, RELEASED),
    ("tlm", {"min_pieces": 10, "max_pieces": 128}, PAPER),
    ("weam", {"reduction": "sum"}, PAPER),
    ("ppa", {"moco": False, "queue_size": 4}, {"moco": False, "temperature": 0.1}),
    ("ppa", {"tlm": False, "mlm_for_tlm": True}, {"tlm": False}),
    ("iterative_normalization", {"direction": "to-other"}, {}),
    ("rotation", {"min_count": 5, "swap": True}, {}),
]
DICTIONARY = {"supervision": "dictionary", "dictionary": "d"}
OTHER = [
    ("centering", {"max_sentences": 5}, {}),
    ("iterative_normalization", {"rotate": True, "direction": "to-other"}, {"rotate": True}),
    ("mean_shift", {"block_size": 20}, {}),
    ("rotation", DICTIONARY | {"min_count": 5}, DICTIONARY),
]


@pytest.mark.parametrize(("kind", "one", "other"), SAME + OTHER)
def test_options_have_one_identity_where_they_mean_the_same_and_only_there(kind, one, other):
    same = (kind, one, other) in SAME
    assert (method(kind, **one).canonical() == method(kind, **other).canonical()) is same


def test_weak_contrast_has_the_options_of_strong_contrast_and_a_smaller_loss(root):
    weak, strong = "weak_contrastive", "strong_contrastive"
    assert method(weak).canonical() == method(strong).canonical()
    options = {"dropout": False, "batch_size": 24, "steps": 1}
    notes = [train(kind, root, **options).notes for kind in (weak, strong)]
    assert notes[0]["first_loss"] < notes[1]["first_loss"]
    assert notes[0]["pairs"] == notes[1]["pairs"]


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("strong_contrastive", {"freeze": "middle"}, "freeze"),
        ("sentence_margin", {"layers": "1-2"}, "layers '1-2' names several layers; choose one"),
        ("tlm", {"pivot_first": True}, "write `random_order: false` too"),
        ("ppa", {"moco": False, "tlm": False}, "nothing to train"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(kind, options, says):
    with pytest.raises(ValidationError, match=says):
        method(kind, **options)


def test_a_frozen_layer_cannot_be_contrasted():
    says = "freeze leaves layer 1 as it is; choose layers from 2 on"
    with pytest.raises(RaxalignError, match=says):
        method("strong_contrastive", freeze="lower", layers="1-2").acts(2)


@pytest.mark.parametrize("data", ["text", "bitext"])
def test_mlm_reads_every_sentence_alone(root, data):
    encoder, places, columns = toy_encoder(root / "encoder"), toy_places(root), toy_rows(24)
    texts = Mlm(Mlm.Params(data=data)).read(encoder, places, getattr(places, data))
    rows = texts.sentences.single_rows(texts.numbers_R)
    sentences = [*columns["src"], *(columns["tgt"] if data == "bitext" else [])]
    expected = [row.ids.tolist() for row in encoder.pieces(sentences, "de")]
    found = [rows.take(np.array([r])).ids.tolist() for r in range(len(expected))]
    assert found == expected


def test_tlm_turns_pairs_around_by_chance_of_the_step_or_keeps_an_order(root):
    encoder, places = toy_encoder(root / "encoder"), toy_places(root)
    bitexts = Bitexts.read(encoder, places.bitext, "en", 64)

    def firsts(step, **params):
        """The language of the first sentence of each row."""
        rows = Tlm(Tlm.Params(**params)).batch_of(bitexts, Step(step, 0, np.arange(24), seed=1))
        first, last = rows.langs[rows.offsets[:-1]], rows.langs[rows.offsets[1:] - 1]
        assert (first + last == 1).all()
        return first.tolist()

    assert set(firsts(0, random_order=False)) == {0}
    assert set(firsts(0, random_order=False, pivot_first=True)) == {1}
    turned = sum(sum(firsts(step)) for step in range(50))
    assert abs(turned - 600) < 4 * np.sqrt(24 * 50 / 4)
    assert firsts(7) == firsts(7)
    assert firsts(7) != firsts(8)
    assert "pivot_first" not in method("tlm").canonical()


def test_finetune_without_dropout_in_file_order_has_no_chance(root):
    options = {"epochs": 1, "dropout": False, "profile": "released"}
    assert not Finetune(Finetune.Params(**options)).has_chance()
    assert Finetune(Finetune.Params()).has_chance()
    first, other = (weights(train("finetune", root, seed=seed, **options)) for seed in (3, 4))
    assert torch.equal(first, other)


STEP = Step(5, 0, np.array([3, 17, 0, 9, 22, 11, 4]), seed=2, micro=7)


@pytest.fixture(scope="module")
def bitexts(root, encoder):
    return Bitexts.read(encoder, toy_places(root).bitext, "en", 40)


def joint(bitexts, step):
    return bitexts.sentences.joint_rows(bitexts.src_P[step.rows], bitexts.tgt_P[step.rows])


def objective(encoder, bitexts):
    return MaskedLM(encoder, bitexts, joint, 0.15)


def by_hand(encoder, rows, step):
    """The loss from Hugging Face's own forward of each row alone."""
    masks = MaskRule.of(encoder, 0.15).choose(rows, step.generator(0))
    losses = masked_losses(encoder.model, rows, masks)
    assert len(losses) == masks.total == round(0.15 * int((rows.ids > 4).sum()))
    return sum(losses) / masks.total


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_equals_the_models_own_forward_on_pairs(encoder, bitexts, dtype):
    training = objective(encoder, bitexts)
    encoder.model.to(dtype)
    try:
        training.begin(STEP)
        with torch.no_grad():
            found = float(training.loss(STEP, np.arange(7)))
        expected = by_hand(encoder, training.host.rows, STEP)
    finally:
        encoder.model.float()
    assert abs(found - expected) < (1e-9 if dtype == torch.float64 else 1e-5) * expected


def test_rows_without_a_masked_place_add_nothing(encoder, bitexts):
    nothing = MaskedLM(encoder, bitexts, joint, 1e-6)  # one place in the whole batch
    nothing.begin(STEP)
    (place,) = np.flatnonzero(np.diff(nothing.host.masks.offsets))
    empty = nothing.loss(STEP, np.delete(np.arange(7), place))
    assert (float(empty), empty.requires_grad) == (0.0, False)
    with torch.no_grad():
        assert float(nothing.loss(STEP, np.array([place]))) > 0


def test_logits_are_in_the_order_of_the_masks_whatever_the_packing(encoder, bitexts, monkeypatch):
    rows = bitexts.sentences.single_rows(np.concatenate([bitexts.src_P[:9], bitexts.tgt_P[:9]]))
    masks = MaskRule.of(encoder, 0.3).choose(rows, np.random.default_rng(0))

    def logits():
        packed = encoder.lay_out([masks.applied(rows)])
        return encoder.logits_at(packed, masks.flat(packed.starts_S))

    with torch.no_grad():
        packed = logits()
        monkeypatch.setattr(type(encoder), "can_pack", lambda _: False)
        assert torch.allclose(logits(), packed, atol=1e-4)
