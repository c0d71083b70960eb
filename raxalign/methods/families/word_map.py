"""What the methods that map word pairs onto each other share: where the pairs come from, and which
language moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from raxalign.config.params import LATER
from raxalign.config.sources import DataPath, LocalFile, Source, expand_path
from raxalign.encoders.models.vectors import Layers, Pooling
from raxalign.methods.base import Method, MethodInputs, Needs
from raxalign.methods.families import wording
from raxalign.methods.statistics.anchors import collect_anchors
from raxalign.methods.statistics.pair_moments import linked_vectors, sentences_in
from raxalign.methods.statistics.short_rows import short_rows
from raxalign.pairing.schema import read_pairs

if TYPE_CHECKING:
    import torch

    from raxalign.encoders.base import Encoder
    from raxalign.encoders.models.aligned import Affine, Transform, Unit

Direction = Literal["to-pivot", "to-other"]
_SUPERVISION = (
    "Which word pairs are mapped onto each other: linked words of the bitext (`parallel`), or the"
    " entries of a dictionary (`dictionary`)."
)
_MAX_PIECES = (
    "Largest number of pieces of a sentence of the bitext, without special ones, for its pair of"
    " sentences to be read (0: no limit)."
)
_DICTIONARY = (
    "File of a dictionary, two words per line, the pivot's last; its path may hold `{lang}` and"
    " `{pivot}`."
)


class WordPairParams(Method.Params):
    """The options of a map over word pairs."""

    layers: Layers = Field("last", description=wording.LAYERS_MAPPED)
    pooling: Pooling = Field("last", description=wording.WORD_POOLING)
    direction: Direction = Field("to-pivot", description=wording.DIRECTION)
    supervision: Literal["parallel", "dictionary"] = Field("parallel", description=_SUPERVISION)
    dictionary: DataPath | None = Field(None, description=_DICTIONARY)
    swap: Annotated[bool, LATER] = Field(False, description=wording.SWAP)
    min_count: int = Field(
        1,
        ge=1,
        description=(
            "Times that both words of a dictionary entry have to occur in the bitext; other entries"
            " are left out."
        ),
    )

    max_pieces: Annotated[int, LATER] = Field(0, ge=0, description=_MAX_PIECES)

    @model_validator(mode="after")
    def _has_dictionary(self) -> WordPairParams:
        if self.supervision == "dictionary" and self.dictionary is None:
            raise ValueError(
                "supervision: dictionary requires `dictionary`, a file with two words per line"
            )
        return self

    def idle(self) -> set[str]:
        """Return the options that others make idle: without a dictionary, its order of sides and
        how often its words have to occur.
        """
        return {"min_count", "swap"} if self.supervision == "parallel" else set()

    def needs(self, *, text: bool = False) -> Needs:
        """Word pairs; with a dictionary the bitext in which its words occur."""
        return (
            Needs(links=True, text=text)
            if self.supervision == "parallel"
            else Needs(bitext=True, text=text)
        )

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the dictionary, where it is read."""
        if self.supervision == "parallel" or self.dictionary is None:
            return {}
        return {"dictionary": LocalFile(expand_path(self.dictionary, lang=lang, pivot=pivot))}


def supervised_pairs(
    params: WordPairParams,
    encoder: Encoder,
    inputs: MethodInputs,
    lang: str,
    layers: tuple[int, ...],
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Vectors of the pairs of one language, blocks of (P, L, H) for it and for the pivot: linked
    words, or anchors of a dictionary's entries whose words both occur `min_count` times.
    """
    langs = (lang, inputs.pivot)
    if params.supervision == "parallel":
        rows = short_rows(read_pairs(inputs.pairs[lang]), encoder, langs, params.max_pieces)
        yield from linked_vectors(encoder, rows, *langs, layers, params.pooling)
        return
    import torch

    from raxalign.corpora.text.dataset import read_table

    entries = dictionary_entries(params, inputs, lang)
    refuse_exchanged_sides(params, inputs, lang)
    rows = short_rows(read_table(inputs.bitext[lang]), encoder, langs, params.max_pieces)
    src, tgt = (
        collect_anchors(
            encoder,
            sentences_in(rows, side),
            [entry[i] for entry in entries],
            code,
            layers,
            params.pooling,
        )
        for i, (side, code) in enumerate(zip(("src", "tgt"), langs, strict=True))
    )
    src_E, tgt_E = (
        torch.tensor([side.words[entry[i]] for entry in entries], device=encoder.device)
        for i, side in enumerate((src, tgt))
    )
    kept_E = (src.counts_V[src_E] >= params.min_count) & (tgt.counts_V[tgt_E] >= params.min_count)
    yield src.means_VLH[src_E[kept_E]], tgt.means_VLH[tgt_E[kept_E]]


def dictionary_entries(
    params: WordPairParams, inputs: MethodInputs, lang: str
) -> list[tuple[str, str]]:
    """Return the different entries of the dictionary of one language, lower-cased."""
    from raxalign.corpora.readers.dictionary import read_dictionary

    entries = read_dictionary(inputs.files["dictionary"][lang], swap=params.swap)
    return list(dict.fromkeys((src.lower(), tgt.lower()) for src, tgt in entries))


def refuse_exchanged_sides(params: WordPairParams, inputs: MethodInputs, lang: str) -> None:
    """Raise `DataError` where the dictionary's sides are clearly the other way round."""
    from raxalign.corpora.readers.dictionary import found_entries
    from raxalign.corpora.text.dataset import vocabulary

    words = (vocabulary(inputs.bitext[lang], "src"), vocabulary(inputs.bitext[lang], "tgt"))
    path, langs = inputs.files["dictionary"][lang], (lang, inputs.pivot)
    found_entries(
        path, dictionary_entries(params, inputs, lang), words, langs=langs, swap=params.swap
    )


def coverage(
    params: WordPairParams, inputs: MethodInputs, lang: str, used: int
) -> dict[str, object]:
    """Count the pairs for the notes.

    Args:
        params: The options.
        inputs: The inputs of the method.
        lang: The language.
        used: The number of pairs that were used.

    Returns:
        The pairs that were used. With a dictionary also its entries, those with both words in the
        bitext, and the share of the running words of each language that these entries cover.
    """
    if params.supervision == "parallel":
        return {"pairs": used}
    from raxalign.corpora.readers.dictionary import dictionary_coverage
    from raxalign.corpora.text.dataset import word_counts

    entries = dictionary_entries(params, inputs, lang)
    counts = (word_counts(inputs.bitext[lang], "src"), word_counts(inputs.bitext[lang], "tgt"))
    there, (src, tgt) = dictionary_coverage(entries, counts)
    return {
        "pairs": used,
        "entries": len(entries),
        "entries_in_text": there,
        "running_words": {lang: round(src, 4), inputs.pivot: round(tgt, 4)},
    }


def moving_readout(
    direction: Direction, lang: str, pivot: str, layer: int, steps: tuple[Unit | Affine, ...]
) -> Transform:
    """Return a readout of the language that moves.

    Args:
        direction: Which side moves; the pivot moves toward one language at a time.
        lang: The other language.
        pivot: The pivot.
        layer: The layer whose vectors move.
        steps: What is done with them, in order.
    """
    from raxalign.encoders.models.aligned import Transform

    return (
        Transform(lang, layer, steps=steps)
        if direction == "to-pivot"
        else Transform(pivot, layer, steps=steps, toward=lang)
    )
