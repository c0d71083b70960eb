"""Static word vectors: fastText, Word2Vec or GloVe, trained on the grid's own text or read from files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

from pydantic import Field, model_validator

from raxalign.config.sources import DataPath, LocalFile, Source
from raxalign.encoders.base import EncoderInputs, EncoderKind
from raxalign.errors import RaxalignError

if TYPE_CHECKING:
    from raxalign.encoders.models.static import StaticEncoder
    from raxalign.train.runtime import Runtime

_LANG = "{lang}"
_GENSIM = frozenset({"negative", "sample", "architecture"})
_SUBWORDS = frozenset({"min_n", "max_n", "buckets"})
_READ = ("casing", "normalization")


@final
class Static(EncoderKind):
    """A vector for every word, whatever its sentence: a space a language, trained on the monolingual text of that language alone, or read
    from files. It has one layer, 0; fastText has vectors for unseen words too. The baseline of Cao et al. (2020) is fastText with
    `normalization: unit-center-unit` and a rotation; Liu et al. (2020, §3) train Word2Vec and GloVe on the `pieces` of BERT's vocabulary.
    """

    VERSION: ClassVar[int] = 1
    family: ClassVar[str] = "static"

    class Params(EncoderKind.Params):
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
        def _fits(self) -> Static.Params:
            if self.min_n > self.max_n:
                raise ValueError(f"min_n {self.min_n} is more than max_n {self.max_n}")
            if self.vectors is not None and (self.units == "pieces" or _LANG not in Path(self.vectors).name):
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

    params: Params

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self.needs_text = params.vectors is None

    def sources(self) -> Mapping[str, Source]:
        """The files of vectors, by language, or the vocabulary."""
        if self.params.vectors is not None:
            return {f"vectors/{lang}": LocalFile(path) for lang, path in self._files().items()}
        return {} if self.params.vocabulary is None else {"vocabulary": LocalFile(Path(self.params.vocabulary))}

    def depth(self, known: Callable[[str], str | None]) -> int:  # noqa: ARG002
        """None but the embeddings."""
        return 0

    def check(self) -> list[str]:
        """Whether there are files of vectors at all."""
        if self.params.vectors is not None and not self._files():
            return [f"vectors: there is no file {self.params.vectors}"]
        return []

    def label(self) -> str:
        """The algorithm, or where the vectors are from."""
        if self.params.vectors is None:
            return self.params.algorithm
        path = Path(self.params.vectors)
        return path.name.split(_LANG)[0].strip("._-") or path.parent.name

    def build(self, inputs: EncoderInputs, runtime: Runtime, folder: Path) -> Mapping[str, object]:  # noqa: ARG002
        """Train each language's vectors and write them as word2vec files. Raises `RaxalignError` where there is no text."""
        from raxalign.encoders.training.static import train

        vocabulary = inputs.locations.get("vocabulary")
        return train(self.params, inputs.text, Path(vocabulary) if vocabulary else None, folder)

    def load(self, inputs: EncoderInputs, device: str) -> StaticEncoder:
        """The vectors that `build` left in ``inputs.folder``, or those of the files."""
        from raxalign.encoders.models.static import Reading, StaticEncoder

        if self.params.vectors is not None:
            files = self._files()
            if not files:
                raise RaxalignError(f"vectors: there is no file {self.params.vectors}")
            return StaticEncoder.from_files(files, Reading(self.params.casing, self.params.normalization), device, self.params.max_vectors)
        if inputs.folder is None:
            raise RaxalignError("static vectors have to be built before they are loaded")
        return StaticEncoder.from_folder(inputs.folder, device)

    def _files(self) -> dict[str, Path]:
        """The files that there are, by language: what stands in the place of ``{lang}``."""
        template = Path(str(self.params.vectors))
        before, after = template.name.split(_LANG, 1)
        pattern = re.compile(f"{re.escape(before)}([A-Za-z_-]+){re.escape(after)}")
        names = sorted(path.name for path in template.parent.iterdir()) if template.parent.is_dir() else []
        return {match[1]: template.parent / name for name in names if (match := pattern.fullmatch(name))}
