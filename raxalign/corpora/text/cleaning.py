"""Sentence pairs of a corpus, cleaned and tokenised: what the bitext of a language is written
from.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from raxalign.corpora.base import Corpus, CorpusInputs, SentencePair
from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.corpora.text.overlap import ELSEWHERE, without_overlap
from raxalign.corpora.text.sentences import cells, sentence_columns
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
FEW_PIECES, MANY_PIECES = PIECE_COUNTS = ("few_pieces", "many_pieces")
"""The counts of training pairs that a `PieceFilter` leaves out."""
_CHUNK = 4096
_WORDS, _POSITIONS = pa.list_(pa.string()), pa.list_(pa.int32())
_COLUMNS = {"id": pa.int64(), **sentence_columns("src"), **sentence_columns("tgt")}
_GOLD = {"src_links": _POSITIONS, "tgt_links": _POSITIONS}
_PAIRS = pa.schema(
    {
        "id": pa.int64(),
        "source": pa.large_string(),
        "target": pa.large_string(),
        "source_words": _WORDS,
        "target_words": _WORDS,
        "links": pa.list_(_POSITIONS),
    }
)
"""The fields of a `SentencePair` as columns."""

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
class PieceFilter:
    """Limits on the pieces of a training pair: `min_pieces` or more on each side, and `max_pieces`
    or less on both together (0: no limit).

    `count` gives the number of pieces of a sentence (its words, its language), special ones apart.
    """

    count: Callable[[Sequence[str], str], int]
    min_pieces: int = 1
    max_pieces: int = 0

    def refuses(self, src: Sequence[str], tgt: Sequence[str], langs: tuple[str, str]) -> str | None:
        """Return the count that a pair belongs to which is left out; None for one that is kept.

        Args:
            src: The words of the other language.
            tgt: The words of the pivot.
            langs: The other language and the pivot.
        """
        sizes = self.count(src, langs[0]), self.count(tgt, langs[1])
        if min(sizes) < self.min_pieces:
            return FEW_PIECES
        return MANY_PIECES if self.max_pieces and sum(sizes) > self.max_pieces else None


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


@dataclass(frozen=True)
class Tail:
    """The end of a corpus: at least as many pairs as were asked for, in chunks that hold text as
    bytes, not as Python strings.

    `total` counts all pairs of the corpus; `whole` is true where all of them are here, and
    `has_links` where any pair that was read has gold links.
    """

    chunks: tuple[pa.RecordBatch, ...]
    total: int
    has_links: bool

    @property
    def whole(self) -> bool:
        """Whether no pair of the corpus was left out."""
        return bool(sum(chunk.num_rows for chunk in self.chunks) == self.total)

    @classmethod
    def of(cls, pairs: Iterable[SentencePair], size: int | None) -> Tail:
        """Go through a corpus and keep its last `size` pairs (some more, up to a chunk); all of
        them for None.
        """
        kept: deque[pa.RecordBatch] = deque()
        pairs, total, n_kept, has_links = iter(pairs), 0, 0, False
        while chunk := list(islice(pairs, _CHUNK)):
            total, n_kept = total + len(chunk), n_kept + len(chunk)
            has_links = has_links or any(pair.links is not None for pair in chunk)
            columns = {name: [getattr(pair, name) for pair in chunk] for name in _PAIRS.names}
            kept.append(pa.RecordBatch.from_pydict(columns, schema=_PAIRS))
            while size is not None and n_kept - kept[0].num_rows >= size and len(kept) > 1:
                n_kept -= kept.popleft().num_rows
        return cls(tuple(kept), total, has_links)

    def backwards(self) -> Iterator[SentencePair]:
        """Yield the pairs, the last one first."""
        for chunk in reversed(self.chunks):
            rows = zip(*(reversed(column.to_pylist()) for column in chunk.columns), strict=True)
            for number, source, target, source_words, target_words, links in rows:
                src, tgt = (
                    None if words is None else tuple(words)
                    for words in (source_words, target_words)
                )
                gold = None if links is None else tuple((i, j) for i, j in links)
                yield SentencePair(number, source, target, src, tgt, gold)


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
        self._langs = source.lang, source.pivot
        self.name = type(source.corpus).__module__.rpartition(".")[2]
        self._has_links, self._has_tokenized = False, False
        self._tokenizers: dict[str, Tokenize] = {}

    def tail(self, size: int | None) -> Tail:
        """Read the last `size` pairs of the corpus; all of them for None."""
        tail = Tail.of(self._read(), size)
        self._has_links = tail.has_links
        return tail

    def _read(self) -> Iterator[SentencePair]:
        return self.source.corpus.read(self.source.lang, self.source.pivot, self.source.inputs)

    def _before(self, tail: Tail, n_heldout: int, counts: Counter[str]) -> Iterator[SentencePair]:
        """Yield and count the pairs before the `n_heldout` last ones of a tail, in the order of
        training: from the first one of the corpus, which is read again, or backwards.
        """
        from_start = self.options.training_from == "start"
        for pair in (
            islice(self._read(), tail.total - n_heldout)
            if from_start
            else islice(tail.backwards(), n_heldout, None)
        ):
            counts["read"] += 1
            yield pair

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
        named = ["read", "blank", "overlapping", *apart, "repeated", "overlong", *lengths, "kept"]
        counts: Counter[str] = Counter(dict.fromkeys(named, 0))
        pairs = self._before(tail, len(heldout), counts)
        if self.options.overlap == "drop":
            pairs = without_overlap(pairs, heldout, self.elsewhere, counts)
        rows = islice(self.clean(pairs, counts, training=True), sentences)
        self.write(folder / "data", "training", rows, counts)
        return counts

    def clean(
        self, pairs: Iterable[SentencePair], counts: Counter[str], *, training: bool
    ) -> Iterator[Row]:
        """Yield tokenised rows; blank pairs are left out and counted, and so are training pairs
        that are over-long or of another number of pieces.
        """
        for pair in pairs:
            given = pair.source_words, pair.target_words
            self._has_tokenized = self._has_tokenized or None in given
            src = self._words(pair, pair.source, pair.source_words, self.source.lang)
            tgt = self._words(pair, pair.target, pair.target_words, self.source.pivot)
            if not src or not tgt:
                counts["blank"] += 1
            elif training and self._overlong(pair, src, tgt):
                counts["overlong"] += 1
            elif training and (found := self._other_length(src, tgt)) is not None:
                counts[found] += 1
            else:
                counts["kept"] += 1
                for own, words in zip(given, (src, tgt), strict=True):
                    if own is None and not isinstance(words, Sentence):
                        counts["without_text"] += 1  # the tokeniser changed its words
                row = {"id": pair.id, **cells("src", src), **cells("tgt", tgt)}
                yield row | self._links(pair, src, tgt) if self._has_links else row

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
    def _word_sizes(self) -> list[int]:
        """How many of the tokeniser's words count as one, in the other language and the pivot."""
        divided = self.options.segmentation == "words"
        return [1 if divided or language(code).spaced else CHARACTERS for code in self._langs]

    def _other_length(self, src: Sequence[str], tgt: Sequence[str]) -> str | None:
        """The count of pairs with too few or too many pieces that a pair belongs to, if any."""
        pieces = self.options.pieces
        return None if pieces is None else pieces.refuses(src, tgt, self._langs)

    def _words(
        self, pair: SentencePair, text: str, words: tuple[str, ...] | None, lang: str
    ) -> list[str]:
        """The words of one side: the given ones (`words`), or those that a tokeniser makes."""
        if words is None:
            if lang not in self._tokenizers:
                self._tokenizers[lang] = tokenize(lang, self.options.segmentation)
            return within_text(self._tokenizers[lang], text)
        if divide_at_blanks(" ".join(words)) != tuple(words):
            problem = f"sentence pair {pair.id}: a word is empty or has a blank in it: {words}"
            raise self.error(problem)
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
            if self._has_tokenized
            else "the words of the corpus"
            for code in self._langs
        }
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


def basic_tokens(text: str) -> int:
    """Return the number of tokens that BERT's basic tokeniser makes of a text: it divides at white
    space, and takes each punctuation mark and each Chinese character apart.

    >>> basic_tokens("Don't go -- 東京!")
    9
    """
    normalizer, divider = _basic_tokenizer()
    return len(divider.pre_tokenize_str(normalizer.normalize_str(text)))


@cache
def _basic_tokenizer() -> tuple[Any, Any]:
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    return BertNormalizer(lowercase=False, strip_accents=False), BertPreTokenizer()
