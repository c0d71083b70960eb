"""How long sentence pairs are, in units other than words: tokens of BERT's basic tokeniser, and
pieces of an encoder's tokenizer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

FEW_PIECES, MANY_PIECES = PIECE_COUNTS = ("few_pieces", "many_pieces")
"""The counts of training pairs that a `PieceFilter` leaves out."""


@dataclass(frozen=True)
class PieceFilter:
    """Limits on the pieces of a training pair: `min_pieces` or more on each side, and `max_pieces`
    or less on both together (0: no limit).

    `count` gives the number of pieces of a sentence (its words, its language), special ones apart.
    """

    count: Callable[[Sequence[str], str], int]
    min_pieces: int = 1
    max_pieces: int = 0

    def refuses(self, src: Sequence[str], tgt: Sequence[str], langs: tuple[str, str]) -> str | None:
        """Return the count that a pair belongs to which is left out; None for one that is kept.

        Args:
            src: The words of the other language.
            tgt: The words of the pivot.
            langs: The other language and the pivot.
        """
        sizes = self.count(src, langs[0]), self.count(tgt, langs[1])
        if min(sizes) < self.min_pieces:
            return FEW_PIECES
        return MANY_PIECES if self.max_pieces and sum(sizes) > self.max_pieces else None


def basic_tokens(text: str) -> int:
    """Return the number of tokens that BERT's basic tokeniser makes of a text: it divides at white
    space, and takes each punctuation mark and each Chinese character apart.

    >>> basic_tokens("Don't go -- 東京!")
    9
    """
    normalizer, divider = _basic_tokenizer()
    return len(divider.pre_tokenize_str(normalizer.normalize_str(text)))


@cache
def _basic_tokenizer() -> tuple[Any, Any]:
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    return BertNormalizer(lowercase=False, strip_accents=False), BertPreTokenizer()
