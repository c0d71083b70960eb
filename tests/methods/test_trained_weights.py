"""What a training changes: parts that are held, and low-rank adapters instead of weights."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file

from raxalign.encoders.models.trained_weights import (
    FrozenParts,
    Lora,
    adapted,
    frozen,
    frozen_parts,
    lowest_trained,
    target_layers,
    weight_changes,
)
from raxalign.errors import DependencyError, RaxalignError
from raxalign.methods.families.contrast import Contrast
from raxalign.methods.families.rows import Bitexts
from raxalign.methods.finetune import Finetune
from raxalign.methods.sentence_margin import SentenceMargin
from raxalign.methods.strong_contrastive import StrongContrastive
from raxalign.train.runtime import Runtime
from tests.families.subject import Subject
from tests.methods.contract import LANGUAGES, SIZE, asked_for, losses_of, make, resolved, trained
from tests.methods.toy import toy_encoder, toy_inputs

RANK_4 = Lora(rank=4, alpha=8)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lora")
    toy_encoder(folder / "encoder")
    toy_inputs(folder, SIZE, LANGUAGES)
    return folder


def weights(encoder):
    return {name: p.detach().clone() for name, p in encoder.model.named_parameters()}


def differing(before, after):
    """The names of the weights that differ."""
    assert list(after) == list(before)
    return {name for name in before if not torch.equal(before[name], after[name])}


def states(encoder):
    rows = encoder.pieces([["haus", "sieht"], ["rot"]], "de")
    with torch.no_grad():
        return torch.cat(encoder.hidden(encoder.collate(rows)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", trained())
def test_every_method_that_trains_lowers_its_loss_and_changes_query_and_value_alone(kind, root):
    # the sum of five losses, of which each step draws masks and pairs anew, falls later
    steps = {"epochs": 12, "learning_rate": 1e-2} if kind == "awesome_align" else {}
    steps = {"epochs": 6, "learning_rate": 3e-2, **steps}
    method = make(kind, root, lora=RANK_4, dropout=False, **steps)
    encoder = toy_encoder(root / "encoder")
    before = weights(encoder)
    aligned = method.align(encoder, asked_for(method, root), Runtime(seed=1))
    assert aligned.notes["last_loss"] < aligned.notes["first_loss"]
    assert differing(before, weights(encoder)) == {
        f"bert.encoder.layer.{i}.attention.self.{name}.weight"
        for i in range(2)
        for name in ("query", "value")
    }
    assert all(p.requires_grad for p in encoder.model.parameters())


def test_before_they_are_merged_nothing_but_adapters_has_changed(root):
    params = SentenceMargin.Params(learning_rate=3e-2, epochs=2, dropout=False)
    encoder = toy_encoder(root / "encoder")
    before, start = weights(encoder), states(encoder)
    with adapted(encoder, RANK_4, 0):
        assert torch.equal(states(encoder), start)
        SentenceMargin(params).train(encoder, asked_for(SentenceMargin(params), root), Runtime())
        meanwhile = {name.replace(".base_layer", ""): p for name, p in weights(encoder).items()}
        for name, weight in before.items():
            assert torch.equal(meanwhile.pop(name), weight), name
        assert len(meanwhile) == 2 * 2 * 2
        assert all("lora_" in name and bool(p.any()) for name, p in meanwhile.items())
        trained_states = states(encoder)
        moved = [bool(change.any()) for change in weight_changes(encoder.model)]
    assert all(moved)
    assert not torch.allclose(trained_states, start, atol=1e-3)
    assert torch.allclose(states(encoder), trained_states, atol=1e-6)


def test_a_training_that_fails_leaves_the_weights_and_removes_the_adapters(root):
    encoder = toy_encoder(root / "encoder")
    before = weights(encoder)

    def fail_halfway():
        with adapted(encoder, RANK_4, 0):
            for parameter in encoder.model.parameters():
                if parameter.requires_grad:
                    parameter.data += 1
            raise KeyError

    with pytest.raises(KeyError):
        fail_halfway()
    assert not differing(before, weights(encoder))
    assert all(p.requires_grad for p in encoder.model.parameters())


def test_frozen_copies_are_the_encoder_as_it_was(root):
    """With no adapter at work the loss of the first step is that of a training without adapters."""
    for kind in ("finetune", "distillation"):
        ways = (make(kind, root, dropout=False, **more) for more in ({}, {"lora": RANK_4}))
        (plain, _), (adapting, _) = (losses_of(method, root, Runtime(seed=1)) for method in ways)
        assert plain[0] == pytest.approx(adapting[0], rel=1e-6)


def test_the_regulariser_of_contrast_measures_the_weights_and_not_the_adapters(root):
    encoder = toy_encoder(root / "encoder")
    before = weights(encoder)
    options = resolved("strong_contrastive", **{"lambda": 3.0})
    inputs = asked_for(make("strong_contrastive", root), root)
    corpus = Bitexts.read_words(encoder, inputs.pairs, "en", 32)
    with adapted(encoder, RANK_4, 0):
        objective = Contrast(encoder, corpus, options, strong=True)
        zero = objective.extra()
        zero.backward()
        assert zero.item() == 0
        gradients = [p.grad for p in encoder.model.parameters() if p.grad is not None]
        assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)
        torch.manual_seed(1)
        for parameter in encoder.model.parameters():
            if parameter.requires_grad:
                parameter.data = torch.randn_like(parameter) / 10
        found = objective.extra()
        measured = found.item()
    after = weights(encoder)
    squares = sum(float((after[name] - before[name]).pow(2).sum()) for name in before)
    assert measured == pytest.approx(3 * squares**0.5, rel=1e-5)


def test_what_freeze_names_gets_no_change(root):
    options = {"lora": Lora(), "freeze": FrozenParts(blocks="1"), "epochs": 2}
    method = make("sentence_margin", root, **options)
    encoder = toy_encoder(root / "encoder")
    before = weights(encoder)
    method.align(encoder, asked_for(method, root), Runtime())
    changed = {f"bert.encoder.layer.1.attention.self.{name}.weight" for name in ("query", "value")}
    assert differing(before, weights(encoder)) == changed


def test_plans_know_that_the_embeddings_stay():
    params = SentenceMargin.Params(lora=RANK_4)
    assert SentenceMargin(params).acts(4).stream_from == 1
    lower = SentenceMargin.Params(lora=RANK_4, freeze=FrozenParts(blocks="lower"))
    assert SentenceMargin(lower).acts(4).stream_from == 3
    with pytest.raises(RaxalignError, match="layers '0': lora leaves layer 0 as it is"):
        SentenceMargin(SentenceMargin.Params(lora=RANK_4, layers="0")).acts(4)


def test_without_adapters_no_key_changes_and_with_them_each_option_is_part_of_it():
    assert "lora" not in Finetune.Params().identity()
    options = {"rank": 8, "alpha": 16.0, "targets": "auto", "dropout": 0.0}
    assert Finetune.Params(lora=Lora()).identity()["lora"] == options


@pytest.mark.parametrize("wrong", [{"rank": 0}, {"alpha": 0}])
def test_values_that_make_no_adapter_are_refused(wrong):
    with pytest.raises(ValidationError):
        Lora.model_validate(wrong)


def test_the_attention_of_an_architecture_that_peft_does_not_know_has_adapters(tmp_path):
    model = Subject.of("ModernBERT", tmp_path).encoder.model
    expected = [f"model.layers.{i}.attn.{name}" for i in range(3) for name in ("Wqkv", "Wo")]
    assert target_layers(model) == expected


def test_without_peft_the_message_has_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr("raxalign.extras.find_spec", lambda name: None)
    method = SentenceMargin(SentenceMargin.Params(lora=RANK_4))
    with pytest.raises(DependencyError) as error:
        method.read_files(("de",), "en")
    assert str(error.value) == (
        "lora: the library peft is not installed. Run: pip install 'raxalign[lora]'"
    )


@pytest.mark.slow
def test_a_training_of_adapters_that_is_resumed_equals_an_uninterrupted_one(root, tmp_path):
    options = {"batch_size": 4, "epochs": 3, "learning_rate": 1e-2}
    method = make("finetune", root, lora=Lora(rank=4), **options)
    inputs = asked_for(method, root)

    class KilledError(Exception):
        pass

    def report(_, step):
        if step == 11:
            raise KilledError

    started = Runtime(seed=5, checkpoints=tmp_path, checkpoint_every=4, report=report)
    with pytest.raises(KilledError):
        method.align(toy_encoder(root / "encoder"), inputs, started)
    (kept,) = tmp_path.glob("*/step-00000008")
    names = load_file(kept / "state.safetensors")
    own = [n for n in names if n.startswith("module/") and not n.endswith("_ids")]  # buffers
    assert own
    assert all("lora_" in name for name in own)
    resumed, whole = toy_encoder(root / "encoder"), toy_encoder(root / "encoder")
    method.align(resumed, inputs, Runtime(seed=5, checkpoints=tmp_path, checkpoint_every=4))
    method.align(whole, inputs, Runtime(seed=5))
    assert not differing(weights(whole), weights(resumed))


def parts(blocks, *, embeddings=False):
    return FrozenParts(blocks=blocks, embeddings=embeddings)


HELD = [
    ("none", set()),
    ("lower", {"embeddings", "0"}),
    ("upper", {"1", "2"}),
    (parts("lower"), {"0"}),
    (parts("lower", embeddings=True), {"embeddings", "0"}),
    (parts("upper", embeddings=True), {"embeddings", "1", "2"}),
    (parts("1-2"), {"0", "1"}),
    (parts("2", embeddings=True), {"embeddings", "1"}),
    (parts("last"), {"2"}),
    (parts("none", embeddings=True), {"embeddings"}),
]


@pytest.mark.parametrize(("freeze", "held"), HELD)
def test_what_is_named_is_frozen_meanwhile_and_nothing_else(freeze, held, tmp_path):
    encoder = toy_encoder(tmp_path, layers=3)
    base = encoder.model.base_model
    named = {str(i): block for i, block in enumerate(base.encoder.layer)}
    named["embeddings"] = base.embeddings
    with frozen(encoder, freeze):
        for name, part in named.items():
            assert {p.requires_grad for p in part.parameters()} == {name not in held}
    assert all(p.requires_grad for p in encoder.model.parameters())


@pytest.mark.parametrize(
    ("freeze", "n_blocks", "lowest"),
    [
        ("none", 4, 0),
        ("lower", 4, 3),
        ("lower", 3, 2),
        ("upper", 4, 0),
        (parts("lower"), 4, 0),
        (parts("2-3", embeddings=True), 4, 1),
        (parts("1-4", embeddings=True), 4, 5),
    ],
)
def test_the_lowest_layer_that_training_changes(freeze, n_blocks, lowest):
    assert lowest_trained(freeze, n_blocks) == lowest


def test_blocks_that_are_not_there_or_not_blocks_are_refused():
    told = r"freeze.blocks: 3-9: this encoder has the blocks 1 to 4"
    with pytest.raises(RaxalignError, match=told):
        frozen_parts(parts("3-9"), 4)
    for wrong in ("0", "0-2", "middle", "1-", ""):
        with pytest.raises(ValidationError):
            parts(wrong)
    with pytest.raises(ValidationError):
        FrozenParts.model_validate({"embeddings": True})


def test_a_mapping_that_says_what_a_word_says_is_that_word():
    def identity(freeze):
        params = StrongContrastive.Params.model_validate({"freeze": freeze})
        return StrongContrastive(params).canonical()["freeze"]

    assert identity({"blocks": "lower", "embeddings": True}) == identity("lower") == "lower"
    assert identity({"blocks": "upper"}) == identity("upper") == "upper"
    assert identity({"blocks": "none"}) == identity("none") == "none"
    assert identity({"blocks": "lower"}) == {"blocks": "lower", "embeddings": False}
