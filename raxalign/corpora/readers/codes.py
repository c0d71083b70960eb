"""What corpora and data sets call languages, where it is not what a grid calls them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from raxalign.languages import spelled

ListName = Literal["flores", "ntrex"]
Codes = Mapping[str, str] | ListName
"""Language -> the data's own code, or the name of a list of such codes."""


@cache
def lists() -> Mapping[str, Mapping[str, str]]:
    """Return what ``codes.txt`` has: name of a list or of a data set -> own code -> tag."""
    found: dict[str, dict[str, str]] = {}
    text = Path(__file__).with_name("codes.txt").read_text(encoding="utf-8")
    for block in re.sub("(?m)^#.*\n", "", text).strip().split("\n\n"):
        names, *entries = (line.split() for line in block.splitlines())
        codes: dict[str, str] = {}
        for own, _, tag in (entry.partition("=") for line in entries for entry in line):
            codes |= found.get(own, {own: tag or own})
        found |= dict.fromkeys(names, codes)
    return found


def own_code(lang: str, codes: Codes) -> str:
    """Return what data calls a language: by its spelling in the grid, or else by the language; the
    grid's code where `codes` (a mapping, or the name of a list) does not have it.

    >>> own_code("de", {"de": "deu"}), own_code("zh-Hant", "ntrex"), own_code("en", "flores")
    ('deu', 'zho-TW', 'eng_Latn')
    """
    if isinstance(codes, str):
        return _of_list(lang, lists()[codes])
    known = spelled(lang, codes)
    return lang if known is None else codes[known]


def hub_code(dataset: str, lang: str, codes: Codes) -> str:
    """Return what a data set of the hub calls a language: by `codes`, or else by its list.

    >>> hub_code("facebook/xnli", "eng_Latn", {}), hub_code("unimelb-nlp/wikiann", "gsw", {})
    ('en', 'als')
    """
    given = own_code(lang, codes)
    return given if given != lang else _of_list(lang, lists().get(dataset, {}))


def lacking(dataset: str, languages: Iterable[str], codes: Codes) -> list[str]:
    """Return the languages that a data set of the hub lacks, as far as its list is known.

    >>> lacking("google/xquad", ["de", "sw", "fr"], {"fr": "french"}), lacking("x/y", ["de"], {})
    (['sw'], [])
    """
    known = lists().get(dataset)
    return [
        lang
        for lang in languages
        if known is not None
        and own_code(lang, codes) == lang
        and lang not in known
        and spelled(lang, known.values()) is None
    ]


def names_in(dataset: str) -> Mapping[str, str]:
    """Return all languages of a data set of the hub whose list is known: tag -> its own code."""
    return {tag: own for own, tag in lists()[dataset].items()}


def _of_list(lang: str, listed: Mapping[str, str]) -> str:
    """Return the own code of a language in a list; itself where it is one, or is not there."""
    if lang in listed:
        return lang
    meant = {tag: own for own, tag in listed.items()}
    known = spelled(lang, meant)
    return lang if known is None else meant[known]
