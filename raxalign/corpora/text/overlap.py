"""When two sentences count as the same: for keeping test sentences, and repeated pairs, out of
training.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from hashlib import blake2b

from raxalign.corpora.text.words import clean

_ASCII = {code: None for code in range(128) if not chr(code).isalnum()}


def normalize(text: str) -> str:
    """Return a sentence without the differences that do not count: NFKC, case folded, with only its
    letters, marks and numbers left.

    A sentence of nothing else keeps all its characters but white space, so that ``?!`` and ``...``
    stay different.

    >>> normalize("Ｗhat's  up?"), normalize("?!")
    ('whatsup', '?!')
    """
    text = clean(text)
    if text.isascii():
        return text.lower().translate(_ASCII) or "".join(text.split())
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _other_characters().sub("", folded) or "".join(folded.split())


def fingerprint(*sides: str) -> bytes:
    """Twelve bytes that represent normalised text in sets of millions."""
    return blake2b("\n".join(sides).encode(), digest_size=12).digest()


@cache
def _other_characters() -> re.Pattern[str]:
    r"""What is neither letter, mark nor number (``\W`` takes the vowel signs of Devanagari for
    punctuation).
    """
    marks = "".join(
        chr(code)
        for code in range(0x300, min(0x1FFFF, sys.maxunicode))
        if unicodedata.category(chr(code))[0] == "M"
    )
    return re.compile(rf"(?:[\W_](?<![{marks}]))+")
