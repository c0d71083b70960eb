"""Sentence pairs of a corpus, cleaned and tokenised: what the bitext of a language is written
from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from raxalign.corpora.base import Corpus, CorpusInputs, SentencePair
from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.corpora.text.lengths import PIECE_COUNTS, PieceFilter, basic_tokens
from raxalign.corpora.text.overlap import ELSEWHERE, without_overlap
from raxalign.corpora.text.sentences import cells, sentence_columns
from raxalign.corpora.text.tail_reader import Tail, read_tail
from raxalign.corpora.text.words import (
    Segmentation,
    Tokenize,
    describe,
    divide_at_blanks,
    given_words,
    tokenize,
    within_text,
)
from raxalign.errors import DataError
from raxalign.languages import language
from raxalign.running import Sentence

WORDS, OWN_WORDS = "words", "own"
"""Metadata of a dataset whose words are those of the corpus: no tokeniser made any."""
BATCH_ROWS = 1000
CHARACTERS = 4
"""How many characters (syllables of Tibetan) are a word to `max_words`. Thai news has 3.5 for each
English word, Chinese 1.6; where fewer would do, a sentence is kept that an encoder has room for.
"""
WITHOUT_TEXT = "without_text"
"""The count of sentences whose words the tokeniser changed, so that they are not in the text."""
_POSITIONS = pa.list_(pa.int32())
_COLUMNS = {"id": pa.int64(), **sentence_columns("src"), **sentence_columns("tgt")}
_GOLD = {"src_links": _POSITIONS, "tgt_links": _POSITIONS}

Row = dict[str, Any]


class TooShort(DataError):
    """A corpus that has less text than was asked for. `problem` is the message without a remedy,
    for callers that know options by other names.
    """

    def __init__(
        self, file: Path | str, problem: str, *, line: int | None = None, remedy: str = ""
    ) -> None:
        super().__init__(file, problem, line=line, remedy=remedy)
        self.problem = problem


@dataclass(frozen=True)
class BitextOptions:
    """How bitext is cleaned. All but `segmentation` concerns training only. A side of more than
    `max_words` words, of which each may be `CHARACTERS` characters where a tokeniser makes words of
    characters, or of more than `max_basic_tokens` tokens, is over-long.
    """

    max_words: int = 128
    segmentation: Segmentation = "characters"
    overlap: Literal["drop", "keep"] = "drop"
    shortage: Literal["refuse", "use-all"] = "refuse"
    training_from: Literal["end", "start"] = "end"
    max_basic_tokens: int | None = None
    pieces: PieceFilter | None = None


@dataclass(frozen=True)
class SplitCorpus:
    """The corpus of a language and the pivot, with its `inputs`, and the numbers of its last lines
    that are test and dev: `split` is (test, dev).
    """

    corpus: Corpus
    inputs: CorpusInputs
    lang: str
    pivot: str
    split: tuple[int, int]


class Cleaner:
    """Reads, cleans and writes the sentence pairs of one corpus and one language pair."""

    def __init__(
        self,
        source: SplitCorpus,
        options: BitextOptions,
        elsewhere: frozenset[str] = frozenset(),
    ) -> None:
        """`elsewhere` holds normalised pivot sides that are held out for other languages."""
        self.source, self.options, self.elsewhere = source, options, elsewhere
        self.name = type(source.corpus).__module__.rpartition(".")[2]
        self._has_links, self._has_tokenized = False, False

    @cached_property
    def _tokenize_source(self) -> Tokenize:
        return tokenize(self.source.lang, self.options.segmentation)

    @cached_property
    def _tokenize_target(self) -> Tokenize:
        return tokenize(self.source.pivot, self.options.segmentation)

    def tail(self, size: int | None) -> Tail:
        """Read the last `size` pairs of the corpus; all of them for None."""
        tail = read_tail(self._read(), size)
        self._has_links = tail.has_links
        return tail

    def _read(self) -> Iterator[SentencePair]:
        return self.source.corpus.read(self.source.lang, self.source.pivot, self.source.inputs)

    def _before(self, tail: Tail, n_heldout: int) -> Iterator[SentencePair]:
        """Yield the pairs before the `n_heldout` last ones of a tail, in the order of training:
        from the first one of the corpus, which is read again, or backwards.
        """
        if self.options.training_from == "start":
            return islice(self._read(), tail.total - n_heldout)
        return islice(tail.backwards(), n_heldout, None)

    def heldout(self, tail: Tail) -> list[SentencePair]:
        """Return the dev lines, then the test lines, in file order. Raises `TooShort` where the
        corpus has fewer.
        """
        test, dev = self.source.split
        size = test + dev
        if tail.total < size:
            problem = (
                f"the corpus has {tail.total} lines, and {test} for test and {dev} for dev"
                " were asked for"
            )
            raise self.error(problem, "Make `split` smaller", TooShort)
        return list(islice(tail.backwards(), size))[::-1]

    def write_training(self, tail: Tail, sentences: int, folder: Path) -> Counter[str]:
        """Write the clean pairs before the held-out lines of a tail, `sentences` at most; returns
        counts, of which `read` is the number of lines that were read.
        """
        heldout = self.heldout(tail)
        apart = [ELSEWHERE] if self.elsewhere else []
        lengths = PIECE_COUNTS if self.options.pieces is not None else ()
        counts: Counter[str] = Counter(
            dict.fromkeys(
                ["read", "blank", "overlapping", *apart, "repeated", "overlong", *lengths, "kept"],
                0,
            )
        )
        pairs: Iterable[SentencePair] = self._count(self._before(tail, len(heldout)), counts)
        if self.options.overlap == "drop":
            pairs = without_overlap(pairs, heldout, self.elsewhere, counts)
        self.write(
            folder / "data",
            "training",
            islice(self.clean(pairs, counts, training=True), sentences),
            counts,
        )
        return counts

    @staticmethod
    def _count(pairs: Iterable[SentencePair], counts: Counter[str]) -> Iterator[SentencePair]:
        for pair in pairs:
            counts["read"] += 1
            yield pair

    def clean(
        self, pairs: Iterable[SentencePair], counts: Counter[str], *, training: bool
    ) -> Iterator[Row]:
        """Yield tokenised rows; blank pairs are left out and counted, and so are training pairs
        that are over-long or of another number of pieces.
        """
        for pair in pairs:
            self._has_tokenized = (
                self._has_tokenized or pair.source_words is None or pair.target_words is None
            )
            src = (
                within_text(self._tokenize_source, pair.source)
                if pair.source_words is None
                else self._given(pair, pair.source_words, self.source.lang)
            )
            tgt = (
                within_text(self._tokenize_target, pair.target)
                if pair.target_words is None
                else self._given(pair, pair.target_words, self.source.pivot)
            )
            if not src or not tgt:
                counts["blank"] += 1
            elif training and self._overlong(pair, src, tgt):
                counts["overlong"] += 1
            elif training and (found := self._other_length(src, tgt)) is not None:
                counts[found] += 1
            else:
                counts["kept"] += 1
                self._count_lost(pair, src, tgt, counts)
                row = {"id": pair.id, **cells("src", src), **cells("tgt", tgt)}
                yield row | self._links(pair, src, tgt) if self._has_links else row

    @staticmethod
    def _count_lost(
        pair: SentencePair, src: list[str], tgt: list[str], counts: Counter[str]
    ) -> None:
        """Count the sides that the tokeniser divided into words which are not in the text."""
        for given, words in ((pair.source_words, src), (pair.target_words, tgt)):
            if given is None and not isinstance(words, Sentence):
                counts[WITHOUT_TEXT] += 1

    def _overlong(self, pair: SentencePair, src: Sequence[str], tgt: Sequence[str]) -> bool:
        """Whether a side has too many words or too many basic tokens."""
        limit = self.options.max_basic_tokens
        given = pair.source_words is not None, pair.target_words is not None
        longest = (
            self.options.max_words * (1 if own else size)
            for own, size in zip(given, self._word_sizes, strict=True)
        )
        return any(len(side) > most for side, most in zip((src, tgt), longest, strict=True)) or (
            limit is not None and max(map(basic_tokens, (pair.source, pair.target))) > limit
        )

    @cached_property
    def _word_sizes(self) -> tuple[int, int]:
        """How many of the tokeniser's words count as one, in the other language and the pivot."""
        divided = self.options.segmentation == "words"
        src, tgt = (
            1 if divided or language(code).spaced else CHARACTERS
            for code in (self.source.lang, self.source.pivot)
        )
        return src, tgt

    def _other_length(self, src: Sequence[str], tgt: Sequence[str]) -> str | None:
        """The count of pairs with too few or too many pieces that a pair belongs to, if any."""
        pieces, langs = self.options.pieces, (self.source.lang, self.source.pivot)
        return None if pieces is None else pieces.refuses(src, tgt, langs)

    def _given(self, pair: SentencePair, words: tuple[str, ...], lang: str) -> list[str]:
        if divide_at_blanks(" ".join(words)) != tuple(words):
            raise self.error(
                f"sentence pair {pair.id}: a word is empty or has a blank in it: {words}"
            )
        return given_words(words, lang)

    def _links(self, pair: SentencePair, src: list[str], tgt: list[str]) -> Row:
        links = pair.links or ()
        for i, j in links:
            if not (0 <= i < len(src) and 0 <= j < len(tgt)):
                raise self.error(
                    f"sentence pair {pair.id}: link {i}-{j} is out of range ({len(src)} and"
                    f" {len(tgt)} words, counted from 0)"
                )
        return {"src_links": [i for i, _ in links], "tgt_links": [j for _, j in links]}

    def write(
        self, folder: Path, part: str, rows: Iterable[Row], counts: Mapping[str, int]
    ) -> None:
        """Write rows. The counts are read when the rows have run out."""
        schema = pa.schema(_COLUMNS | (_GOLD if self._has_links else {}))
        metadata = {
            "lang": self.source.lang,
            "pivot": self.source.pivot,
            "lang_pair": f"{self.source.lang}-{self.source.pivot}",
            "corpus": self.name,
            "split": part,
        }
        with DatasetWriter(folder, schema, metadata) as writer:
            write_rows(writer, rows)
            writer.metadata["counts"] = dict(counts)
            if not self._has_tokenized:
                writer.metadata[WORDS] = OWN_WORDS

    def notes(self) -> dict[str, Any]:
        """Return what a manifest records besides counts, once the text is written."""
        words = {
            code: describe(code, self.options.segmentation)
            for code in (self.source.lang, self.source.pivot)
        }
        if not self._has_tokenized:
            words = dict.fromkeys(words, "the words of the corpus")
        return {"corpus": self.name, "licence": self.source.corpus.licence, "words": words}

    def error(self, problem: str, remedy: str = "", kind: type[DataError] = DataError) -> DataError:
        """Return an error that names the corpus by its first place."""
        place = next(iter(self.source.inputs.locations.values()), self.name)
        return kind(place, f"{self.source.lang}-{self.source.pivot}: {problem}", remedy=remedy)


def write_rows(writer: DatasetWriter, rows: Iterable[Row]) -> None:
    """Write rows to a dataset, some at a time."""
    rows = iter(rows)
    while batch := list(islice(rows, BATCH_ROWS)):
        writer.write({name: [row[name] for row in batch] for name in writer.schema.names})


def shown(counts: Mapping[str, int]) -> str:
    """Return counts for a message: ``3 blank, 1 overlong``."""
    return ", ".join(f"{n} {name}" for name, n in counts.items())
