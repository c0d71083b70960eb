"""Causal language models as encoders: pieces, states, padding, and both directions on request."""

import numpy as np
import pytest
import torch

from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.transformer import Transformer
from raxalign.errors import RaxalignError
from tests.tiny import tiny_bert

WORDS = ["das", "haus", "ist", "rot", "the", "house", "is", "red"]


def tokenizer_of(*, bos):
    """Byte-pair pieces as decoders have them, without [CLS] and [SEP]; `bos` before a text."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    specials = ["<s>", "</s>", "<unk>", "<pad>", "<bos>", "<eos>", "<mask>", "<|endoftext|>"]
    letters = sorted({"Ġ", "▁", *"".join(WORDS)})
    vocabulary = {piece: i for i, piece in enumerate([*specials, *letters, "Ġh", "Ġr"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("Ġ", "h"), ("Ġ", "r")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", 0)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


def decoder(folder, family="Qwen2", *, bos=False):
    """A folder of a random causal LM of three layers, with its head."""
    import transformers

    tokenizer = tokenizer_of(bos=bos)
    text = "Text" if family == "Gemma3" else ""
    kind = getattr(transformers, f"{family}{text}Config")
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "intermediate_size": 24, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "sliding_window": 16}
    ends = {"pad_token_id": None, "bos_token_id": 0, "eos_token_id": 1, "initializer_range": 0.3}
    more = {"vocab_size": len(tokenizer), "max_position_embeddings": 32}
    config = kind(**sizes, **heads, **ends, **more)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = getattr(transformers, f"{family}ForCausalLM")(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    return decoder(tmp_path_factory.mktemp("qwen"))


def read(encoder, *sentences):
    rows = encoder.pieces([sentence.split() for sentence in sentences], "de")
    with torch.no_grad():
        return encoder.hidden(encoder.collate(rows))


def test_a_tokenizer_puts_the_special_pieces_that_it_has(qwen, tmp_path):
    (row,) = TransformerEncoder.from_folder(qwen).pieces([["haus", "rot"]], "de")
    assert row.words.tolist() == [0, 0, 0, 0, 1, 1, 1]
    llama = TransformerEncoder.from_folder(decoder(tmp_path, "Llama", bos=True))
    (row,) = llama.pieces([["haus", "rot"]], "de")
    assert row.words.tolist() == [-1, 0, 0, 0, 0, 1, 1, 1]
    assert row.ids[0] == llama.tokenizer.bos_token_id
    (pair,) = llama.pieces([["rot"]], "de", [["red"]], "en")
    assert pair.words.tolist() == [-1, 0, 0, 0, -1, 0, 0, 0]


def test_a_text_of_which_nothing_is_left_has_one_piece_that_is_no_word(qwen):
    encoder = TransformerEncoder.from_folder(qwen)
    words = encoder.words([[], ["haus"]], "de", layers=(3,), pooling="mean")
    assert words.present_N.tolist() == [True]
    for rows in (encoder.pieces([[]], "de"), encoder.pieces([[]], "de", [[]], "en")):
        assert [row.words.tolist() for row in rows] == [[-1]]
        assert torch.isfinite(encoder.hidden(encoder.collate(rows))[-1]).all()


@pytest.mark.parametrize("family", ["Qwen2", "Gemma3", "Mistral"])
def test_a_piece_depends_on_later_ones_only_where_both_directions_are_asked_for(family, tmp_path):
    folder = decoder(tmp_path, family)

    def opened(*, bidirectional):
        kind = Transformer(Transformer.Params(name=str(folder), bidirectional=bidirectional))
        return kind.load(EncoderInputs(), "cpu")

    def first(encoder, *more):
        return [read(encoder, f"das {last}", *more)[-1][0, :3] for last in ("haus", "rot")]

    causal = first(opened(bidirectional=False))
    assert torch.allclose(causal[0], causal[1], atol=1e-6)
    encoder = opened(bidirectional=True)
    both = first(encoder)
    assert not torch.allclose(both[0], both[1], atol=1e-3)
    for short, beside in zip(both, first(encoder, "das haus ist rot das haus"), strict=True):
        assert torch.allclose(short, beside, atol=1e-5)
    if family == "Qwen2":
        encoder.save(tmp_path / "saved")
        again = TransformerEncoder.from_folder(tmp_path / "saved")
        assert torch.equal(first(again)[1], both[1])


def test_an_encoder_that_sees_both_directions_already_refuses_the_option(tmp_path):
    kind = Transformer(Transformer.Params(name=str(tiny_bert(tmp_path, WORDS)), bidirectional=True))
    said = "BertForMaskedLM is not a decoder; its subword tokens see the whole row already."
    said += " Leave the option out"
    with pytest.raises(RaxalignError, match=said):
        kind.load(EncoderInputs(), "cpu")


def test_a_row_is_summed_up_by_its_last_piece(qwen, tmp_path):
    starts_S, lengths_S = np.array([0, 3]), np.array([2, 3])
    inputs = TransformerEncoder.from_folder(qwen).inputs
    assert inputs.summary_places(starts_S, lengths_S).tolist() == [1, 5]
    bert = TransformerEncoder.from_folder(tiny_bert(tmp_path, WORDS)).inputs
    assert bert.summary_places(starts_S, lengths_S).tolist() == [0, 3]
