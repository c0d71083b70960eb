"""Bilingual dictionaries in MUSE's format: two words per line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from raxalign.corpora.readers.lines import opened, read_lines
from raxalign.corpora.text.words import divide_at_blanks
from raxalign.errors import DataError

_TELLING = 5
_CLEARLY = 5


def read_dictionary(path: Path, *, swap: bool = False) -> list[tuple[str, str]]:
    """Return the entries (word of the other language, word of the pivot) in file order, repeated
    ones included; blank lines are skipped.

    Blanks and tabs divide words; other white space is part of them. `swap` is for a file with the
    pivot's word first. Raises `DataError` with the line where there are not two, and for a file
    without an entry.
    """
    entries = []
    with opened(Path(path)) as file:
        for number, line in enumerate(read_lines(file, path), 1):
            words = divide_at_blanks(line)
            if not words:
                continue
            if len(words) != 2:
                told = f"{len(words)} word{'s'[: len(words) != 1]}"
                rule = "an entry is two, divided by a space or a tab"
                raise DataError(path, f"{told}; {rule}", line=number)
            entries.append((words[1], words[0]) if swap else (words[0], words[1]))
    if not entries:
        raise DataError(path, "the dictionary has no entries")
    return entries


def dictionary_coverage(
    entries: Sequence[tuple[str, str]], counts: tuple[Counter[str], Counter[str]]
) -> tuple[int, tuple[float, float]]:
    """Return how many different entries have both words in the texts of their languages, and the
    share of the running words of each text that are words of those entries.

    `counts` are those of the lower-cased words of the other language's text and of the pivot's.
    """
    different = {(src.lower(), tgt.lower()) for src, tgt in entries}
    there = [entry for entry in different if entry[0] in counts[0] and entry[1] in counts[1]]
    src, tgt = (
        sum(found[word] for word in {entry[side] for entry in there}) / max(1, found.total())
        for side, found in enumerate(counts)
    )
    return len(there), (src, tgt)


def found_entries(
    path: Path,
    entries: Sequence[tuple[str, str]],
    words: tuple[AbstractSet[str], AbstractSet[str]],
    *,
    langs: tuple[str, str],
    swap: bool,
) -> int:
    """Return how many different entries have both words in their languages' texts.

    `words` are the lower-cased words of the other language's text and of the pivot's, `langs` the
    codes of both. Raises `DataError` where the sides exchanged are clearly the right ones: five
    times as many entries would be found, and at least five.
    """
    different = {(src.lower(), tgt.lower()) for src, tgt in entries}
    found, exchanged = (
        sum(a in words[0] and b in words[1] for a, b in side)
        for side in (different, {(b, a) for a, b in different})
    )
    if exchanged >= max(_TELLING, _CLEARLY * found):
        lang, pivot = langs
        first, second = (pivot, lang) if swap else (lang, pivot)
        fault = (
            f"{found:,} of {len(different):,} entries have both words in the texts as a word of"
            f" {first} and one of {second}; the other way round {exchanged:,} have"
        )
        remedy = "The pivot's word comes first: set `swap: true`"
        remedy = "The other language's word comes first: leave out `swap`" if swap else remedy
        raise DataError(path, fault, remedy=remedy)
    return found
