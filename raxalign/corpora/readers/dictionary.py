"""Bilingual dictionaries in MUSE's format: two words per line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

from raxalign.corpora.readers.inspection import FileRead, Report, Translations, read_through
from raxalign.corpora.readers.lines import opened, read_lines
from raxalign.corpora.text.words import divide_at_blanks, look_up_form
from raxalign.errors import DataError
from raxalign.options.sources import LocalFile, Source

_TELLING = 5
_CLEARLY = 5


@dataclass(frozen=True)
class DictionaryFile:
    """The different entries of a file, in the form in which words are looked up; `langs` are the
    other language and the pivot.
    """

    path: Path
    langs: tuple[str, str]
    swap: bool
    entries: list[tuple[str, str]]

    @staticmethod
    def lines(path: Path, *, swap: bool = False) -> list[tuple[str, str]]:
        """Return the entries (word of the other language, word of the pivot) in file order,
        repeated ones included; blank lines are skipped.

        Words are composed (NFC). Blanks and tabs divide them; other white space is part of them.
        `swap` is for a file with the pivot's word first. Raises `DataError` with the line where
        there are not two, and for a file without an entry.
        """
        entries = []
        with opened(Path(path)) as file:
            for number, line in enumerate(read_lines(file, path), 1):
                words = divide_at_blanks(normalize("NFC", line))
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

    @staticmethod
    def inspected(
        sources: Mapping[str, Mapping[str, Source]], pivot: str, *, swap: bool
    ) -> Iterator[FileRead]:
        """Read the local file called ``dictionary`` in each language's sources, where there is one;
        `swap` is as in `lines`.
        """
        for lang, of_language in sources.items():
            source = of_language.get("dictionary")
            if isinstance(source, LocalFile):
                entries = Translations(lang, pivot)

                def read(_: Report, path: Path = source.path, found: Translations = entries) -> int:
                    found.pairs.extend(DictionaryFile.lines(path, swap=swap))
                    return len(found.pairs)

                yield replace(read_through(source.path, read), translations=entries)

    @classmethod
    def read(cls, path: Path, langs: tuple[str, str], *, swap: bool) -> DictionaryFile:
        """Read a file as `lines` does."""
        forms = (
            (look_up_form(src, langs[0]), look_up_form(tgt, langs[1]))
            for src, tgt in cls.lines(path, swap=swap)
        )
        return cls(path, langs, swap, list(dict.fromkeys(forms)))

    def coverage(self, counts: tuple[Counter[str], Counter[str]]) -> dict[str, Any]:
        """Return for the notes the number of entries, that of those with both words in the texts of
        their languages, and the share of the running words of each text that are words of these.

        `counts` are those of the words of both texts in the same form. Raises `DataError` where the
        sides exchanged are clearly the right ones: five times as many entries would be found, and
        at least five.
        """
        found, exchanged = (
            [(a, b) for a, b in entries if a in counts[0] and b in counts[1]]
            for entries in (self.entries, [(b, a) for a, b in self.entries])
        )
        if len(exchanged) >= max(_TELLING, _CLEARLY * len(found)):
            first, second = self.langs[::-1] if self.swap else self.langs
            fault = (
                f"{len(found):,} of {len(self.entries):,} entries have both words in the texts as a"
                f" word of {first} and one of {second}; the other way round {len(exchanged):,} have"
            )
            remedy = "The pivot's word comes first: set `swap: true`"
            if self.swap:
                remedy = "The other language's word comes first: leave out `swap`"
            raise DataError(self.path, fault, remedy=remedy)
        shares = {}
        for side, (lang, of) in enumerate(zip(self.langs, counts, strict=True)):
            covered = sum(of[word] for word in {entry[side] for entry in found})
            shares[lang] = round(covered / max(1, of.total()), 4)
        notes = {"entries": len(self.entries), "entries_in_text": len(found)}
        return {**notes, "running_words": shares}
