"""Tagged sentences, with pieces too: from files in three forms, and from data sets of the hub.

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

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from raxalign.arrays import Ints
from raxalign.caveats import LeftOut
from raxalign.corpora.readers.columns import read_columns
from raxalign.corpora.readers.inspection import Refusals, Report, refuse
from raxalign.corpora.readers.lines import read_lines
from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.corpora.text.sentences import cells as cells_of
from raxalign.corpora.text.sentences import sentence_columns
from raxalign.corpora.text.words import Sentence
from raxalign.encoders.models.pieces import Pieces, map_array, write_pieces
from raxalign.encoders.models.rows import RowSource
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.errors import DataError
from raxalign.languages import is_code
from raxalign.lazy import np, pa
from raxalign.tasks.taggers.scheme import UPOS, TagScheme
from raxalign.tasks.transfer.params import HubSet
from raxalign.tasks.transfer.rows import TaskRows

if TYPE_CHECKING:
    from datasets import Dataset

_RECORD, _COLUMN = "sentences.json", "words"
_CHUNK = 8192
_ENTITIES = TagScheme()


@dataclass(frozen=True, slots=True)
class Tagged:
    """A sentence with one tag per word; `line` is where it begins (1-based line of the file, or
    row), and `running` has its words in the running text, where the file has it.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int
    running: Sentence | None = None
    id: ClassVar[None] = None

    def texts(self) -> tuple[str, ...]:
        """Return the text by which a copy is recognised."""
        return ("".join(self.words),)


@dataclass(frozen=True)
class TaggedSentences(TaskRows[Tagged]):
    """The tagged sentences of one language and split."""

    noun: ClassVar[str] = "sentences"

    def words(self) -> list[Sequence[str]]:
        """Return the words of every sentence, in their running text where it is known."""
        return [row.running or row.words for row in self.rows]

    def piece_rows(self, encoder: TransformerEncoder, lang: str) -> RowSource:
        """Return the rows that an encoder reads."""
        return encoder.pieces(self.words(), lang)

    def tags(self) -> set[str]:
        """Return all tags that a word has."""
        return {tag for row in self.rows for tag in row.tags}

    def n_words(self) -> int:
        """Return the number of words."""
        return sum(len(row.words) for row in self.rows)

    def numbers(self, labels: Sequence[str]) -> Iterator[Ints]:
        """Yield the places of each sentence's tags among `labels`."""
        number = {label: i for i, label in enumerate(labels)}
        for row in self.rows:
            yield np.array([number[tag] for tag in row.tags], dtype=np.int64)

    @classmethod
    def of_file(
        cls, path: Path, report: Report = refuse, scheme: TagScheme = _ENTITIES
    ) -> TaggedSentences:
        """Read the sentences of a file; entities come back in IOB2. Faults of lines go to `report`,
        with file and line; by default it raises them. Raises `DataError` where the file is missing,
        or has no sentences.
        """
        file = _TaggedFile(path, scheme, Refusals(report))
        told, remedy = (
            "has no sentences",
            "A sentence has one line per word, and a blank line ends it",
        )
        found: list[Tagged | None] = []
        if scheme.columns.layout == "conllu":
            found += file.divided(file.conllu_words())
        elif {*file.header} <= {*file.names()}:
            told, remedy = "has no requests after its header", ""
            found += file.requests()
        else:
            found += file.divided(file.column_words())
        rows = cls._kept(str(path), found, LeftOut(), file.blank)
        if not len(rows) and not file.refused.count:
            raise DataError(path, told, remedy=remedy)
        return rows

    @classmethod
    def of_hub(
        cls, found: HubSet, split: str, scheme: TagScheme, cache: Path | None
    ) -> TaggedSentences:
        """Read the sentences of a data set of the hub, or of a local copy of its repository.

        Tags are text, or numbers whose names the data set has. Where tags do not mark entities,
        words with the tag ``_`` are left out.

        Raises as `HubSet.read` does, and `DataError` where a column is missing, or a tag is
        unknown.
        """
        where, table = found.read(split, cache)
        rows, left = list[Tagged | None](), LeftOut()
        for number, words, tags in _hub_rows(where, table, scheme):
            if left.keep(words or tags, _EMPTY):
                rows += _tagged(where, number, (words, tags), scheme, Refusals())
        kept = cls._kept(where, rows, left, LeftOut())
        if not len(kept):
            raise DataError(where, "has no sentences")
        return kept

    @classmethod
    def of_made(
        cls, source: str, made: Iterable[tuple[Sequence[str], Sequence[str]]]
    ) -> TaggedSentences:
        """Keep words and tags, such as those of the phrasebook."""
        return cls(source, [Tagged(tuple(w), tuple(t), i) for i, (w, t) in enumerate(made, 1)])

    @classmethod
    def _kept(
        cls, where: str, found: Sequence[Tagged | None], left: LeftOut, blank: LeftOut
    ) -> TaggedSentences:
        """The sentences of a source, without those that are None, and without words that are empty,
        which are added to what is `left` out and to the `blank` words. The code of a language
        before every word (WikiANN has ``de:Berlin``) is not part of it. Raises `DataError` for a
        treebank without its text.
        """
        kept = list[Tagged]()
        words = [word for row in found if row is not None for word in row.words]
        if words.count("_") > _HIDDEN * len(words):
            told = (
                f"{words.count('_'):,} of {len(words):,} words are `_`: its text is not in the file"
            )
            remedy = "Put it back by the program that comes with the treebank, or take another one"
            raise DataError(where, told, remedy=remedy)
        codes = {word.partition(":")[0] if ":" in word else "" for word in words}
        coded = bool(codes) and all(is_code(code) or code in _WIKIPEDIAS for code in codes)
        for row in found:
            if row is None:
                left.keep(False, "with other numbers of words and of tags")
                continue
            forms = [word.partition(":")[2] for word in row.words] if coded else row.words
            if coded or "" in forms:
                both = zip(forms, row.tags, strict=True)
                pairs = [pair for pair in both if blank.keep(pair[0], _WORDLESS)]
                if not left.keep(pairs, _EMPTY):
                    continue
                words_, tags = zip(*pairs, strict=True)
                row = replace(row, words=words_, tags=tags, running=None)
            kept.append(row)
        rows = TaggedSentences(where, kept, left)
        said = blank.remarks("words", rows.n_words())
        if coded:
            said += (f"the code of a language before each word ({min(codes)}:) is not read",)
        return replace(rows, said=said)

    def write(self, lang: str, tokenizer: Any, threads: int, folder: Path) -> dict[str, Any]:
        """Write training sentences as pieces and tags."""
        names = sorted(self.tags())
        tags = [np.zeros(0, np.int64), *self.numbers(names)]
        np.save(folder / "tags.npy", np.concatenate(tags).astype(np.int32))
        np.save(folder / "fingerprints.npy", self.fingerprints())
        record = {"source": self.source, "tags": names, **self.dropped}
        (folder / _RECORD).write_text(json.dumps(record), encoding="utf-8")
        with tempfile.TemporaryDirectory(prefix="texts-", dir=folder) as work:
            schema, words = pa.schema(sentence_columns(_COLUMN)), self.words()
            with DatasetWriter(Path(work), schema, {}) as writer:
                for start in range(0, len(words), _CHUNK):
                    part = [
                        cells_of(_COLUMN, sentence) for sentence in words[start : start + _CHUNK]
                    ]
                    writer.write({name: [row[name] for row in part] for name in schema.names})
            columns = {_COLUMN: lang}
            return write_pieces(tokenizer, Path(work), columns, threads, folder, Pieces.OF_ROWS)

    @classmethod
    def prepared(cls, folder: Path, lang: str, source: str | None) -> PreparedSentences:
        """Return the sentences that `write` wrote, mapped."""
        pieces = cls.mapped(folder / _COLUMN, lang)
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        tags_W, hashes = (map_array(folder, name) for name in ("tags", "fingerprints"))
        return PreparedSentences(
            source or record["source"],
            (),
            hashes=hashes,
            **cls.as_dropped(record, "", 0),  # all that an earlier version left out has sentences
            pieces=pieces,
            names=record["tags"],
            tags_W=tags_W,
        )


@dataclass(frozen=True, kw_only=True)
class PreparedSentences(TaggedSentences):
    """The sentences that a tagger is trained on, without their texts: their pieces, all tags by
    `names`, and the places of the words' tags among these, sentence after sentence.
    """

    pieces: Pieces
    names: Sequence[str]
    tags_W: np.ndarray

    def __len__(self) -> int:
        return len(self.fingerprints())

    def piece_rows(self, encoder: TransformerEncoder, lang: str) -> RowSource:  # noqa: ARG002
        """Return the rows that an encoder reads, by whose tokenizer the pieces were made."""
        return self.encoded(encoder, [self.pieces])

    def tags(self) -> set[str]:
        """Return all tags that a word has."""
        return set(self.names)

    def n_words(self) -> int:
        """Return the number of words."""
        return len(self.tags_W)

    def numbers(self, labels: Sequence[str]) -> Iterator[Ints]:
        """Yield the places of each sentence's tags among `labels`."""
        place = np.array([labels.index(name) for name in self.names], np.int64)
        offsets = self.pieces.word_offsets
        for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            yield place[self.tags_W[start:stop]]


_EMPTY, _WORDLESS = "without a word", "a tag without a word"
_NUMBER = re.compile(r"(\d+)|\d+-\d+|\d+\.\d+")
"""A word of CoNLL-U (the group), a range of words, or an empty node."""
_BLANKS = " \t"
"""What may stand next to a word: white space of other kinds is part of it, or is the word."""
_BY_CHARACTER = ("ja-JP", "zh-CN", "zh-TW")
"""Locales of MASSIVE whose requests are divided into characters."""
_RANGE = "_"
"""The tag that a range of words (``2-3 zum``) has among its words (``2 zu``, ``3 dem``) where they
are in one list.
"""
_DROP = "`mismatched: drop` leaves such rows out"
_HIDDEN = 0.1  # a larger share of words are `_` in treebanks whose text must not be passed on
_WIKIPEDIAS = ("simple", "zh-classical")
"""What WikiANN calls languages, other than by a code."""
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


class _TaggedFile:
    """A file, and what its lines are in each of the three forms. Faults of lines are refused."""

    def __init__(self, path: Path, scheme: TagScheme, refused: Refusals) -> None:
        self.path, self.scheme, self.refused = path, scheme, refused
        self.header = [name.lower() for name in scheme.columns.header]
        self.width, self.blank = 0, LeftOut()

    def refuse(self, line: int, told: str, remedy: str = "") -> None:
        """Report a fault of one line."""
        self.refused(DataError(self.path, told, line=line, remedy=remedy))

    def refuse_wordless(self, line: int) -> None:
        """Count a row without a word, or report it, as the user asked."""
        if self.scheme.mismatched == "drop":
            self.blank.keep(False, _WORDLESS)
        else:
            self.refuse(line, "the word is empty", _DROP)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield (1-based line, its text). Raises `DataError` for a file that is missing, and with
        the line for bytes that are not UTF-8.
        """
        if not self.path.is_file():
            raise DataError(self.path, "there is no such file")
        with self.path.open("rb") as file:
            yield from enumerate(read_lines(file, self.path), 1)

    def divided(self, words: Iterator[Word]) -> Iterator[Tagged]:
        """Yield the sentences of some words."""
        groups = groupby(words, key=lambda word: bool(word.form))
        found = [list(group) for has_form, group in groups if has_form]
        for sentence in found:
            first, last = sentence[0].line, sentence[-1].line
            if len(sentence) > (_LONGEST if len(found) > 1 else _LONGEST_ALONE):
                told = f"a sentence of {len(sentence):,} words: there is no blank line until line"
                self.refuse(first, f"{told} {last:,}", "Write a blank line after each sentence")
                continue
            forms = tuple(word.form for word in sentence)
            tags = self.scheme.final([word.tag for word in sentence])
            yield Tagged(forms, tags, first, _running(sentence))

    def column_words(self) -> Iterator[Word]:
        """Yield the words of a file in columns."""
        columns = self.scheme.columns
        numbered = (columns.word, columns.tag) == (0, -1) and self._has_numbers()
        if numbered:
            columns = replace(columns, word=1, tag=2 if self.scheme.entities else -1)
        rows = (cells for _, cells in self._cells() if len(cells) > max(columns.tag, 1))
        self.scheme = self.scheme.of_file(cells[columns.tag].strip() for cells in rows)
        needed = max(2, *(at + 1 if at >= 0 else -at for at in (columns.word, columns.tag)))
        for number, cells in self._numbered_words() if numbered else self._cells():
            self.width = width = self.width or len(cells)
            if not cells:
                yield Word(number, "", "")
            elif width < needed:
                told = f"{_counted(width)}, expected a word and its tag at least"
                raise DataError(self.path, told, line=number)
            elif len(cells) != width:
                self.refuse(number, f"{_counted(cells)}, expected {width} as in the lines before")
            elif not (word := cells[columns.word].strip(_BLANKS)):
                self.refuse_wordless(number)
            elif not self.scheme.knows(tag := cells[columns.tag].strip()):
                at = columns.tag + 1 if columns.tag >= 0 else columns.tag
                place = "the last column" if columns.tag == -1 else f"column {at}"
                known = f"{self.scheme.known()}, in {place}"
                self.refuse(number, f"unknown tag {tag!r}", known)
            else:
                yield Word(number, word, tag)

    def _cells(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the columns of each line, none for one that stands between two sentences. Only
        blanks and tabs divide them: a no-break space may be part of a word.
        """
        for number, line in self.lines():
            blanks = [cell for cell in line.split(" ") if cell]
            if line.startswith(" ") and len(blanks) == max(self.width, 2) - 1:
                blanks = ["", *blanks]  # the word is lacking
            cells = line.split("\t") if "\t" in line else blanks
            yield number, cells if line.strip() and cells[0] != "-DOCSTART-" else []

    def _has_numbers(self) -> bool:
        """Whether the first of three columns or more numbers the words of each sentence: the first
        two words of one sentence decide. Raises `DataError` where no sentence has two, and each has
        the number 0 or 1, or is it.
        """
        last, sentences = -1, 0
        for _, cells in self._cells():
            if not cells:
                last = -1
            elif not cells[0].startswith("#"):
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
        remedy = "Leave out the numbers, or the columns between words and tags"
        raise DataError(self.path, told, remedy=remedy)

    def _numbered_words(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the columns of words, whose first ones count them, and none between sentences;
        comments, ranges of words and empty nodes are skipped.
        """
        last = -1
        for number, cells in self._cells():
            if not cells:
                last = -1
                yield number, cells
            elif not cells[0].startswith("#"):
                kind = _NUMBER.fullmatch(cells[0])
                if kind is None or not _follows(kind, last):
                    told = f"{cells[0]!r} is not the number of the next word"
                    remedy = "If it is a word, leave out the columns between words and tags"
                    self.refuse(number, told, remedy)
                elif kind[1]:
                    yield number, cells
                last = int(kind[1]) if kind and kind[1] else last

    def conllu_words(self) -> Iterator[Word]:
        """Yield the words of CoNLL-U, with what follows each in the running text."""
        held, whole = list[Word](), list[str]()  # a range, and its words so far
        for number, line in [*self.lines(), (0, "")]:
            cells = line.split("\t")
            if not line.strip():
                yield from (*held, Word(number, "", ""))
                held, whole = [], []
            elif line.startswith("#") or not self._is_good(number, cells):
                continue
            elif "-" in cells[0]:
                whole = cells
            elif cells[0].isdecimal():
                tag = cells[self.scheme.columns.tag].strip()
                held.append(Word(number, cells[1].strip(_BLANKS), tag, _after(cells)))
                if whole and whole[0].endswith(f"-{cells[0]}"):
                    joined = "".join(word.form for word in held) == whole[1].strip(_BLANKS)
                    afters = ["" if joined else " "] * (len(held) - 1) + [_after(whole)]
                    held = [w._replace(after=a) for w, a in zip(held, afters, strict=True)]
                    whole = []
                if not whole:
                    yield from held
                    held = []

    def _is_good(self, number: int, cells: Sequence[str]) -> bool:
        """Whether a line of CoNLL-U has no fault; one with a fault is refused."""
        kind, told, remedy = _NUMBER.fullmatch(cells[0]), "", ""
        if len(cells) != 10:
            told = f"{_counted(cells)}, expected the 10 of CoNLL-U"
        elif kind is None:
            told, remedy = f"unknown number of a word {cells[0]!r}", "It is like 1, 1-2 or 1.1"
        elif kind[1] and not cells[1].strip(_BLANKS):
            self.refuse_wordless(number)
            return False
        elif kind[1] and not self.scheme.knows(tag := cells[self.scheme.columns.tag].strip()):
            told, remedy = _unknown(tag, self.scheme)
        if told:
            self.refuse(number, told, remedy)
        return not told

    def names(self) -> list[str]:
        """Return what the first line names, as a header does: MultiATIS++ has the columns ``id``,
        ``utterance``, ``slot_labels`` and ``intent``.
        """
        _, first = next(self.rows(), (0, [""]))
        return [name.strip().lower() for name in first]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows of a file with columns that a header names."""
        return read_columns(self.path, "\t", lambda _: (line for _, line in self.lines()))

    def requests(self) -> Iterator[Tagged | None]:
        """Yield the requests of MultiATIS++, and None for one that is left out."""
        names = self.names()
        for number, cells in self.rows():
            if number == 1 or not "".join(cells).strip():
                continue
            if len(cells) != len(names):
                self.refuse(number, f"{len(cells)} columns, the header has {len(names)}")
                continue
            words, tags = (
                [part for part in cells[names.index(name)].split(" ") if part]
                for name in self.header
            )
            if words or tags:
                yield from _tagged(self.path, number, (words, tags), self.scheme, self.refused)
            else:
                self.refuse(number, "the request is empty")


def _running(words: Sequence[Word]) -> Sentence | None:
    """The words in their running text, where the file has it."""
    starts, text = list[int](), ""
    for word in words:
        if word.after is None:
            return None
        starts.append(len(text))
        text += word.form + word.after
    return Sentence([word.form for word in words], text.rstrip(_BLANKS), starts)


def _follows(kind: re.Match[str], last: int) -> bool:
    """Whether a number of a word is the next one after the last word of a sentence (-1: there is
    none), or is not that of one word.
    """
    return kind[1] is None or int(kind[1]) in ({0, 1} if last < 0 else {last + 1})


def _counted(columns: Sequence[str] | int) -> str:
    n = columns if isinstance(columns, int) else len(columns)
    return f"{n} column{'s'[: n != 1]}"


def _after(cells: Sequence[str]) -> str:
    """What follows a word of CoNLL-U, or a range of words, in the running text."""
    return "" if "SpaceAfter=No" in cells[9].strip().split("|") else " "


def _unknown(tag: str, scheme: TagScheme) -> tuple[str, str]:
    """The message on an unknown tag, and the remedy."""
    if scheme.labels == UPOS:
        known = f"The universal ones are {', '.join(scheme.labels)}"
        return f"unknown part of speech {tag!r}", known
    return f"unknown tag {tag!r}", scheme.known()


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
            refused(DataError(where, told, line=number, remedy=_DROP))
    elif wrong is not None:
        told, remedy = _unknown(wrong, scheme)
        refused(DataError(where, told, line=number, remedy=remedy))
    else:
        yield Tagged(tuple(words), scheme.final(tags), number)


def in_brackets(text: str, *, characters: bool) -> tuple[list[str], list[str]]:
    """Return the words and tags of a request whose slots are in brackets, divided at blanks;
    with `characters` words that are not ASCII alone are divided into characters.

    >>> in_brackets("wake me at [time : nine am]", characters=False)[1]
    ['O', 'O', 'O', 'B-time', 'I-time']
    >>> in_brackets("[date : 明天] 叫 me", characters=True)
    (['明', '天', '叫', 'me'], ['B-date', 'I-date', 'O', 'O'])
    """
    words, tags = list[str](), list[str]()
    for plain, kind, inside in re.findall(r"([^\[]+)|\[\s*([^\s:]+)\s*:([^\]]*)\]", text):
        found = (plain or inside).split()
        if characters:
            found = [part for word in found for part in ([word] if word.isascii() else word)]
        words += found
        follow = [f"{'I' if at else 'B'}-{kind}" for at in range(len(found))]
        tags += follow if kind else [TagScheme.OUTSIDE] * len(found)
    return words, tags


def _hub_rows(
    where: str, table: Dataset, scheme: TagScheme
) -> Iterator[tuple[int, Sequence[str], Sequence[str]]]:
    """Yield the number of each row of a data set, from 1, its words and its tags."""
    annotated = scheme.columns.annotated
    if annotated and annotated in table.column_names:
        locales = table["locale"] if "locale" in table.column_names else [""] * len(table)
        for number, (text, locale) in enumerate(zip(table[annotated], locales, strict=True), 1):
            characters = locale in _BY_CHARACTER
            yield number, *in_brackets(str(text), characters=characters)
        return
    given = scheme.columns.words, scheme.columns.tags
    columns = [(names,) if isinstance(names, str) else names for names in given]
    there = [next((n for n in names if n in table.column_names), None) for names in columns]
    if None in there:
        expected = " and ".join(" or ".join(names) for names in columns)
        expected = annotated or expected
        told = f"has the columns {', '.join(table.column_names)}, expected {expected}"
        raise DataError(where, told)
    names = getattr(getattr(table.features[there[1]], "feature", None), "names", None)
    for number, (words, cells) in enumerate(zip(*(table[name] for name in there), strict=True), 1):
        same = len(words) == len(cells)
        tags = [_hub_tag(where, number, tag, names) if same else str(tag) for tag in cells]
        if not scheme.entities and same:
            words = [word for word, tag in zip(words, tags, strict=True) if tag != _RANGE]
            tags = [tag for tag in tags if tag != _RANGE]
        yield number, words, tags


def _hub_tag(where: str, number: int, tag: object, names: Sequence[str] | None) -> str:
    """A tag as text; a number is the place of its name."""
    if isinstance(tag, int) and names is not None and 0 <= tag < len(names):
        return str(names[tag])
    if not isinstance(tag, str):
        told = f"the tag {tag!r} is not text and has no name in the data set"
        remedy = "Tags are text, or numbers of a `ClassLabel`"
        raise DataError(where, told, line=number, remedy=remedy)
    return tag
