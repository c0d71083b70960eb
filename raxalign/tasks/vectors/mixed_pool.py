"""Search among the sentences of all languages at once, those of the query's own language included:
where vectors say first of all which language a sentence is in, no translation is found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from raxalign.arrays import Bools, Ints
from raxalign.similarity import Measure, Terms, scaled, scored, softmax_terms
from raxalign.similarity.measures import Scaled
from raxalign.tasks.vectors.pairs import SentencePairs
from raxalign.tasks.vectors.sentences import SentenceReading, sentence_vectors

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder

NEAREST = 10
"""So many nearest sentences are looked at for their languages."""
_ROWS = 1024  # queries whose scores are in memory together


@dataclass(frozen=True)
class LanguageSentences:
    """The different sentences of one language: the words of each, the number of the first pair that
    has it, and which pivot sentences (by unit) it translates; the pivot's translate themselves.
    """

    words: Sequence[Sequence[str]]
    ids: Ints
    meanings: Sequence[frozenset[int]]
    _places: Mapping[tuple[str, ...], int]

    @classmethod
    def of(
        cls, sides: Sequence[tuple[Sequence[Sequence[str]], SentencePairs]]
    ) -> LanguageSentences:
        """Return those of some sides, each given with the pairs that it is a side of."""
        first: dict[tuple[str, ...], tuple[Sequence[str], int]] = {}
        meanings: dict[tuple[str, ...], set[int]] = defaultdict(set)
        for side, pairs in sides:
            for words, number, unit in zip(side, pairs.ids, pairs.units, strict=True):
                first.setdefault(tuple(words), (words, int(number)))
                meanings[tuple(words)].add(int(unit))
        return cls(
            [words for words, _ in first.values()],
            np.array([number for _, number in first.values()], dtype=np.int64),
            [frozenset(found) for found in meanings.values()],
            {words: place for place, words in enumerate(first)},
        )

    def places(self, side: Sequence[Sequence[str]]) -> Ints:
        """Return the place of each sentence of a side (S,)."""
        return np.array([self._places[tuple(words)] for words in side], dtype=np.int64)


@dataclass(frozen=True)
class Pool:
    """The sentences of several languages as candidates, each language's after another's, with their
    vectors (C, H); `read` (C,) marks those that have one. `pivot` is the pivot's code. `measure`
    with its `k` says what is near; in hubness terms the other side of a candidate is the rest of
    the pool.
    """

    sentences: Mapping[str, LanguageSentences]
    vectors: torch.Tensor
    read: Bools
    pivot: str
    measure: Measure
    k: int

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The number of sentences of each language."""
        return {lang: len(own.ids) for lang, own in self.sentences.items()}

    @cached_property
    def _sides(self) -> tuple[Scaled, Terms]:
        """What all searches multiply, and what scores take besides products."""
        sides = scaled(self.vectors, self.vectors, self.measure)
        return sides, _terms(sides, self.k)

    def search(self, lang: str, side: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Return what is nearest to each of the queries, a side (Q,) in a language: whether the
        first is a translation (`correct`), its pair (`found_id`) and language (`found_lang`), and
        the shares of the query's own language and of the pivot (of its own queries: no number)
        among the nearest. A query is not a candidate for itself.
        """
        codes = list(self.sentences)
        before = sum(self.sizes[code] for code in codes[: codes.index(lang)])
        queries = before + self.sentences[lang].places(side)
        nearest = self._nearest(queries)
        spoken = np.repeat(np.arange(len(codes)), list(self.sizes.values()))
        meanings = [found for own in self.sentences.values() for found in own.meanings]
        ids = np.concatenate([own.ids for own in self.sentences.values()])
        first = nearest[:, 0]
        same = [bool(meanings[a] & meanings[b]) for a, b in zip(queries, first, strict=True)]
        shares = [(spoken[nearest] == codes.index(code)).mean(1) for code in (lang, self.pivot)]
        return {
            "correct": np.array(same, dtype=np.bool_) & self.read[queries] & self.read[first],
            "found_id": ids[first],
            "found_lang": np.array(codes)[spoken[first]],
            "own_language": shares[0],
            "pivot_language": np.full(len(side), np.nan) if lang == self.pivot else shares[1],
        }

    def _nearest(self, queries: Ints) -> Ints:
        """The places (Q, at most `NEAREST`) of what is nearest to each of some places (Q,)."""
        (sides, terms), many = self._sides, min(NEAREST, len(self.read) - 1)
        found = [np.empty((0, many), dtype=np.int64)]
        for places in torch.split(torch.from_numpy(queries).to(self.vectors.device), _ROWS):
            scores_BC = scored(sides.queries[places], sides.candidates, terms, places)
            found.append(_without_itself(scores_BC, places).topk(many).indices.cpu().numpy())
        return np.concatenate(found)


def mixed_pools(
    aligned: AlignedEncoder,
    sides: Mapping[str, Mapping[str, SentencePairs]],
    pivot: str,
    how: SentenceReading,
    measure: tuple[Measure, int],
) -> Iterator[tuple[str, str, SentencePairs, Pool]]:
    """Yield (split, language, its pairs, the pool) of the `sides`: the pairs of each language, by
    split. `measure` has the number of neighbours of its hubness term.

    The pool differs by language where the pivot's vectors do.
    """
    one_pivot = not any(transform.toward for transform in aligned.transforms)
    for split, there in sides.items():
        sentences = {lang: LanguageSentences.of([(own.src, own)]) for lang, own in there.items()}
        of_pivot = LanguageSentences.of([(own.tgt, own) for own in there.values()])
        found = {
            lang: sentence_vectors(aligned.toward(lang), own.words, lang, how)
            for lang, own in sentences.items()
        }
        pool: Pool | None = None
        for lang, own in there.items():
            if pool is None or not one_pivot:
                view = aligned.toward(lang)
                last = sentence_vectors(view, of_pivot.words, pivot, how)
                vectors, read = zip(*found.values(), last, strict=True)
                every = {**sentences, pivot: of_pivot}
                pool = Pool(every, torch.cat(vectors), np.concatenate(read), pivot, *measure)
            yield split, lang, own, pool


def _terms(sides: Scaled, k: int) -> Terms:
    """What scores take besides products; a candidate is not among its own neighbours."""
    penalty = sides.definition.penalty
    if penalty in ("none", "square"):
        return sides.terms(sides.candidates, k)
    count, found = len(sides.candidates), []
    for places in torch.split(torch.arange(count, device=sides.crowd.device), _ROWS):
        near_BC = _without_itself(sides.candidates[places] @ sides.crowd.T, places)
        if penalty == "softmax":
            found.append(softmax_terms(near_BC))
        else:
            found.append(near_BC.topk(min(k, count - 1)).values.mean(1))
    of_all = torch.cat(found)
    return Terms(of_all, of_all if penalty == "margin" else None)


def _without_itself(scores_BC: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The scores of some places of a pool, in which none finds itself."""
    return scores_BC.scatter(1, places[:, None], -torch.inf)
