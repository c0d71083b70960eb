"""What every family of encoders is promised: it loads, it is read as it was trained, its states and
word vectors are those of transformers, and what is exported opens.
"""

from functools import cache

import pytest
import torch
from transformers import AutoTokenizer

from raxalign.encoders.models.aligned import AlignedEncoder
from tests.every import EVERY
from tests.families.catalogue import FAMILIES
from tests.families.sentences import TEXTS, sentences
from tests.families.subject import Subject


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def subject_of(tmp_path_factory):
    """Families by name, each written and loaded once."""
    root = tmp_path_factory.mktemp("families")
    return cache(lambda name: Subject.of(name, root))


TWINS = {"LaBSE", "multilingual-e5", "BGE-M3", "paraphrase-multilingual"}
"""Families whose model and tokenizer are those of other ones: they are read alike."""
QUICK = {"mBERT", "XLM-R", "XLM", "ModernBERT", "mmBERT", "mDeBERTa-v3", "X-MOD", "mT5 encoder"}
QUICK |= {"NLLB encoder", "Llama"}
"""One family of each kind of tokenizer and of inputs; the tests of the others are slow ones."""


def families(names):
    return [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.fixture(params=families(n for n in FAMILIES if EVERY or n not in TWINS))
def subject(request, subject_of):
    return subject_of(request.param)


LIMIT = 1e-5
READ = tuple(TEXTS) if EVERY else ("en", "th", "zh")
"""The languages whose word vectors are compared: with blanks and without."""
MARKS = "▁ \u0120"
"""What stands for a blank in pieces: SentencePiece's mark, a blank, and that of bytes."""


@pytest.mark.parametrize("name", families(FAMILIES))
def test_it_loads_whole(name, subject_of):
    encoder, reference = subject_of(name).encoder, subject_of(name).reference
    assert encoder.n_layers == 3
    assert encoder.hidden_size == 32
    wanted, found = (model.get_input_embeddings().weight for model in (reference, encoder.model))
    assert torch.equal(found.detach(), wanted.detach())


def test_the_pieces_of_a_sentence_are_those_of_its_running_text(subject):
    for lang in TEXTS:
        rows = subject.encoder.pieces(sentences(lang), lang)
        for row, text in zip(rows, TEXTS[lang], strict=True):
            name = subject.tokenizer.convert_ids_to_tokens
            wanted = subject.tokenizer(text)["input_ids"]
            assert name(row.ids.tolist()) == name(wanted), f"{lang}: {text}"


def test_states_are_those_of_transformers_row_by_row_at_every_layer(subject):
    encoder = subject.encoder
    for lang in ("en", "zh"):
        rows = encoder.pieces(sentences(lang)[:2], lang)
        with torch.no_grad():
            found = encoder.hidden(encoder.collate(rows))
        for i, row in enumerate(rows):
            wanted = subject.states(row.ids.tolist(), lang)
            assert len(found) == len(wanted)
            for layer, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
                _same(ours[i, : len(row.ids)], theirs, f"{lang}, row {i}, layer {layer}")


def test_the_vector_of_a_word_is_the_mean_of_the_pieces_that_share_characters_with_it(subject):
    """By transformers' own offsets and states.

    Words next to which a mark of a blank is a piece of its own are left out: such a piece has no
    characters.
    """
    read = left_out = 0
    for lang in READ:
        chosen = sentences(lang)[:2]
        found = subject.encoder.words(chosen, lang, layers=(2,), pooling="mean")
        for i, sentence in enumerate(chosen):
            encoded = subject.tokenizer(sentence.text, return_offsets_mapping=True)
            states = subject.states(encoded["input_ids"], lang)[2]
            pieces = subject.tokenizer.convert_ids_to_tokens(encoded["input_ids"])
            spans = [_without_blanks(sentence.text, span) for span in encoded["offset_mapping"]]
            for k, vector in enumerate(found.vectors_NLH[found.offsets[i] : found.offsets[i + 1]]):
                own = [t for t, span in enumerate(spans) if _meet(span, _span(sentence, k))]
                if not own or any(not pieces[t].strip(MARKS) for t in own):
                    left_out += 1
                    continue
                read += 1
                _same(vector[0], states[own].mean(0), f"{lang}: {sentence[k]} in {sentence.text}")
    assert read > 4 * left_out, (read, left_out)


def test_what_is_exported_opens_in_transformers(subject, tmp_path):
    AlignedEncoder(subject.encoder).export(tmp_path / "export")
    text = TEXTS["en"][0]
    ids = subject.tokenizer(text)["input_ids"]
    assert AutoTokenizer.from_pretrained(tmp_path / "export")(text)["input_ids"] == ids
    again = Subject(subject.family, tmp_path / "export")
    _same(again.states(ids, "en")[-1], subject.states(ids, "en")[-1], "of the exported encoder")


def test_there_are_30_families():
    assert len(FAMILIES) == 30


def _same(found, wanted, where):
    scale = max(1.0, float(wanted.abs().max()))
    assert found.shape == wanted.shape, where
    worst = float((found - wanted).abs().max())
    assert worst <= LIMIT * scale, f"{where}: differs by {worst:.1e} (values up to {scale:.1e})"


def _span(sentence, k):
    return sentence.starts[k], sentence.starts[k] + len(sentence[k])


def _without_blanks(text, span):
    """A span of characters without the blanks at its ends."""
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def _meet(one, other):
    """Whether two spans share a character."""
    return max(one[0], other[0]) < min(one[1], other[1])
