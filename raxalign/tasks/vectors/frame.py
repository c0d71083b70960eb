"""The frame of tasks that compare the vectors of a language and the pivot as they are, in one
pass for a list of layers and in both directions of a search; and the vectors of sentences.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar

from raxalign.arrays import Bools, Ints
from raxalign.corpora.readers.inspection import FileRead, LocalRows
from raxalign.corpora.text.words import Sentence, in_text
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.sentence_config import SentenceConfig
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.encoders.models.vectors import (
    Batch,
    Pooling,
    SentencePooling,
    WordLists,
    WordVectors,
    parse_layers,
)
from raxalign.errors import RaxalignError
from raxalign.lazy import np, pa, torch
from raxalign.measured import Measured
from raxalign.options.params import Removed
from raxalign.options.sources import LocalFile
from raxalign.sample import Sample, clusters_of, column, units_of
from raxalign.similarity.measures import MEASURES, TEMPERATURE
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs, means
from raxalign.train.runtime import Runtime

SearchDirection = Literal["to_pivot", "from_pivot"]
"""`to_pivot` searches the pivot's side for queries of the other language."""

DIRECTIONS: tuple[SearchDirection, ...] = ("to_pivot", "from_pivot")


def direction_of(metric: str) -> tuple[str, SearchDirection | None]:
    """Return a metric without its direction, and the direction (None: the mean of both).

    >>> direction_of("mrr_to_pivot"), direction_of("mrr")
    (('mrr', 'to_pivot'), ('mrr', None))
    """
    for direction in DIRECTIONS:
        if metric.endswith(f"_{direction}"):
            return metric.removesuffix(f"_{direction}"), direction
    return metric, None


def with_directions(*scores: Measured) -> Iterator[Measured]:
    """Yield the declarations of means of both directions, and those of each direction."""
    yield from scores
    for score in scores:
        name = f"{score.name}_{{{'|'.join(DIRECTIONS)}}}"
        about = f"The value of `{score.name}` in one direction."
        yield Measured(name, about, score.better, "part", score.unit, sample=score.sample)


def mean_accuracy(parts: Sequence[tuple[Bools, Ints]]) -> tuple[float, float | None]:
    """Return the mean of several accuracies, and its standard error clustered by sentence (None
    where there is only one sentence).

    Word pairs of one sentence share their context, and both directions ask about the same pairs, so
    the binomial error of independent examples would be too small. With u_s the sum over the parts
    of a sentence's residuals (right answers minus accuracy times examples) divided by the part's
    examples, the variance is S/(S-1) sum u_s^2 over S sentences: the linearised variance of a ratio
    (Cochran 1977, eq. 6.4), the common cluster-robust one.

    Args:
        parts: for each accuracy, what was right (examples,) and the sentence of each example
            (examples,); no part is empty.

    >>> mean_accuracy([(np.array([True, True, False, False]), np.array([0, 0, 1, 1]))])
    (0.5, 0.5)
    """
    sentences, units = np.unique(np.concatenate([rows for _, rows in parts]), return_inverse=True)
    residuals, values, begin = np.zeros(len(sentences)), [], 0
    for correct, rows in parts:
        value = float(correct.mean())
        weights = (correct - value) / len(correct) / len(parts)
        residuals += np.bincount(units[begin : begin + len(rows)], weights, len(sentences))
        values.append(value)
        begin += len(rows)
    many = len(sentences)
    error = float(np.sqrt(many / (many - 1) * np.square(residuals).sum())) if many > 1 else None
    return float(np.mean(values)), error


def directed(table: pa.Table, metric: str) -> Sample | None:
    """Return the sample of a metric that is the mean of both directions, or that of one.

    With the columns `query` and `rank` it is the mean reciprocal rank or precision at k. A unit is
    then a query of a direction, linked to its `gold` translation, which is a query of the other
    one: both ask for the same entry of the dictionary, and linked units are one unit in a test.
    With `correct` alone it is `accuracy`.
    """
    name, direction = direction_of(metric)
    directions = column(table, "direction")
    chosen = directions == direction if direction else np.ones(len(table), dtype=bool)
    if {"rank", "query"} <= set(table.column_names):
        rank, cut = column(table, "rank").astype(float), re.fullmatch(r"precision_at_(\d+)", name)
        if name != "mrr" and cut is None:
            return None
        gains = 1.0 / rank if cut is None else (rank <= int(cut[1])).astype(float)
        units, links = clusters_of(table)
    elif name == "accuracy" and "correct" in table.column_names:
        gains, units, links = column(table, "correct").astype(float), units_of(table), None
    else:
        return None
    return Sample.summed(
        units[chosen], directions[chosen], gains[chosen], np.ones(int(chosen.sum())), links
    )


LIMIT = 4 << 30
"""Bytes of vectors beyond which they are read again for the next group of layers."""
_Read = TypeVar("_Read", bound="tuple[torch.Tensor, Any]")


@dataclass(frozen=True)
class OnePass(AlignedEncoder):
    """An aligned encoder that reads the layers of all its `entries`, values of `layers`, where one
    of them is asked for, and has the others `kept` until the same is asked for with them.
    """

    entries: tuple[str, ...] = ()
    kept: dict[Hashable, tuple[torch.Tensor, Any]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def of(cls, aligned: AlignedEncoder, entries: Sequence[str]) -> Self:
        """Return the same encoder with entries."""
        own = {entry.name: getattr(aligned, entry.name) for entry in fields(AlignedEncoder)}
        return cls(**own, entries=tuple(entries))

    def groups(self) -> list[tuple[int, ...]]:
        """Return the layers of each entry."""
        return [parse_layers(entry, self.n_layers) for entry in self.entries]

    def words(
        self,
        sentences: WordLists,
        lang: str,
        *,
        layers: str | Sequence[int] = "last",
        pooling: Pooling = "mean",
    ) -> WordVectors:
        """Vectors of all words, as an aligned encoder has them."""
        if layers not in self.entries:
            return super().words(sentences, lang, layers=layers, pooling=pooling)
        groups = self.groups()
        union = sorted({layer for group in groups for layer in group})

        def read() -> tuple[torch.Tensor, WordVectors]:
            found = AlignedEncoder.words(self, sentences, lang, layers=union, pooling=pooling)
            return found.vectors_NLH, found

        _, found = self.once(("words", lang, pooling, _digest(sentences)), read)
        places = [union.index(layer) for layer in groups[self.entries.index(str(layers))]]
        return replace(found, vectors_NLH=found.vectors_NLH[:, places])

    def sentences(
        self,
        sentences: WordLists,
        how: tuple[Hashable, ...],
        layers: str,
        read: Callable[[list[tuple[int, ...]]], _Read],
    ) -> _Read:
        """Return vectors of sentences (S, H) and what came with them.

        Args:
            sentences: the sentences.
            how: all else that their vectors depend on, but the layers.
            layers: one of the entries.
            read: gives the vectors (S, L, H) of some groups of layers.
        """
        key = ("sentences", *how, _digest(sentences))
        vectors_SLH, *rest = self.once(key, lambda: read(self.groups()))
        return vectors_SLH[:, self.entries.index(layers)], *rest  # type: ignore[return-value]

    def once(self, key: Hashable, read: Callable[[], _Read]) -> _Read:
        """Return what was read before in the same view, or read it."""
        key = (self.direction, key)
        if key not in self.kept:
            found = read()
            size = sum(vectors.nbytes for vectors, *_ in self.kept.values())
            if size + found[0].nbytes > LIMIT:
                self.kept.clear()
            if found[0].nbytes > LIMIT:
                return found
            self.kept[key] = found
        return self.kept[key]  # type: ignore[return-value]


def _digest(sentences: WordLists) -> Hashable:
    return len(sentences), hash(tuple(map(tuple, sentences)))


LAYERS = (
    "Layers whose vectors are read and added up: `last`, one number or a range such as `9-12` (0:"
    " the embeddings), or fractions of the depth such as `0.5` and `0.5-1.0`; of a list each is"
    " evaluated from one pass, with names such as `layer8-12_accuracy`, and metrics without such a"
    " name are of its last entry."
)
WORD_POOLING = (
    "How the vectors of a word's subword tokens become one: the `first`, the `last`, their `mean`"
    " or their `sum`."
)
SENTENCE_POOLING = (
    "What the vector of a sentence is: the `mean` of its subword tokens (of static vectors, of its"
    " words), that of its first subword token (`cls`) or of its last one that is not special"
    " (`last`), a mean in which token i weighs i + 1 (`weighted`), or what sentence-transformers"
    " keeps in the encoder's folder, prompt included (`own`)."
)
OwnPooling = SentencePooling | Literal["own"]
_EVERY = "; ".join(f"`{name}`, {entry.about}" for name, entry in MEASURES.items())
WORD_MEASURE = f"Measure by which the nearest words are found: {_EVERY}."
SENTENCE_MEASURE = f"Measure by which the nearest sentences are found: {_EVERY}."
*_FIRST, _LAST = (f"`{name}`" for name in MEASURES if "k" not in MEASURES[name].idle)
NEIGHBORS = (
    f"Number of nearest vectors in a hubness term, of {', '.join(_FIRST)} and {_LAST}; the other"
    " measures have none."
)
NO_TEMPERATURE = Removed(
    f"leave it out: the temperature of exponentials is {TEMPERATURE}", default=TEMPERATURE
)

_OF_ALL = {"lang": "string", "split": "string"}


@dataclass(frozen=True)
class SplitResult:
    """What was found on one split of a language and the pivot: the values by metric, the columns of
    the predictions (of each direction, where there are two), and notes.
    """

    values: Mapping[str, float]
    columns: Sequence[Mapping[str, Any]]
    notes: Mapping[str, object]

    def at(self, label: str, *, last: bool) -> SplitResult:
        """Return the same as one of several layers; the `last` has the former names too."""
        values = {f"layer{label}_{name}": value for name, value in self.values.items()}
        columns = []
        for table in self.columns:
            n = len(next(iter(table.values())))
            columns.append({**table, "layers": [label] * n})
        return SplitResult({**values, **(self.values if last else {})}, columns, self.notes)


def single(layers: str | tuple[str, ...]) -> str:
    """Return `layers` where one entry is compared, as all comparing is."""
    assert isinstance(layers, str)
    return layers


class VectorTask(Task):
    """A task that compares vectors of each language with those of the pivot, without a training of
    its own. A subclass has the params `layers`, and `measure` and `k` where it has a measure.
    """

    accepts = frozenset({"transformer", "static"})
    columns: ClassVar[Mapping[str, str]]
    """Name -> Arrow type of the columns of the predictions, besides `lang` and `split`."""
    averaged: ClassVar[tuple[str, ...] | None] = None
    """The metrics that have means over languages (None: all)."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.metrics = tuple(replace(entry, by_layer=True) for entry in cls.metrics)

    def reads(self, n_layers: int) -> Reads:
        """Return `layers`, of all entries of a list."""
        entries = self._layer_list() or [self.resolved()["layers"]]
        return Reads(frozenset(n for entry in entries for n in parse_layers(entry, n_layers)))

    def pools_languages(self) -> bool:
        """Return whether the vectors of all languages are compared at once."""
        return False

    def more_columns(self) -> Mapping[str, str]:
        """Return the columns that the predictions have with these params, besides `columns`."""
        return {}

    def resolved(self) -> dict[str, Any]:
        """Return the params by name, those of a profile filled in."""
        return self.params.identity()

    def idle(self) -> set[str]:
        """Return the params that others' values make idle: what the measure does not read."""
        return MEASURES[self.resolved()["measure"]].idle

    def canonical(self) -> dict[str, Any]:
        """Return the params without idle ones."""
        idle = self.idle()
        return {name: value for name, value in self.resolved().items() if name not in idle}

    def rows(self, lang: str, inputs: TaskInputs) -> Iterator[LocalRows]:  # noqa: ARG002
        """Yield the local rows of a language, split by split, unread: `compare` reads them here,
        and so does `read_files`.
        """
        return iter(())

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Read the `rows` of all languages before anything runs."""
        for lang in languages:
            own = self.sources(lang, pivot).items()
            files = {name: {lang: at.path} for name, at in own if isinstance(at, LocalFile)}
            yield from (
                rows.inspected() for rows in self.rows(lang, TaskInputs(pivot, files=files))
            )

    @abstractmethod
    def compare(
        self, aligned: AlignedEncoder, lang: str, inputs: TaskInputs
    ) -> Iterator[tuple[str, SplitResult]]:
        """Yield what is found for a language on each split that there is."""

    def compared(
        self, aligned: AlignedEncoder, languages: tuple[str, ...], inputs: TaskInputs
    ) -> Iterator[tuple[str, str, SplitResult]]:
        """Yield (language, split, what is found) for each language on each split that there is."""
        for lang in languages:
            for split, found in self.compare(aligned.toward(lang), lang, inputs):
                yield lang, split, found

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,  # noqa: ARG002
    ) -> Outcome:
        """Compare every language with the pivot; scores have the names of both."""
        scores: list[Score] = []
        tables: list[pa.Table] = []
        notes: dict[str, dict[str, object]] = {}
        for lang, split, found in self._of_each(aligned, languages, inputs):
            label = f"{lang}-{inputs.pivot}"
            scores += [Score(label, metric, split, value) for metric, value in found.values.items()]
            tables += [self._table(label, split, columns) for columns in found.columns]
            notes.setdefault(label, {}).update(found.notes)
        if len(languages) > 1:
            labels = [f"{lang}-{inputs.pivot}" for lang in languages]
            unseen = [f"{lang}-{inputs.pivot}" for lang in inputs.unseen]
            of_entries = [
                f"layer{label}_" for label in self._layer_labels(aligned.n_layers).values()
            ]
            averaged = self.averaged and tuple(
                f"{prefix}{name}" for prefix in ("", *of_entries) for name in self.averaged
            )
            scores += means(scores, labels, metrics=averaged, unseen=unseen)
        return Outcome(scores, pa.concat_tables(tables or [self._schema().empty_table()]), notes)

    def _layer_list(self) -> tuple[str, ...]:
        """The entries of `layers` where it is a list."""
        layers = self.resolved()["layers"]
        return () if isinstance(layers, str) else tuple(layers)

    def _layer_labels(self, n_layers: int) -> dict[str, str]:
        """The entries of a list with their layers in metric names. Raises `RaxalignError` where two
        are the same layers.
        """
        labels: dict[str, str] = {}
        for entry in self._layer_list():
            numbers = parse_layers(entry, n_layers)
            first, last = numbers[0], numbers[-1]
            label = str(first) if first == last else f"{first}-{last}"
            if label in labels.values():
                raise RaxalignError(
                    f"layers {entry!r} of the list are layer {label} of this encoder, which another"
                    " entry names; leave one out"
                )
            labels[entry] = label
        return labels

    def _of_each(
        self, aligned: AlignedEncoder, languages: tuple[str, ...], inputs: TaskInputs
    ) -> Iterator[tuple[str, str, SplitResult]]:
        """What is compared, for every entry of a list of layers."""
        labels = self._layer_labels(aligned.n_layers)
        if not labels:
            yield from self.compared(aligned, languages, inputs)
            return
        view = OnePass.of(aligned, tuple(labels))
        for some in [languages] if self.pools_languages() else [(lang,) for lang in languages]:
            view.kept.clear()  # the pivot's are under each language's view
            for place, (entry, label) in enumerate(labels.items(), 1):
                one = type(self)(self.params.model_copy(update={"layers": entry}))
                for lang, split, found in one.compared(view, some, inputs):
                    yield lang, split, found.at(label, last=place == len(labels))

    def _schema(self) -> pa.Schema:
        types = {**_OF_ALL, **self.columns, **self.more_columns()}
        types |= {"layers": "string"} if self._layer_list() else {}
        return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in types.items()])

    def _table(self, label: str, split: str, columns: Mapping[str, Any]) -> pa.Table:
        n = len(next(iter(columns.values())))
        return pa.table(
            {"lang": [label] * n, "split": [split] * n, **columns}, schema=self._schema()
        )


Vectors: TypeAlias = "tuple[torch.Tensor, Bools]"


@dataclass(frozen=True)
class SentenceReading:
    """How sentences become vectors: the `layers` that are added up, and the `pooling`, whose means
    are over special pieces too. `own` is the encoder's own configuration of sentence-transformers.

    The rest follows from an encoder. `trailing` pieces at the end of a row are not the last one;
    the vectors are scaled to length 1 with `unit`. `prompt` is put before each sentence, and its
    pieces and those before them are left out of means with `skip_prompt`.
    """

    layers: str
    pooling: SentencePooling | Literal["own"]
    trailing: int = 0
    unit: bool = False
    prompt: str = ""
    skip_prompt: bool = False

    def vectors(
        self, aligned: AlignedEncoder, sentences: Sequence[Sequence[str]], lang: str
    ) -> Vectors:
        """Return (vectors (S, H) in input order, layers added up and transforms applied; whether
        each sentence has a piece or word that was read).

        Raises `RaxalignError` for a pooling that the encoder does not have.
        """
        if isinstance(aligned, OnePass):
            how = (lang, replace(self, layers=""))
            return aligned.sentences(
                sentences,
                how,
                self.layers,
                lambda groups: self.layered(aligned, sentences, lang, groups),
            )
        chosen = parse_layers(self.layers, aligned.n_layers)
        vectors_SLH, read = self.layered(aligned, sentences, lang, [chosen])
        return vectors_SLH[:, 0], read

    def layered(
        self,
        aligned: AlignedEncoder,
        sentences: Sequence[Sequence[str]],
        lang: str,
        groups: Sequence[Sequence[int]],
    ) -> Vectors:
        """Return what `vectors` does for several groups of layers, which one pass reads: the
        vectors (S, L, H) have those of one group after the other.
        """
        layers = sorted({layer for group in groups for layer in group})
        places = [[layers.index(layer) for layer in group] for group in groups]
        if not isinstance(aligned.encoder, TransformerEncoder):
            if self.pooling != "mean":
                raise RaxalignError(
                    f"`pooling: {self.pooling}` requires a transformer encoder;"
                    " static vectors have `pooling: mean`"
                )
            return _mean_of_words(aligned, sentences, lang, layers, places)
        encoder, how = aligned.encoder, self._of(aligned.encoder)
        n_prompt = len(how.prompt.split())
        if n_prompt:
            sentences = [_prompted(how.prompt, sentence, lang) for sentence in sentences]
        rows = encoder.pieces(sentences, lang)
        vectors_SLH = torch.zeros(
            len(rows), len(groups), encoder.hidden_size, device=encoder.device
        )
        read = np.zeros(len(rows), dtype=np.bool_)
        for chosen, batch, states in aligned.read(rows, layers):
            part = torch.from_numpy(chosen).to(encoder.device)
            read[chosen] = (batch.words_BT >= n_prompt).any(1).cpu().numpy()
            for place, group in enumerate(places):
                pooled_BH = _pooled(_added(states, group), batch, how, n_prompt)
                pooled_BH = (
                    torch.nn.functional.normalize(pooled_BH, dim=-1) if how.unit else pooled_BH
                )
                vectors_SLH[part, place] = pooled_BH
        encoder.refuse_infinite(vectors_SLH, lang)
        return vectors_SLH, read

    def _of(self, encoder: TransformerEncoder) -> SentenceReading:
        """What the reading is for an encoder. Raises `RaxalignError` for what it does not have."""
        found = replace(self, trailing=encoder.trailing)
        own, inputs = encoder.sentences, encoder.inputs
        causal = inputs.is_decoder and not inputs.is_bidirectional
        if lacking := SentenceConfig.lacking("this encoder", self.pooling, own, causal=causal):
            raise RaxalignError(f"pooling: {'; '.join(lacking)}")
        if self.pooling == "own":
            assert own is not None, "it is lacking otherwise"
            skip = not own.include_prompt
            found = SentenceReading(self.layers, own.pooling, 0, own.normalize, own.prompt, skip)
        return found


def _added(states: Sequence[torch.Tensor], places: Sequence[int]) -> torch.Tensor:
    """The sum of the states of some layers (B, T, H)."""
    return torch.stack([states[place] for place in places]).sum(0)


def _pooled(
    states_BTH: torch.Tensor, batch: Batch, how: SentenceReading, n_prompt: int
) -> torch.Tensor:
    """The vector of each sentence (B, H); its first `n_prompt` words are the prompt's."""
    if how.pooling == "cls":
        return states_BTH[:, 0]
    if how.pooling == "last":
        last_B = (batch.mask_BT.sum(1) - 1 - how.trailing).clamp(min=0)
        return states_BTH[torch.arange(len(last_B), device=last_B.device), last_B]
    read_BT = batch.mask_BT > 0
    if how.skip_prompt and n_prompt:
        of_prompt_BT = (batch.words_BT >= 0) & (batch.words_BT < n_prompt)
        read_BT = read_BT & (of_prompt_BT.flip(1).cumsum(1).flip(1) == 0)
    mask_BT = read_BT.to(states_BTH.dtype)
    if how.pooling == "weighted":
        mask_BT = mask_BT * torch.arange(1, mask_BT.shape[1] + 1, device=mask_BT.device)
    return (states_BTH * mask_BT[..., None]).sum(1) / mask_BT.sum(1, keepdim=True).clamp(min=1)


def _prompted(prompt: str, sentence: Sequence[str], lang: str) -> Sentence:
    """A sentence after a prompt, in one running text."""
    before, after = Sentence.of_text(prompt), in_text(sentence, lang)
    spans = [*before.spans(), *((len(prompt) + a, len(prompt) + b) for a, b in after.spans())]
    starts, ends = zip(*spans, strict=True)
    return Sentence([*before, *after], prompt + after.text, starts, ends)


def _mean_of_words(
    aligned: AlignedEncoder,
    sentences: Sequence[Sequence[str]],
    lang: str,
    layers: Sequence[int],
    places: Sequence[Sequence[int]],
) -> Vectors:
    found = aligned.words(sentences, lang, layers=f"{layers[0]}-{layers[-1]}", pooling="mean")
    device = found.vectors_NLH.device
    owners = torch.from_numpy(np.repeat(np.arange(len(sentences)), np.diff(found.offsets)))
    counts_S = torch.bincount(owners.to(device)[found.present_N], minlength=len(sentences))
    means = []
    for group in places:
        read = [layers[place] - layers[0] for place in group]
        vectors_NH = found.vectors_NLH[:, read].sum(1)
        sums_SH = vectors_NH.new_zeros(len(sentences), vectors_NH.shape[1])
        sums_SH = sums_SH.index_add(0, owners.to(device), vectors_NH)
        means.append(sums_SH / counts_S.clamp(min=1)[:, None])
    return torch.stack(means, 1), (counts_S > 0).cpu().numpy()
