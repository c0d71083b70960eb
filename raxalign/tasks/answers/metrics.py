"""How answers are compared: by MLQA's rules for each language, or by those of SQuAD v1.1."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from raxalign.languages import language
from raxalign.measured import share
from raxalign.sample import of_column

Rules = Literal["mlqa", "squad"]

_ARTICLES = {
    "en": r"\b(?:a|an|the)\b",
    "es": r"\b(?:un|una|unos|unas|el|la|los|las)\b",
    "de": r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "vi": r"\b(?:của|là|cái|chiếc|những)\b",
    "ar": "ال",  # the official rule takes these two letters out wherever they stand
}
"""What is replaced by a space. Hindi has none, and other languages than MLQA's keep theirs."""

_SCRIPTS = {
    "Hans": "\u4e00-\u9fa5",
    "Hant": "\u4e00-\u9fa5",
    "Jpan": "\u3040-\u30ff\u4e00-\u9fa5",
    "Thai": "\u0e00-\u0e7f",
    "Laoo": "\u0e80-\u0eff",
    "Mymr": "\u1000-\u109f",
    "Khmr": "\u1780-\u17ff",
}
"""Scripts written without spaces: each character is a token of its own, the rest is divided at
white space. MLQA has Chinese alone of them.
"""


def normalized(text: str, lang: str, rules: Rules = "mlqa") -> list[str]:
    """Divides an answer into tokens, in lower case, without punctuation and articles.

    By `mlqa` without Unicode's punctuation and ASCII's symbols and without the language's articles,
    by characters in some scripts; by `squad` without ASCII's punctuation and symbols alone and
    without English articles, at white space, whatever the language is.

    >>> normalized("Der Rhein-Kanal!", "de"), normalized("在2000年的ABC。", "zh")
    (['rheinkanal'], ['在', '2000', '年', '的', 'abc'])
    >>> normalized("Der Rhein-Kanal!", "de", "squad"), normalized("在2000年的ABC。", "zh", "squad")
    (['der', 'rheinkanal'], ['在2000年的abc。'])
    """
    kept = [character for character in text.lower() if character not in string.punctuation]
    if rules == "squad":
        return re.sub(_ARTICLES["en"], " ", "".join(kept)).split()
    text = "".join(c for c in kept if not unicodedata.category(c).startswith("P"))
    known = language(lang)
    if known.base in _ARTICLES:
        text = re.sub(_ARTICLES[known.base], " ", text)
    script = _SCRIPTS.get(known.script)
    return re.findall(rf"[{script}]|[^\s{script}]+", text) if script else text.split()


def f1(prediction: str, gold: str, lang: str, rules: Rules = "mlqa") -> float:
    """The harmonic mean of precision and recall over tokens, as bags; 0 where none is shared.

    >>> f1("the red house", "a house", "en")
    0.6666666666666666
    """
    found, wanted = normalized(prediction, lang, rules), normalized(gold, lang, rules)
    shared = sum((Counter(found) & Counter(wanted)).values())
    return 2 * shared / (len(found) + len(wanted)) if shared else 0.0


def exact_match(prediction: str, gold: str, lang: str, rules: Rules = "mlqa") -> float:
    """1 where both have the same tokens in the same order, else 0."""
    return float(normalized(prediction, lang, rules) == normalized(gold, lang, rules))


def best(
    metric: Callable[[str, str, str, Rules], float],
    prediction: str,
    golds: Sequence[str],
    lang: str,
    rules: Rules = "mlqa",
) -> float:
    """The largest value over the gold answers; there is at least one."""
    return max(metric(prediction, gold, lang, rules) for gold in golds)


METRICS = {"f1": f1, "exact_match": exact_match}
"""The scores of an answer by their names."""

MEASURED = (
    share(
        "f1",
        "Harmonic mean of precision and recall over the tokens of an answer.",
        sample=of_column,
    ),
    share(
        "exact_match",
        "Share of the questions whose answer has the tokens of a gold answer.",
        sample=of_column,
    ),
)
"""What tasks on answers report."""
