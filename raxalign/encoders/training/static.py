"""Training of static vectors on monolingual text, each language for itself or all together:
gensim's Word2Vec and fastText, and our own GloVe.

The same text and seed give the same vectors in every process: one thread, and words numbered by
frequency, then by spelling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raxalign.corpora.text.words import look_up_form
from raxalign.encoders.models.static import (
    JOINT,
    Floats,
    Lookup,
    StaticEncoder,
    Subwords,
    VectorSpace,
)
from raxalign.encoders.training.params import StaticParams
from raxalign.encoders.training.text import read_vocabulary, read_words, train_wordpiece
from raxalign.errors import RaxalignError
from raxalign.extras import require
from raxalign.lazy import np

Sentences = Sequence[Sequence[str]]
_NGRAMS = (3, 6)  # the fewest and the most characters of an n-gram of fastText


def train(
    params: StaticParams, text: Mapping[str, Path], vocabulary: Path | None, folder: Path
) -> Mapping[str, object]:
    """Train the vectors of every language on its folder of text, or those of all together, and save
    them. `vocabulary` is the file of the pieces (None: one is trained on the text).

    Returns the notes: counts per language, or those of the one space. Raises `RaxalignError` where
    there is no text or no word occurs often enough, `DependencyError` where gensim is missing.
    """
    sentences: Mapping[str, Sentences] = {
        lang: read_words(text[lang], params.max_sentences) for lang in sorted(text)
    }
    if not any(sentences.values()):
        raise RaxalignError(
            "static vectors are trained on text, but there is none: give the grid a corpus"
        )
    if params.casing == "lower":
        sentences = {
            lang: [[look_up_form(word, lang) for word in words] for words in part]
            for lang, part in sentences.items()
        }
    reading = Lookup(params.casing, params.normalization, params.units == "pieces")
    pieces = None
    if params.units == "pieces":
        pieces = read_vocabulary(vocabulary) if vocabulary else _trained_pieces(sentences, params)
        splitter = StaticEncoder({}, params.dimension, reading, vocabulary=pieces)
        sentences = {
            lang: [names for names, _ in splitter.pieces(part)] for lang, part in sentences.items()
        }
    joint, notes, spaces = params.spaces == "joint", dict[str, object](), dict[str, VectorSpace]()
    if joint:
        spaces[JOINT], notes = _train_joint(sentences, params)
    else:
        for lang, part in sentences.items():
            spaces[lang], notes[lang] = _train_space(lang, part, params)
    shared = tuple(sentences) if joint else None
    encoder = StaticEncoder(spaces, params.dimension, reading, vocabulary=pieces, languages=shared)
    encoder.save(folder)
    return notes


def _trained_pieces(sentences: Mapping[str, Sentences], params: StaticParams) -> list[str]:
    every = [words for part in sentences.values() for words in part]
    lower = params.casing == "lower"
    tokenizer = train_wordpiece(every, params.vocab_size, lowercase=lower)
    names: list[str] = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    return names


def _train_joint(
    sentences: Mapping[str, Sentences], params: StaticParams
) -> tuple[VectorSpace, dict[str, object]]:
    """The one space of all languages. The sentences are shuffled, since the learning rate of
    Word2Vec and fastText falls over the text: otherwise the last language would be trained least.
    """
    every = [sentence for part in sentences.values() for sentence in part]
    order = np.random.default_rng(params.seed).permutation(len(every)).tolist()
    space, notes = _train_space("all languages", [every[i] for i in order], params)
    return space, {**notes, "sentences": {lang: len(part) for lang, part in sentences.items()}}


def _train_space(
    of: str, sentences: Sentences, params: StaticParams
) -> tuple[VectorSpace, dict[str, object]]:
    counts = Counter(word for sentence in sentences for word in sentence if word != "[UNK]")
    ranked = sorted(
        ((word, n) for word, n in counts.items() if n >= params.min_count),
        key=lambda entry: (-entry[1], entry[0]),
    )
    if not ranked:
        raise RaxalignError(
            f"static: no word of {of} occurs {params.min_count} times in {len(sentences)}"
            " sentences; lower `min_count`"
        )
    words = [word for word, _ in ranked]
    notes: dict[str, object] = {
        "sentences": len(sentences),
        "words": sum(counts.values()),
        "vocabulary": len(words),
    }
    if params.algorithm == "glove":
        from raxalign.encoders.training.glove import train_glove

        numbers = {word: i for i, word in enumerate(words)}
        rows = [np.array([numbers.get(w, -1) for w in part], dtype=np.int64) for part in sentences]
        vectors, losses = train_glove(rows, len(words), params)
        notes |= {"first_loss": losses[0], "last_loss": losses[-1]}
        return VectorSpace(words, vectors), notes
    require("gensim", params.algorithm)
    vectors, subwords = _gensim(sentences, dict(ranked), params)
    return VectorSpace(words, vectors, subwords), notes


def _gensim(
    sentences: Sentences, counts: Mapping[str, int], params: StaticParams
) -> tuple[Floats, Subwords | None]:
    """(vectors in the order of `counts`, the n-grams of fastText); no seed is a hash of Python."""
    from gensim.models import FastText, Word2Vec

    options: dict[str, Any] = {
        "vector_size": params.dimension,
        "window": params.window,
        "min_count": params.min_count,
        "sg": 1,
        "alpha": params.rate,
        "seed": params.seed,
        "workers": 1,
        "hashfxn": len,
    }
    if params.algorithm == "fasttext":
        options |= {"min_n": _NGRAMS[0], "max_n": _NGRAMS[1], "bucket": params.buckets}
    model = (FastText if params.algorithm == "fasttext" else Word2Vec)(**options)
    # Word by word in a set order: gensim numbers words of equal frequency as they come.
    model.build_vocab_from_freq(dict(counts), corpus_count=len(sentences))
    model.train(sentences, total_examples=len(sentences), epochs=params.trained_epochs)
    keyed = model.wv
    vectors = np.stack([keyed[word] for word in counts]).astype(np.float32)
    if params.algorithm != "fasttext":
        return vectors, None
    buckets = [np.asarray(row, dtype=np.int64) for row in keyed.buckets_word]
    numbers = np.unique(np.concatenate(buckets))
    grams = keyed.vectors_ngrams[numbers].astype(np.float32)
    return vectors, Subwords(numbers, grams, *_NGRAMS, params.buckets)
