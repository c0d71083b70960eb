"""Tagged sentences from files with one word per line: columns as in the CoNLL shared tasks, and
CoNLL-U.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from raxalign.corpora.readers.inspection import Refusals, Report, refuse
from raxalign.errors import DataError
from raxalign.tasks.tagging.lines import numbered_lines
from raxalign.tasks.tagging.scheme import ENTITIES, UNIVERSAL, TagScheme
from raxalign.tasks.tagging.sentences import Sentences, Tagged

_NUMBER = re.compile(r"(\d+)|\d+-\d+|\d+\.\d+")
"""A word of CoNLL-U (the group), a range of words, or an empty node."""
Word = tuple[int, str, str]
"""(line, word, tag); a word of no letters ends a sentence."""


def read_conll(
    path: Path, encoding: str = "utf-8", report: Report = refuse, scheme: TagScheme = ENTITIES
) -> Sentences:
    """Reads a file with one word per line, in columns that tabs or blanks divide.

    Blank lines divide sentences, ``-DOCSTART-`` lines are skipped, and entities come back in IOB2.

    Args:
        path: the file.
        encoding: its encoding, in which a byte of ASCII is itself.
        report: gets the faults of lines, with file and line; by default it raises them.
        scheme: the columns with word and tag, and the tags that there are.

    Returns:
        the sentences without faults.

    Raises:
        DataError: the file is missing, or has no sentences.
    """
    refused = Refusals(report)
    words = _column_words(path, encoding, scheme, refused)
    return _sentences(path, words, scheme, refused)


def read_conllu(
    path: Path, encoding: str = "utf-8", report: Report = refuse, scheme: TagScheme = UNIVERSAL
) -> Sentences:
    """Reads a CoNLL-U file; ranges of words (``1-2``) and empty nodes (``1.1``) are skipped.

    Args:
        path: the file.
        encoding: its encoding, in which a byte of ASCII is itself.
        report: gets the faults of lines, with file and line; by default it raises them.
        scheme: the column with the tag, and the tags that there are.

    Returns:
        the sentences without faults.

    Raises:
        DataError: the file is missing, or has no sentences.
    """
    refused = Refusals(report)
    words = _conllu_words(path, encoding, scheme, refused)
    return _sentences(path, words, scheme, refused)


def _sentences(
    path: Path, words: Iterator[Word], scheme: TagScheme, refused: Refusals
) -> Sentences:
    rows, sentence = [], list[Word]()
    for word in [*words, (0, "", "")]:
        if word[1]:
            sentence.append(word)
        elif sentence:
            texts = tuple(text for _, text, _ in sentence)
            tags = scheme.final([tag for _, _, tag in sentence])
            rows.append(Tagged(texts, tags, sentence[0][0]))
            sentence = []
    if not rows and not refused.count:
        remedy = "A sentence has one line per word, and a blank line ends it"
        raise DataError(path, "has no sentences", remedy=remedy)
    return Sentences(str(path), rows)


def _column_words(
    path: Path, encoding: str, scheme: TagScheme, refused: Refusals
) -> Iterator[Word]:
    width, columns = 0, scheme.columns
    needed = max(2, *(at + 1 if at >= 0 else -at for at in (columns.word, columns.tag)))
    for number, line in numbered_lines(path, encoding):
        # Only blanks and tabs divide columns: a no-break space may be part of a word.
        cells = line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]
        if not line.strip() or cells[0] == "-DOCSTART-":
            yield number, "", ""
            continue
        width = width or len(cells)
        if width < needed:
            told = f"{_counted(width)}, expected a word and its tag at least"
            raise DataError(path, told, line=number)
        if len(cells) != width:
            told = f"{_counted(len(cells))}, expected {width} as in the lines before"
            refused(DataError(path, told, line=number))
            continue
        word, tag = cells[columns.word].strip(), cells[columns.tag].strip()
        if not word:
            refused(DataError(path, "the word is empty", line=number))
        elif not scheme.knows(tag):
            remedy = f"{scheme.known()}, in {_place(columns.tag)}"
            refused(DataError(path, f"unknown tag {tag!r}", line=number, remedy=remedy))
        else:
            yield number, word, tag


def _counted(columns: int) -> str:
    return f"{columns} column{'s'[: columns != 1]}"


def _place(column: int) -> str:
    """The name of a column in messages, counted from 1."""
    return "the last column" if column == -1 else f"column {column + 1 if column >= 0 else column}"


def _conllu_words(
    path: Path, encoding: str, scheme: TagScheme, refused: Refusals
) -> Iterator[Word]:
    for number, line in numbered_lines(path, encoding):
        if not line.strip():
            yield number, "", ""
            continue
        if line.startswith("#"):
            continue
        cells = line.split("\t")
        if fault := _fault_of_conllu(cells, scheme):
            told, remedy = fault
            refused(DataError(path, told, line=number, remedy=remedy))
        elif cells[0].isdecimal():
            yield number, cells[1].strip(), cells[scheme.columns.tag].strip()


def _fault_of_conllu(cells: Sequence[str], scheme: TagScheme) -> tuple[str, str] | None:
    """What is wrong with a line, and the remedy; None for a good one."""
    if len(cells) != 10:
        return f"{_counted(len(cells))}, expected the 10 of CoNLL-U", ""
    kind = _NUMBER.fullmatch(cells[0])
    if kind is None:
        return f"unknown number of a word {cells[0]!r}", "It is like 1, 1-2 or 1.1"
    if kind[1] is None:
        return None
    if not cells[1].strip():
        return "the word is empty", ""
    tag = cells[scheme.columns.tag].strip()
    return None if scheme.knows(tag) else unknown(tag, scheme)


def unknown(tag: str, scheme: TagScheme) -> tuple[str, str]:
    """Returns the message on an unknown tag, and the remedy."""
    if scheme.labels == UNIVERSAL.labels:
        return (
            f"unknown part of speech {tag!r}",
            f"The universal ones are {', '.join(scheme.labels)}",
        )
    return f"unknown tag {tag!r}", scheme.known()
