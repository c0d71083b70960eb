"""The options of encoders that are trained from nothing, and of vectors that are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from raxalign.encoders.base import EncoderKind
from raxalign.options.params import LATER, Removed
from raxalign.options.sources import DataPath

LANG = "{lang}"
"""The placeholder of the language in the names of files of vectors."""
_GENSIM = frozenset({"negative", "sample", "architecture"})
_SUBWORDS = frozenset({"min_n", "max_n", "buckets"})
_READ = ("casing", "normalization")


class ScratchParams(EncoderKind.Params):
    """The shape of the model, its vocabulary, and its training."""

    layers: int = Field(3, ge=1)
    """Number of blocks."""
    hidden_size: int = Field(128, ge=8)
    """Width of the hidden states, which `heads` must divide."""
    heads: int = Field(4, ge=1)
    """Attention heads per block."""
    intermediate: int = Field(512, ge=8)
    """Width of the feed-forward layer of a block."""
    positions: int = Field(128, ge=8)
    """Largest number of pieces that the encoder reads at once."""
    vocab_size: int = Field(4_000, ge=100)
    """Largest number of pieces in the vocabulary."""
    vocabulary: DataPath | None = None
    """File of pieces, a `vocab.txt` (none: one is trained on the text)."""
    max_sentences: int = Field(20_000, ge=1)
    """Largest number of sentences per language to train on."""
    window: int = Field(64, ge=8)
    """Largest number of pieces per training row."""
    slicing: Annotated[bool, LATER] = False
    """Whether the text, its sentences in their order, is sliced into rows of `window` pieces, so
    that every piece is trained on; otherwise rows are sentences, pairs and groups of sentences in
    random order, and a sentence that is longer than `window` loses its end.
    """
    batch_size: int = Field(16, ge=1)
    """Windows per training step; shorter rows count by their pieces."""
    steps: int = Field(1_200, ge=1)
    """Training steps."""
    learning_rate: float = Field(1e-3, gt=0)
    """Learning rate at the end of the warm-up."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Probability of dropout, here and in later trainings."""
    seed: int = 0
    """Seed of the first weights and of the training."""
    removed: ClassVar = {
        "lowercase": Removed("leave it out: text is read with its case", False),
        "warmup": Removed("leave it out: the rate rises over a tenth of the steps", 0.1),
        "mask_share": Removed("leave it out: 15 % of the pieces are masked", 0.15),
    }

    @model_validator(mode="after")
    def _fits(self) -> ScratchParams:
        if self.hidden_size % self.heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} cannot be divided among {self.heads} heads"
            )
        if self.window > self.positions:
            raise ValueError(f"window {self.window} is more than positions {self.positions}")
        return self

    def identity(self) -> dict[str, Any]:
        """Without `vocab_size` where the vocabulary is given."""
        idle = set() if self.vocabulary is None else {"vocab_size"}
        return {name: value for name, value in super().identity().items() if name not in idle}


class StaticParams(EncoderKind.Params):
    """What vectors are of, and how they are made. On 10,000 sentences fastText needs 30 epochs."""

    algorithm: Literal["fasttext", "word2vec", "glove"] = "fasttext"
    """How vectors are trained."""
    vectors: DataPath | None = None
    """Files of vectors to read in place of training, in word2vec's or GloVe's format, packed or not
    (`.gz`, `.bz2`, `.xz`); the file name must hold `{lang}`.
    """
    spaces: Annotated[Literal["separate", "joint"], LATER] = "separate"
    """Whether each language has a space of its own, trained on its text alone (`separate`), or all
    share one that is trained on the text of all together (`joint`), where words or pieces that
    several languages have in common have one vector.
    """
    units: Literal["words", "pieces"] = "words"
    """What has a vector: `words`, or the `pieces` of a vocabulary."""
    vocabulary: DataPath | None = None
    """File of pieces, a `vocab.txt` (none: one is trained on the text)."""
    vocab_size: int = Field(30_000, ge=100)
    """Largest number of pieces in a vocabulary that is trained."""
    casing: Literal["keep", "lower", "fallback"] = "keep"
    """Case of words: kept (`keep`), lower in training and use (`lower`), or lower where a word has
    no vector as it is (`fallback`).
    """
    normalization: Literal["unit-center-unit", "unit", "none"] = "unit-center-unit"
    """What is done to vectors: nothing, length one (`unit`), or length one, the vocabulary's mean
    off, length one again.
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
    """Seed of the training."""
    removed: ClassVar = {
        "max_vectors": Removed("leave it out: the first 200,000 vectors are read", 200_000),
        "architecture": Removed("leave it out: a word predicts its neighbours", "skipgram"),
        "negative": Removed("leave it out: there are 5 negative samples", 5),
        "sample": Removed("leave it out: words above a share of 0.001 are sub-sampled", 1e-3),
        "min_n": Removed("leave it out: n-grams have 3 characters or more", 3),
        "max_n": Removed("leave it out: n-grams have 6 characters or fewer", 6),
    }

    @model_validator(mode="after")
    def _fits(self) -> StaticParams:
        if self.vectors is not None and (
            self.units == "pieces" or LANG not in Path(self.vectors).name
        ):
            raise ValueError(
                "vectors: files of words, one per language, with {lang} in their names; pieces are"
                " trained"
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
        idle |= {"vocab_size"} if self.units == "words" or self.vocabulary is not None else set()
        idle |= _GENSIM if self.algorithm == "glove" else {"x_max"}
        idle |= _SUBWORDS if self.algorithm != "fasttext" else set()
        resolved = {**every, "epochs": self.trained_epochs, "learning_rate": self.rate}
        return {name: value for name, value in resolved.items() if name not in idle}
