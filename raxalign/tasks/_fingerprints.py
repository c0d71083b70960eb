"""Hashes by which a training row is known again among those that are evaluated."""

from __future__ import annotations

import hashlib
import unicodedata


def normal(text: str) -> str:
    """The text without what may differ between copies of one row: case, white space, and Unicode's forms."""
    return "".join(unicodedata.normalize("NFKC", text).lower().split())


def fingerprint(*parts: str) -> int:
    """A signed 64-bit hash of strings."""
    return int.from_bytes(hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest(), "big", signed=True)
