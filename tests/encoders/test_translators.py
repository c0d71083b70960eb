"""Encoder halves of translation models: whose piece for a language a text gets, and SONAR's vectors
of sentences. That their states are those of transformers is tested with all families.
"""

import pytest
import torch

from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.transformer import Transformer
from raxalign.errors import DataError, RaxalignError
from raxalign.tasks.vectors.frame import SentenceReading
from tests.families.specials import NLLB_CODES
from tests.families.subject import Subject

HALVES = ("NLLB encoder", "mBART encoder")
READ = [["haus", "rot"], ["der", "alte", "hund", "schläft"]]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("translators")


def input_ids(encoder, lang, *pair):
    """The pieces that the model reads of a sentence, or of a pair in two languages."""
    pairs = (READ[:1], pair[0]) if pair else ()
    batch = encoder.collate(encoder.pieces(READ[:1], lang, *pairs))
    ids = encoder.inputs.of(batch)["input_ids"][0].tolist()
    return encoder.tokenizer.convert_ids_to_tokens(ids)


@pytest.mark.parametrize("name", HALVES)
def test_each_text_has_the_piece_of_its_own_language_where_the_tokenizer_puts_it(name, root):
    subject = Subject.of(name, root)
    place = 0 if name == "NLLB encoder" else -1
    for lang, piece in subject.family.spoken.items():
        found, other = (input_ids(subject.encoder, code) for code in (lang, "en"))
        assert found.pop(place) == piece
        other.pop(place)
        assert found == other
    both = input_ids(subject.encoder, "de", "fr")
    assert both[place] == subject.family.spoken[("de", "fr")[place]]


def test_a_language_goes_by_any_of_its_codes_and_one_that_is_not_there_is_named(root):
    encoder = Subject.of("NLLB encoder", root).encoder
    for code in ("zh", "zho_Hans", "zh-Hans"):
        assert input_ids(encoder, code)[0] == "zho_Hans"
    with pytest.raises(RaxalignError, match=r"has no token for fi \(it has one for arb_Arab, "):
        input_ids(encoder, "fi")


@pytest.mark.parametrize("name", HALVES)
def test_states_are_those_of_the_encoder_of_the_whole_model_to_a_millionth(name, root):
    """Both sentences in one padded batch, each alone by transformers, with the piece of German. In
    float64, since processors round float32 differently.
    """
    subject = Subject.of(name, root)
    encoder = subject.load()
    for model in (encoder.model, subject.reference):
        model.double()
    rows = encoder.pieces(READ, "de")
    with torch.no_grad():
        found = encoder.hidden(encoder.collate(rows))
    for i, row in enumerate(rows):
        for ours, theirs in zip(found, subject.states(row.ids.tolist(), "de"), strict=True):
            assert ours.dtype == theirs.dtype == torch.float64
            assert torch.allclose(ours[i, : len(row.ids)], theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", HALVES)
def test_it_is_padded_and_all_its_blocks_run_in_training(name, root):
    encoder = Subject.of(name, root).load()
    assert not encoder.can_pack()
    assert encoder.inputs.has_languages
    encoder.model.train()
    batch = encoder.collate(encoder.pieces(READ, "de"))
    for _ in range(8):
        assert len(encoder.hidden(batch)) == 4


def test_sonar_is_such_a_half_alone_and_its_sentences_are_means_over_all_pieces(root, tmp_path):
    """The layout of the hub: weights without a prefix, `M2M100Encoder` as the architecture, and no
    modules of sentence-transformers.
    """
    from transformers.models.m2m_100.modeling_m2m_100 import M2M100Encoder

    whole = Subject.of("NLLB encoder", root)
    assert whole.encoder.sentences is None
    whole.encoder.save(tmp_path)
    assert not (tmp_path / "modules.json").exists()
    encoder = TransformerEncoder.from_folder(tmp_path)
    reading = SentenceReading("last", "own")
    found, present = reading.vectors(AlignedEncoder(encoder), READ, "de")
    assert present.all()
    reference = M2M100Encoder.from_pretrained(tmp_path).eval()
    for row, vector in zip(encoder.pieces(READ, "de"), found, strict=True):
        ids = torch.tensor(row.ids[None])
        ids[0, 0] = whole.tokenizer.convert_tokens_to_ids(NLLB_CODES["de"])
        with torch.no_grad():
            mean = reference(input_ids=ids).last_hidden_state[0].mean(0)
        assert torch.allclose(vector, mean, atol=1e-6)


def test_a_half_that_lacks_weights_is_refused(root, tmp_path):
    from safetensors.torch import load_file, save_file

    whole = Subject.of("mBART encoder", root)
    whole.encoder.save(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    del weights["layers.1.fc1.weight"]
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(DataError, match=r"1 weights are missing \(layers\.1\.fc1\.weight\)"):
        TransformerEncoder.from_folder(tmp_path)


@pytest.mark.parametrize("name", HALVES)
def test_a_plan_counts_the_encoder_half_alone_and_finds_no_head(name, root):
    subject = Subject.of(name, root)
    kind = Transformer(Transformer.Params(name=str(subject.folder)))
    footprint = kind.footprint(lambda name: None)
    assert footprint.parameters == sum(p.numel() for p in subject.encoder.model.parameters())
    assert kind.depth(lambda name: None) == 3
    assert kind.has_head(lambda name: None) is False
