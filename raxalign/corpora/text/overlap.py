"""When two sentences count as the same, and training pairs without test ones and repetitions."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from hashlib import blake2b

from raxalign.corpora.base import SentencePair
from raxalign.corpora.text.words import character_class, clean

ELSEWHERE = "overlapping_elsewhere"
"""The count of training pairs whose pivot side is held out for another language."""

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
    marks = character_class(lambda char: unicodedata.category(char)[0] == "M", 0x300, 0x1FFFF)
    return re.compile(rf"(?:[\W_](?<![{marks}]))+")


def without_overlap(
    pairs: Iterable[SentencePair],
    heldout: Sequence[SentencePair],
    elsewhere: frozenset[str],
    counts: Counter[str],
) -> Iterator[SentencePair]:
    """Yield, in order and each once, the pairs of which neither side is in the held-out text, nor
    the pivot side in that of other languages (`elsewhere`, normalised). Sides are compared as
    `normalize` leaves them; `counts` is added to, by the reason why a pair is left out.
    """
    sides = [(normalize(pair.source), normalize(pair.target)) for pair in heldout]
    sources, targets = ({pair[side] for pair in sides if all(pair)} for side in (0, 1))
    seen: set[bytes] = set()
    for pair in pairs:
        source, target = normalize(pair.source), normalize(pair.target)
        if not source or not target:
            yield pair  # which `clean` counts as blank
            continue
        key = fingerprint(source, target)
        if source in sources or target in targets:
            counts["overlapping"] += 1
        elif target in elsewhere:
            counts[ELSEWHERE] += 1
        elif key in seen:
            counts["repeated"] += 1
        else:
            seen.add(key)
            yield pair
