"""Tagged sentences from files with one word per line: columns as in the CoNLL shared tasks, and
CoNLL-U.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from raxalign.corpora.readers.inspection import Refusals, Report, refuse
from raxalign.errors import DataError
from raxalign.running import Sentence
from raxalign.tasks.tagging.lines import numbered_lines
from raxalign.tasks.tagging.scheme import ENTITIES, UNIVERSAL, TagScheme
from raxalign.tasks.tagging.sentences import Sentences, Tagged

_NUMBER = re.compile(r"(\d+)|\d+-\d+|\d+\.\d+")
"""A word of CoNLL-U (the group), a range of words, or an empty node."""
_UNDIVIDED = "SpaceAfter=No"
_LONGEST = 1_000  # words: beyond that what is read is not a sentence
_LONGEST_ALONE = 200  # words of the only sentence of a file


class Word(NamedTuple):
    """A word with its line and tag; an empty form ends a sentence. `after` is the text
    between it and the next word, None where the file does not have it.
    """

    line: int
    form: str
    tag: str
    after: str | None = None


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
    """Reads a CoNLL-U file; empty nodes (``1.1``) are skipped.

    The running text has a blank after each word without ``SpaceAfter=No``. A range of words
    (``1-2``) is not a word; its words are joined where they make up its form (``don't``), and are
    otherwise divided by blanks (``im``, which is ``in dem``).

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
    divided = groupby(words, key=lambda word: bool(word.form))
    rows, found = [], [list(group) for has_form, group in divided if has_form]
    for sentence in found:
        if len(sentence) > (_LONGEST if len(found) > 1 else _LONGEST_ALONE):
            refused(_undivided(path, sentence))
            continue
        forms = tuple(word.form for word in sentence)
        tags = scheme.final([word.tag for word in sentence])
        rows.append(Tagged(forms, tags, sentence[0].line, _running(sentence)))
    if not rows and not refused.count:
        remedy = "A sentence has one line per word, and a blank line ends it"
        raise DataError(path, "has no sentences", remedy=remedy)
    return Sentences(str(path), rows)


def _undivided(path: Path, words: Sequence[Word]) -> DataError:
    first, last = words[0].line, words[-1].line
    told = f"a sentence of {len(words):,} words: there is no blank line until line {last:,}"
    return DataError(path, told, line=first, remedy="Write a blank line after each sentence")


def _running(words: Sequence[Word]) -> Sentence | None:
    """The words in their running text, where the file has it."""
    starts, text = list[int](), ""
    for word in words:
        if word.after is None:
            return None
        starts.append(len(text))
        text += word.form + word.after
    return Sentence([word.form for word in words], text.rstrip(), starts)


def _column_words(
    path: Path, encoding: str, scheme: TagScheme, refused: Refusals
) -> Iterator[Word]:
    width, columns = 0, scheme.columns
    needed = max(2, *(at + 1 if at >= 0 else -at for at in (columns.word, columns.tag)))
    for number, line in numbered_lines(path, encoding):
        # Only blanks and tabs divide columns: a no-break space may be part of a word.
        cells = line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]
        if not line.strip() or cells[0] == "-DOCSTART-":
            yield Word(number, "", "")
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
            yield Word(number, word, tag)


def _counted(columns: int) -> str:
    return f"{columns} column{'s'[: columns != 1]}"


def _place(column: int) -> str:
    """The name of a column in messages, counted from 1."""
    return "the last column" if column == -1 else f"column {column + 1 if column >= 0 else column}"


def _conllu_words(
    path: Path, encoding: str, scheme: TagScheme, refused: Refusals
) -> Iterator[Word]:
    held, whole = list[Word](), list[str]()  # a range, and its words so far
    for number, line in [*numbered_lines(path, encoding), (0, "")]:
        if not line.strip():
            yield from (*held, Word(number, "", ""))
            held, whole = [], []
            continue
        if line.startswith("#"):
            continue
        cells = line.split("\t")
        if fault := _fault_of_conllu(cells, scheme):
            told, remedy = fault
            refused(DataError(path, told, line=number, remedy=remedy))
        elif "-" in cells[0]:
            whole = cells
        elif cells[0].isdecimal():
            tag = cells[scheme.columns.tag].strip()
            held.append(Word(number, cells[1].strip(), tag, _after(cells)))
            if not whole or whole[0].endswith(f"-{cells[0]}"):
                yield from _divided(held, whole) if whole else held
                held, whole = [], []


def _after(cells: Sequence[str]) -> str:
    """What follows a word of CoNLL-U, or a range of words, in the running text."""
    return "" if _UNDIVIDED in cells[9].strip().split("|") else " "


def _divided(words: Sequence[Word], whole: Sequence[str]) -> Iterator[Word]:
    """The words of a range, without blanks between them where they make up its form."""
    inner = "" if "".join(word.form for word in words) == whole[1].strip() else " "
    for word in words[:-1]:
        yield word._replace(after=inner)
    yield words[-1]._replace(after=_after(whole))


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
