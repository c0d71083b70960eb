"""Tagged sentences from files: columns as in the CoNLL shared tasks (IOB1 or IOB2), and CoNLL-U."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from raxalign.corpora.readers.inspection import Refusals, Report, refuse
from raxalign.corpora.readers.lines import read_lines
from raxalign.errors import DataError
from raxalign.tasks.transfer.fingerprints import fingerprint, normal

UPOS = (
    "ADJ",
    "ADP",
    "ADV",
    "AUX",
    "CCONJ",
    "DET",
    "INTJ",
    "NOUN",
    "NUM",
    "PART",
    "PRON",
    "PROPN",
    "PUNCT",
    "SCONJ",
    "SYM",
    "VERB",
    "X",
)
"""The universal parts of speech."""

_NUMBER = re.compile(r"(\d+)|\d+-\d+|\d+\.\d+")
"""A word of CoNLL-U (the group), a range of words, or an empty node."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """A sentence with a tag a word; `line` is where it begins (1-based line of the file, or
    row).
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Sentences:
    """The tagged sentences of one language and split."""

    source: str
    rows: Sequence[Tagged]

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, n: int | None) -> Sentences:
        """The first n of them."""
        return Sentences(self.source, self.rows[:n])

    def without(self, others: Sequence[Sentences]) -> Sentences:
        """The sentences whose text stands in none of the others."""
        if not others:
            return self
        known = np.isin(
            self.fingerprints(), np.concatenate([other.fingerprints() for other in others])
        )
        return Sentences(
            self.source, [row for row, there in zip(self.rows, known, strict=True) if not there]
        )

    def words(self) -> list[tuple[str, ...]]:
        """The words of every sentence."""
        return [row.words for row in self.rows]

    def fingerprints(self) -> npt.NDArray[np.int64]:
        """A hash of each sentence's text; case, white space and Unicode forms do not count."""
        return np.array(
            [fingerprint("text", normal("".join(row.words))) for row in self.rows], dtype=np.int64
        )


def iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """The tags with a B- at the beginning of every entity, as conlleval finds them: an I- after
    another type, or after O, begins one too.

    So IOB1, where B- only divides neighbours of one type, becomes IOB2, and IOB2 stays as it is.

    >>> iob2(["I-PER", "I-PER", "B-PER", "O", "I-LOC", "I-ORG"])
    ('B-PER', 'I-PER', 'B-PER', 'O', 'B-LOC', 'B-ORG')
    """
    found, inside = [], ""
    for tag in tags:
        kind = tag[2:]
        found.append(f"B-{kind}" if tag.startswith("I-") and kind != inside else tag)
        inside = kind
    return tuple(found)


def read_conll(path: Path, encoding: str = "utf-8", report: Report = refuse) -> Sentences:
    """The sentences of a file with a word a line, the word in the first column and its tag in the
    last, divided by tabs or by blanks.

    Blank lines divide sentences, ``-DOCSTART-`` lines are skipped, tags are O, B-type and I-type in
    IOB1 or IOB2 and come back in IOB2. Another number of columns than in the first line, other
    tags, and an empty file are a `DataError` with file and line, which `report` raises.
    """
    refused = Refusals(report)
    return _sentences(path, _column_words(path, encoding, refused), iob2, refused)


def read_conllu(path: Path, encoding: str = "utf-8", report: Report = refuse) -> Sentences:
    """The sentences of a CoNLL-U file with their universal parts of speech; ranges of words
    (``1-2``) and empty nodes (``1.1``) are skipped.

    A line that has not ten columns, a tag that is none of `UPOS`, and an empty file are a
    `DataError` with file and line, which `report` raises.
    """
    refused = Refusals(report)
    return _sentences(path, _conllu_words(path, encoding, refused), tuple, refused)


Word = tuple[int, str, str]
"""(line, word, tag); a word of no letters ends a sentence."""


def _sentences(
    path: Path,
    words: Iterator[Word],
    convert: Callable[[Sequence[str]], tuple[str, ...]],
    refused: Refusals,
) -> Sentences:
    rows, sentence = [], list[Word]()
    for word in [*words, (0, "", "")]:
        if word[1]:
            sentence.append(word)
        elif sentence:
            rows.append(
                Tagged(
                    tuple(text for _, text, _ in sentence),
                    convert([tag for _, _, tag in sentence]),
                    sentence[0][0],
                )
            )
            sentence = []
    if not rows and not refused.count:
        raise DataError(
            path, "has no sentences", remedy="A sentence is a line a word, and a blank line ends it"
        )
    return Sentences(str(path), rows)


def numbered_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """(1-based line, its text). Raises `DataError` for a file that is not there, and with the line
    for bytes that are not of the encoding.
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
    """Refuses text that is UTF-8, of which nearly every encoding of single bytes would make other
    letters without a word.
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


def _column_words(path: Path, encoding: str, refused: Refusals) -> Iterator[Word]:
    width = 0
    for number, line in numbered_lines(path, encoding):
        # Only blanks and tabs divide columns: a no-break space may be part of a word.
        cells = line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]
        if not line.strip():
            yield number, "", ""
            continue
        if cells[0] == "-DOCSTART-":
            yield number, "", ""
            continue
        width = width or len(cells)
        if width < 2:
            raise DataError(
                path, f"{len(cells)} column, expected a word and its tag at least", line=number
            )
        word, tag = cells[0].strip(), cells[-1].strip()
        if len(cells) != width:
            problem = (
                f"{len(cells)} column{'s'[: len(cells) != 1]}, expected {width} as in the lines"
                " before"
            )
            refused(DataError(path, problem, line=number))
        elif not word:
            refused(DataError(path, "the word is empty", line=number))
        elif not is_tag(tag):
            refused(
                DataError(
                    path, f"unknown tag {tag!r}", line=number, remedy=f"{TAGS}, in the last column"
                )
            )
        else:
            yield number, word, tag


TAGS = "Tags are O, B-type and I-type (IOB1 or IOB2)"


def is_tag(tag: str) -> bool:
    """Whether it is O, B-type or I-type."""
    return tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2)


def _conllu_words(path: Path, encoding: str, refused: Refusals) -> Iterator[Word]:
    for number, line in numbered_lines(path, encoding):
        if not line.strip():
            yield number, "", ""
            continue
        if line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != 10:
            refused(
                DataError(
                    path,
                    f"{len(cells)} column{'s'[: len(cells) != 1]}, expected the 10 of CoNLL-U",
                    line=number,
                )
            )
            continue
        word = _NUMBER.fullmatch(cells[0])
        if word is None:
            refused(
                DataError(
                    path,
                    f"unknown number of a word {cells[0]!r}",
                    line=number,
                    remedy="It is like 1, 1-2 or 1.1",
                )
            )
        elif word[1] is None:
            continue
        elif not cells[1].strip():
            refused(DataError(path, "the word is empty", line=number))
        elif cells[3] not in UPOS:
            refused(
                DataError(
                    path,
                    f"unknown part of speech {cells[3]!r}",
                    line=number,
                    remedy=f"The universal ones are {', '.join(UPOS)}",
                )
            )
        else:
            yield number, cells[1].strip(), cells[3]
