"""Tagged sentences from files in three forms, and from data sets of the Hugging Face Hub.

Columns, which tabs or blanks divide: blank lines divide sentences, and ``-DOCSTART-`` lines are
skipped. Where the first column numbers the words of each sentence, as in GermEval 2014 and
Universal NER, the second and the third are read, and lines that begin with ``#`` are skipped.

CoNLL-U has the running text too: a blank after each word without ``SpaceAfter=No``. Empty nodes
(``1.1``) are skipped. A range of words (``1-2``) is not a word; its words are joined where they
make up its form (``don't``), and are otherwise divided by blanks (``im``, which is ``in dem``).

MultiATIS++ (Xu et al. 2020) is tab-separated with a header (``id``, ``utterance``, ``slot_labels``
and ``intent``): one request per line, words and labels divided by blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from raxalign.corpora.readers.inspection import Refusals, Report, refuse
from raxalign.corpora.readers.lines import read_lines
from raxalign.errors import DataError
from raxalign.running import Sentence
from raxalign.tasks.tagging.scheme import ENTITIES, UNIVERSAL, TagScheme, listed
from raxalign.tasks.tagging.sentences import Sentences, Tagged
from raxalign.tasks.transfer.params import HubSet

_NUMBER = re.compile(r"(\d+)|\d+-\d+|\d+\.\d+")
"""A word of CoNLL-U (the group), a range of words, or an empty node."""
_BLANKS = " \t"
"""What may stand next to a word: white space of other kinds is part of it, or is the word."""
_UNDIVIDED = "SpaceAfter=No"
_RANGE = "_"
"""The tag that a range of words (``2-3 zum``) has among its words (``2 zu``, ``3 dem``) where they
are in one list.
"""
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


def read_tagged(
    path: Path, encoding: str = "utf-8", report: Report = refuse, scheme: TagScheme = ENTITIES
) -> Sentences:
    """Read the sentences of a file; entities come back in IOB2.

    Args:
        path: The file.
        encoding: Its encoding, in which a byte of ASCII is itself.
        report: Gets the faults of lines, with file and line; by default it raises them.
        scheme: The columns with word and tag, and the tags that there are.

    Returns:
        The sentences without faults, and how many were left out.

    Raises:
        DataError: The file is missing, or has no sentences.
    """
    refused, left_out = Refusals(report), 0
    if scheme.columns.layout == "conllu":
        rows = _divided_rows(path, _conllu_words(path, encoding, scheme, refused), scheme, refused)
    elif is_atis(path, encoding, scheme):
        found = list(_requests(path, encoding, scheme, refused))
        rows = [row for row in found if row is not None]
        left_out = len(found) - len(rows)
        if not rows and not refused.count:
            raise DataError(path, "has no requests after its header")
    else:
        rows = _divided_rows(path, _column_words(path, encoding, scheme, refused), scheme, refused)
    if not rows and not refused.count:
        remedy = "A sentence has one line per word, and a blank line ends it"
        raise DataError(path, "has no sentences", remedy=remedy)
    return Sentences(str(path), rows, left_out)


def numbered_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Yields (1-based line, its text). Raises `DataError` for a file that is missing, and with the
    line for bytes that are not of the encoding.
    """
    if not path.is_file():
        raise DataError(path, "there is no such file")
    if encoding != "utf-8":
        _refuse_utf8(path, encoding)
    remedy = (
        "Set `encoding` to that of the file, for example latin-1"
        if encoding == "utf-8"
        else "Set `encoding` to that of the file"
    )
    with path.open("rb") as file:
        yield from enumerate(read_lines(file, path, encoding=encoding, remedy=remedy), 1)


def _refuse_utf8(path: Path, encoding: str) -> None:
    """Refuses text that is UTF-8, which nearly every encoding of single bytes would silently turn
    into other letters.
    """
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return
    if not text.isascii():
        line = next(i for i, part in enumerate(content.split(b"\n"), 1) if not part.isascii())
        remedy = (
            "Leave `encoding` out; two tasks, each with its `languages`, may read files of two"
            " encodings"
        )
        raise DataError(path, f"is UTF-8, not {encoding}", line=line, remedy=remedy)


def _divided_rows(
    path: Path, words: Iterator[Word], scheme: TagScheme, refused: Refusals
) -> list[Tagged]:
    divided = groupby(words, key=lambda word: bool(word.form))
    rows, found = [], [list(group) for has_form, group in divided if has_form]
    for sentence in found:
        if len(sentence) > (_LONGEST if len(found) > 1 else _LONGEST_ALONE):
            first, last = sentence[0].line, sentence[-1].line
            told = (
                f"a sentence of {len(sentence):,} words: there is no blank line until line {last:,}"
            )
            remedy = "Write a blank line after each sentence"
            refused(DataError(path, told, line=first, remedy=remedy))
            continue
        forms = tuple(word.form for word in sentence)
        tags = scheme.final([word.tag for word in sentence])
        rows.append(Tagged(forms, tags, sentence[0].line, _running(sentence)))
    return rows


def _running(words: Sequence[Word]) -> Sentence | None:
    """The words in their running text, where the file has it."""
    starts, text = list[int](), ""
    for word in words:
        if word.after is None:
            return None
        starts.append(len(text))
        text += word.form + word.after
    return Sentence([word.form for word in words], text.rstrip(_BLANKS), starts)


def _column_words(
    path: Path, encoding: str, scheme: TagScheme, refused: Refusals
) -> Iterator[Word]:
    width, columns, lines = 0, scheme.columns, numbered_lines(path, encoding)
    usual = (columns.word, columns.tag) == (0, -1) and not columns.given
    if (usual or columns.word != 0) and _has_numbers(path, encoding):
        lines = _numbered_words(path, lines, refused)
        columns = replace(columns, word=1, tag=2 if scheme.entities else -1) if usual else columns
    needed = max(2, *(at + 1 if at >= 0 else -at for at in (columns.word, columns.tag)))
    for number, line in lines:
        cells = _cells(line)
        if _divides(line, cells):
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
        word, tag = cells[columns.word].strip(_BLANKS), cells[columns.tag].strip()
        if not word:
            refused(DataError(path, "the word is empty", line=number))
        elif not scheme.knows(tag):
            remedy = f"{scheme.known()}, in {_place(columns.tag)} (`columns` may name another)"
            refused(DataError(path, f"unknown tag {tag!r}", line=number, remedy=remedy))
        else:
            yield Word(number, word, tag)


def _cells(line: str) -> list[str]:
    """The columns of a line. Only blanks and tabs divide them: a no-break space may be part of a
    word.
    """
    return line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]


def _divides(line: str, cells: Sequence[str]) -> bool:
    """Whether a line stands between two sentences."""
    return not line.strip() or cells[0] == "-DOCSTART-"


def _has_numbers(path: Path, encoding: str) -> bool:
    """Whether the first of three columns or more numbers the words of each sentence: the first two
    words of one sentence decide. Raises `DataError` where no sentence has two, and each has the
    number 0 or 1, or is it.
    """
    last, sentences = -1, 0
    for _, line in numbered_lines(path, encoding):
        cells = _cells(line)
        if _divides(line, cells):
            last = -1
        elif not line.startswith("#"):
            kind = _NUMBER.fullmatch(cells[0])
            if kind is None or len(cells) < 3 or not _follows(kind, last):
                return False
            if kind[1] and last >= 0:
                return True
            sentences += bool(kind[1])
            last = int(kind[1] or last)
    if not sentences:
        return False
    told = "each sentence is one word, and its first column 0 or 1: the word, or its number"
    remedy = "Write `columns: {word: 0, tag: -1}`, or `columns: {word: 1, tag: 2}`"
    raise DataError(path, told, remedy=remedy)


def _follows(kind: re.Match[str], last: int) -> bool:
    """Whether a number of a word is the next one after the last word of a sentence (-1: there is
    none), or is not that of one word.
    """
    return kind[1] is None or int(kind[1]) in ({0, 1} if last < 0 else {last + 1})


def _numbered_words(
    path: Path, lines: Iterator[tuple[int, str]], refused: Refusals
) -> Iterator[tuple[int, str]]:
    """Yields the lines that divide sentences, and those of words, whose first columns count them;
    comments, ranges of words and empty nodes are skipped.
    """
    last = -1
    for number, line in lines:
        cells = _cells(line)
        if _divides(line, cells):
            last = -1
            yield number, line
        elif not line.startswith("#"):
            kind = _NUMBER.fullmatch(cells[0])
            if kind is None or not _follows(kind, last):
                told = f"{cells[0]!r} is not the number of the next word"
                remedy = "If first columns are words, write `columns: {word: 0, tag: -1}`"
                refused(DataError(path, told, line=number, remedy=remedy))
            elif kind[1]:
                yield number, line
            last = int(kind[1]) if kind and kind[1] else last


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
            held.append(Word(number, cells[1].strip(_BLANKS), tag, _after(cells)))
            if not whole or whole[0].endswith(f"-{cells[0]}"):
                yield from _divided(held, whole) if whole else held
                held, whole = [], []


def _after(cells: Sequence[str]) -> str:
    """What follows a word of CoNLL-U, or a range of words, in the running text."""
    return "" if _UNDIVIDED in cells[9].strip().split("|") else " "


def _divided(words: Sequence[Word], whole: Sequence[str]) -> Iterator[Word]:
    """The words of a range, without blanks between them where they make up its form."""
    inner = "" if "".join(word.form for word in words) == whole[1].strip(_BLANKS) else " "
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
    if not cells[1].strip(_BLANKS):
        return "the word is empty", ""
    tag = cells[scheme.columns.tag].strip()
    return None if scheme.knows(tag) else _unknown(tag, scheme)


def _unknown(tag: str, scheme: TagScheme) -> tuple[str, str]:
    """The message on an unknown tag, and the remedy."""
    if scheme.labels == UNIVERSAL.labels:
        return (
            f"unknown part of speech {tag!r}",
            f"The universal ones are {', '.join(scheme.labels)}",
        )
    return f"unknown tag {tag!r}", scheme.known()


def is_atis(path: Path, encoding: str = "utf-8", scheme: TagScheme = ENTITIES) -> bool:
    """Return whether the first line of a file is a header that names the columns of words and tags,
    as MultiATIS++ has it: ``id``, ``utterance``, ``slot_labels`` and ``intent``.
    """
    _, first = next(numbered_lines(path, encoding), (0, ""))
    return {*_header(scheme)} <= set(_names(first))


def _requests(
    path: Path, encoding: str, scheme: TagScheme, refused: Refusals
) -> Iterator[Tagged | None]:
    """The requests of MultiATIS++, and None for one that is left out."""
    lines = numbered_lines(path, encoding)
    names = _names(next(lines, (0, ""))[1])
    for number, line in lines:
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != len(names):
            told = f"{len(cells)} columns, the header has {len(names)}"
            refused(DataError(path, told, line=number))
            continue
        words, tags = (
            tuple(part for part in cells[names.index(name)].split(" ") if part)
            for name in _header(scheme)
        )
        if words or tags:
            yield from _tagged(path, number, (words, tags), scheme, refused)
        else:
            refused(DataError(path, "the request is empty", line=number))


def _tagged(
    where: Path | str,
    number: int,
    sentence: tuple[Sequence[str], Sequence[str]],
    scheme: TagScheme,
    refused: Refusals,
) -> Iterator[Tagged | None]:
    """The sentence of a row, None for one that is left out, and nothing for one with a fault."""
    words, tags = sentence
    wrong = next((tag for tag in tags if not scheme.knows(tag)), None)
    if len(words) != len(tags):
        told = f"{len(words)} words, but {len(tags)} tags"
        if scheme.mismatched == "drop":
            yield None
        else:
            remedy = "`mismatched: drop` leaves such rows out"
            refused(DataError(where, told, line=number, remedy=remedy))
    elif wrong is not None:
        told, remedy = _unknown(wrong, scheme)
        refused(DataError(where, told, line=number, remedy=remedy))
    else:
        yield Tagged(tuple(words), scheme.final(tags), number)


def _header(scheme: TagScheme) -> list[str]:
    return [name.lower() for name in scheme.columns.header]


def _names(header: str) -> list[str]:
    return [name.strip().lower() for name in header.split("\t")]


def read_hub(found: HubSet, split: str, scheme: TagScheme, cache: Path | None) -> Sentences:
    """Read the sentences of a data set of the hub, or of a local copy of its repository.

    Tags are text, or numbers whose names the data set has. Where tags do not mark entities, words
    with the tag ``_`` are left out.

    Raises as `HubSet.read` does, and `DataError` where a column is missing, or a tag is unknown.
    """
    where, table = found.read(split, cache)
    words, tags = (
        next((name for name in listed(names) if name in table.column_names), None)
        for names in (scheme.columns.words, scheme.columns.tags)
    )
    if words is None or tags is None:
        expected = " and ".join(
            " or ".join(listed(names)) for names in (scheme.columns.words, scheme.columns.tags)
        )
        told = f"has the columns {', '.join(table.column_names)}, expected {expected}"
        raise DataError(where, told)
    names = getattr(getattr(table.features[tags], "feature", None), "names", None)
    rows = list(_hub_rows(where, zip(table[words], table[tags], strict=True), names, scheme))
    kept = [row for row in rows if row is not None]
    if not kept:
        raise DataError(where, "has no sentences")
    return Sentences(where, kept, len(rows) - len(kept))


def _hub_rows(
    where: str,
    rows: Iterable[tuple[Sequence[str], Sequence[object]]],
    names: Sequence[str] | None,
    scheme: TagScheme,
) -> Iterator[Tagged | None]:
    """Yields the sentences that have words, and None for one that is left out."""
    for number, (words, cells) in enumerate(rows, 1):
        same = len(words) == len(cells)
        tags = [_hub_tag(where, number, tag, names) if same else str(tag) for tag in cells]
        if not scheme.entities and same:
            words = [word for word, tag in zip(words, tags, strict=True) if tag != _RANGE]
            tags = [tag for tag in tags if tag != _RANGE]
        if words or tags:
            yield from _tagged(where, number, (words, tags), scheme, Refusals())


def _hub_tag(where: str, number: int, tag: object, names: Sequence[str] | None) -> str:
    """A tag as text; a number is the place of its name."""
    if isinstance(tag, str):
        return tag
    if not isinstance(tag, int) or names is None or not 0 <= tag < len(names):
        told = f"the tag {tag!r} is not text and has no name in the data set"
        raise DataError(
            where, told, line=number, remedy="Tags are text, or numbers of a `ClassLabel`"
        )
    return str(names[tag])
