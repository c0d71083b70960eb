"""How answers are compared: MLQA's rules for each language (Lewis et al. 2020, section 4.1), and F1 and exact match over several gold answers."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

_ARTICLES = {
    "en": r"\b(?:a|an|the)\b",
    "es": r"\b(?:un|una|unos|unas|el|la|los|las)\b",
    "de": r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "vi": r"\b(?:của|là|cái|chiếc|những)\b",
    "ar": "ال",  # the official rule takes these two letters out wherever they stand
}
"""What is replaced by a space. Hindi has none, and other languages than MLQA's keep theirs."""

_SCRIPTS = {
    "zh": "\u4e00-\u9fa5",
    "ja": "\u3040-\u30ff\u4e00-\u9fa5",
    "th": "\u0e00-\u0e7f",
    "lo": "\u0e80-\u0eff",
    "my": "\u1000-\u109f",
    "km": "\u1780-\u17ff",
}
"""Scripts written without spaces: each character is a token of its own, the rest is divided at white space. MLQA has Chinese alone of them."""


def normalized(text: str, lang: str) -> list[str]:
    """The tokens of an answer: in lower case, without punctuation (Unicode's, and ASCII's symbols) and the language's articles.

    >>> normalized("Der Rhein-Kanal!", "de"), normalized("在2000年的ABC。", "zh")
    (['rheinkanal'], ['在', '2000', '年', '的', 'abc'])
    """
    text = "".join(character for character in text.lower() if not _is_punctuation(character))
    if lang in _ARTICLES:
        text = re.sub(_ARTICLES[lang], " ", text)
    script = _SCRIPTS.get(lang)
    return re.findall(rf"[{script}]|[^\s{script}]+", text) if script else text.split()


def _is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def f1(prediction: str, gold: str, lang: str) -> float:
    """The harmonic mean of precision and recall over tokens, as bags; 0 where none is shared.

    >>> f1("the red house", "a house", "en")
    0.6666666666666666
    """
    found, wanted = normalized(prediction, lang), normalized(gold, lang)
    shared = sum((Counter(found) & Counter(wanted)).values())
    return 2 * shared / (len(found) + len(wanted)) if shared else 0.0


def exact_match(prediction: str, gold: str, lang: str) -> float:
    """1 where both have the same tokens in the same order, else 0."""
    return float(normalized(prediction, lang) == normalized(gold, lang))


def best(metric: Callable[[str, str, str], float], prediction: str, golds: Sequence[str], lang: str) -> float:
    """The largest value over the gold answers; there is at least one."""
    return max(metric(prediction, gold, lang) for gold in golds)
