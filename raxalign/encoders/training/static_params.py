"""The options of static word vectors, trained or read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from raxalign.config.sources import DataPath
from raxalign.encoders.base import EncoderKind

LANG = "{lang}"
"""What stands for the language in the names of files of vectors."""
_GENSIM = frozenset({"negative", "sample", "architecture"})
_SUBWORDS = frozenset({"min_n", "max_n", "buckets"})
_READ = ("casing", "normalization")


class StaticParams(EncoderKind.Params):
    """`vectors`: files with ``{lang}`` in their names, word2vec's text format or binary (``.bin``), of which the first `max_vectors` are
    read, in place of training. `units: pieces` are those of `vocabulary` (a ``vocab.txt``) or of one of `vocab_size` trained on the text.

    `casing`: words are kept as they are, lower-cased in training and use, or lower-cased where they have no vector as they are.
    `normalization`: to unit length, the vocabulary's mean off, to unit length. `epochs` and `learning_rate` are, where not given, 5 and
    .025 (.05 for CBOW), of GloVe 25 and .05; on some ten thousand sentences fastText wants 30 epochs. `max_sentences` a language; `negative`
    samples; `sample` is word2vec's sub-sampling of frequent words; fastText's n-grams have `min_n` to `max_n` characters and fall into
    `buckets`; `x_max` is GloVe's.
    """

    algorithm: Literal["fasttext", "word2vec", "glove"] = "fasttext"
    vectors: DataPath | None = None
    max_vectors: int = Field(200_000, ge=1)
    units: Literal["words", "pieces"] = "words"
    vocabulary: DataPath | None = None
    vocab_size: int = Field(30_000, ge=100)
    casing: Literal["keep", "lower", "fallback"] = "keep"
    normalization: Literal["unit-center-unit", "unit", "none"] = "unit-center-unit"
    dimension: int = Field(300, ge=2)
    architecture: Literal["skipgram", "cbow"] = "skipgram"
    window: int = Field(5, ge=1)
    epochs: int | None = Field(None, ge=1)
    learning_rate: float | None = Field(None, gt=0)
    min_count: int = Field(5, ge=1)
    negative: int = Field(5, ge=1)
    sample: float = Field(1e-3, ge=0)
    min_n: int = Field(3, ge=1)
    max_n: int = Field(6, ge=1)
    buckets: int = Field(200_000, ge=1)
    x_max: float = Field(100.0, gt=0)
    max_sentences: int = Field(1_000_000, ge=1)
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _fits(self) -> StaticParams:
        if self.min_n > self.max_n:
            raise ValueError(f"min_n {self.min_n} is more than max_n {self.max_n}")
        if self.vectors is not None and (self.units == "pieces" or LANG not in Path(self.vectors).name):
            raise ValueError("vectors: files of words, one a language, with {lang} in their names; pieces are trained")
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
        skipgram = self.algorithm != "glove" and self.architecture == "skipgram"
        return self.learning_rate or (0.025 if skipgram else 0.05)

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
