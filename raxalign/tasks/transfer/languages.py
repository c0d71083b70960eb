"""The names that a data set has for languages: in paths, in configurations of the hub and in
columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from raxalign.config.sources import expand_path
from raxalign.corpora.readers.codes import own_code

LanguageNames = Mapping[str, str]
"""Language code -> the data set's own name of the language; codes that are missing are their own
name.
"""


def path_of(template: str, lang: str, pivot: str, names: LanguageNames) -> Path:
    """The file of one language: {lang} and {pivot} become the data set's names.

    >>> str(path_of("{lang}/train.txt", "sw", "en", {"sw": "swa"}))
    'swa/train.txt'
    """
    return expand_path(template, lang=own_code(lang, names), pivot=own_code(pivot, names))
