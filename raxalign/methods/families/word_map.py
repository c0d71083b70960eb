"""What the methods that map pairs onto each other share: where the pairs come from, and which
language moves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from raxalign.corpora.readers.dictionary import DictionaryFile
from raxalign.corpora.text.dataset import read_table, word_counts
from raxalign.corpora.text.sentences import read_sentences, sentence_chunks
from raxalign.encoders.base import Encoder
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.pieces import Pieces
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.transforms import Affine, Transform, Unit
from raxalign.encoders.models.vectors import Layers, Pooling, parse_layers
from raxalign.encoders.models.word_means import word_means
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.methods.base import Acts, Effect, Method, MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.statistics.moments import CHUNK, linked_vectors
from raxalign.options.params import LATER
from raxalign.options.sources import DataPath, LocalFile, Source, expand_path
from raxalign.pairing.schema import read_pairs
from raxalign.train.runtime import Runtime


def short_rows(table: Any, encoder: Encoder, langs: tuple[str, str], max_pieces: int) -> Any:
    """Return the rows of an Arrow table (words in ``src`` and ``tgt``, of two languages) with at
    most `max_pieces` pieces on each side, special pieces apart; 0 keeps all rows. Raises
    `RaxalignError` for a static encoder, whose words are not made of pieces.
    """
    if not max_pieces:
        return table
    if not isinstance(encoder, TransformerEncoder):
        raise RaxalignError("`max_pieces` requires a transformer encoder; leave it out")
    kept = np.ones(len(table), bool)
    for start in range(0, len(table), CHUNK):
        part = slice(start, start + CHUNK)
        for name, lang in zip(("src", "tgt"), langs, strict=True):
            sentences = read_sentences(table.slice(start, CHUNK), name)
            kept[part] &= Pieces.read(encoder.tokenizer, [sentences], lang).lengths <= max_pieces
    return table.take(np.flatnonzero(kept))


Direction = Literal["to-pivot", "to-other"]
Pairs = Iterator[tuple["torch.Tensor", "torch.Tensor"]]
"""Vectors of pairs, blocks of (P, L, H) for either side."""
Fitting = Callable[[str], tuple[list["Transform"], dict[str, object]]]
"""Language -> the readouts that move toward each other, and what they rest on, for the notes."""


class MapParams(Method.Params):
    """The options of a map of one language's vectors onto the other's."""

    layers: Layers = Field("last", description=wording.LAYERS_MAPPED)
    pooling: Pooling = Field("last", description=wording.WORD_POOLING)
    direction: Direction = Field("to-pivot", description=wording.DIRECTION)


class MapMethod(Method):
    """Maps vectors of one language onto those of the other by a map that is fitted on pairs."""

    accepts = frozenset({"transformer", "static"})
    fits_alone = True

    params: MapParams

    def effect(self) -> Effect:
        """Readouts; of the pivot, one for each language, where that is what moves."""
        return Effect(pivot=self.params.direction == "to-other")

    def acts(self, n_layers: int) -> Acts:
        """Readouts of `layers`."""
        return Acts(readouts=frozenset(parse_layers(self.params.layers, n_layers)))

    def align(self, encoder: Encoder, inputs: MethodInputs, runtime: Runtime) -> AlignedEncoder:  # noqa: ARG002
        """Return the encoder with its maps. Raises `RaxalignError` where there are no pairs."""
        fit = self.fitting(encoder, inputs, parse_layers(self.params.layers, encoder.n_layers))
        found = {lang: fit(lang) for lang in inputs.languages}
        transforms = tuple(transform for part, _ in found.values() for transform in part)
        return AlignedEncoder(
            encoder, transforms, notes={lang: facts for lang, (_, facts) in found.items()}
        )

    @abstractmethod
    def fitting(self, encoder: Encoder, inputs: MethodInputs, layers: tuple[int, ...]) -> Fitting:
        """Return what fits the readouts of one language, and says what they rest on."""

    def moved_first(self, pairs: Pairs) -> Pairs:
        """Yield pairs of the other language and the pivot with the side first that moves."""
        for source, target in pairs:
            yield (source, target) if self.params.direction == "to-pivot" else (target, source)

    def readouts(
        self, lang: str, pivot: str, layers: tuple[int, ...], steps: Iterable[Affine]
    ) -> list[Transform]:
        """Return the readouts of the language that moves, one per layer."""
        return [
            moving_readout(self.params.direction, lang, pivot, layer, (step,))
            for layer, step in zip(layers, steps, strict=True)
        ]


class WordPairParams(MapParams):
    """The options of a map over word pairs."""

    supervision: Literal["parallel", "dictionary"] = "parallel"
    """Which word pairs are mapped onto each other: linked words of the bitext (`parallel`), or the
    entries of a dictionary (`dictionary`).
    """
    dictionary: DataPath | None = None
    """File of a dictionary, two words per line, the pivot's last; its path may hold `{lang}` and
    `{pivot}`.
    """
    swap: Annotated[bool, LATER] = Field(False, description=wording.SWAP)
    min_count: int = Field(1, ge=1)
    """Times that both words of a dictionary entry have to occur in the bitext; other entries are
    left out.
    """
    max_pieces: Annotated[int, LATER] = Field(0, ge=0)
    """Largest number of pieces of a sentence of the bitext, without special ones, for its pair of
    sentences to be read (0: no limit).
    """

    @model_validator(mode="after")
    def _has_dictionary(self) -> WordPairParams:
        if self.supervision == "dictionary" and self.dictionary is None:
            raise ValueError(
                "supervision: dictionary requires `dictionary`, a file with two words per line"
            )
        return self


class WordMapMethod(MapMethod):
    """Maps by word pairs: linked words of the bitext, or the entries of a dictionary."""

    params: WordPairParams

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


def no_pairs(method: str, lang: str, pivot: str) -> str:
    """Return what is said where a language has no word pairs."""
    return (
        f"{method}: there are no word pairs for {lang}-{pivot}; look at its corpus, its links or"
        " its dictionary"
    )


def supervised_pairs(
    params: WordPairParams,
    encoder: Encoder,
    inputs: MethodInputs,
    lang: str,
    layers: tuple[int, ...],
) -> Pairs:
    """Yield vectors of the pairs of one language and the pivot: linked words, or the mean
    vectors, over all occurrences, of a dictionary's entries whose words both occur `min_count`
    times (Kulshreshtha et al. 2020).
    """
    langs = (lang, inputs.pivot)
    if params.supervision == "parallel":
        rows = short_rows(read_pairs(inputs.pairs[lang]), encoder, langs, params.max_pieces)
        yield from linked_vectors(encoder, rows, *langs, layers, params.pooling)
        return
    entries, _ = dictionary_entries(params, inputs, lang)
    rows = short_rows(read_table(inputs.bitext[lang]), encoder, langs, params.max_pieces)
    sides = []
    for i, (side, code) in enumerate(zip(("src", "tgt"), langs, strict=True)):
        numbers = {word: n for n, word in enumerate(dict.fromkeys(entry[i] for entry in entries))}
        read = partial(encoder.words, lang=code, layers=layers, pooling=params.pooling)
        shape, text = (len(layers), encoder.hidden_size), sentence_chunks(rows, side, CHUNK)
        asked = (code, list(numbers))
        means_VLH, counts_V = word_means(read, text, asked, shape, encoder.device)
        places_E = torch.tensor([numbers[entry[i]] for entry in entries], device=encoder.device)
        sides.append((means_VLH[places_E], counts_V[places_E] >= params.min_count))
    (src_ELH, src_E), (tgt_ELH, tgt_E) = sides
    yield src_ELH[src_E & tgt_E], tgt_ELH[src_E & tgt_E]


def dictionary_entries(
    params: WordPairParams, inputs: MethodInputs, lang: str
) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Return the different entries of the dictionary of one language, and what of them is in the
    bitext, for the notes.
    """
    bitext, langs = inputs.bitext[lang], (lang, inputs.pivot)
    found = DictionaryFile.read(inputs.files["dictionary"][lang], langs, swap=params.swap)
    src, tgt = (word_counts(bitext, *side) for side in zip(("src", "tgt"), langs, strict=True))
    return found.entries, found.coverage((src, tgt))


def coverage(
    params: WordPairParams, inputs: MethodInputs, lang: str, used: int
) -> dict[str, object]:
    """Return the number of pairs that were `used`, and the coverage of a dictionary."""
    if params.supervision == "parallel":
        return {"pairs": used}
    return {"pairs": used, **dictionary_entries(params, inputs, lang)[1]}


def moving_readout(
    direction: Direction, lang: str, pivot: str, layer: int, steps: tuple[Unit | Affine, ...]
) -> Transform:
    """Return a readout of the language that moves; the pivot moves toward one at a time."""
    return (
        Transform(lang, layer, steps=steps)
        if direction == "to-pivot"
        else Transform(pivot, layer, steps=steps, toward=lang)
    )
