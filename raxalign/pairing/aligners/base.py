"""The contract of a word aligner: sentences of words in, directed links out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from raxalign.config.params import BaseParams
from raxalign.config.sources import Source


@dataclass(frozen=True)
class Links:
    """Links of n sentence pairs in compact form: those of pair i are ``src[offsets[i]:offsets[i + 1]]`` with the same slice of ``tgt``.

    `offsets` is int64 (n + 1,), `src` and `tgt` are int32 word positions, 0-based.
    """

    offsets: npt.NDArray[np.int64]
    src: npt.NDArray[np.int32]
    tgt: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def pair(self, i: int) -> set[tuple[int, int]]:
        """The links of sentence pair i."""
        part = slice(self.offsets[i], self.offsets[i + 1])
        return set(zip(self.src[part].tolist(), self.tgt[part].tolist(), strict=True))


@dataclass(frozen=True)
class AlignerInputs:
    """What a word aligner may use besides the words: ids of the sentence pairs in the corpus, gold links where the corpus has them,
    paths for its `sources`, a scratch folder, and how many threads.
    """

    ids: Sequence[int]
    gold: Links | None
    locations: Mapping[str, str]
    work: Path
    threads: int


class WordAligner(ABC):
    """Makes links in both directions. `forward` links were found by explaining target words by source words, `reverse` the other way;
    both are (source position, target position).
    """

    VERSION: ClassVar[int]

    class Params(BaseParams):
        """The options of the word aligner."""

    def __init__(self, params: Params) -> None:
        self.params = params

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Outside data, by name (links from a file)."""
        return {}

    @abstractmethod
    def align(self, src: Sequence[Sequence[str]], tgt: Sequence[Sequence[str]], inputs: AlignerInputs) -> tuple[Links, Links]:
        """(forward, reverse) links of the sentence pairs (no side is empty), one entry a pair in input order."""
