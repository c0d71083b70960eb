"""What methods share that map vectors when they are read: by statistics over monolingual text, or
by pairs of words or of sentences.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from raxalign.corpora.readers.dictionary import DictionaryFile
from raxalign.corpora.text.dataset import read_table, word_counts
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.transforms import Affine, Transform
from raxalign.encoders.models.vectors import Layers, Pooling, parse_layers
from raxalign.lazy import torch
from raxalign.methods.base import Acts, Effect, Method, MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.options.params import LATER, Removed
from raxalign.options.sources import DataPath, LocalFile, Source, expand_path
from raxalign.train.runtime import Runtime

if TYPE_CHECKING:
    from raxalign.methods.families.word_vectors import Moments, TextMoments, WordReading

Direction = Literal["to-pivot", "to-other"]


class ReadoutMethod(Method):
    """Maps the vectors of words when they are read from some layers."""

    accepts = frozenset({"transformer", "static"})

    class Params(Method.Params):
        """Which vectors are mapped."""

        layers: Layers = Field("last", description=wording.LAYERS_MAPPED)
        pooling: Pooling = Field("last", description=wording.WORD_POOLING)

    params: Params

    def acts(self, n_layers: int) -> Acts:
        """Readouts of `layers`."""
        return Acts(readouts=frozenset(parse_layers(self.params.layers, n_layers)))

    def word_reading(self, encoder: Encoder) -> WordReading:
        """Return how words become vectors, as the params say."""
        from raxalign.methods.families.word_vectors import WordReading

        layers = parse_layers(self.params.layers, encoder.n_layers)
        return WordReading(encoder, layers, self.params.pooling)


class TextMethod(ReadoutMethod):
    """Maps the vectors of every language and the pivot by statistics over the words of its text."""

    gram: ClassVar[bool] = False
    """Whether moments have products of coordinates."""

    class Params(ReadoutMethod.Params):
        """Statistics are over the words of the sentences that are read."""

        max_sentences: int | None = Field(10_000, ge=1)
        """Number of sentences of each language that are read, from the beginning of its text (none:
        all).
        """
        removed: ClassVar = {
            "sample_seed": Removed(
                "leave it out: the first `max_sentences` sentences are read", default=None
            )
        }

    params: Params

    def needs(self) -> Needs:
        """Monolingual text."""
        return Needs(text=True)

    def effect(self) -> Effect:
        """Readouts, of the pivot too."""
        return Effect(pivot=True)

    def word_reading(self, encoder: Encoder) -> WordReading:
        """Return how the text of each language is read, as the params say."""
        return replace(super().word_reading(encoder), limit=self.params.max_sentences)

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:  # noqa: ARG002
        """Return the encoder with a map for each language and layer, fitted on the language alone.
        Raises `RaxalignError` for text without words.
        """
        reading = self.word_reading(encoder)
        transforms, notes = [], {}
        for lang in (*inputs.languages, inputs.pivot):
            moments = reading.text_moments(inputs, lang, gram=self.gram)
            transforms += [
                Transform(lang, layer, steps=(step,))
                for layer, step in zip(reading.layers, self.maps(moments), strict=True)
            ]
            notes[lang] = {"words": moments.count}
        return AlignedEncoder(encoder, tuple(transforms), notes=notes)

    def maps(self, moments: TextMoments) -> Iterable[Affine]:
        """Return the map of each layer by the moments of one language."""
        raise NotImplementedError(f"{type(self).__name__} has no map for each language by itself")


class JointTextMethod(TextMethod):
    """Maps the vectors of every language and the pivot by one map per layer, the same for all."""

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:  # noqa: ARG002
        """Return the encoder with one map per layer, for every language. Raises `RaxalignError` for
        text without words.
        """
        languages = (*inputs.languages, inputs.pivot)
        reading = self.word_reading(encoder)
        found = [reading.text_moments(inputs, lang, gram=self.gram) for lang in languages]
        transforms = [
            Transform(lang, layer, steps=(step,))
            for layer, step in zip(reading.layers, self.joint_maps(found), strict=True)
            for lang in languages
        ]
        notes = {lang: {"words": one.count} for lang, one in zip(languages, found, strict=True)}
        return AlignedEncoder(encoder, tuple(transforms), notes=notes)

    @abstractmethod
    def joint_maps(self, found: Sequence[TextMoments]) -> Iterable[Affine]:
        """Return the map of each layer by the moments of all languages, the pivot's last."""


class MapMethod(ReadoutMethod):
    """Maps vectors of one language onto those of the other by a map that is fitted on pairs: mean
    vectors of sentences and of their translations, unless a subclass has others.
    """

    fits_alone = True
    name: ClassVar[str]
    """The method in messages."""

    class Params(ReadoutMethod.Params):
        """Which language's vectors are mapped."""

        direction: Direction = Field("to-pivot", description=wording.DIRECTION)

    params: Params

    def needs(self) -> Needs:
        """Sentence pairs."""
        return Needs(bitext=True)

    def effect(self) -> Effect:
        """Readouts; of the pivot, one for each language, where that is what moves."""
        return Effect(pivot=self.params.direction == "to-other")

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:  # noqa: ARG002
        """Return the encoder with its maps. Raises `RaxalignError` where there are no pairs."""
        reading, pivot = self.word_reading(encoder), inputs.pivot
        transforms, notes = [], {}
        for lang in inputs.languages:
            steps, notes[lang] = self.fit(reading, inputs, lang)
            # the pivot moves toward one language at a time
            moved = (pivot, lang) if self.params.direction == "to-other" else (lang, None)
            transforms += [
                Transform(moved[0], layer, steps=(step,), toward=moved[1])
                for layer, step in zip(reading.layers, steps, strict=True)
            ]
        return AlignedEncoder(encoder, tuple(transforms), notes=notes)

    @abstractmethod
    def fit(
        self, reading: WordReading, inputs: MethodInputs, lang: str
    ) -> tuple[Sequence[Affine], dict[str, object]]:
        """Return the maps of one language, one per layer, and what they rest on, for the notes."""

    def pairs(
        self, reading: WordReading, inputs: MethodInputs, lang: str
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield vectors of pairs, blocks of (P, L, H) of the other language and of the pivot."""
        yield from reading.sentence_pairs(inputs, lang)

    def moved_first(
        self, reading: WordReading, inputs: MethodInputs, lang: str
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the vectors of pairs with the side first that moves."""
        for source, target in self.pairs(reading, inputs, lang):
            yield (source, target) if self.params.direction == "to-pivot" else (target, source)

    def moments(self, reading: WordReading, inputs: MethodInputs, lang: str) -> Moments:
        """Return the sums over the pairs of a language, the side first that moves. Raises
        `RaxalignError` where there are none.
        """
        from raxalign.methods.families.word_vectors import Moments

        found = self.moved_first(reading, inputs, lang)
        return Moments.of(reading, found, self.missing(lang, inputs.pivot))

    def missing(self, lang: str, pivot: str) -> str:
        """Return what is said where a language has no pairs."""
        return f"{self.name}: there are no sentence pairs for {lang}-{pivot}; look at its corpus"


class WordMapMethod(MapMethod):
    """Maps by word pairs: linked words of the bitext, or the entries of a dictionary."""

    class Params(MapMethod.Params):
        """The options of a map over word pairs."""

        supervision: Literal["parallel", "dictionary"] = "parallel"
        """Which word pairs are mapped onto each other: linked words of the bitext (`parallel`), or
        the entries of a dictionary (`dictionary`).
        """
        dictionary: DataPath | None = None
        """File of a dictionary, two words per line, the pivot's last; its path may hold `{lang}`
        and `{pivot}`.
        """
        swap: Annotated[bool, LATER] = Field(False, description=wording.SWAP)
        min_count: int = Field(1, ge=1)
        """Times that both words of a dictionary entry have to occur in the bitext; other entries
        are left out.
        """
        max_pieces: Annotated[int, LATER] = Field(0, ge=0)
        """Largest number of subword tokens of a sentence of the bitext, without special ones, for
        its pair of sentences to be read (0: no limit).
        """

        @model_validator(mode="after")
        def _has_dictionary(self) -> Self:
            if self.supervision == "dictionary" and self.dictionary is None:
                raise ValueError(
                    "supervision: dictionary requires `dictionary`, a file with two words per line"
                )
            return self

    params: Params

    def needs(self) -> Needs:
        """Word pairs; with a dictionary the bitext in which its words occur."""
        parallel = self.params.supervision == "parallel"
        return Needs(links=parallel, bitext=not parallel)

    def idle(self) -> set[str]:
        """Without a dictionary its order of sides and how often its words have to occur."""
        return {"min_count", "swap"} if self.params.supervision == "parallel" else set()

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the dictionary, where it is read."""
        if self.params.supervision == "parallel" or self.params.dictionary is None:
            return {}
        return {
            "dictionary": LocalFile(expand_path(self.params.dictionary, lang=lang, pivot=pivot))
        }

    def pairs(
        self, reading: WordReading, inputs: MethodInputs, lang: str
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield vectors of the pairs of one language and the pivot: linked words, or the mean
        vectors, over all occurrences, of a dictionary's entries whose words both occur `min_count`
        times (Kulshreshtha et al. 2020).
        """
        from raxalign.pairing.build import WordPairs

        langs, params = (lang, inputs.pivot), self.params
        if params.supervision == "parallel":
            rows = reading.short_rows(
                WordPairs.read(inputs.pairs[lang]).table, langs, params.max_pieces
            )
            yield from reading.linked(rows, *langs)
        else:
            entries, _ = self._dictionary(inputs, lang)
            rows = reading.short_rows(read_table(inputs.bitext[lang]), langs, params.max_pieces)
            yield reading.entries(rows, entries, langs, params.min_count)

    def missing(self, lang: str, pivot: str) -> str:
        """Return what is said where a language has no pairs."""
        return (
            f"{self.name}: there are no word pairs for {lang}-{pivot}; look at its corpus, its"
            " links or its dictionary"
        )

    def coverage(self, inputs: MethodInputs, lang: str, used: int) -> dict[str, object]:
        """Return the number of pairs that were `used`, and the coverage of a dictionary."""
        if self.params.supervision == "parallel":
            return {"pairs": used}
        return {"pairs": used, **self._dictionary(inputs, lang)[1]}

    def _dictionary(
        self, inputs: MethodInputs, lang: str
    ) -> tuple[list[tuple[str, str]], dict[str, Any]]:
        """The different entries of the dictionary of one language, and what of them is in the
        bitext, for the notes.
        """
        bitext, langs = inputs.bitext[lang], (lang, inputs.pivot)
        path, swap = inputs.files["dictionary"][lang], self.params.swap
        found = DictionaryFile.read(path, langs, swap=swap)
        src, tgt = (word_counts(bitext, *side) for side in zip(("src", "tgt"), langs, strict=True))
        return found.entries, found.coverage((src, tgt))


def without_span(basis_HR: torch.Tensor) -> torch.Tensor:
    """Return I - B B^T (H, H), which takes the span of orthonormal columns out of a vector."""
    identity = torch.eye(len(basis_HR), dtype=basis_HR.dtype, device=basis_HR.device)
    projection: torch.Tensor = identity - basis_HR @ basis_HR.T
    return projection
