"""Nearest sentences by a bank of queries, and in pools of the sentences of several languages:
where vectors say first of all which language a sentence is in, no translation is found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, cast

from raxalign.arrays import Bools, Floats, Ints
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.errors import RaxalignError
from raxalign.lazy import np, torch
from raxalign.similarity.measures import MEASURES, Measure, Scaled, Terms, hubness
from raxalign.tasks.vectors.frame import SentenceReading
from raxalign.tasks.vectors.pairs import SentencePairs

QuerybankMeasure = Literal["qb_norm", "nnn"]
_ROWS = 1024  # queries whose scores are in memory together


@dataclass(frozen=True)
class Nearness:
    """What is near: a measure with its options."""

    ABOUT: ClassVar = (
        " `qb_norm` is the inverted softmax over a bank of other queries, the sentences of the"
        " development side, for queries whose nearest candidate by cosine is also the nearest of a"
        " query of the bank; for others it is the cosine (Bogolin et al. 2022, dynamic inverted"
        " softmax). `nnn` is the cosine less half the mean cosine of the candidate with the"
        " `k` queries of that bank that are nearest to it (Chowdhury et al. 2024), which would be"
        " `csls` with the queries themselves as the bank."
    )
    ALPHA: ClassVar = 0.5
    """The weight in `nnn`, as in the program of its authors."""

    measure: Measure | QuerybankMeasure
    k: int = 10

    @property
    def has_bank(self) -> bool:
        """Whether the measure needs a bank of queries."""
        return self.measure in ("qb_norm", "nnn")

    @property
    def idle(self) -> set[str]:
        """The options that the measure does not read."""
        if self.measure == "nnn":
            return set()
        return {"k"} if self.measure == "qb_norm" else MEASURES[self.measure].idle

    def nearest(
        self, queries_QH: torch.Tensor, candidates_CH: torch.Tensor, bank_BH: torch.Tensor
    ) -> torch.Tensor:
        """Return each query's nearest candidate by a bank, int64 (Q,), the first of equals."""
        found, units = Querybank.of(bank_BH, candidates_CH, self), _unit(candidates_CH)
        blocks = torch.split(_unit(queries_QH), _ROWS)
        return torch.cat([found.weigh(block @ units.T).argmax(1) for block in blocks])

    def no_bank(self, lang: str) -> RaxalignError:
        """Return the error for a language without a bank of queries."""
        return RaxalignError(
            f"sentence_retrieval: `measure: {self.measure}` takes the development side as its bank"
            f" of queries, and {lang} has none: give `data.dev`, or `dev` in the corpus's `split`"
        )

    def pools(
        self,
        aligned: AlignedEncoder,
        sides: Mapping[str, Mapping[str, SentencePairs]],
        pivot: str,
        how: SentenceReading,
    ) -> Iterator[tuple[str, str, SentencePairs, Pool]]:
        """Yield (split, language, its pairs, the pool) of the `sides`: the pairs of each language,
        by split.

        The pool differs by language where the pivot's vectors do. For a measure with a bank the
        development side is that of the other one, and is not searched. Raises `RaxalignError` where
        there is none.
        """
        one_pivot = not any(transform.toward for transform in aligned.transforms)
        banks: dict[str, Pool] = {}
        for split, there in sides.items():
            sentences = {lang: LanguageSentences.of([(p.src, p)]) for lang, p in there.items()}
            of_pivot = LanguageSentences.of([(own.tgt, own) for own in there.values()])
            found = {
                lang: how.vectors(aligned.toward(lang), own.words, lang)
                for lang, own in sentences.items()
            }
            pool: Pool | None = None
            for lang, own in there.items():
                if pool is None or not one_pivot:
                    view = aligned.toward(lang)
                    last = how.vectors(view, of_pivot.words, pivot)
                    vectors, read = zip(*found.values(), last, strict=True)
                    every = {**sentences, pivot: of_pivot}
                    bank = banks.get(lang)
                    pool = Pool(every, torch.cat(vectors), np.concatenate(read), pivot, self, bank)
                if self.has_bank and split == "dev":
                    banks[lang] = pool
                elif self.has_bank and lang not in banks:
                    raise self.no_bank(lang)
                else:
                    yield split, lang, own, pool


@dataclass(frozen=True)
class Querybank:
    """What a bank of queries says of candidates: by how much the similarity to each is lowered,
    `terms_C`, for queries whose nearest one is of `nearest_C`: what is the nearest of some query of
    the bank, or with `nnn` all.
    """

    terms_C: torch.Tensor
    nearest_C: torch.Tensor

    @classmethod
    def of(cls, bank_BH: torch.Tensor, candidates_CH: torch.Tensor, near: Nearness) -> Querybank:
        """Return what a bank says. Vectors are scaled to length one here."""
        bank_BH, candidates_CH = _unit(bank_BH), _unit(candidates_CH)
        nearest_C = torch.full((len(candidates_CH),), near.measure == "nnn", device=bank_BH.device)
        if near.measure == "nnn":
            return cls(near.ALPHA * hubness(candidates_CH, bank_BH, near.k), nearest_C)
        terms = [
            Terms.softmax(block @ bank_BH.T) / 2 for block in torch.split(candidates_CH, _ROWS)
        ]
        for block in torch.split(bank_BH, _ROWS):
            nearest_C[(block @ candidates_CH.T).argmax(1)] = True
        return cls(torch.cat(terms), nearest_C)

    def weigh(self, cosines_QC: torch.Tensor) -> torch.Tensor:
        """Return the scores (Q, C), comparable within a row."""
        activated_Q = self.nearest_C[cosines_QC.argmax(1)]
        return torch.where(activated_Q[:, None], cosines_QC - self.terms_C, cosines_QC)


def _unit(vectors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vectors, dim=-1)


NEAREST = 10
"""So many nearest sentences are looked at for their languages."""


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
    vectors (C, H); `read` (C,) marks those that have one. `pivot` is the pivot's code. `near` says
    what is near; in hubness terms the other side of a candidate is the rest of the pool.
    """

    sentences: Mapping[str, LanguageSentences]
    vectors: torch.Tensor
    read: Bools
    pivot: str
    near: Nearness
    bank: Pool | None = None
    """The pool of the development side, whose sentences are the bank of queries, if there is one.
    """

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The number of sentences of each language."""
        return {lang: len(own.ids) for lang, own in self.sentences.items()}

    @cached_property
    def _sides(self) -> tuple[Scaled, Terms]:
        """What all searches multiply, and what scores take besides products."""
        near, measure = self.near, cast("Measure", self.near.measure)
        sides = Scaled.of(self.vectors, self.vectors, "cosine" if near.has_bank else measure)
        return sides, sides.terms(sides.candidates, near.k, apart=True)

    def of_language(self, lang: str) -> torch.Tensor:
        """Return the vectors of a language (S, H)."""
        before = self.places(lang).start
        return self.vectors[before : before + self.sizes[lang]]

    def places(self, lang: str) -> range:
        """Return the places of a language's sentences."""
        codes = list(self.sentences)
        before = sum(self.sizes[code] for code in codes[: codes.index(lang)])
        return range(before, before + self.sizes[lang])

    def search(self, lang: str, side: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Return what is nearest to each of the queries, a side (Q,) in a language: whether the
        first is a translation (`correct`), its pair (`found_id`) and language (`found_lang`), the
        rank of the last of its translations (`max_rank`), and the shares of the query's own
        language and of the pivot (of its own queries: no number) among the nearest. A query is not
        a candidate for itself.
        """
        codes = list(self.sentences)
        queries = self.places(lang).start + self.sentences[lang].places(side)
        nearest, last = self._ranked(queries, lang)
        spoken = np.repeat(np.arange(len(codes)), list(self.sizes.values()))
        ids = np.concatenate([own.ids for own in self.sentences.values()])
        first = nearest[:, 0]
        same = [int(b) in self._translations[a] for a, b in zip(queries, first, strict=True)]
        shares = [(spoken[nearest] == codes.index(code)).mean(1) for code in (lang, self.pivot)]
        return {
            "correct": np.array(same, dtype=np.bool_) & self.read[queries] & self.read[first],
            "found_id": ids[first],
            "found_lang": np.array(codes)[spoken[first]],
            "max_rank": last,
            "own_language": shares[0],
            "pivot_language": np.full(len(side), np.nan) if lang == self.pivot else shares[1],
        }

    @cached_property
    def _translations(self) -> Sequence[frozenset[int]]:
        """The places of what means the same as each sentence, itself left out."""
        meanings = [found for own in self.sentences.values() for found in own.meanings]
        having: dict[int, list[int]] = defaultdict(list)
        for place, found in enumerate(meanings):
            for meaning in found:
                having[meaning].append(place)
        return [
            frozenset(other for meaning in found for other in having[meaning]) - {place}
            for place, found in enumerate(meanings)
        ]

    def _ranked(self, queries: Ints, lang: str) -> tuple[Ints, Floats]:
        """The places (Q, at most `NEAREST`) of what is nearest to each of some places (Q,), and the
        rank (Q,) of the last of its translations; that of the whole pool where one is not read.
        """
        (sides, terms), count, device = self._sides, len(self.read) - 1, self.vectors.device
        bank = None
        if self.bank is not None:
            bank = Querybank.of(self.bank.of_language(lang), self.vectors, self.near)
        nearest = [np.empty((0, min(NEAREST, count)), dtype=np.int64)]
        last = [np.empty(0, dtype=np.float64)]
        for places in torch.split(torch.from_numpy(queries).to(device), _ROWS):
            products_BC = sides.queries[places] @ sides.candidates.T
            scores_BC = terms.applied(products_BC, places)
            scores_BC = scores_BC.scatter(1, places[:, None], -torch.inf)  # none finds itself
            scores_BC = scores_BC if bank is None else bank.weigh(scores_BC)
            nearest.append(scores_BC.topk(min(NEAREST, count)).indices.cpu().numpy())
            meant = [self._translations[place] for place in places.tolist()]
            rows = np.repeat(np.arange(len(meant)), [len(found) for found in meant])
            columns = np.array([other for found in meant for other in found], dtype=np.int64)
            of_rows, of_columns = (torch.from_numpy(side).to(device) for side in (rows, columns))
            worst_B = scores_BC.new_full((len(meant),), torch.inf)
            worst_B.scatter_reduce_(0, of_rows, scores_BC[of_rows, of_columns], "amin")
            ranks = (scores_BC > worst_B[:, None]).sum(1).cpu().numpy() + 1.0
            lacking = np.bincount(rows, ~self.read[columns], len(meant)) > 0
            lacking |= ~self.read[places.cpu().numpy()]
            last.append(np.where(lacking, float(count), ranks))
        return np.concatenate(nearest), np.concatenate(last)
