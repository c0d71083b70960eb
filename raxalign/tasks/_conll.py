"""Tagged sentences from files: columns as in the CoNLL shared tasks (IOB1 or IOB2), and CoNLL-U."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from raxalign.corpora._lines import read_lines
from raxalign.errors import DataError
from raxalign.tasks._fingerprints import fingerprint, normal

UPOS = ("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X")
"""The universal parts of speech."""

_NUMBER = re.compile(r"(\d+)|\d+-\d+|\d+\.\d+")
"""A word of CoNLL-U (the group), a range of words, or an empty node."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """A sentence with a tag a word; `line` is where it begins (1-based line of the file, or row)."""

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
        known = np.isin(self.fingerprints(), np.concatenate([other.fingerprints() for other in others]))
        return Sentences(self.source, [row for row, there in zip(self.rows, known, strict=True) if not there])

    def words(self) -> list[tuple[str, ...]]:
        """The words of every sentence."""
        return [row.words for row in self.rows]

    def fingerprints(self) -> npt.NDArray[np.int64]:
        """A hash of each sentence's text; case, white space and Unicode forms do not count."""
        return np.array([fingerprint("text", normal("".join(row.words))) for row in self.rows], dtype=np.int64)


def iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """The tags with a B- at the beginning of every entity, as conlleval finds them: an I- after another type, or after O, begins one too.

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


def read_conll(path: Path) -> Sentences:
    """The sentences of a file with a word a line, the word in the first column and its tag in the last, divided by tabs or by blanks.

    Blank lines divide sentences, ``-DOCSTART-`` lines are skipped, tags are O, B-type and I-type in IOB1 or IOB2 and come back in IOB2.
    Raises `DataError` with file and line for another number of columns than in the first line, other tags, and an empty file.
    """
    return _sentences(path, _column_words(path), iob2)


def read_conllu(path: Path) -> Sentences:
    """The sentences of a CoNLL-U file with their universal parts of speech; ranges of words (``1-2``) and empty nodes (``1.1``) are skipped.

    Raises `DataError` with file and line for a line that has not ten columns, a tag that is none of `UPOS`, and an empty file.
    """
    return _sentences(path, _conllu_words(path), tuple)


Word = tuple[int, str, str]
"""(line, word, tag); a word of no letters ends a sentence."""


def _sentences(path: Path, words: Iterator[Word], convert: Callable[[Sequence[str]], tuple[str, ...]]) -> Sentences:
    rows, sentence = [], list[Word]()
    for word in [*words, (0, "", "")]:
        if word[1]:
            sentence.append(word)
        elif sentence:
            rows.append(Tagged(tuple(text for _, text, _ in sentence), convert([tag for _, _, tag in sentence]), sentence[0][0]))
            sentence = []
    if not rows:
        raise DataError(path, "has no sentences", remedy="A sentence is a line a word, and a blank line ends it")
    return Sentences(str(path), rows)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    if not path.is_file():
        raise DataError(path, "there is no such file")
    with path.open("rb") as file:
        yield from enumerate(read_lines(file, path), 1)


def _column_words(path: Path) -> Iterator[Word]:
    width = 0
    for number, line in _lines(path):
        # Only blanks and tabs divide columns: a no-break space may be part of a word.
        cells = line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]
        if not line.strip():
            yield number, "", ""
            continue
        if cells[0] == "-DOCSTART-":
            yield number, "", ""
            continue
        width = width or len(cells)
        if len(cells) != width or width < 2:
            expected = f"expected {width} as in the lines before" if width > 1 else "expected a word and its tag at least"
            raise DataError(path, f"{len(cells)} column{'s'[: len(cells) != 1]}, {expected}", line=number)
        word, tag = cells[0].strip(), cells[-1].strip()
        if not word:
            raise DataError(path, "the word is empty", line=number)
        if tag != "O" and not (tag[:2] in ("B-", "I-") and len(tag) > 2):
            raise DataError(path, f"unknown tag {tag!r}", line=number, remedy="Tags are O, B-type and I-type (IOB1 or IOB2), in the last column")
        yield number, word, tag


def _conllu_words(path: Path) -> Iterator[Word]:
    for number, line in _lines(path):
        if not line.strip():
            yield number, "", ""
            continue
        if line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != 10:
            raise DataError(path, f"{len(cells)} column{'s'[: len(cells) != 1]}, expected the 10 of CoNLL-U", line=number)
        word = _NUMBER.fullmatch(cells[0])
        if word is None:
            raise DataError(path, f"unknown number of a word {cells[0]!r}", line=number, remedy="It is like 1, 1-2 or 1.1")
        if word[1] is None:
            continue
        if not cells[1].strip():
            raise DataError(path, "the word is empty", line=number)
        if cells[3] not in UPOS:
            raise DataError(path, f"unknown part of speech {cells[3]!r}", line=number, remedy=f"The universal ones are {', '.join(UPOS)}")
        yield number, cells[1].strip(), cells[3]
