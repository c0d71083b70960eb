"""Static word vectors: fastText, Word2Vec or GloVe, trained on a grid's text or read from files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, final

from pydantic import Field, model_validator

from raxalign.arrays import Ints
from raxalign.corpora.text.words import look_up_form
from raxalign.encoders.base import EncoderInputs, EncoderKind
from raxalign.encoders.models.static import Lookup, StaticEncoder, Subwords, VectorSpace, ngrams_of
from raxalign.encoders.models.vocabulary import read_vocabulary, read_words, train_wordpiece
from raxalign.errors import RaxalignError
from raxalign.extras import missing, require
from raxalign.lazy import np
from raxalign.options.params import LATER, Removed
from raxalign.options.sources import DataPath, LocalFile, Source
from raxalign.train.runtime import Runtime

LANG = "{lang}"
"""The placeholder of the language in the names of files of vectors."""
_GENSIM = frozenset({"negative", "sample", "architecture"})
_SUBWORDS = frozenset({"min_n", "max_n", "buckets"})
_READ = ("casing", "normalization")
MOST_VECTORS = 200_000  # the first ones of a file are read


@final
class Static(EncoderKind):
    """A vector for every word, whatever its sentence: one space per language, trained on the
    monolingual text of that language alone or read from files, or one space for all languages
    (`spaces: joint`), trained on their text together. Separate spaces are comparable only after a
    method has mapped one onto the other. The encoder has one layer, 0; fastText has vectors for
    unseen words too. The baseline of Cao et al. (2020) is fastText with `normalization:
    unit-center-unit` and a rotation; Liu et al. (2020, §3) train Word2Vec and GloVe jointly on the
    `pieces` of BERT's vocabulary. fastText and Word2Vec are trained by gensim, which is an extra:
    `pip install 'raxalign[static]'`.

    Data: monolingual text of each language, or files of vectors (`vectors`).

    Relations: `transformer` and `scratch` have vectors of words in their sentences, and layers.
    Methods that train weights do not work on this one; `rotation` and the other maps do.

    Example:
        encoder: {kind: static, algorithm: fasttext, dimension: 300}
        methods:
          none: {}
          rotation: {center: true}
    """

    VERSION: ClassVar[int] = 2
    papers = (
        "algorithm=fasttext bojanowski2017",
        "algorithm=word2vec mikolov2013vectors",
        "algorithm=glove pennington2014",
    )
    family: ClassVar[str] = "static"

    class Params(EncoderKind.Params):
        """What vectors are of, and how they are made. On 10,000 sentences fastText needs 30
        epochs.
        """

        algorithm: Literal["fasttext", "word2vec", "glove"] = "fasttext"
        """How vectors are trained."""
        vectors: DataPath | None = None
        """Files of vectors to read in place of training, in word2vec's or GloVe's format, packed or
        not (`.gz`, `.bz2`, `.xz`); the file name must hold `{lang}`, and of each file the first
        200,000 words are read.
        """
        spaces: Annotated[Literal["separate", "joint"], LATER] = "separate"
        """Whether each language has a space of its own, trained on its text alone (`separate`), or
        all share one that is trained on the text of all together (`joint`), where words or subword
        tokens that several languages have in common have one vector.
        """
        units: Literal["words", "pieces"] = "words"
        """What has a vector: `words`, or the subword tokens of a vocabulary (`pieces`)."""
        vocabulary: DataPath | None = None
        """File of subword tokens, a `vocab.txt` (none: one is trained on the text)."""
        vocab_size: int = Field(30_000, ge=100)
        """Largest number of subword tokens in a vocabulary that is trained."""
        casing: Literal["keep", "lower", "fallback"] = "keep"
        """Case of words: kept (`keep`), lower in training and use (`lower`), or lower where a word
        has no vector as it is (`fallback`).
        """
        normalization: Literal["unit-center-unit", "unit", "none"] = "unit-center-unit"
        """What is done to vectors: nothing, length one (`unit`), or length one, the vocabulary's
        mean off, length one again.
        """
        dimension: int = Field(300, ge=2)
        """Number of coordinates of a vector."""
        window: int = Field(5, ge=1)
        """Number of words on each side that are neighbours of a word."""
        epochs: int | None = Field(None, ge=1)
        """Passes over the text, or over GloVe's matrix (none: 5, with GloVe 25)."""
        learning_rate: float | None = Field(None, gt=0)
        """Learning rate at the start (none: 0.025, with GloVe 0.05)."""
        min_count: int = Field(5, ge=1)
        """Times that a word has to occur in the text to have a vector."""
        buckets: int = Field(200_000, ge=1)
        """Number of buckets that the n-grams of fastText fall into."""
        x_max: float = Field(100.0, gt=0)
        """Co-occurrences from which on a pair has full weight in GloVe."""
        max_sentences: int = Field(1_000_000, ge=1)
        """Largest number of sentences per language to train on."""
        seed: int = Field(0, ge=0)
        """Seed of the training run."""
        removed: ClassVar = {
            "max_vectors": Removed("leave it out: the first 200,000 vectors are read", 200_000),
            "architecture": Removed("leave it out: a word predicts its neighbours", "skipgram"),
            "negative": Removed("leave it out: there are 5 negative samples", 5),
            "sample": Removed("leave it out: words above a share of 0.001 are sub-sampled", 1e-3),
            "min_n": Removed("leave it out: n-grams have 3 characters or more", 3),
            "max_n": Removed("leave it out: n-grams have 6 characters or fewer", 6),
        }

        @model_validator(mode="after")
        def _fits(self) -> Static.Params:
            if self.vectors is not None and (
                self.units == "pieces" or LANG not in Path(self.vectors).name
            ):
                raise ValueError(
                    "vectors: files of words, one per language, with {lang} in their names;"
                    " subword tokens are trained"
                )
            if self.vocabulary is not None and self.units == "words":
                raise ValueError("vocabulary: only `units: pieces` makes use of it")
            return self

        @property
        def trained_epochs(self) -> int:
            """Passes over the text, or over GloVe's matrix."""
            return self.epochs or (25 if self.algorithm == "glove" else 5)

        @property
        def rate(self) -> float:
            """The learning rate."""
            return self.learning_rate or (0.05 if self.algorithm == "glove" else 0.025)

        def identity(self) -> dict[str, Any]:
            """Without what another option makes idle, and with what is filled in."""
            every = super().identity()
            if self.vectors is not None:
                return {name: every[name] for name in (*_READ, "max_vectors")}
            idle = {"max_vectors"}
            idle |= (
                {"vocab_size"} if self.units == "words" or self.vocabulary is not None else set()
            )
            idle |= _GENSIM if self.algorithm == "glove" else {"x_max"}
            idle |= _SUBWORDS if self.algorithm != "fasttext" else set()
            resolved = {**every, "epochs": self.trained_epochs, "learning_rate": self.rate}
            return {name: value for name, value in resolved.items() if name not in idle}

    params: Params

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self.needs_text = params.vectors is None

    def sources(self) -> Mapping[str, Source]:
        """The files of vectors and of n-grams next to them, by language, or the vocabulary."""
        if self.params.vectors is not None:
            files = {f"vectors/{lang}": path for lang, path in self._files().items()}
            grams = {f"ngrams/{lang}": ngrams_of(path) for lang, path in self._files().items()}
            files |= {name: path for name, path in grams.items() if path.is_file()}
            return {name: LocalFile(path) for name, path in files.items()}
        given = self.params.vocabulary
        return {} if given is None else {"vocabulary": LocalFile(Path(given))}

    def depth(self, known: Callable[[str], str | None]) -> int:  # noqa: ARG002
        """None but the embeddings."""
        return 0

    def unpooled(self, pooling: str, known: Callable[[str], str | None]) -> Sequence[str]:  # noqa: ARG002
        """All but the mean of the words."""
        told = f"{pooling} reads subword tokens, and {self.label()}, of static vectors, has none"
        return () if pooling == "mean" else (told, "choose mean")

    def check(self) -> list[str]:
        """Whether there are files of vectors at all."""
        if self.params.vectors is not None and not self._files():
            return [f"vectors: there is no file {self.params.vectors}"]
        return []

    def check_machine(self) -> list[str]:
        """Whether gensim, which trains all but GloVe, is there."""
        trained = self.params.vectors is None and self.params.algorithm != "glove"
        return missing("gensim", self.params.algorithm) if trained else []

    def label(self) -> str:
        """The algorithm, or where the vectors are from."""
        if self.params.vectors is None:
            return self.params.algorithm
        path = Path(self.params.vectors)
        return path.name.split(LANG)[0].strip("._-") or path.parent.name

    def build(self, inputs: EncoderInputs, runtime: Runtime, folder: Path) -> Mapping[str, object]:  # noqa: ARG002
        """Train the vectors and write them. Raises `RaxalignError` where there is no text."""
        vocabulary = inputs.locations.get("vocabulary")
        return _train(self.params, inputs.text, Path(vocabulary) if vocabulary else None, folder)

    def load(self, inputs: EncoderInputs, device: str) -> StaticEncoder:
        """The vectors that `build` left in ``inputs.folder``, or those of the files."""
        for fault in self.check():
            raise RaxalignError(fault)
        if self.params.vectors is not None:
            reading = Lookup(self.params.casing, self.params.normalization)
            return StaticEncoder.from_files(self._files(), reading, device, MOST_VECTORS)
        if inputs.folder is None:
            raise RaxalignError("static vectors have to be built before they are loaded")
        return StaticEncoder.from_folder(inputs.folder, device)

    def _files(self) -> dict[str, Path]:
        """The files that exist, by language: the text in the place of ``{lang}``."""
        template = Path(str(self.params.vectors))
        before, after = template.name.split(LANG, 1)
        pattern = re.compile(f"{re.escape(before)}([A-Za-z_-]+){re.escape(after)}")
        found = {path: pattern.fullmatch(path.name) for path in sorted(template.parent.glob("*"))}
        return {match[1]: path for path, match in found.items() if match}


_Sentences = Sequence[Sequence[str]]
Floats: TypeAlias = "np.typing.NDArray[np.float32]"
_NGRAMS = (3, 6)  # the fewest and the most characters of an n-gram of fastText


def _train(
    params: Static.Params, text: Mapping[str, Path], vocabulary: Path | None, folder: Path
) -> Mapping[str, object]:
    """Train the vectors of every language on its folder of text, or those of all together, and save
    them. `vocabulary` is the file of the pieces (None: one is trained on the text).

    Returns the notes: counts per language, or those of the one space. Raises `RaxalignError` where
    there is no text or no word occurs often enough, `DependencyError` where gensim is missing.
    """
    sentences: Mapping[str, _Sentences] = {
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
        spaces[StaticEncoder.JOINT], notes = _train_joint(sentences, params)
    else:
        for lang, part in sentences.items():
            spaces[lang], notes[lang] = _train_space(lang, part, params)
    shared = tuple(sentences) if joint else None
    encoder = StaticEncoder(spaces, params.dimension, reading, vocabulary=pieces, languages=shared)
    encoder.save(folder)
    return notes


def _trained_pieces(sentences: Mapping[str, _Sentences], params: Static.Params) -> list[str]:
    every = [words for part in sentences.values() for words in part]
    lower = params.casing == "lower"
    tokenizer = train_wordpiece(every, params.vocab_size, lowercase=lower)
    names: list[str] = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    return names


def _train_joint(
    sentences: Mapping[str, _Sentences], params: Static.Params
) -> tuple[VectorSpace, dict[str, object]]:
    """The one space of all languages. The sentences are shuffled, since the learning rate of
    Word2Vec and fastText falls over the text: otherwise the last language would be trained least.
    """
    every = [sentence for part in sentences.values() for sentence in part]
    order = np.random.default_rng(params.seed).permutation(len(every)).tolist()
    space, notes = _train_space("all languages", [every[i] for i in order], params)
    return space, {**notes, "sentences": {lang: len(part) for lang, part in sentences.items()}}


def _train_space(
    of: str, sentences: _Sentences, params: Static.Params
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
        numbers = {word: i for i, word in enumerate(words)}
        rows = [np.array([numbers.get(w, -1) for w in part], dtype=np.int64) for part in sentences]
        vectors, losses = train_glove(rows, len(words), params)
        notes |= {"first_loss": losses[0], "last_loss": losses[-1]}
        return VectorSpace(words, vectors), notes
    require("gensim", params.algorithm)
    vectors, subwords = _gensim(sentences, dict(ranked), params)
    return VectorSpace(words, vectors, subwords), notes


def _gensim(
    sentences: _Sentences, counts: Mapping[str, int], params: Static.Params
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


_START = 1e-8  # of AdaGrad's sums of squared gradients
BATCH = 16_384
"""Entries of the co-occurrence matrix whose gradients are added up before a step."""


def cooccurrences(sentences: Sequence[Ints], size: int, window: int) -> Any:
    """The symmetric co-occurrence matrix (size, size): two words d places apart in a sentence count
    1/d, up to `window` places. Words without a number are -1, and keep their place.
    """
    from scipy import sparse

    words_T = np.concatenate([np.zeros(0, np.int64), *sentences])
    owners_T = np.repeat(np.arange(len(sentences)), [len(sentence) for sentence in sentences])
    counts = sparse.csr_matrix((size, size))
    for distance in range(1, window + 1):
        left, right = words_T[:-distance], words_T[distance:]
        near = (owners_T[:-distance] == owners_T[distance:]) & (left >= 0) & (right >= 0)
        weights = np.full(int(near.sum()), 1.0 / distance)
        places = left[near], right[near]
        counts = counts + sparse.coo_matrix((weights, places), shape=(size, size)).tocsr()
    counts = (counts + counts.T).tocsr()
    counts.sort_indices()
    return counts


@dataclass
class Glove:
    """The parameters of both roles of every word, ``[vector; bias]``, and AdaGrad's sums of squared
    gradients.

    The loss over the entries X_ij > 0 is sum f(X_ij) (w_i . c_j + b_i + d_j - log X_ij)^2 / 2 with
    f(x) = min(1, x / x_max)^alpha (Eq. 8-9). Steps are those of AdaGrad on the gradient of a batch
    of entries: the squares are added before the step is taken (Duchi et al. 2011), so that no
    coordinate moves by more than the learning rate.
    """

    words_VH: Floats
    contexts_VH: Floats
    word_bias_V: Floats
    context_bias_V: Floats
    x_max: float = 100.0
    alpha: float = 0.75
    learning_rate: float = 0.05
    _squares: dict[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("words_VH", "contexts_VH", "word_bias_V", "context_bias_V"):
            self._squares[name] = np.zeros_like(getattr(self, name)) + np.float32(_START)

    @classmethod
    def random(cls, size: int, params: Static.Params, rng: np.random.Generator) -> Glove:
        """Parameters uniform in +-1/(2 dimension), as in the paper's own program."""
        dimension = params.dimension
        shapes: tuple[tuple[int, ...], ...] = (size, dimension), (size, dimension), (size,), (size,)
        drawn = (rng.random(shape, dtype=np.float32) - np.float32(0.5) for shape in shapes)
        words, contexts, of_words, of_contexts = (part / np.float32(dimension) for part in drawn)
        return cls(words, contexts, of_words, of_contexts, params.x_max, learning_rate=params.rate)

    def step(self, rows_N: Ints, columns_N: Ints, counts_N: np.typing.NDArray[np.float64]) -> float:
        """One step on a batch of different entries; returns its loss, before the step."""
        from scipy import sparse

        rows, at_row = np.unique(rows_N, return_inverse=True)
        columns, at_column = np.unique(columns_N, return_inverse=True)
        words, contexts = self.words_VH[rows], self.contexts_VH[columns]
        guess_N = (
            np.einsum("nh,nh->n", words[at_row], contexts[at_column])
            + self.word_bias_V[rows_N]
            + self.context_bias_V[columns_N]
        )
        gap_N = guess_N - np.log(counts_N).astype(np.float32)
        pull_N = np.minimum(1.0, (counts_N / self.x_max) ** self.alpha).astype(np.float32) * gap_N
        pulls = sparse.csr_matrix((pull_N, (at_row, at_column)), shape=(len(rows), len(columns)))
        self._move("words_VH", rows, pulls @ contexts)
        self._move("contexts_VH", columns, pulls.T.tocsr() @ words)
        self._move("word_bias_V", rows, np.bincount(at_row, pull_N, len(rows)).astype(np.float32))
        pulls_C = np.bincount(at_column, pull_N, len(columns)).astype(np.float32)
        self._move("context_bias_V", columns, pulls_C)
        return float(np.dot(pull_N.astype(np.float64), gap_N) / 2)

    def _move(self, name: str, places: Ints, gradient: Floats) -> None:
        squares = self._squares[name]
        squares[places] += gradient * gradient
        getattr(self, name)[places] -= (
            np.float32(self.learning_rate) * gradient / np.sqrt(squares[places])
        )

    def vectors(self) -> Floats:
        """The sum of both roles (V, H), which is what GloVe returns (§4.2)."""
        return self.words_VH + self.contexts_VH


def train_glove(
    sentences: Sequence[Ints], size: int, params: Static.Params
) -> tuple[Floats, list[float]]:
    """Train the vectors of a vocabulary of `size` words on sentences of their numbers (-1: another
    word); the same seed gives the same vectors. Returns float32 (size, dimension), and the mean
    loss per entry in each epoch.
    """
    counts = cooccurrences(sentences, size, params.window).tocoo()
    rows, columns = counts.row.astype(np.int64), counts.col.astype(np.int64)
    rng = np.random.default_rng(params.seed)
    model, losses = Glove.random(size, params, rng), []
    for _ in range(params.trained_epochs):
        order, total = rng.permutation(len(rows)), 0.0
        for start in range(0, len(rows), BATCH):
            part = order[start : start + BATCH]
            total += model.step(rows[part], columns[part], counts.data[part])
        losses.append(total / max(1, len(rows)))
    return model.vectors(), losses
