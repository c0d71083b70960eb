"""Static word vectors: fastText, Word2Vec or GloVe, trained on a grid's text or read from files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, final

from raxalign.encoders.base import EncoderInputs, EncoderKind
from raxalign.encoders.models.static import Lookup, StaticEncoder, ngrams_of
from raxalign.encoders.training.params import LANG, StaticParams
from raxalign.encoders.training.static import train
from raxalign.errors import RaxalignError
from raxalign.extras import missing
from raxalign.options.sources import LocalFile, Source
from raxalign.train.runtime import Runtime

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

    Params = StaticParams
    params: StaticParams

    def __init__(self, params: StaticParams) -> None:
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
        told = f"{pooling} is read of pieces, which {self.label()}, a static encoder, has not"
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
        return train(self.params, inputs.text, Path(vocabulary) if vocabulary else None, folder)

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
