"""Word retrieval in parallel sentences (Cao et al. 2020, §4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

from pydantic import Field

from raxalign.arrays import Bools, Ints
from raxalign.corpora.text.words import look_up_form
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.vectors import LayerList, Pooling
from raxalign.lazy import np, pa, torch
from raxalign.measured import Measured, count, share, standard_error
from raxalign.options.params import Removed
from raxalign.sample import Sample, column, units_of
from raxalign.similarity.measures import Measure
from raxalign.tasks.base import Task, TaskInputs, TaskNeeds
from raxalign.tasks.vectors import frame
from raxalign.tasks.vectors.frame import DIRECTIONS, SearchDirection, direction_of, mean_accuracy

if TYPE_CHECKING:
    from raxalign.tasks.vectors.pairs import LinkedWords, SideWords


class SeenTypes:
    """The pairs of word types that count as seen: those linked in training, as they are written,
    and entries of the dictionaries of two languages in the form in which they are looked up.
    """

    def __init__(self, folder: Path, langs: tuple[str, str]) -> None:
        self._langs = langs
        self._linked = _pairs(folder / "types.arrow")
        self._dictionary = _pairs(folder / "dictionary.arrow")

    def __contains__(self, pair: tuple[str, str]) -> bool:
        src, tgt = map(look_up_form, pair, self._langs)
        return pair in self._linked or (src, tgt) in self._dictionary


def _pairs(file: Path) -> set[tuple[str, str]]:
    from raxalign.pairing.build import read_types

    table = read_types(file)
    return set(zip(table["src"].to_pylist(), table["tgt"].to_pylist(), strict=True))


FoundWords = Mapping[SearchDirection, Ints]
"""The word that a search found for each pair (pairs,), by direction: numbers of target words to the
pivot, of source words from it. Pairs that were not part of the search have -1.
"""


def search(
    pairs: LinkedWords,
    vectors: tuple[torch.Tensor, torch.Tensor],
    pools: tuple[Bools, Bools],
    *,
    measure: Measure,
    k: int,
) -> FoundWords:
    """Find the nearest neighbour of every word of two pools in the other pool; return the answers
    for the pairs whose words are both in their pools. The pools say which source words and which
    target words are queries, candidates and neighbourhoods; `vectors` (words, H) are those of all
    words of either side.
    """
    from raxalign.similarity.neighbors import nearest_neighbors

    asked = pools[0][pairs.src_word] & pools[1][pairs.tgt_word]
    found = {direction: np.full(len(pairs), -1, np.int64) for direction in DIRECTIONS}
    if asked.any():
        words = [np.flatnonzero(pool) for pool in pools]
        src, tgt = (
            side[torch.from_numpy(numbers).to(side.device)]
            for side, numbers in zip(vectors, words, strict=True)
        )
        nearest = nearest_neighbors(src, tgt, measure=measure, k=k)
        queries = (pairs.src_word, *words), (pairs.tgt_word, *words[::-1])
        for direction, answers, (linked, own, others) in zip(
            DIRECTIONS, nearest, queries, strict=True
        ):
            places = np.searchsorted(own, linked[asked])
            found[direction][asked] = others[answers.cpu().numpy()][places]
    return found


def first_occurrences(words: SideWords, read: Bools) -> Bools:
    """Mark the first occurrence of every surface form among the words that were read."""
    first: dict[str, int] = {}
    for word in np.flatnonzero(read).tolist():
        first.setdefault(words.forms[word], word)
    flags = np.zeros(len(read), dtype=np.bool_)
    flags[list(first.values())] = True
    return flags


@dataclass(frozen=True)
class Answers:
    """What was found for linked words: `contextual` among all candidates, `thinned` among first
    occurrences. `units` (sentence pairs,) are the hashes of the pivot's sentences.
    """

    pairs: LinkedWords
    units: Ints
    contextual: FoundWords
    thinned: FoundWords
    identical: Bools
    unseen: Bools

    def _oriented(
        self, direction: SearchDirection
    ) -> tuple[tuple[SideWords, Ints], tuple[SideWords, Ints]]:
        """The words of the queries' side with the query of each pair, and those of the answers."""
        src, tgt = self.pairs.sides()
        return (src, tgt) if direction == "to_pivot" else (tgt, src)

    def flags(self, direction: SearchDirection) -> dict[str, Bools]:
        """Return what predictions say of each pair, from which all metrics can be computed again.

        `correct` is that of the contextual search, `correct_first` that of the non-contextual one.
        `first` marks the pairs of `noncontextual_accuracy_all`, `first_unseen` those of
        `noncontextual_accuracy`, and `first_any` those of `first` and the pairs of one surface form
        that would be.
        """
        _, (_, linked) = self._oriented(direction)
        first, distinct = self.thinned[direction] >= 0, ~self.identical
        return {
            "correct": np.equal(self.contextual[direction], linked),
            "correct_first": np.equal(self.thinned[direction], linked),
            "identical": self.identical,
            "unseen": self.unseen,
            "first_any": first,
            "first": first & distinct,
            "first_unseen": first & distinct & self.unseen,
        }

    def metrics(self) -> tuple[dict[str, float], list[str]]:
        """Return values by metric, and the metrics for which there are no pairs."""
        values: dict[str, float] = {}
        absent: list[str] = []
        flags = {direction: self.flags(direction) for direction in DIRECTIONS}
        for name in ACCURACIES:
            asked = {way: _asked(name, own.__getitem__) for way, own in flags.items()}
            either = np.logical_or.reduce([chosen for chosen, _ in asked.values()])
            if not either.any():
                unseen = "" if name.endswith("_all") else "unseen "
                absent.append(f"{name}: no {unseen}pairs of different surface forms")
                continue
            parts = {
                way: (right[chosen], self.pairs.row[chosen])
                for way, (chosen, right) in asked.items()
            }
            values[name], error = mean_accuracy(list(parts.values()))
            values |= {f"{name}_{way}": float(right.mean()) for way, (right, _) in parts.items()}
            values[f"{name}_pairs"] = float(either.sum())
            if error is not None:
                values[f"{name}_stderr"] = error
        return values, absent

    def predictions(self, direction: SearchDirection) -> dict[str, Any]:
        """Return one row per pair. Columns of a search are null for pairs that were not part of it.
        `unit` is the same wherever the pivot's sentence is.
        """
        pairs, n, flags = self.pairs, len(self.pairs), self.flags(direction)
        types, (_, (side, _)) = pairs.types(), self._oriented(direction)
        searched: dict[str, Any] = {}
        for suffix, found in (("", self.contextual), ("_first", self.thinned)):
            words, missing = found[direction], found[direction] < 0
            searched |= {
                f"found{suffix}_id": pa.array(pairs.ids[side.row[words]], mask=missing),
                f"found{suffix}_position": pa.array(side.position[words], mask=missing),
                f"found{suffix}": [side.forms[w] if w >= 0 else None for w in words.tolist()],
                f"correct{suffix}": pa.array(flags[f"correct{suffix}"], mask=missing),
            }
        return {
            "direction": [direction] * n,
            "id": pairs.ids[pairs.row],
            "unit": self.units[pairs.row],
            "src_position": pairs.src.position[pairs.src_word],
            "tgt_position": pairs.tgt.position[pairs.tgt_word],
            "src": [a for a, _ in types],
            "tgt": [b for _, b in types],
            **flags,
            **searched,
        }


def _asked(name: str, flag: Callable[[str], Bools]) -> tuple[Bools, Bools]:
    """The pairs that an accuracy is over, and which are right, by the flags of predictions."""
    with_seen = name.endswith("_all")
    if name.startswith("noncontextual"):
        return flag("first" if with_seen else "first_unseen"), flag("correct_first")
    distinct = ~flag("identical")
    return distinct if with_seen else distinct & flag("unseen"), flag("correct")


def word_pairs(table: pa.Table, metric: str) -> Sample | None:
    """Return the sample of an accuracy of retrieval: one part per direction."""
    name, direction = direction_of(metric)
    correct = "correct_first" if name.startswith("noncontextual") else "correct"
    if name not in ACCURACIES or correct not in table.column_names:
        return None
    chosen, right = _asked(name, lambda flag: column(table, flag).astype(bool))
    directions = column(table, "direction")
    if direction:
        chosen = chosen & (directions == direction)
    if not chosen.any():
        return None
    gains = right[chosen].astype(float)
    return Sample.summed(units_of(table)[chosen], directions[chosen], gains, np.ones(len(gains)))


ACCURACIES = (
    "contextual_accuracy",
    "noncontextual_accuracy",
    "contextual_accuracy_all",
    "noncontextual_accuracy_all",
)
"""Accuracies among all words and among first occurrences, over unseen pairs and over all."""

_FAMILIES = "{contextual|noncontextual}_accuracy"
MEASURED = (
    Measured(
        "contextual_accuracy",
        "Share of unseen pairs that are found among all words, the mean of both directions.",
        unit="share",
        over_all_pairs="contextual_accuracy_all",
        sample=word_pairs,
    ),
    Measured(
        "noncontextual_accuracy",
        "Share of unseen pairs that are found among first occurrences, the mean of both"
        " directions.",
        unit="share",
        over_all_pairs="noncontextual_accuracy_all",
        sample=word_pairs,
    ),
    share(
        "contextual_accuracy_all",
        "The contextual accuracy over seen pairs too.",
        sample=word_pairs,
    ),
    share(
        "noncontextual_accuracy_all",
        "The non-contextual accuracy over seen pairs too.",
        sample=word_pairs,
    ),
    share(
        f"{_FAMILIES}_{{to_pivot|from_pivot|all_to_pivot|all_from_pivot}}",
        "The accuracy of one direction, over unseen pairs or over all of them.",
        role="part",
        sample=word_pairs,
    ),
    count(f"{_FAMILIES}_{{pairs|all_pairs}}", "Number of pairs that an accuracy is the share of."),
    standard_error(
        f"{_FAMILIES}_{{stderr|all_stderr}}",
        "Standard error of the mean of both directions, clustered by sentence.",
    ),
)
"""What retrieval reports."""
COLUMNS = {
    "direction": "string",
    **dict.fromkeys(("id", "unit", "src_position", "tgt_position"), "int64"),
    **dict.fromkeys(("src", "tgt"), "string"),
    "found_id": "int64",
    "found_position": "int64",
    "found": "string",
    "found_first_id": "int64",
    "found_first_position": "int64",
    "found_first": "string",
    **dict.fromkeys(("correct", "correct_first", "identical", "unseen"), "bool"),
    **dict.fromkeys(("first_any", "first", "first_unseen"), "bool"),
}
"""The columns of the predictions."""


@final
class Retrieval(frame.VectorTask):
    """Contextual and non-contextual word retrieval between each language and the pivot, dev and
    test side, both directions.

    Candidates, and the neighbourhoods of hubness terms, are all words of the other side's
    sentences without special tokens. Queries are linked words; a query is right when its nearest
    neighbour is exactly the occurrence that it is linked with. Accuracies are over pairs of
    different surface forms. A pair is *unseen* when its word types are linked in no training set
    and are not an entry of a dictionary that the grid uses.

    Non-contextual retrieval is done in the corpus that remains when all but the first occurrence of
    each word type are removed from both sides: queries, candidates and neighbourhoods are first
    occurrences in the held-out text, and a pair counts where both its words are.

    A metric over no pairs is left out, and the notes record that. Words that the encoder did not
    read, because their sentence is too long, are not candidates.

    Data: held-out linked words of the grid's corpus.

    Reference: Cao et al. (2020, §2.2).

    Relations: `sentence_retrieval` finds sentences and needs no word links; `dictionary_retrieval`
    reads words outside their sentences; `word_alignment` scores links that were made by hand.

    Example:
        tasks:
          retrieval: {measure: csls, k: 10, unseen_in: 1_000}
          retrieval_sentence: {kind: retrieval, augmentation: sentence}
    """

    VERSION = 3
    papers = ("cao2020", "measure=csls conneau2018csls", "measure=sinkhorn cuturi2013")
    predicts = frozenset(
        {"correct", "correct_first", "direction", "id", "identical", "src", "tgt", "unit", "unseen"}
    )
    metrics = MEASURED
    main_metric = "contextual_accuracy"
    called = "word retrieval"
    columns = COLUMNS
    averaged = ACCURACIES

    class Params(Task.Params):
        """The defaults are those of Cao et al. (2020)."""

        removed: ClassVar[Mapping[str, Removed]] = {
            "candidates": Removed("leave it out: all words are candidates", keyed="all"),
            "specials": Removed("leave it out: special tokens are not words", keyed="exclude"),
            "noncontextual": Removed(
                "leave it out: repeated word types are removed from the corpus", keyed="corpus"
            ),
            "temperature": frame.NO_TEMPERATURE,
        }
        layers: LayerList = Field("last", description=frame.LAYERS)
        pooling: Pooling = Field("last", description=frame.WORD_POOLING)
        augmentation: Literal["none", "sentence"] = "none"
        """Whether a word's vector is followed by the mean, the largest and the smallest value of
        each coordinate over its sentence (`sentence`), which makes it four times as wide.
        """
        measure: Measure = Field("csls", description=frame.WORD_MEASURE)
        k: int = Field(10, ge=1, description=frame.NEIGHBORS)
        unseen_in: int | None = Field(None, ge=1)
        """Number of training sentences whose links make a pair count as seen (none: the grid's
        largest training set).
        """

    params: Params

    def needs(self) -> TaskNeeds:
        """Return held-out word pairs and the word types seen in training."""
        return TaskNeeds(heldout=True, seen=True, unseen_in=self.params.unseen_in)

    def idle(self) -> set[str]:
        """Return `unseen_in` too, which is in the identity of the pairs."""
        return {"unseen_in"} | super().idle()

    def compare(
        self, aligned: AlignedEncoder, lang: str, inputs: TaskInputs
    ) -> Iterator[tuple[str, frame.SplitResult]]:
        """Retrieve on the dev and the test side."""
        from raxalign.tasks.vectors.pairs import LinkedWords

        seen = SeenTypes(inputs.seen[lang], (lang, inputs.pivot))
        for split, pairs in LinkedWords.held_out(inputs.heldout[lang]):
            answers, notes = self._answer(aligned, pairs, lang, inputs.pivot, seen)
            values, absent = answers.metrics()
            if absent:
                notes["absent"] = absent
            tables = [answers.predictions(direction) for direction in DIRECTIONS]
            yield split, frame.SplitResult(values, tables, {split: notes})

    def _answer(
        self, aligned: AlignedEncoder, pairs: LinkedWords, lang: str, pivot: str, seen: SeenTypes
    ) -> tuple[Answers, dict[str, object]]:
        """Search among all words and first occurrences; return answers for links, and counts."""
        from raxalign.tasks.transfer.rows import unit

        (src, src_read), (tgt, tgt_read) = (
            self._vectors(aligned, words, code)
            for words, code in ((pairs.src, lang), (pairs.tgt, pivot))
        )
        units = np.array([unit(sentence) for sentence in pairs.tgt.sentences], dtype=np.int64)
        read = src_read[pairs.src_word] & tgt_read[pairs.tgt_word]
        kept, types = pairs.keep(read), pairs.keep(read).types()
        identical = np.array([look_up_form(a) == look_up_form(b) for a, b in types], np.bool_)
        unseen = np.array([pair not in seen for pair in types], dtype=np.bool_)
        contextual, sizes = self._search(kept, (src, tgt), (src_read, tgt_read))
        counts: dict[str, object] = {
            "sentences": len(pairs.ids),
            "pairs": len(pairs),
            "pairs_truncated": len(pairs) - len(kept),
            "pairs_identical": int(identical.sum()),
            "pairs_seen": int((~unseen & ~identical).sum()),
            "candidates_src": sizes[0],
            "candidates_tgt": sizes[1],
        }
        first = first_occurrences(kept.src, src_read), first_occurrences(kept.tgt, tgt_read)
        thinned, sizes = self._search(kept, (src, tgt), first)
        pairs_first = int((thinned["to_pivot"] >= 0).sum())
        counts |= {"pairs_first": pairs_first, "first_src": sizes[0], "first_tgt": sizes[1]}
        return Answers(kept, units, contextual, thinned, identical, unseen), counts

    def _search(
        self,
        pairs: LinkedWords,
        vectors: tuple[torch.Tensor, torch.Tensor],
        words: tuple[Bools, Bools],
    ) -> tuple[FoundWords, tuple[int, int]]:
        """What is found for the pairs among some words of both sides, and how many candidates both
        sides have.
        """
        found = search(pairs, vectors, words, measure=self.params.measure, k=self.params.k)
        return found, (int(words[0].sum()), int(words[1].sum()))

    def _vectors(
        self, aligned: AlignedEncoder, words: SideWords, lang: str
    ) -> tuple[torch.Tensor, Bools]:
        """Vectors (words, hidden), the layers added up, and which words have one."""
        layers = frame.single(self.params.layers)
        found = aligned.words(words.sentences, lang, layers=layers, pooling=self.params.pooling)
        vectors_NH = found.vectors_NLH.sum(1)
        if self.params.augmentation == "sentence":
            sentence_N = torch.from_numpy(words.row).to(vectors_NH.device)
            vectors_NH = with_sentence(
                vectors_NH, sentence_N, found.present_N.to(vectors_NH.device)
            )
        return vectors_NH, found.present_N.cpu().numpy().astype(np.bool_)


def with_sentence(
    vectors_NH: torch.Tensor, sentence_N: torch.Tensor, present_N: torch.Tensor
) -> torch.Tensor:
    """Return [word; mean; max; min] over the words of each word's sentence that have a vector
    (`present_N`), (N, 4H); absent words stay zero (Cao et al. 2020, §4). `sentence_N` numbers the
    sentence of each word from 0. No part is scaled, and measures are over the whole vector.
    """
    words_MH, owners_M = vectors_NH[present_N], sentence_N[present_N]
    size = int(sentence_N.max()) + 1 if len(sentence_N) else 0
    empty_SH = vectors_NH.new_zeros(size, vectors_NH.shape[1])
    places_MH = owners_M[:, None].expand_as(words_MH)
    parts = [
        words_MH,
        *(
            empty_SH.scatter_reduce(0, places_MH, words_MH, how, include_self=False)[owners_M]
            for how in ("mean", "amax", "amin")
        ),
    ]
    wide_NW = vectors_NH.new_zeros(len(vectors_NH), 4 * vectors_NH.shape[1])
    wide_NW[present_N] = torch.cat(parts, dim=1)
    return wide_NW
