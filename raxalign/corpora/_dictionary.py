"""Bilingual dictionaries in MUSE's format: two words a line."""

from __future__ import annotations

from pathlib import Path

from raxalign.corpora._lines import read_lines
from raxalign.errors import DataError


def read_dictionary(path: Path) -> list[tuple[str, str]]:
    """The entries (word of the other language, word of the pivot) in file order, repeated ones included; blank lines are skipped.

    Words are divided by white space. Raises `DataError` with the line where there are not two, and for a file without an entry.
    """
    entries = []
    try:
        with Path(path).open("rb") as file:
            for number, line in enumerate(read_lines(file, path), 1):
                words = line.split()
                if not words:
                    continue
                if len(words) != 2:
                    raise DataError(path, f"{len(words)} words; an entry is two, divided by a space or a tab", line=number)
                entries.append((words[0], words[1]))
    except OSError as error:
        raise DataError(path, f"the dictionary cannot be read ({error.strerror})") from error
    if not entries:
        raise DataError(path, "the dictionary has no entries")
    return entries
