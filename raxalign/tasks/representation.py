"""The geometry of a space: language identity, anisotropy, distance of translations, words in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, final

from pydantic import Field, field_validator, model_validator

from raxalign.arrays import Ints, spread_evenly
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.vectors import Pooling, layer_ends, parse_layers
from raxalign.errors import RaxalignError
from raxalign.lazy import np, pa, pc
from raxalign.measured import Measured, share
from raxalign.options.params import LATER, SEVERAL, Removed
from raxalign.sample import Array, Sample, column, units_of
from raxalign.tasks.base import Reads, Task, TaskInputs, TaskNeeds
from raxalign.tasks.transfer.rows import unit
from raxalign.tasks.vectors import frame
from raxalign.tasks.vectors.frame import SentenceReading, VectorTask
from raxalign.tasks.vectors.geometry import LinkedVectors, PairMeasures, anisotropy, probe_accuracy
from raxalign.tasks.vectors.pairs import LinkedWords, SentencePairs, SideWords

_PROBE = (
    "Accuracy of a logistic regression that tells the vectors of the language and the pivot apart."
)

_LAYER = re.compile(r"(?:layer(\d+)_)?(\w+)")


def _of_pairs(rows: pa.Table, metric: str) -> Sample | None:
    """Return the sample of a measure of pairs at a layer, without its name at the highest."""
    found = _LAYER.fullmatch(metric)
    if found is None or found[2] not in PairMeasures.EACH or found[2] not in rows.column_names:
        return None
    pairs = rows.filter(pc.equal(rows["kind"], "pair"))
    layer = int(found[1]) if found[1] else pc.max(pairs["layer"]).as_py()
    here = pairs.filter(pc.equal(pairs["layer"], layer))
    gains = column(here, found[2])
    ones = np.ones(len(gains))
    return Sample.summed(units_of(here), np.zeros(len(gains)), gains, ones) if len(gains) else None


_COSINE = (-1.0, 1.0)
_turned = partial(Measured, better="neither", range=_COSINE, unmoved="rotation")
_moved = partial(Measured, better="neither", unmoved="rigid")
_DECLARED = (
    share("language_probe", _PROBE, "neither"),
    _turned("anisotropy", "Mean cosine of different vectors of the language."),
    _turned("anisotropy_pivot", "Mean cosine of different vectors of the pivot."),
    share(
        "mexa",
        "Share of pairs that are nearer to each other, by the cosine, than either is to any other"
        " translation.",
    ),
    share(
        "retrieval",
        "Share of vectors whose nearest neighbour by the cosine is their translation, the mean of"
        " both directions.",
    ),
    Measured(
        "margin",
        "Mean cosine of pairs less that of both with their nearest neighbours.",
        "higher",
        range=(-2.0, 2.0),
    ),
    Measured(
        "hubness",
        "Skewness of how often a vector is among the nearest neighbours of translations, the mean"
        " of both directions.",
        "neither",
    ),
    _moved(
        "cka",
        "Linear CKA: how alike the distances among the vectors of both languages are (0 to 1).",
        range=(0.0, 1.0),
    ),
    _moved(
        "cka_unbiased",
        "Linear CKA without the bias that few vectors for their width give it.",
        range=_COSINE,
    ),
)
_MEASURED = tuple(replace(entry, sample=_of_pairs) for entry in _DECLARED)
_OF_TEXT = share(
    "shared_subwords",
    "Share of the different subword tokens of both sides of the text that are in both.",
    "neither",
)
_ORDER = (
    *(entry.name for entry in _MEASURED if entry.name != "anisotropy_pivot"),
    _OF_TEXT.name,
)
_DEFAULT = ("language_probe", "anisotropy")
_TYPES = 20
"""Pairs of word types that are placed."""
_SEED = 0
"""Of the probe's halves and of t-SNE."""
_MOST_PAIRS = 2_000
"""Linked pairs, evenly spread over the text, that measures of pairs are over."""


@final
class Representation(VectorTask):
    """Measures of every layer from one pass, and a projection of words, over the held-out test side
    of the grid's own corpus.

    By default `measures` are language identity and anisotropy. The probe is trained on half of the
    sentences and tested on the other half; an accuracy of one half is that of guessing: no language
    can be seen. Metrics of the highest layer are also given without the name of the layer.

    Measures of pairs compare linked words (`unit: words`), or sentences and their translations
    (`unit: sentences`). `mexa` is that of Kargaran et al. with `unit: sentences`,
    `sentence_pooling: weighted` or `last`, and `max_sentences: 100`. Equal cosines are not larger
    than each other: a vector that occurs twice, as words do at layer 0, is found by `retrieval`,
    and does not count for `mexa`. `margin` is the difference of Artetxe and Schwenk (`distance`),
    which has a value wherever means are. `cka` is biased upwards where there are fewer vectors than
    ten times their width; `cka_unbiased` is not. Larger values are better of `mexa`, `retrieval`
    and `margin` alone. `shared_subwords` depends on the text and the tokenizer alone, and is the
    same for all methods: how many of the different subword tokens (of static vectors: words) both
    languages have, among those that either has; unknown ones do not count.

    Predictions have a `kind`. With `pair` they are the values of a pair of translations at a layer,
    of which intervals and tests are made. Other ones are points of a plane. Occurrences of linked
    words at the highest layer have the `kind` occurrence, as in Cao et al. (2020, Figure 1). The
    word types most often linked have the `kind` type and are placed by the mean of their vectors at
    the lowest layer, as in Figure 2 of WEAM; stop words and tokens that are not words are left out.

    Data: held-out sentence pairs of the grid's corpus.

    Reference: Ethayarajh (2019) for anisotropy; Kargaran et al. (2024, MEXA), Kornblith et al.
    (2019, CKA), Nguyen et al. (2021, its unbiased form), Artetxe and Schwenk (2019, margin),
    Radovanović et al. (2010, hubness), Pires et al. (2019, shared subword tokens).

    Relations: Most of its measures describe the space and rank no method; `retrieval` and
    `sentence_retrieval` measure what the space is good for.

    Example:
        tasks:
          representation: {languages: [de], layers: last, projection: tsne}
          sentences: {kind: representation, unit: sentences, measures: [cka, mexa]}
    """

    VERSION = 1
    papers = (
        *("ethayarajh2019", "measures=mexa kargaran2024", "measures=cka kornblith2019"),
        *("measures=cka_unbiased nguyen2021cka", "measures=margin artetxe2019margin"),
        *("measures=hubness radovanovic2010", "measures=shared_subwords pires2019"),
    )
    metrics = (
        *_MEASURED,
        _OF_TEXT,
        *(
            replace(
                entry,
                name=f"layer{{l}}_{entry.name}",
                about=f"{entry.about[:-1]}, at one layer.",
                role="part",
            )
            for entry in _MEASURED
        ),
    )
    main_metric = "language_probe"
    columns = LinkedVectors.PLANE
    predicts = frozenset()  # rows are of several layers, or points: no metric over all of them

    class Params(Task.Params):
        """One evaluation examines all layers."""

        removed: ClassVar[Mapping[str, Removed]] = {
            "types": Removed(f"leave it out: {_TYPES} word types are placed", keyed=_TYPES),
            "draw": Removed(
                "leave it out: the probe's halves and t-SNE have one seed", keyed=_SEED
            ),
            "max_pairs": Removed(
                f"leave it out: measures of pairs are over {_MOST_PAIRS:,} pairs at most",
                default=_MOST_PAIRS,
            ),
        }
        layers: str = "all"
        """Layers that are examined: `all`, `last`, one number or a range such as `9-12` (0: the
        embeddings).
        """
        pooling: Pooling = Field("mean", description=frame.WORD_POOLING)
        unit: Literal["words", "sentences"] = "words"
        """What has a vector: `words`, or `sentences` by the means of their words."""
        max_sentences: int | None = Field(300, ge=2)
        """Number of sentence pairs that are read, from the first on (none: all)."""
        projection: Literal["none", "pca", "tsne"] = "pca"
        """How words are placed in a plane: not at all (`none`), by `pca` or by `tsne`."""
        occurrences: int = Field(100, ge=0)
        """Number of linked pairs that are placed, evenly spread over the text."""
        measures: Annotated[tuple[str, ...], SEVERAL, LATER] = _DEFAULT
        """What is measured at each layer: `language_probe`, `anisotropy`, and for pairs of
        translations `mexa`, `retrieval`, `margin`, `hubness`, `cka` and `cka_unbiased`; and once
        for the text `shared_subwords`.
        """
        sentence_pooling: Annotated[Literal["words", "mean", "weighted", "cls", "last"], LATER] = (
            "words"
        )
        """What the vector of a sentence is with `unit: sentences`: the mean of its `words`, or of
        its subword tokens the `mean`, a mean in which token i weighs i (`weighted`, as in MEXA),
        the first (`cls`) or the `last` one (as in MEXA), special tokens included.
        """
        k: Annotated[int, LATER] = Field(10, ge=1)
        """Number of nearest neighbours of `margin` and `hubness`."""

        @field_validator("layers")
        @classmethod
        def _names_layers(cls, layers: str) -> str:
            if layers != "all":
                layer_ends(layers)
            return layers

        @field_validator("measures")
        @classmethod
        def _known(cls, measures: tuple[str, ...]) -> tuple[str, ...]:
            unknown = [name for name in measures if name not in _ORDER]
            if unknown or not measures:
                what = f"{unknown[0]!r} is not a measure" if unknown else "names no measure"
                raise ValueError(f"{what}; there are {', '.join(_ORDER)}")
            return tuple(name for name in _ORDER if name in measures)

        @model_validator(mode="after")
        def _reads_once(self) -> Representation.Params:
            if self.sentence_pooling == "words":
                return self
            if self.unit == "words":
                raise ValueError(
                    f"`sentence_pooling: {self.sentence_pooling}` is for `unit: sentences`"
                )
            if self.projection != "none":
                raise ValueError(
                    f"`sentence_pooling: {self.sentence_pooling}` reads no words that could be"
                    " placed; write `projection: none`"
                )
            return self

    params: Params

    def needs(self) -> TaskNeeds:
        """Return held-out word pairs; sentence pairs alone where no words are read."""
        if self.params.sentence_pooling == "words":
            return TaskNeeds(heldout=True)
        return TaskNeeds(bitext=True, pooling=f"sentence_pooling: {self.params.sentence_pooling}")

    def reads(self, n_layers: int) -> Reads:
        """Return `layers`."""
        return Reads(frozenset(self._layers(n_layers)))

    def _layers(self, n_layers: int) -> tuple[int, ...]:
        layers = self.params.layers
        return parse_layers(f"0-{n_layers}" if layers == "all" else layers, n_layers)

    def idle(self) -> set[str]:
        """Return the numbers of points where none are placed, and what no measure reads."""
        params = self.params
        found = {"occurrences", "types"} if params.projection == "none" else set()
        if not {"margin", "hubness"} & set(params.measures):
            found |= {"k"}
        return found | ({"pooling"} if params.sentence_pooling != "words" else set())

    def more_columns(self) -> Mapping[str, str]:
        """Return the values of pairs."""
        of_pairs = [name for name in PairMeasures.EACH if name in self.params.measures]
        return {"unit": "int64", **dict.fromkeys(of_pairs, "double")} if of_pairs else {}

    def compare(
        self, aligned: AlignedEncoder, lang: str, inputs: TaskInputs
    ) -> Iterator[tuple[str, frame.SplitResult]]:
        """Examine the test side."""
        layers, codes = self._layers(aligned.n_layers), (lang, inputs.pivot)
        if self.params.sentence_pooling != "words":
            pairs = SentencePairs.read(inputs.bitext[lang] / "data")
            pairs = pairs.first(self.params.max_sentences)
            read = self._whole_sentences(aligned, pairs, codes, layers)
            values, columns = self._measured(read, layers)
            values |= self._of_text(aligned, (pairs.src, pairs.tgt), codes)
            yield "test", frame.SplitResult(values, columns, {"sentences": len(pairs.ids)})
            return
        linked = self._linked(aligned, lang, inputs, layers)
        words = {
            f"words_{name}": int(side.sum())
            for name, side in zip(("src", "tgt"), linked.read, strict=True)
        }
        notes = {"sentences": len(linked.pairs.ids), **words}
        values, columns = self._measured(self._sides(linked), layers)
        sentences = (linked.pairs.src.sentences, linked.pairs.tgt.sentences)
        values |= self._of_text(aligned, sentences, codes)
        tables = [*self._points(linked, layers, inputs.pivot), *columns]
        yield "test", frame.SplitResult(values, tables, notes)

    def _linked(
        self, aligned: AlignedEncoder, lang: str, inputs: TaskInputs, layers: tuple[int, ...]
    ) -> LinkedVectors:
        """The words of the test side and their vectors."""
        params = self.params
        pairs = LinkedWords.read(inputs.heldout[lang] / "data")
        if params.max_sentences is not None:
            pairs = _first(pairs, params.max_sentences)
        read = [
            aligned.words(
                side.sentences, code, layers=f"{layers[0]}-{layers[-1]}", pooling=params.pooling
            )
            for side, code in ((pairs.src, lang), (pairs.tgt, inputs.pivot))
        ]
        return LinkedVectors(
            pairs,
            [side.vectors_NLH.float().cpu().numpy() for side in read],
            [side.present_N.cpu().numpy().astype(np.bool_) for side in read],
        )

    def _points(
        self, linked: LinkedVectors, layers: tuple[int, ...], pivot: str
    ) -> Iterator[dict[str, Any]]:
        """The words that are placed, with nothing in the columns of pairs."""
        params = self.params
        if params.projection == "none":
            return
        both, how, seed = linked.both_read(), params.projection, _SEED
        of_types, found = both.frequent_types(_TYPES, pivot), both.occurrences(params.occurrences)
        for table in (
            both.points("occurrence", layers[-1], found, how, seed),
            both.points("type", layers[0], of_types, how, seed),
        ):
            nothing = pa.nulls(len(table["word"]))
            yield {**table, **dict.fromkeys(self.more_columns(), nothing)}

    def _sides(self, linked: LinkedVectors) -> _Sides:
        """The words or the sentences that are measured, and which of them are pairs."""
        pairs, both = linked.pairs, linked.both_read().pairs
        sides = [
            (vectors_NLH[read_N], words.row[read_N])
            for vectors_NLH, read_N, (words, _) in zip(
                linked.vectors, linked.read, pairs.sides(), strict=True
            )
        ]
        if self.params.unit == "sentences":
            sides = [_sentence_means(vectors, rows) for vectors, rows in sides]
            return _Sides.of_sentences(sides, pairs.ids, pairs.tgt.sentences)
        (one, one_rows), (other, other_rows) = sides
        chosen = spread_evenly(len(both), _MOST_PAIRS)
        numbers = [np.cumsum(read_N) - 1 for read_N in linked.read]
        places = (numbers[0][both.src_word[chosen]], numbers[1][both.tgt_word[chosen]])
        units = np.array([unit(words) for words in pairs.tgt.sentences], np.int64)
        row, position = both.row[chosen], pairs.src.position[both.src_word[chosen]]
        return _Sides(
            (one, other), (one_rows, other_rows), places, pairs.ids[row], units[row], position
        )

    def _whole_sentences(
        self,
        aligned: AlignedEncoder,
        pairs: SentencePairs,
        codes: tuple[str, str],
        layers: tuple[int, ...],
    ) -> _Sides:
        """The sentences of the test side by their subword tokens."""
        pooling = self.params.sentence_pooling
        assert pooling != "words"
        if aligned.encoder.family != "transformer":
            raise RaxalignError(
                f"representation: `sentence_pooling: {pooling}` requires a transformer encoder;"
                " static vectors have `words`"
            )
        how = SentenceReading("last", pooling)
        groups = [[layer] for layer in layers]
        sides = []
        for sentences, code in zip((pairs.src, pairs.tgt), codes, strict=True):
            vectors_SLH, read = how.layered(aligned, sentences, code, groups)
            sides.append((vectors_SLH.float().cpu().numpy()[read], np.flatnonzero(read)))
        return _Sides.of_sentences(sides, pairs.ids, pairs.tgt)

    def _of_text(
        self,
        aligned: AlignedEncoder,
        sides: tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]],
        codes: tuple[str, str],
    ) -> dict[str, float]:
        """The measure of the sentences themselves, in the language and in the pivot."""
        from raxalign.encoders.models.pieces import Pieces
        from raxalign.encoders.models.transformer import TransformerEncoder

        if _OF_TEXT.name not in self.params.measures:
            return {}
        encoder = aligned.encoder
        found = list[set[Any]]()
        for sentences, code in zip(sides, codes, strict=True):
            if isinstance(encoder, TransformerEncoder):
                pieces = Pieces.read(encoder.tokenizer, [sentences], code)
                found.append({*pieces.ids[:].tolist()} - {encoder.tokenizer.unk_token_id})
            else:
                found.append({word for sentence in sentences for word in sentence})
        shared, either = found[0] & found[1], found[0] | found[1]
        return {_OF_TEXT.name: len(shared) / len(either)} if either else {}

    def _measured(
        self, sides: _Sides, layers: tuple[int, ...]
    ) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """The values by metric, and the table of pairs of each layer."""
        values: dict[str, float] = {}
        tables = []
        for place, layer in enumerate(layers):
            found, of_pairs = self._at_layer(sides, place)
            for name, value in found.items():
                if value is not None:
                    values[f"layer{layer}_{name}"] = value
                    if layer == layers[-1]:
                        values[name] = value
            if of_pairs:
                tables.append(sides.table(layer, of_pairs))
        return values, tables

    def _at_layer(
        self, sides: _Sides, place: int
    ) -> tuple[dict[str, float | None], dict[str, Array]]:
        """The values at one of the layers (None: there is none), and those of each pair."""
        params, found, of_pairs = self.params, dict[str, float | None](), dict[str, Array]()
        one, other = (vectors[:, place] for vectors in sides.vectors)
        if "language_probe" in params.measures:
            found["language_probe"] = probe_accuracy(one, other, *sides.rows, _SEED)
        if "anisotropy" in params.measures:
            found |= {"anisotropy": anisotropy(one), "anisotropy_pivot": anisotropy(other)}
        src, tgt = (side[numbers] for side, numbers in zip((one, other), sides.pairs, strict=True))
        if set(params.measures) <= {*_DEFAULT, _OF_TEXT.name} or len(src) < 2:
            return found, of_pairs
        pairs = PairMeasures.of(src, tgt, params.k)
        for name in params.measures:
            if name in pairs.EACH:
                of_pairs[name] = getattr(pairs, name)()
                found[name] = float(of_pairs[name].mean())
            elif name in _OF_SPACES:
                found[name] = _OF_SPACES[name](src, tgt)
        if "hubness" in params.measures:
            found["hubness"] = pairs.hubness()
        return found, of_pairs


_OF_SPACES = {"cka": PairMeasures.linear_cka, "cka_unbiased": PairMeasures.unbiased_cka}


@dataclass(frozen=True)
class _Sides:
    """What is measured: the `vectors` (N, L, H) of a language and the pivot, and the sentence of
    each in `rows`. Pair p joins the vectors numbered ``pairs[0][p]`` and ``pairs[1][p]``, and has
    the `ids` of its sentence, the `units` that tests count and the `positions` of its source word.
    """

    vectors: tuple[Array, Array]
    rows: tuple[Ints, Ints]
    pairs: tuple[Ints, Ints]
    ids: Ints
    units: Ints
    positions: Ints

    @classmethod
    def of_sentences(
        cls, sides: Sequence[tuple[Array, Ints]], ids: Ints, pivot: Sequence[Sequence[str]]
    ) -> _Sides:
        """Return vectors of sentences (numbered in the second place), of which those that both
        sides have are pairs.
        """
        (one, one_rows), (other, other_rows) = sides
        rows, src, tgt = np.intersect1d(one_rows, other_rows, return_indices=True)
        units = np.array([unit(pivot[row]) for row in rows.tolist()], np.int64)
        nowhere = np.full(len(rows), -1, np.int64)
        return cls((one, other), (one_rows, other_rows), (src, tgt), ids[rows], units, nowhere)

    def table(self, layer: int, values: Mapping[str, Array]) -> dict[str, Any]:
        """Return the predictions of pairs at a layer, with nothing in the columns of points."""
        n = len(self.ids)
        return {
            **dict.fromkeys(LinkedVectors.PLANE, pa.nulls(n)),
            "kind": ["pair"] * n,
            "layer": np.full(n, layer),
            "pair": np.arange(n),
            "id": self.ids,
            "position": self.positions,
            "unit": self.units,
            **values,
        }


def _first(pairs: LinkedWords, most: int) -> LinkedWords:
    """Return the first sentence pairs, with their links."""
    kept = pairs.keep(pairs.row < most)
    src, tgt = (SideWords(side.sentences[:most]) for side in (pairs.src, pairs.tgt))
    return replace(kept, ids=pairs.ids[:most], src=src, tgt=tgt)


def _sentence_means(vectors_NLH: Array, rows: Ints) -> tuple[Array, Ints]:
    """Return the means (S, L, H) of each sentence's words, and the sentences (S,)."""
    sentences, owners = np.unique(rows, return_inverse=True)
    sums = np.zeros((len(sentences), *vectors_NLH.shape[1:]), np.float64)
    np.add.at(sums, owners, vectors_NLH)
    return (sums / np.bincount(owners)[:, None, None]).astype(np.float32), sentences
