"""Encoders of every architecture: states, head, position limits, packed rows, languages, and passes
that begin above kept blocks or run blocks again.
"""

import json
from dataclasses import replace

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from raxalign.encoders.models.blocks import Blocks
from raxalign.encoders.models.folder import folder_has_head
from raxalign.encoders.models.trained_weights import frozen
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import Batch
from raxalign.errors import DataError, RaxalignError
from raxalign.train.devices import recomputed
from tests.encoders.architectures import CONFIGS, encoder_of, folder_of, model_of
from tests.train.problems import kept_bytes


def batch():
    """A sentence of 9 pieces in English and one of 6 in German."""
    ids = torch.randint(5, 60, (2, 9), generator=torch.Generator().manual_seed(1))
    mask, langs = torch.ones_like(ids), torch.tensor([[0] * 9, [1] * 9])
    mask[1, 6:] = 0
    ids[1, 6:] = 0
    words = torch.where(mask > 0, 0, -1)
    return Batch(ids, mask, torch.zeros_like(ids), words, words, langs, ("en", "de"))


@pytest.mark.parametrize("name", CONFIGS)
def test_states_and_logits_are_those_of_transformers_and_an_edit_flows_on(name):
    encoder, example = encoder_of(name, head=True), batch()
    model = encoder.model
    inputs = {"input_ids": example.ids_BT, "attention_mask": example.mask_BT}
    spoken = {"xmod": {"lang_ids": torch.tensor([0, 1])}, "xlm": {"langs": example.langs_BT}}
    inputs |= spoken.get(name, {})
    real = example.mask_BT.bool()
    assert encoder.has_head is (name not in ("mt5", "umt5"))
    with torch.no_grad():
        wanted = model.base_model(**inputs, output_hidden_states=True).hidden_states
        states, lower = encoder.hidden(example), encoder.hidden(example, upto=1)
        edited = encoder.hidden(example, edits={1: lambda states, _: states.flip(-1)})
        if encoder.has_head:
            logits = encoder.lm_logits(states[-1])
            assert torch.allclose(logits[real], model(**inputs).logits[real], atol=1e-4)
    assert (len(states), len(lower)) == (4, 2)
    for found, state in [*zip(states, wanted, strict=True), (lower[1], wanted[1])]:
        assert torch.allclose(found[real], state[real], atol=1e-5)
    assert torch.equal(states[0][real], edited[0][real])
    assert torch.equal(edited[1][real], states[1][real].flip(-1))
    assert not torch.allclose(edited[2][real], states[2][real], atol=1e-2)


@pytest.mark.parametrize(
    ("name", "opener"), [("bert", "AutoModel"), ("mt5", "AutoModelForTextEncoding")]
)
def test_an_encoder_without_a_head_is_saved_and_opened_again_and_predicts_nothing(
    name, opener, tmp_path
):
    """As each of the families of tests/families is."""
    encoder = encoder_of(name)
    encoder.save(tmp_path)
    again = TransformerEncoder.from_folder(tmp_path)
    assert (encoder.has_head, again.has_head, folder_has_head(tmp_path)) == (False,) * 3
    with torch.no_grad():
        last, found = (one.hidden(batch())[-1] for one in (encoder, again))
    assert torch.equal(last, found)
    assert again.opened_by == opener
    assert type(again.model) is type(encoder.model)
    with pytest.raises(RaxalignError, match=r"no masked-LM head.*AutoModelForMaskedLM"):
        encoder.lm_logits(last)


def test_a_head_whose_weights_are_missing_leaves_the_encoder_without_one(tmp_path):
    """The config promises a masked LM, the weights do not keep it."""
    file = folder_of(tmp_path, model_of("xlm-r", head=True)) / "model.safetensors"
    weights = load_file(file)
    save_file({n: w for n, w in weights.items() if "lm_head" not in n}, file, {"format": "pt"})
    assert not TransformerEncoder.from_folder(tmp_path).has_head
    lost = {name: weight for name, weight in weights.items() if "layer.1.output" not in name}
    save_file(lost, file, {"format": "pt"})
    with pytest.raises(DataError, match=r"not a whole encoder: 4 weights are missing \(roberta\."):
        TransformerEncoder.from_folder(tmp_path)


def test_the_published_head_of_mdeberta_is_read_though_its_config_does_not_name_it(tmp_path):
    model = model_of("mdeberta", head=True)
    config = folder_of(tmp_path, model) / "config.json"
    entries = json.loads(config.read_text())
    del entries["legacy"], entries["architectures"]
    config.write_text(json.dumps(entries))
    encoder = TransformerEncoder.from_folder(tmp_path)
    assert folder_has_head(tmp_path)
    with torch.no_grad():
        logits = encoder.lm_logits(encoder.hidden(batch())[-1])
        wanted = model(input_ids=batch().ids_BT, attention_mask=batch().mask_BT).logits
    assert torch.allclose(logits, wanted, atol=1e-4)


def test_what_translates_is_refused_by_its_name(tmp_path):
    folder_of(tmp_path, model_of("bert", head=False))
    transformers.MarianConfig(pad_token_id=0).save_pretrained(tmp_path)
    with pytest.raises(DataError, match="is not an encoder: marian is an encoder with a decoder"):
        TransformerEncoder.from_folder(tmp_path)


def test_rows_have_as_many_pieces_as_the_architecture_has_positions():
    names = ("bert", "modernbert", "mdeberta", "mt5")
    assert [encoder_of(name).max_positions for name in names] == [40, 40, 40, 512]
    assert encoder_of("xlm-r").max_positions == 39  # behind the padding index, which is 0 here


# The embeddings of mdeberta read the mask, a row of roformer could outgrow its positions, no short
# sentence shows the window of modernbert, and xmod and xlm have a language per row.
APART = ("mdeberta", "roformer", "modernbert", "xmod", "xlm")


@pytest.mark.parametrize("name", CONFIGS)
def test_sentences_share_rows_where_a_probe_finds_the_states_that_they_have_alone(name):
    encoder, packs = encoder_of(name), name not in APART
    encoder.model.train()
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    assert encoder.can_pack() is encoder.packs is packs
    assert encoder.model.training
    assert torch.equal(torch.random.get_rng_state(), before)


def test_an_encoder_that_mixes_the_sentences_of_a_row_is_not_packed(monkeypatch):
    encoder = encoder_of("bert")
    forward = encoder.model.forward

    def mixing(*_, attention_mask, **inputs):
        return forward(attention_mask=torch.zeros_like(attention_mask), **inputs)

    monkeypatch.setattr(encoder.model, "forward", mixing)
    assert not encoder.can_pack()


def test_a_language_without_an_adapter_is_named_with_those_that_have_one():
    encoder = encoder_of("xmod")
    lacks = r"no adapter for el \(it has one for de_DE, en_XX\); leave out this"
    for languages, said in ((("en", "el"), lacks), ((), r"one adapter per language, .* not known")):
        with pytest.raises(RaxalignError, match=said):
            encoder.hidden(replace(batch(), languages=languages))


def test_blocks_that_share_their_weights_cannot_be_frozen_one_by_one():
    with pytest.raises(RaxalignError, match="freeze: the 3 blocks of AlbertModel share"):
        frozen(encoder_of("albert"), "lower").__enter__()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_pass_over_kept_blocks_has_the_same_bits_and_computes_only_those_above(name):
    encoder, example = encoder_of(name), batch()
    base, blocks = encoder.model.base_model, Blocks.of(encoder.model.base_model)
    assert blocks.replayable is (name not in ("albert", "xlm"))  # whose blocks are not one module
    if not blocks.replayable:
        return
    edits = {1: lambda states, _: states.flip(-1), 2: lambda states, _: states * 1.5}
    with torch.no_grad():
        with blocks.recorded(2) as outputs:
            encoder.hidden(example, edits={1: edits[1]}, upto=2)
        assert len(outputs) == 2
        wanted = encoder.hidden(example, edits=edits)
        for _ in range(2):  # what was kept is not changed by a pass
            with blocks.replayed(outputs):
                found = encoder.hidden(example, edits=edits)
            assert all(map(torch.equal, found, wanted))
        for weight in [p for p in base.parameters() if p.dim() > 1]:
            weight.mul_(1.1)
        with blocks.replayed(outputs):
            changed = encoder.hidden(example, edits=edits)
        assert torch.equal(changed[2], wanted[2])
        assert not torch.allclose(changed[3], wanted[3], atol=1e-3)
        assert not torch.allclose(encoder.hidden(example)[2], wanted[2], atol=1e-3)


def test_an_error_in_a_pass_leaves_the_blocks_as_they_were():
    encoder, example = encoder_of("bert"), batch()
    base = encoder.model.base_model
    before = [dict(vars(block)) for block in base.encoder.layer]
    blocks = Blocks.of(base)
    for kept in (blocks.replayed([torch.zeros(1)] * 3), blocks.recorded(3)):
        with pytest.raises(RaxalignError, match="stop"), kept:
            raise RaxalignError("stop")
    assert [dict(vars(block)) for block in base.encoder.layer] == before
    with torch.no_grad():
        assert encoder.hidden(example)[3].shape == (2, 9, 32)


def passed(encoder, *, again):
    """The states of a batch under dropout with a change within the stream, the gradients of the
    blocks' weights, and the bytes that were kept.
    """
    edits, blocks = {1: lambda states, _: states * 1.5}, encoder.blocks()
    encoder.model.zero_grad()
    torch.manual_seed(7)
    with recomputed(blocks if again else ()):
        with kept_bytes(encoder.model, blocks) as kept:
            states = encoder.hidden(batch(), edits=edits)
        torch.stack(states).pow(2).sum().backward()
    weights = encoder.model.base_model.parameters()
    gradients = [p.grad.clone() for p in weights if p.grad is not None]
    return [state.detach() for state in (*states, torch.rand(3))] + gradients, kept.bytes


def qwen():
    sizes = {"vocab_size": 80, "hidden_size": 32, "intermediate_size": 64, "head_dim": 16}
    shape = {"num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = transformers.Qwen3Config(**sizes, **shape, attention_dropout=0.2, use_cache=True)
    model = transformers.Qwen3Model(config)
    encoder = TransformerEncoder(model, encoder_of("bert").tokenizer)
    encoder.inputs.make_bidirectional()
    return encoder


@pytest.mark.parametrize("name", [*CONFIGS, "qwen"])
def test_blocks_that_run_again_give_the_plain_states_and_gradients_and_less_is_kept(name):
    encoder = qwen() if name == "qwen" else encoder_of(name)
    encoder.model.train()
    (plain, all_bytes), (again, fewer) = (passed(encoder, again=way) for way in (False, True))
    assert len(plain) == len(again) > 8
    assert all(map(torch.equal, plain, again))
    assert fewer < (1.0 if name == "qwen" else 0.6) * all_bytes


def test_a_decoder_that_keeps_its_cache_has_the_same_states():
    encoder, inputs = qwen(), {"input_ids": batch().ids_BT, "use_cache": True}
    cached = encoder.model.eval()(**inputs).last_hidden_state
    with recomputed(encoder.blocks()):
        found = encoder.model(**inputs).last_hidden_state
        found.sum().backward()
    assert torch.equal(found, cached)


def test_a_model_whose_blocks_are_not_found_keeps_all():
    encoder = encoder_of("bert")
    assert len(encoder.blocks()) == 3
    encoder.model.config.num_hidden_layers = 5
    assert encoder.blocks() == ()
