"""Normalisation by a bank of other queries: candidates that are near to many of them count less
(Bogolin et al. 2022; Chowdhury et al. 2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from raxalign.errors import RaxalignError
from raxalign.lazy import torch
from raxalign.similarity.measures import TEMPERATURE, Measure, hubness, idle_options, softmax_terms

QuerybankMeasure = Literal["qb_norm", "nnn"]
ABOUT = (
    " `qb_norm` is the inverted softmax over a bank of other queries, the sentences of the"
    " development side, for queries whose nearest candidate by cosine is also the nearest of a"
    " query of the bank; for others it is the cosine (Bogolin et al. 2022, dynamic inverted"
    " softmax). `nnn` is the cosine less half the mean cosine of the candidate with the"
    " `k` queries of that bank that are nearest to it (Chowdhury et al. 2024), which would be"
    " `csls` with the queries themselves as the bank."
)
ALPHA = 0.5
"""The weight in `nnn` by default, as in the program of its authors."""
_ROWS = 1024  # queries whose similarities are in memory together


@dataclass(frozen=True)
class Nearness:
    """What is near: a measure with its options."""

    measure: Measure | QuerybankMeasure
    k: int = 10
    temperature: float = TEMPERATURE
    alpha: float = ALPHA

    @property
    def has_bank(self) -> bool:
        """Whether the measure needs a bank of queries."""
        return self.measure in ("qb_norm", "nnn")

    @property
    def idle(self) -> set[str]:
        """The options that the measure does not read."""
        if self.measure == "nnn":
            return set()
        return {"k"} if self.measure == "qb_norm" else idle_options(self.measure)


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
            return cls(near.alpha * hubness(candidates_CH, bank_BH, near.k), nearest_C)
        terms = [
            softmax_terms(block @ bank_BH.T, near.temperature) / 2
            for block in torch.split(candidates_CH, _ROWS)
        ]
        for block in torch.split(bank_BH, _ROWS):
            nearest_C[(block @ candidates_CH.T).argmax(1)] = True
        return cls(torch.cat(terms), nearest_C)

    def weigh(self, cosines_QC: torch.Tensor) -> torch.Tensor:
        """Return the scores (Q, C), comparable within a row."""
        activated_Q = self.nearest_C[cosines_QC.argmax(1)]
        return torch.where(activated_Q[:, None], cosines_QC - self.terms_C, cosines_QC)


def querybank_nearest(
    queries_QH: torch.Tensor, candidates_CH: torch.Tensor, bank_BH: torch.Tensor, near: Nearness
) -> torch.Tensor:
    """Return the nearest candidate of every query, int64 (Q,), the first of equals."""
    found, units = Querybank.of(bank_BH, candidates_CH, near), _unit(candidates_CH)
    blocks = torch.split(_unit(queries_QH), _ROWS)
    return torch.cat([found.weigh(block @ units.T).argmax(1) for block in blocks])


def no_bank(lang: str, measure: str) -> RaxalignError:
    """Return the error for a language without a bank of queries."""
    return RaxalignError(
        f"sentence_retrieval: `measure: {measure}` takes the development side as its bank of"
        f" queries, and {lang} has none: give `data.dev`, or `dev` in the corpus's `split`"
    )


def _unit(vectors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vectors, dim=-1)
