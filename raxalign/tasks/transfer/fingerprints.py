"""Hashes by which a training row is known again among those that are evaluated, and a sentence
among the predictions of other languages.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence


def normal(text: str) -> str:
    """The text without what may differ between copies of one row: case, white space, and Unicode's
    forms.
    """
    return "".join(unicodedata.normalize("NFKC", text).lower().split())


def fingerprint(*parts: str) -> int:
    """A signed 64-bit hash of strings."""
    return int.from_bytes(
        hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest(), "big", signed=True
    )


def unit(words: Sequence[str]) -> int:
    """Hashes the words of the pivot's sentence to 63 bits, so that examples with one such sentence
    can be resampled together.
    """
    return (fingerprint(*words) >> 1) & 0x7FFF_FFFF_FFFF_FFFF
