"""Static vectors: trained or read, looked up, in one space or several, aligned, and in a grid."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from raxalign.catalog import catalog
from raxalign.caveats import Caveats
from raxalign.encoders.base import EncoderInputs
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.static import (
    Lookup,
    StaticEncoder,
    Subwords,
    VectorSpace,
    ngrams,
    read_vectors,
)
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.encoders.static import Static
from raxalign.errors import DataError, RaxalignError
from raxalign.grid.expansion.expand import expand
from raxalign.grid.file import load
from raxalign.grid.plan import Plan
from raxalign.stages import Workshop
from raxalign.store.storage import Storage
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.dictionary_retrieval import DictionaryRetrieval
from raxalign.train.runtime import Runtime
from raxalign.values.results import rows
from tests.methods.contract import LANGUAGES, SIZE, asked_for, make, vectors
from tests.methods.toy import toy_inputs, toy_rows
from tests.methods.toy import write_text as write_words

WORDS = {"en": ["dog", "cat", "house", "sees", "loves"]}
WORDS |= {"de": ["Hund", "Katze", "Haus", "sieht", "liebt"]}
PARAMS = {"dimension": 8, "min_count": 1, "buckets": 500, "vocab_size": 100, "epochs": 2}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root, folders = tmp_path_factory.mktemp("text"), {}
    for lang, words in WORDS.items():
        rng = random.Random(lang)
        drawn = [[rng.choice(words) for _ in range(5)] for _ in range(100)]
        folders[lang] = write_words(root / lang, drawn)
    return folders


def build(text, folder, locations=None, **options):
    folder.mkdir(exist_ok=True)
    kind = Static(Static.Params.model_validate({**PARAMS, **options}))
    kind.build(EncoderInputs(text=text, locations=locations or {}), Runtime(), folder)
    return kind.load(EncoderInputs(folder=folder), "cpu")


def build_all(text: dict[str, str], folder: str) -> None:
    """Word2Vec of words, fastText of words and GloVe of pieces, each in a folder of its own."""
    folders = {lang: Path(path) for lang, path in text.items()}
    for algorithm, units in (("word2vec", "words"), ("fasttext", "words"), ("glove", "pieces")):
        out = Path(folder) / algorithm
        out.mkdir(parents=True)
        build(folders, out, algorithm=algorithm, units=units)


def looked_up(encoder, *words, lang="en", pooling="mean"):
    found = encoder.words([list(words)], lang, layers=(0,), pooling=pooling)
    return found.vectors_NLH[:, 0], found.present_N.tolist()


def planted(words, vectors, reading=None, subwords=None):
    space = VectorSpace(words, np.array(vectors, np.float32), subwords)
    return StaticEncoder({"en": space}, len(vectors[0]), reading or Lookup(normalization="none"))


@pytest.mark.parametrize(
    ("algorithm", "units"), [("fasttext", "words"), ("word2vec", "pieces"), ("glove", "words")]
)
def test_one_seed_gives_one_space_per_language_that_is_read_back(algorithm, units, text, tmp_path):
    options = {"algorithm": algorithm, "units": units, "epochs": 1}
    encoder = build(text, tmp_path / "a", **options)
    vectors, present = looked_up(encoder, "dog", "house", "dog")
    assert present == [True] * 3
    assert torch.equal(vectors[0], vectors[2])
    assert not torch.equal(vectors[0], vectors[1])
    assert torch.isfinite(vectors).all()
    build(text, tmp_path / "b", **options)
    encoder.save(tmp_path / "again")
    folders = [(tmp_path / name).iterdir() for name in ("a", "b", "again")]
    made, same, again = ({path.name: path.read_bytes() for path in files} for files in folders)
    assert made == same == again
    found = looked_up(StaticEncoder.from_folder(tmp_path / "again"), "dog", "house", "dog")
    assert torch.equal(found[0], vectors)
    other = build(text, tmp_path / "c", **options, seed=5)
    assert not torch.equal(looked_up(other, "dog", "house", "dog")[0], vectors)


def test_gensim_opens_what_was_saved(text: dict[str, Path], tmp_path: Path) -> None:
    """And lower casing holds in training too."""
    from gensim.models import KeyedVectors

    options = {"algorithm": "word2vec", "normalization": "none", "casing": "lower"}
    encoder = build(text, tmp_path / "a", **options)
    keyed = KeyedVectors.load_word2vec_format(str(tmp_path / "a" / "de.vec"))
    assert sorted(keyed.index_to_key) == sorted(word.lower() for word in WORDS["de"])
    found, present = looked_up(encoder, "Haus", "HAUS", lang="de")
    assert present == [True, True]
    assert torch.equal(torch.from_numpy(keyed["haus"].copy()), found[0])


def test_fasttext_gives_unseen_words_the_vectors_that_gensim_gives_them():
    from gensim.models import FastText

    sentences = [["sees", "seer", "seeds"], ["seed", "sees", "seeks"]] * 5
    options = {"min_count": 1, "min_n": 2, "max_n": 3, "bucket": 300, "workers": 1, "seed": 1}
    model = FastText(sentences, vector_size=6, **options)
    numbers = np.unique(np.concatenate([np.asarray(row) for row in model.wv.buckets_word]))
    numbers = numbers.astype(np.int64)
    known = Subwords(numbers, model.wv.vectors_ngrams[numbers], 2, 3, 300)
    # Every n-gram of "see" and "seed>" was met; of "Ωβ漢" some may fall into buckets that were.
    buckets = model.wv.buckets_word[model.wv.key_to_index["seeds"]]
    grams = known.vectors_GH[np.searchsorted(numbers, buckets)]
    assert np.allclose(known.vector("seeds"), grams.mean(0))
    every = Subwords(np.arange(300), model.wv.vectors_ngrams, 2, 3, 300)
    for word in ("seekers", "Fluß", "река", "漢字"):
        assert np.allclose(every.vector(word), model.wv[word], atol=1e-6)
    nothing = Subwords(np.zeros(0, np.int64), np.zeros((0, 6), np.float32), 2, 3, 300)
    assert nothing.vector("see") is None
    assert ngrams("a", 1, 2) == [b"<a", b"a", b"a>"]


def test_unseen_words_are_absent_unless_their_ngrams_were_met(text, tmp_path):
    plain = build(text, tmp_path / "a", algorithm="word2vec", epochs=1)
    assert looked_up(plain, "dog", "houses", "Ω")[1] == [True, False, False]
    vectors, present = looked_up(build(text, tmp_path / "b", epochs=1), "dog", "houses")
    assert present == [True, True]
    assert vectors.norm(dim=-1).tolist() == pytest.approx([1, 1], abs=1e-5)


def test_normalised_is_unit_length_then_centred_then_unit_length() -> None:
    """(3, 4), (0, 2), (-5, 0): units (.6, .8), (0, 1), (-1, 0), mean (-.4/3, .6)."""
    encoder = planted(["a", "b", "c"], [[3, 4], [0, 2], [-5, 0]], Lookup())
    centred = torch.tensor([[0.6 + 0.4 / 3, 0.2], [0.4 / 3, 0.4], [-1 + 0.4 / 3, -0.6]])
    vectors, _ = looked_up(encoder, "a", "b", "c")
    assert torch.allclose(vectors, centred / centred.norm(dim=-1, keepdim=True), atol=1e-6)
    unit, _ = looked_up(planted(["a"], [[3, 4]], Lookup(normalization="unit")), "a")
    assert unit[0].tolist() == pytest.approx([0.6, 0.8])


def test_words_that_subwords_make_are_normalised_by_the_mean_of_the_vocabulary() -> None:
    known = Subwords(np.arange(10), np.tile(np.array([[0.0, 7.0]], np.float32), (10, 1)), 2, 2, 10)
    encoder = planted(["a", "c"], [[3, 4], [-5, 0]], Lookup(), known)
    expected = torch.tensor([0.2, 0.6])  # (0, 1) less the mean (-.2, .4)
    for _ in range(2):  # the second time from memory
        vectors, present = looked_up(encoder, "new", "a", "newer")
        assert present == [True] * 3
        assert torch.allclose(vectors[[0, 2]], (expected / expected.norm()).expand(2, 2), atol=1e-6)


def test_casing_says_which_vector_a_word_has():
    wanted = {"keep": [1, 2, 0], "lower": [2, 2, 3], "fallback": [1, 2, 3]}
    for casing, found in wanted.items():
        encoder = planted(["Dog", "dog", "cat"], [[1, 0], [2, 0], [3, 0]], Lookup(casing, "none"))
        vectors, present = looked_up(encoder, "Dog", "dog", "CAT")
        assert present == [value > 0 for value in found]
        assert vectors[:, 0].tolist() == found


def test_a_word_of_several_pieces_is_their_pooling_and_pieces_without_a_vector_do_not_count():
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "play", "##ing", "##er"]
    space = VectorSpace(["play", "##ing"], np.array([[1, 0], [4, 0]], np.float32))
    reading = Lookup("keep", "none", pieces=True)
    encoder = StaticEncoder({"en": space}, 2, reading, vocabulary=vocabulary)
    for pooling, expected in (("first", 1), ("last", 4), ("sum", 5), ("mean", 2.5)):
        vectors, present = looked_up(encoder, "playing", "player", "Ω", pooling=pooling)
        assert present == [True, True, False]
        assert vectors[:, 0].tolist() == [expected, 1, 0]


def test_a_given_vocabulary_splits_the_words(text: dict[str, Path], tmp_path: Path) -> None:
    file, given = tmp_path / "vocab.txt", {"vocabulary": str(tmp_path / "vocab.txt")}
    file.write_text("[UNK]\n[CLS]\n[SEP]\ndo\n##g\ncat\nHund\n", encoding="utf-8")
    options = {"units": "pieces", "algorithm": "word2vec", **given}
    encoder = build(text, tmp_path / "a", given, **options)
    assert sorted(encoder.space("en").words) == ["##g", "cat", "do"]
    assert encoder.space("de").words == ["Hund"]
    file.write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"\[UNK\]"):
        build(text, tmp_path / "b", given, **options)
    with pytest.raises(RaxalignError, match="lower `min_count`"):
        build(text, tmp_path / "c", min_count=1_000)


def test_vectors_from_files_are_read_a_language_each(tmp_path: Path, monkeypatch) -> None:
    VectorSpace(["dog", "cat"], np.array([[1, 2], [3, 4]], np.float32)).write(
        tmp_path / "wiki.en.vec"
    )
    VectorSpace(["Hund"], np.array([[5, 6]], np.float32)).write(tmp_path / "wiki.de.vec")
    VectorSpace(["alt"], np.array([[5, 6]], np.float32)).write(tmp_path / "wiki.de.old.vec")
    files = str(tmp_path / "wiki.{lang}.vec")
    kind = Static(Static.Params(vectors=files, normalization="none", casing="fallback"))
    assert not kind.needs_text
    assert set(kind.sources()) == {"vectors/de", "vectors/en"}
    assert kind.check() == []
    assert kind.label() == "wiki"
    encoder = kind.load(EncoderInputs(), "cpu")
    assert looked_up(encoder, "Dog", "Hund")[1] == [True, False]
    assert looked_up(encoder, "Hund", lang="de")[0].tolist() == [[5, 6]]
    with pytest.raises(RaxalignError, match="no vectors for fr; it has de, en"):
        looked_up(encoder, "chien", lang="fr")
    (tmp_path / "wiki.de.ngrams.safetensors").touch()
    assert set(kind.sources()) == {"vectors/de", "vectors/en", "ngrams/de"}, "both are read"
    (tmp_path / "wiki.de.ngrams.safetensors").unlink()
    later = kind.load(EncoderInputs(), "cpu")
    VectorSpace(["Hund"], np.array([[6, 5]], np.float32)).write(tmp_path / "wiki.de.vec")
    with pytest.raises(DataError, match=r"wiki\.de\.vec: was changed since"):
        looked_up(later, "Hund", lang="de")
    monkeypatch.setattr("raxalign.encoders.static.MOST_VECTORS", 1)
    few = Static(Static.Params(vectors=files)).load(EncoderInputs(), "cpu")
    assert looked_up(few, "dog", "cat")[1] == [True, False]
    assert Static(Static.Params(vectors=str(tmp_path / "no.{lang}.vec"))).check()
    VectorSpace(["chien"], np.array([[5, 6, 7]], np.float32)).write(tmp_path / "wiki.fr.vec")
    with pytest.raises(RaxalignError, match="different dimensions: de 2, en 2, fr 3"):
        kind.load(EncoderInputs(), "cpu")


def test_float32_survives_the_text_format_and_binary_files_are_those_of_gensim(tmp_path):
    from gensim.models import KeyedVectors

    vectors = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)
    VectorSpace(["a", "b\u00a0c", "a"], vectors).write(tmp_path / "a.vec")
    words, found = read_vectors(tmp_path / "a.vec")
    assert words == ["a", "b\u00a0c"], "the first of a word counts"
    assert np.array_equal(found, vectors[:2])
    keyed = KeyedVectors(50)
    keyed.add_vectors(["Fluß", "b"], vectors[:2])
    keyed.save_word2vec_format(str(tmp_path / "a.bin"), binary=True)
    words, found = read_vectors(tmp_path / "a.bin")
    assert words == ["Fluß", "b"]
    assert np.array_equal(found, vectors[:2])


GLOVE = b"dog 1 2\n. . . 3 4\nat a@b.c 5 6\ncat 7 8\n"
SHIPPED = b"\xef\xbb\xbf9 2\n" + GLOVE + b"dog 9 9\ncaf\xe9 1 1\n 2 2\n\xc2\xa0 3 3\n"


@pytest.mark.parametrize("pack", [None, gzip, bz2, lzma])
def test_vectors_are_read_as_they_are_shipped(pack, tmp_path):
    """Without a first line or with a wrong one; with blanks in words, twice the same word, bytes
    that are not text and a line without a word; packed.
    """
    suffix = {None: "", gzip: ".gz", bz2: ".bz2", lzma: ".xz"}[pack]
    path = tmp_path / f"cc.en.2.vec{suffix}"
    words = ["dog", ". . .", "at a@b.c", "cat"]
    left = "3 of 8 words are left out: 1 not UTF-8, 1 without letters, 1 there before"
    for content, more, said in (
        (GLOVE, [], {}),
        (SHIPPED, ["\u00a0"], {path.name: f"{left}; its first line says 9 words, it has 8"}),
    ):
        path.write_bytes(content if pack is None else pack.compress(content))
        with Caveats.collecting() as found:
            read, vectors = read_vectors(path)
        assert read == words + more
        assert vectors.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [3, 3]][: len(read)]
        assert found.notes().get("partial", {}) == said
        assert read_vectors(path, 1)[0] == ["dog"]
    assert StaticEncoder.from_files({"en": path}, Lookup()).hidden_size == 2
    (tmp_path / "a.vec").write_bytes(b"1 2\n. . . 1 2\n")
    assert read_vectors(tmp_path / "a.vec")[0] == [". . ."]


@pytest.mark.parametrize("head", [b"", b"4 2\n"])
def test_words_beyond_the_first_ones_of_a_file_are_counted_as_left_out(head, tmp_path):
    path = tmp_path / "cc.en.vec"
    path.write_bytes(head + GLOVE)

    def said(limit):
        with Caveats.collecting() as found:
            read_vectors(path, limit)
        return found.notes().get("partial", {}).get(path.name)

    assert said(3) == "1 of 4 words is left out: beyond the first 3"
    assert said(1) == "3 of 4 words are left out: beyond the first 1"
    assert said(4) is said(5) is said(None) is said(0) is None
    path.write_bytes(head + GLOVE.replace(b"dog", b"\xe9"))
    assert said(3) == "2 of 4 words are left out: 1 not UTF-8, 1 beyond the first 3"


def test_words_find_their_vectors_in_whatever_letters_either_is_written(tmp_path):
    """And exactly these letters first; the share that has a vector is always told."""
    text = "5 1\ne\u0301te\u0301 1\nCoöp 2\nCo\u00adöp 3\nıs\u200dı 4\ni\u0307z 5\n"
    (tmp_path / "a.tr.vec").write_text(text, encoding="utf-8")
    words = ["été", "Coöp", "Coo\u0308p", "Co\u00adöp", "ISI", "\u0130Z", "yok"]
    for casing, expected in (
        ("keep", [1, 2, 2, 3, 0, 0, 0]),
        ("fallback", [1, 2, 2, 3, 4, 5, 0]),
        ("lower", [1, 0, 0, 0, 4, 5, 0]),
    ):
        how = Lookup(casing, "none")
        encoder = StaticEncoder.from_files({"tr": tmp_path / "a.tr.vec"}, how)
        with Caveats.collecting() as found:
            vectors, _ = looked_up(encoder, *words, lang="tr")
        assert vectors.flatten().tolist() == expected
        share = f"{sum(map(bool, expected)) / 7:.1%} of tr"
        assert found.notes()["partial"] == {"words with a vector": share}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"the dog\n", ":1: begins with neither the number of words.* nor a vector"),
        (b"", ":1: begins with neither"),
        (b"2 2\ndog 1 2\ncat 1\n", ":3: 1 numbers, but the first line says 2"),
        (b"2 3\ndog 1 2 3\n7 1\n", ":3: 1 numbers, but the first line says 3"),
        (b"2 2\ndog 1 2 3\n", ":2: 3 numbers, but the first line says 2"),
        (b"1 2\ndog 1 x\n", ":2: could not convert"),
        (b"1 2\ndog 1 nan\n", "NaN"),
        ((793712314).to_bytes(4, "little") + b"\x0c\n", "fastText's own binary format"),
    ],
)
def test_what_is_no_vector_file_is_refused_by_line(content, message, tmp_path):
    (tmp_path / "a.vec").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_vectors(tmp_path / "a.vec")


def test_an_aligned_static_encoder_is_saved_loaded_and_exported(tmp_path: Path) -> None:
    """With the aligned vectors of the pivot toward each language."""
    base = planted(["a", "B"], [[1, 2], [3, 4]], Lookup(normalization="none", casing="lower"))
    turn = Affine(weight=torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
    double = Transform("en", 0, steps=(Affine(weight=2 * torch.eye(2)),), toward="de")
    aligned = AlignedEncoder(base, (Transform("en", 0, steps=(turn,)), double))
    aligned.save(tmp_path / "saved")
    assert not list((tmp_path / "saved").glob("**/*.vec"))
    aligned.export(tmp_path / "out")
    loaded = AlignedEncoder.load(tmp_path / "saved", lambda: base)
    for one in (aligned, loaded, AlignedEncoder.from_export(tmp_path / "out")):
        found = one.words([["a", "x"]], "en").vectors_NLH.tolist()
        assert found == [[[-2.0, 1.0]], [[0.0, 0.0]]]
    words, vectors = read_vectors(tmp_path / "out" / "en-de.aligned.vec")
    assert (words, vectors.tolist()) == (["a"], [[-4, 2]])
    with pytest.raises(RaxalignError, match="only a transformer has an inside"):
        AlignedEncoder(base, (Transform("en", 0, "inside"),))
    with pytest.raises(RaxalignError, match="only a transformer has hidden states"):
        aligned.hidden(None)


def test_there_is_one_layer_and_no_text_is_an_error(tmp_path: Path) -> None:
    encoder = planted(["a"], [[1, 2]])
    twice = encoder.words([["a"]], "en", layers=(0, 0), pooling="last").vectors_NLH
    assert twice.tolist() == [[[1, 2], [1, 2]]]
    assert encoder.words([], "en", layers=(0,), pooling="last").vectors_NLH.shape == (0, 1, 2)
    with pytest.raises(RaxalignError, match="layers 9: static vectors are one layer"):
        encoder.words([["a"]], "en", layers=(9,), pooling="last")
    with pytest.raises(RaxalignError, match="there is none"):
        Static(Static.Params()).build(EncoderInputs(), Runtime(), tmp_path)
    with pytest.raises(RaxalignError, match="have to be built"):
        Static(Static.Params()).load(EncoderInputs(), "cpu")
    with pytest.raises(DataError, match="is not a folder of static vectors"):
        StaticEncoder.from_folder(tmp_path)


def test_what_cannot_change_the_vectors_is_no_part_of_their_identity() -> None:
    def identity(**options: object) -> dict[str, object]:
        return Static.Params.model_validate(options).identity()

    assert identity(x_max=3) == identity() == identity(epochs=5, learning_rate=0.025)
    assert identity(algorithm="word2vec", buckets=9) == identity(algorithm="word2vec")
    filled = identity(algorithm="glove", epochs=25, learning_rate=0.05)
    assert identity(algorithm="glove") == filled
    given = {"units": "pieces", "vocabulary": "v.txt"}
    assert identity(**given, vocab_size=500) == identity(**given)
    idle = {"seed": 4, "dimension": 7, "spaces": "joint"}
    assert identity(vectors="w.{lang}.vec", **idle) == identity(vectors="w.{lang}.vec")
    assert identity(spaces="joint") == {**identity(), "spaces": "joint"}
    changes = ({"seed": 1}, {"casing": "lower"}, {"normalization": "none"})
    assert len({str(identity(**options)) for options in ({}, {"window": 3}, *changes)}) == 5
    for wrong in ({"vectors": "w.vec"}, {"vocabulary": "v.txt"}):
        with pytest.raises(ValueError, match=r"with \{lang\}|only `units: pieces`"):
            identity(**wrong)


@pytest.mark.slow
def test_two_processes_make_the_same_files_whatever_their_hashes(text, tmp_path):
    jobs = {lang: str(path) for lang, path in text.items()}
    folders = [tmp_path / "here", tmp_path / "there"]
    build_all(jobs, str(folders[0]))
    program = "from tests.encoders.test_static import build_all; build_all"
    program += f"({jobs!r}, {str(folders[1])!r})"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    files = [[p for p in sorted(folder.rglob("*")) if p.is_file()] for folder in folders]
    here, there = ([(p.parent.name, p.name, p.read_bytes()) for p in some] for some in files)
    assert here == there
    assert len(here) == 3 + 5 + 4


def test_without_gensim_the_message_has_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr("raxalign.extras.find_spec", lambda name: None)
    lacks = "the library gensim is not installed. Run: pip install 'raxalign[static]'"
    assert Static(Static.Params(algorithm="word2vec")).check_machine() == [f"word2vec: {lacks}"]
    assert Static(Static.Params(algorithm="glove")).check_machine() == []


TOPICS = 20
TOPIC = {"dimension": 12, "min_count": 1, "epochs": 20, "seed": 3, "spaces": "joint"}
OPTIONS = {"word2vec": {}, "glove": {}, "fasttext": {"buckets": 500}}


@pytest.fixture(scope="module")
def joint(topics, tmp_path_factory):
    """The folder of a joint space of Word2Vec, its encoder, and the notes of its training."""
    folder = tmp_path_factory.mktemp("joint")
    kind = Static(Static.Params.model_validate({**TOPIC, "algorithm": "word2vec"}))
    notes = kind.build(EncoderInputs(text=topics), Runtime(), folder)
    return folder, kind.load(EncoderInputs(folder=folder), "cpu"), notes


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Word i of either language is only ever next to the names i and i+1, which both share."""
    root, folders = tmp_path_factory.mktemp("topics"), {}
    for lang in ("de", "en"):
        drawn = np.random.default_rng(len(folders)).integers(0, TOPICS, 600).tolist()
        topics = [
            [f"{lang}{i}", f"Name{i}", f"{lang}{i}", f"Name{(i + 1) % TOPICS}"] for i in drawn
        ]
        folders[lang] = write_words(root / lang, topics)
    return folders


def mrr(encoder: StaticEncoder, topics: dict[str, Path], folder: Path) -> float:
    """The mean reciprocal rank over the dictionary of all topics, both ways."""
    dictionary = folder / "de-en.txt"
    dictionary.write_text("".join(f"de{i} en{i}\n" for i in range(TOPICS)), encoding="utf-8")
    task = DictionaryRetrieval(DictionaryRetrieval.Params(dictionary=str(dictionary)))
    inputs = TaskInputs("en", files={"dictionary": {"de": dictionary}}, text=topics)
    outcome = task.evaluate(AlignedEncoder(encoder), ("de",), inputs, Runtime(), None)
    return next(score.value for score in outcome.scores if score.metric == "mrr")


@pytest.mark.parametrize("algorithm", ["glove", "fasttext"])
def test_translations_are_found_in_a_joint_space_and_not_across_spaces(algorithm, topics, tmp_path):
    """By chance the mean reciprocal rank among 20 words is (1 + 1/2 + ... + 1/20) / 20 = .18."""
    options = {**TOPIC, "algorithm": algorithm, "learning_rate": 0.05}
    options |= OPTIONS[algorithm]
    joint = build(topics, tmp_path / "joint", **options)
    assert mrr(joint, topics, tmp_path) > 0.8
    if algorithm == "glove":
        separate = build(topics, tmp_path / "separate", **{**options, "spaces": "separate"})
        assert mrr(separate, topics, tmp_path) < 0.4
        pivot, other = (looked_up(separate, "Name3", lang=lang)[0] for lang in ("en", "de"))
        assert not pivot.equal(other)


def test_a_joint_space_is_one_file_that_is_aligned_and_exported(joint, topics, tmp_path):
    folder, encoder, notes = joint
    counted = {"sentences": {"de": 600, "en": 600}, "words": 4800, "vocabulary": 3 * TOPICS}
    assert counted.items() <= notes.items()
    assert {p.name for p in folder.iterdir()} == {"joint.vec", StaticEncoder.RECORD}
    assert mrr(encoder, topics, tmp_path) > 0.4
    assert encoder.space("de") is encoder.space("en")
    turn = Transform("de", 0, steps=(Affine(weight=-torch.eye(12)),))
    AlignedEncoder(encoder, (turn,)).export(tmp_path / "out")
    again = AlignedEncoder.from_export(tmp_path / "out")
    assert isinstance(again.encoder, StaticEncoder)
    assert again.encoder.languages == ("de", "en")
    before, _ = looked_up(encoder, "Name0", "de1", "en1")
    assert looked_up(again.encoder, "Name0", "de1", "en1")[0].equal(before)
    assert again.words([["Name0"]], "de").vectors_NLH[0, 0].equal(-before[0])


def test_a_record_of_another_version_is_refused(joint, tmp_path: Path) -> None:
    record = json.loads((joint[0] / StaticEncoder.RECORD).read_text(encoding="utf-8"))
    assert record["format"] == 2
    (tmp_path / StaticEncoder.RECORD).write_text(
        json.dumps({**record, "format": 3}), encoding="utf-8"
    )
    with pytest.raises(DataError, match="format 3, but this version reads 1 and 2"):
        StaticEncoder.from_folder(tmp_path)


METHODS = [kind for kind in catalog("methods") if "static" in catalog("methods")[kind].accepts]


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("static")
    toy_inputs(folder, SIZE, LANGUAGES)
    return folder


def of_toys() -> StaticEncoder:
    """Random vectors of all words that the toy's sentences have, but one."""
    columns, spaces = toy_rows(60, seed=1), {}
    for number, lang in enumerate((*LANGUAGES, "en")):
        sentences, drawn = columns["tgt" if lang == "en" else "src"], np.random.default_rng(number)
        words = sorted({word for sentence in sentences for word in sentence})[1:]
        spaces[lang] = VectorSpace(words, drawn.normal(size=(len(words), 12)).astype(np.float32))
    return StaticEncoder(spaces, 12, Lookup())


@pytest.mark.parametrize("kind", METHODS)
def test_static_vectors_are_aligned_saved_and_exported(kind, toys, tmp_path):
    method = make(kind, toys)
    aligned = method.align(of_toys(), asked_for(method, toys), Runtime(seed=1))
    assert any(t.lang == "en" for t in aligned.transforms) <= method.effect().pivot
    found = vectors(aligned)
    assert torch.isfinite(found).all()
    assert torch.equal(found, vectors(AlignedEncoder(of_toys()))) is (kind == "none")
    aligned.save(tmp_path / "saved")
    assert torch.equal(vectors(AlignedEncoder.load(tmp_path / "saved", of_toys)), found)
    aligned.export(tmp_path / "out")
    assert torch.equal(vectors(AlignedEncoder.from_export(tmp_path / "out")), found)


GRID = """
name: static
pivot: en
encoder: {{kind: static, algorithm: fasttext, dimension: 50, min_count: 1, buckets: 5000, \
epochs: 20, {encoder}}}
languages: {{each: [de]}}
corpus: {{source: phrasebook, size: 330, split: {{test: 40, dev: 40}}}}
pairs: {{aligner: fast_align}}
sentences: 250
seeds: [0]
methods:
  none: {{}}
  rotation: {{}}
  finetune: {{}}
tasks:
  retrieval: {{augmentation: sentence}}
  sentence_retrieval: {{}}
  dictionary_retrieval: {{dictionary: "{{lang}}-{{pivot}}.txt"}}
  xnli: {{data: phrasebook, epochs: 1}}
  slots: {{data: phrasebook}}
"""


def plan_of(folder: Path, encoder: str = "seed: 0") -> Plan:
    folder.mkdir(exist_ok=True)
    entries = "das the\nist is\nund and\nich i\nhaus house\nnicht not\n"
    (folder / "de-en.txt").write_text(entries, encoding="utf-8")
    grid = GRID.format(encoder=encoder)
    (folder / "grid.yaml").write_text(grid, encoding="utf-8")
    return expand(load(folder / "grid.yaml"))


def test_methods_and_tasks_that_take_only_transformers_are_dropped_and_text_is_read(tmp_path):
    """The encoder and the dictionary read the text of both languages."""
    plan = plan_of(tmp_path)
    assert [trial.method for trial in plan.trials] == ["none", "rotation"]
    taken = {"retrieval", "sentence_retrieval", "dictionary_retrieval", "xnli"}
    assert all(set(trial.evaluations) == taken for trial in plan.trials)
    assert any("finetune does not take static encoders" in line for line in plan.merged)
    stages = plan.stages.items()
    text = {f"text/{s.params['lang']}": key for key, s in stages if s.kind == "text"}
    assert set(text) == {"text/de", "text/en"}
    readers = [s for _, s in stages if s.kind == "encoder" or s.maker == "dictionary_retrieval"]
    assert len(readers) == 3
    assert all(text.items() <= stage.inputs.items() for stage in readers)


@pytest.mark.slow
def test_a_grid_runs_on_static_vectors_and_rotation_brings_them_together(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    root = tmp_path / "storage"
    workshop = Workshop(plan, Storage(str(root)), Runtime())
    for trial in plan.trials:
        workshop.run_trial(trial.key)
    found = {
        (row["method"], row["task"], row["metric"], row["split"]): row["value"]
        for row in rows(plan, workshop.ledger)
    }
    words = ("retrieval", "contextual_accuracy_all", "dev"), ("dictionary_retrieval", "mrr", "test")
    gains = {("sentence_retrieval", "accuracy", "test"): 0.2, **dict.fromkeys(words, 0.0)}
    for what, more in gains.items():
        assert found["rotation", *what] > found["none", *what] + more
    # By chance .33; the pivot's words are the same in both trials.
    assert found["none", "xnli", "accuracy", "test"] > 0.4
    aligned = workshop.aligned(plan.trials[1].aligned)
    aligned.export(tmp_path / "out")
    again, words = AlignedEncoder.from_export(tmp_path / "out"), [["Ich", "bin", "hier"]]
    vectors = aligned.words(words, "de").vectors_NLH
    assert again.words(words, "de").vectors_NLH.equal(vectors)
