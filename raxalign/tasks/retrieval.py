"""Word retrieval in parallel sentences (Cao et al. 2020, §4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal, final

from pydantic import Field

from raxalign.arrays import Bools
from raxalign.config.params import Removed
from raxalign.corpora.text.words import look_up_form
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.vectors import LayerList, Pooling
from raxalign.lazy import np, pa, torch
from raxalign.sample import Sample
from raxalign.similarity.measures import Measure
from raxalign.tasks.base import Task, TaskInputs, TaskNeeds
from raxalign.tasks.transfer.rows import unit
from raxalign.tasks.vectors import frame
from raxalign.tasks.vectors.directions import DIRECTIONS
from raxalign.tasks.vectors.pairs import LinkedWords, SeenTypes, SideWords, read_linked_words
from raxalign.tasks.vectors.retrieved_words import (
    ACCURACIES,
    COLUMNS,
    MEASURED,
    Answers,
    FoundWords,
    first_occurrences,
    search,
    word_pairs,
)


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

    Reference: Cao et al. (2020, §2.2).
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
            "candidates": Removed("all words are candidates", keyed="all"),
            "specials": Removed("special pieces are not words", keyed="exclude"),
            "noncontextual": Removed(
                "repeated word types are removed from the corpus", keyed="corpus"
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

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """Return the sample of an accuracy: one part per direction, one unit per pivot sentence."""
        return word_pairs(rows, metric)

    def compare(
        self, aligned: AlignedEncoder, lang: str, inputs: TaskInputs
    ) -> Iterator[tuple[str, frame.SplitResult]]:
        """Retrieve on the dev and the test side."""
        seen = SeenTypes(inputs.seen[lang], (lang, inputs.pivot))
        for split, folder in frame.heldout_splits(inputs.heldout[lang]):
            pairs = read_linked_words(folder)
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
