"""Every reader of sentences gives the encoder their running text."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from raxalign.corpora.text.dataset import DatasetWriter, read_table
from raxalign.corpora.text.sentences import cells, sentence_chunks, sentence_columns
from raxalign.corpora.text.words import Sentence
from raxalign.encoders.models import token_means
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.pieces import Pieces
from raxalign.encoders.models.vocabulary import read_words
from raxalign.encoders.scratch import Scratch, training_rows
from raxalign.methods.code_switching import read_switchable
from raxalign.methods.distillation import Distillation
from raxalign.methods.families.rows import Bitexts, read_texts
from raxalign.methods.families.word_vectors import WordReading
from raxalign.pairing.aligners.base import AlignerInputs
from raxalign.pairing.aligners.simalign import SimAlign
from raxalign.pairing.build import full_schema
from raxalign.pairing.words import Words
from raxalign.tasks import token_translation
from raxalign.tasks.classifiers.examples import Example, Examples
from raxalign.tasks.dictionary_retrieval import mean_vectors
from raxalign.tasks.pos import Pos
from raxalign.tasks.taggers.reading import TaggedSentences
from raxalign.tasks.vectors.frame import SentenceReading
from raxalign.tasks.vectors.pairs import LinkedWords, SentencePairs
from tests.methods.toy import toy_encoder

SRC = [Sentence.within(["haus", ",", "rot", "!"], "haus, rot!")]
SRC += [Sentence.within(["der", "hund"], "der hund")]
TGT = [Sentence.within(["house", ",", "red"], "house, red"), Sentence.within(["dog"], "dog")]
DE, EN = {"haus, rot!", "der hund"}, {"house, red", "dog"}
FIRST = (0,)


class Heard:
    """The sentences that were divided into pieces, by their texts; None for a list of words."""

    def __init__(self):
        self.texts: set[str | None] = set()

    def hear(self, sentences):
        self.texts |= {getattr(sentence, "text", None) for sentence in sentences if sentence}


@pytest.fixture
def heard(monkeypatch):
    found, read = Heard(), Pieces.read

    def recording(tokenizer, chunks, *languages):
        chunks = list(chunks)
        for sentences in chunks:
            found.hear(sentences)
        return read(tokenizer, chunks, *languages)

    monkeypatch.setattr(Pieces, "read", recording)
    return found


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return toy_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Word pairs (a bitext too), and the text of both sides."""
    folder = tmp_path_factory.mktemp("data")
    with DatasetWriter(folder / "pairs", full_schema(), {}) as writer:
        for i, (src, tgt) in enumerate(zip(SRC, TGT, strict=True)):
            row = {"id": i, "src_links": [0], "tgt_links": [0]}
            row |= cells("src", src) | cells("tgt", tgt)
            writer.write({name: [row[name]] for name in full_schema().names})
    for lang, sentences in (("de", SRC), ("en", TGT)):
        schema = pa.schema(sentence_columns("words"))
        with DatasetWriter(folder / lang, schema, {}) as writer:
            rows = [cells("words", sentence) for sentence in sentences]
            writer.write({name: [row[name] for row in rows] for name in schema.names})
    return folder


def aligned_words(encoder, folder):
    words = Words.of_table(read_table(folder / "pairs"), "src")
    other = Words.of(TGT)
    inputs = AlignerInputs(range(2), None, {}, folder, 1, lang="de", pivot="en", encoder=encoder)
    SimAlign(SimAlign.Params(encoder="tiny", layer="0")).align(words, other, inputs)


def switched(encoder, folder):
    read_switchable(encoder, {"de": folder / "de"}, {}, "en", 64)


def drawn(encoder, folder):
    for part in WordReading(encoder, FIRST, "mean", 2).sentences(folder / "de"):
        encoder.words(part, "de", layers=FIRST, pooling="mean")


def streamed(encoder, folder):
    for part in sentence_chunks(read_table(folder / "pairs"), "src", 100):
        encoder.words(part, "de", layers=FIRST, pooling="mean")


def retrieved_words(encoder, folder):
    pairs = LinkedWords.read(folder / "pairs")
    AlignedEncoder(encoder).words(pairs.keep(pairs.row >= 0).src.sentences, "de")


def retrieved_sentences(encoder, folder):
    how = SentenceReading("last", "cls")
    how.vectors(AlignedEncoder(encoder), SentencePairs.read(folder / "pairs").src, "de")


def dictionary_contexts(encoder, folder):
    aligned = AlignedEncoder(encoder)
    read = partial(aligned.words, lang="de", layers="last", pooling="mean")
    mean_vectors(aligned, folder / "de", ("de", ["rot", "hund"]), read, max_contexts=None)


def mean_tokens(encoder, folder):
    reading = token_means.Reading()
    text = sentence_chunks(read_table(folder / "de"), "words", 100)
    token_means.token_means(encoder, text, "de", FIRST, reading)


def pretrained(encoder, folder):
    for slicing in (True, False):
        params = Scratch.Params(slicing=slicing, window=8)
        training_rows(encoder, {"de": read_words(folder / "de", 9)}, params)


def translated(encoder, folder):
    token_translation.read_sides(encoder, SentencePairs.read(folder / "pairs"), ("de", "en"))


def linked(encoder, folder):
    list(WordReading(encoder, FIRST, "mean").linked(read_table(folder / "pairs"), "de", "en"))


def texts(encoder, folder):
    read_texts(encoder, {"de": folder / "de"}, 64)


def rows_of(read):
    return lambda encoder, folder: read(encoder, {"de": folder / "pairs"}, "en", 64)


ONE_SIDE = (switched, drawn, streamed, retrieved_words, retrieved_sentences, texts)
ONE_SIDE += (dictionary_contexts, mean_tokens, pretrained)
BOTH_SIDES = (aligned_words, translated, linked)
BOTH_SIDES += (*map(rows_of, (Bitexts.read_linked, Bitexts.read_sentences, Bitexts.read)),)


@pytest.mark.parametrize("read", ONE_SIDE)
def test_text_is_read_as_it_stands(read, heard, encoder, root):
    read(encoder, root)
    assert heard.texts == DE


@pytest.mark.parametrize("read", BOTH_SIDES)
def test_sentence_pairs_are_read_as_they_stand(read, heard, encoder, root):
    read(encoder, root)
    assert heard.texts == DE | EN


def test_a_teacher_reads_the_pivots_text(heard, encoder, root):
    Distillation(Distillation.Params()).teacher(encoder, [root / "pairs"], "en")
    assert heard.texts == EN


def test_examples_are_read_as_they_stand(heard, encoder):
    rows = [Example("Das Haus,  rot!", "Ein Hund.", "1", 1)]
    own, pivot = Examples("de", rows), Examples("en", [Example("The house!", "A dog.", "1", 1)])
    first, second = own.texts("first"), own.texts("second")
    encoder.pieces(first, "de", pairs=second)
    assert heard.texts == {"Das Haus,  rot!", "Ein Hund."}
    heard.texts.clear()
    for part in Examples.parts({"de": own, "en": pivot}, ["1"], "en", "sentence"):
        first, second = part.texts
        encoder.pieces(first, part.langs[0], pairs=second, pair_lang=part.langs[1])
    assert heard.texts == {"Das Haus,  rot!", "Ein Hund.", "The house!", "A dog."}


def test_words_of_a_treebank_are_read_in_their_text(tmp_path):
    words = [("1-2", "don't", "_", "_"), ("1", "do", "AUX", "_"), ("2", "n't", "PART", "_")]
    words += [("3", "go", "VERB", "_"), ("4-5", "im", "_", "SpaceAfter=No")]
    words += [("4", "in", "ADP", "_"), ("5", "dem", "DET", "_"), ("5.1", "gone", "VERB", "_")]
    words += [("6", ".", "PUNCT", "Lang=en|SpaceAfter=No")]
    rows = ("\t".join([n, w, "_", t, *"_____", m]) for n, w, t, m in words)
    text = "\n".join(["# text = don't go im.", *rows, "", ""])
    (tmp_path / "a.conllu").write_text(text, encoding="utf-8")
    (sentence,) = TaggedSentences.of_file(
        tmp_path / "a.conllu", scheme=Pos(Pos.Params()).scheme()
    ).words()
    assert isinstance(sentence, Sentence)
    assert sentence.text == "don't go in dem."
    assert sentence == ["do", "n't", "go", "in", "dem", "."]
    assert sentence.starts == (0, 2, 6, 9, 12, 15)


def test_links_of_running_text_are_those_of_its_words(encoder, root):
    table = read_table(root / "pairs").select(["id", "src", "tgt", "src_links", "tgt_links"])
    with DatasetWriter(root / "plain", table.schema, {}) as writer:
        writer.write(table.to_pydict())
    folders = (root / "plain", root / "pairs")
    plain, running = (Bitexts.read_linked(encoder, {"de": f}, "en", 64).links for f in folders)
    assert np.array_equal(plain.src, running.src)
    assert len(running.src) == 2
