"""Querybank normalisation (Bogolin et al. 2022): candidates near to many queries count less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from raxalign.errors import RaxalignError
from raxalign.lazy import torch
from raxalign.similarity import softmax_terms

QuerybankMeasure = Literal["qb_norm"]
ABOUT = (
    " `qb_norm` is the inverted softmax over a bank of other queries, the sentences of the"
    " development side, for queries whose nearest candidate by cosine is also the nearest of a"
    " query of the bank; for others it is the cosine (Bogolin et al. 2022, dynamic inverted"
    " softmax)."
)
_ROWS = 1024  # queries whose similarities are in memory together


@dataclass(frozen=True)
class Querybank:
    """What a bank of queries says of candidates: by how much the similarity to each is lowered,
    `terms_C`, and whether it is the nearest of some query of the bank, `nearest_C`.
    """

    terms_C: torch.Tensor
    nearest_C: torch.Tensor

    @classmethod
    def of(cls, bank_BH: torch.Tensor, candidates_CH: torch.Tensor) -> Querybank:
        """Return what a bank says. Vectors are scaled to length one here."""
        bank_BH, candidates_CH = _unit(bank_BH), _unit(candidates_CH)
        terms = [
            softmax_terms(block @ bank_BH.T) / 2 for block in torch.split(candidates_CH, _ROWS)
        ]
        nearest_C = torch.zeros(len(candidates_CH), dtype=torch.bool, device=bank_BH.device)
        for block in torch.split(bank_BH, _ROWS):
            nearest_C[(block @ candidates_CH.T).argmax(1)] = True
        return cls(torch.cat(terms), nearest_C)

    def weigh(self, cosines_QC: torch.Tensor) -> torch.Tensor:
        """Return the scores (Q, C), comparable within a row."""
        activated_Q = self.nearest_C[cosines_QC.argmax(1)]
        return torch.where(activated_Q[:, None], cosines_QC - self.terms_C, cosines_QC)


def querybank_nearest(
    queries_QH: torch.Tensor, candidates_CH: torch.Tensor, bank_BH: torch.Tensor
) -> torch.Tensor:
    """Return the nearest candidate of every query, int64 (Q,), the first of equals."""
    found, units = Querybank.of(bank_BH, candidates_CH), _unit(candidates_CH)
    blocks = torch.split(_unit(queries_QH), _ROWS)
    return torch.cat([found.weigh(block @ units.T).argmax(1) for block in blocks])


def no_bank(lang: str) -> RaxalignError:
    """Return the error for a language without a bank of queries."""
    return RaxalignError(
        "sentence_retrieval: `measure: qb_norm` takes the development side as its bank of queries,"
        f" and {lang} has none: give `data.dev`, or `dev` in the corpus's `split`"
    )


def _unit(vectors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vectors, dim=-1)
