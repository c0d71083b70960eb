"""The bitext of a language: its split, cleaned and tokenised, written as Arrow datasets; and when
two sentences count as the same.

The last `test` lines of a corpus are the test side, the `dev` lines before them the dev side.
Training runs backwards from there, nearest to dev first, or forwards from the first line. So a
smaller training set is a prefix of a larger one. No limit of length concerns held-out lines. Those
that are blank are dropped and counted, so a held-out side may be smaller than its number of lines.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from raxalign.corpora.base import Corpus, CorpusInputs, SentencePair
from raxalign.corpora.text.dataset import DatasetWriter, read_metadata, read_table
from raxalign.corpora.text.sentences import cells, sentence_chunks, sentence_columns
from raxalign.corpora.text.words import (
    Segmentation,
    Sentence,
    character_class,
    clean,
    describe,
    divide_at_blanks,
    given_words,
    is_escaped,
    tokenize,
    within_text,
)
from raxalign.errors import DataError
from raxalign.languages import language
from raxalign.lazy import pa

ELSEWHERE = "overlapping_elsewhere"
"""The count of training pairs whose pivot side is held out for another language."""

_ASCII = {code: None for code in range(128) if not chr(code).isalnum()}


def normalize(text: str) -> str:
    """Return a sentence without the differences that do not count: NFKC, case folded, with only its
    letters, marks and numbers left.

    A sentence of nothing else keeps all its characters but white space, so that ``?!`` and ``...``
    stay different.

    >>> normalize("Ｗhat's  up?"), normalize("?!")
    ('whatsup', '?!')
    """
    text = clean(text)
    if text.isascii():
        return text.lower().translate(_ASCII) or "".join(text.split())
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _other_characters().sub("", folded) or "".join(folded.split())


def fingerprint(*sides: str) -> bytes:
    """Twelve bytes that represent normalised text in sets of millions."""
    return blake2b("\n".join(sides).encode(), digest_size=12).digest()


@cache
def _other_characters() -> re.Pattern[str]:
    r"""What is neither letter, mark nor number (``\W`` takes the vowel signs of Devanagari for
    punctuation).
    """
    marks = character_class(lambda char: unicodedata.category(char)[0] == "M", 0x300, 0x1FFFF)
    return re.compile(rf"(?:[\W_](?<![{marks}]))+")


def without_overlap(
    pairs: Iterable[SentencePair],
    heldout: Sequence[SentencePair],
    elsewhere: frozenset[str],
    counts: Counter[str],
) -> Iterator[SentencePair]:
    """Yield, in order and each once, the pairs of which neither side is in the held-out text, nor
    the pivot side in that of other languages (`elsewhere`, normalised). Sides are compared as
    `normalize` leaves them; `counts` is added to, by the reason why a pair is left out.
    """
    sides = [(normalize(pair.source), normalize(pair.target)) for pair in heldout]
    sources, targets = ({pair[side] for pair in sides if all(pair)} for side in (0, 1))
    seen: set[bytes] = set()
    for pair in pairs:
        source, target = normalize(pair.source), normalize(pair.target)
        if not source or not target:
            yield pair  # which `clean` counts as blank
            continue
        key = fingerprint(source, target)
        if source in sources or target in targets:
            counts["overlapping"] += 1
        elif target in elsewhere:
            counts[ELSEWHERE] += 1
        elif key in seen:
            counts["repeated"] += 1
        else:
            seen.add(key)
            yield pair


_WORDS, _OWN = "words", "own"  # metadata of a dataset, see `has_own_words`
BATCH_ROWS = 1000
CHARACTERS = 4
"""How many characters (syllables of Tibetan) are a word to `max_words`. Thai news has 3.5 for each
English word, Chinese 1.6; where fewer would do, a sentence is kept that an encoder has room for.
"""
FEW_PIECES, MANY_PIECES = PIECE_COUNTS = ("few_pieces", "many_pieces")
"""The counts of training pairs that a `PieceFilter` leaves out."""

Row = dict[str, Any]


class TooShort(DataError):
    """A corpus that has less text than was asked for."""


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
        """Return the count that a pair belongs to which is left out; None for one that is kept."""
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

    def write_heldout(self, options: BitextOptions, folder: Path) -> dict[str, Any]:
        """Write the test side to `<folder>/data` and the dev side to `<folder>/dev`, in file order;
        returns notes, with counts per part.

        Raises `DataError` where the corpus is shorter than its split, or a side has no sentence
        pair left.
        """
        cleaner, dev = Cleaner(self, options), self.split[1]
        cleaner.read_last(sum(self.split))
        heldout = cleaner.heldout()
        all_counts = {}
        for part, name, pairs in (("test", "data", heldout[dev:]), ("dev", "dev", heldout[:dev])):
            counts: Counter[str] = Counter(lines=len(pairs), blank=0, kept=0)
            rows = cleaner.clean(pairs, counts, training=False)
            cleaner.write(folder / name, part, rows, counts)
            if pairs and not counts["kept"]:
                raise cleaner.error(
                    f"no sentence pair of the {part} side is left ({shown(counts)})"
                )
            all_counts[part] = dict(counts)
        return {**cleaner.notes(), "counts": all_counts}

    def write_training(
        self,
        sentences: int,
        options: BitextOptions,
        folder: Path,
        elsewhere: Sequence[Path] = (),
    ) -> dict[str, Any]:
        """Write the last `sentences` clean pairs before dev to `<folder>/data`, nearest to dev
        first; with ``training_from: start`` the first ones of the corpus, in file order. Returns
        notes, with counts.

        With ``overlap: drop``, a pair is left out that shares a normalised side with a held-out
        line, whose pivot side is held out for another language (`elsewhere` are the folders that
        `write_heldout` filled for those), or that is a repetition of a pair that was written.
        Raises `TooShort` where there are fewer than `sentences` (``shortage: refuse``), or none at
        all.
        """
        cleaner = Cleaner(self, options, _pivot_sides(elsewhere))
        backwards = options.training_from == "end"
        cleaner.read_last(sum(self.split) + backwards * (sentences + sentences // 4 + 1000))
        counts = cleaner.write_training(sentences, folder)
        if backwards and counts["kept"] < sentences and len(cleaner.last) < cleaner.total:
            cleaner.read_last(None)
            counts = cleaner.write_training(sentences, folder)
        _require_enough(cleaner, sentences, counts)
        return {
            **cleaner.notes(),
            "counts": {"training": dict(counts), "corpus_lines": cleaner.total},
        }


class Cleaner:
    """Reads, cleans and writes the sentence pairs of one corpus and one language pair.

    `last` holds the last pairs of the corpus that were read, `total` counts all of them.
    """

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
        self.last: deque[SentencePair] = deque()
        self.total = 0
        self._has_links, self._has_tokenized = False, False
        self._tokenizers: dict[str, Callable[[str], list[str]]] = {}

    def read_last(self, size: int | None) -> None:
        """Go through the corpus and keep its last `size` pairs; all of them for None."""
        self.last, self.total = deque(maxlen=size), 0
        for pair in self._read():
            self.total += 1
            self._has_links = self._has_links or pair.links is not None
            self.last.append(pair)

    def _read(self) -> Iterator[SentencePair]:
        return self.source.corpus.read(self.source.lang, self.source.pivot, self.source.inputs)

    def _before(self, n_heldout: int, counts: Counter[str]) -> Iterator[SentencePair]:
        """Yield and count the pairs before the `n_heldout` last ones, in the order of training:
        from the first one of the corpus, which is read again, or backwards.
        """
        from_start = self.options.training_from == "start"
        for pair in (
            islice(self._read(), self.total - n_heldout)
            if from_start
            else islice(reversed(self.last), n_heldout, None)
        ):
            counts["read"] += 1
            yield pair

    def heldout(self) -> list[SentencePair]:
        """Return the dev lines, then the test lines, in file order. Raises `TooShort` for fewer."""
        test, dev = self.source.split
        if self.total < test + dev:
            problem = (
                f"the corpus has {self.total} lines, and {test} for test and {dev} for dev"
                " were asked for"
            )
            raise self.error(problem, "Make `split` smaller", TooShort)
        return list(islice(reversed(self.last), test + dev))[::-1]

    def write_training(self, sentences: int, folder: Path) -> Counter[str]:
        """Write the clean pairs before the held-out lines, `sentences` at most; return counts, of
        which `read` is the number of lines that were read.
        """
        heldout = self.heldout()
        apart = [ELSEWHERE] if self.elsewhere else []
        lengths = PIECE_COUNTS if self.options.pieces is not None else ()
        named = ["read", "blank", "overlapping", *apart, "repeated", "overlong", *lengths, "kept"]
        counts: Counter[str] = Counter(dict.fromkeys(named, 0))
        pairs = self._before(len(heldout), counts)
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
            elif training and (refused := self._refused(pair, src, tgt)) is not None:
                counts[refused] += 1
            else:
                counts["kept"] += 1
                if is_escaped(pair.source) or is_escaped(pair.target):
                    counts["escaped"] += 1
                for own, words in zip(given, (src, tgt), strict=True):
                    if own is None and not isinstance(words, Sentence):
                        counts["without_text"] += 1  # the tokeniser changed its words
                row = {"id": pair.id, **cells("src", src), **cells("tgt", tgt)}
                yield row | self._links(pair, src, tgt) if self._has_links else row

    def _refused(self, pair: SentencePair, src: list[str], tgt: list[str]) -> str | None:
        """The count of pairs that are left out for their length to which one belongs, if any."""
        limit, pieces = self.options.max_basic_tokens, self.options.pieces
        longest = (
            self.options.max_words * (size if own is None else 1)
            for own, size in zip(
                (pair.source_words, pair.target_words), self._word_sizes, strict=True
            )
        )
        if any(len(side) > most for side, most in zip((src, tgt), longest, strict=True)) or (
            limit is not None and max(map(basic_tokens, (pair.source, pair.target))) > limit
        ):
            return "overlong"
        return None if pieces is None else pieces.refuses(src, tgt, self._langs)

    @cached_property
    def _word_sizes(self) -> list[int]:
        """How many of the tokeniser's words count as one, in the other language and the pivot."""
        divided = self.options.segmentation == "words"
        return [1 if divided or language(code).spaced else CHARACTERS for code in self._langs]

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
        columns = {"id": pa.int64(), **sentence_columns("src"), **sentence_columns("tgt")}
        if self._has_links:
            columns |= dict.fromkeys(("src_links", "tgt_links"), pa.list_(pa.int32()))
        metadata = {
            "lang": self.source.lang,
            "pivot": self.source.pivot,
            "lang_pair": f"{self.source.lang}-{self.source.pivot}",
            "corpus": self.name,
            "split": part,
        }
        with DatasetWriter(folder, pa.schema(columns), metadata) as writer:
            write_rows(writer, rows)
            writer.metadata["counts"] = dict(counts)
            if not self._has_tokenized:
                writer.metadata[_WORDS] = _OWN

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


def has_own_words(metadata: Mapping[str, Any], *, unknown: bool = False) -> bool:
    """Return whether the words of a dataset are those of the corpus, so that no tokeniser made any;
    `unknown` where the metadata does not record it.
    """
    return metadata[_WORDS] == _OWN if _WORDS in metadata else unknown


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


def _require_enough(cleaner: Cleaner, sentences: int, counts: Mapping[str, int]) -> None:
    lines = f"({cleaner.total} lines in all; before dev {shown(counts)})"
    if not counts["kept"]:
        raise cleaner.error(f"nothing is left to train on {lines}", kind=TooShort)
    if counts["kept"] < sentences and cleaner.options.shortage == "refuse":
        raise cleaner.error(
            f"{sentences} training pairs were asked for, there are {counts['kept']} {lines}",
            f"Ask for at most {counts['kept']} sentences, or set `shortage: use-all`",
            TooShort,
        )


def write_text(
    bitexts: Sequence[Path], side: Literal["src", "tgt"], folder: Path
) -> dict[str, Any]:
    """Write one side of bitext datasets to `<folder>/data`, columns `words`, `words_text` and
    `words_starts`: sentences in order, each once; returns notes, with counts.
    """
    counts: Counter[str] = Counter(read=0, repeated=0, kept=0)

    def rows() -> Iterator[Row]:
        seen: set[bytes] = set()
        for bitext in bitexts:
            for sentences in sentence_chunks(read_table(bitext), side, BATCH_ROWS):
                for words in sentences:
                    counts["read"] += 1
                    key = fingerprint(*words)
                    if key not in seen:
                        seen.add(key)
                        yield cells("words", words)

    schema = pa.schema(sentence_columns("words"))
    metadata = {"bitexts": [read_metadata(bitext) for bitext in bitexts], "side": side}
    with DatasetWriter(folder / "data", schema, metadata) as writer:
        write_rows(writer, rows())
        counts.update(kept=writer.n_rows, repeated=counts["read"] - writer.n_rows)
        writer.metadata["counts"] = dict(counts)
    return {"counts": dict(counts)}


def _pivot_sides(folders: Sequence[Path]) -> frozenset[str]:
    """The normalised pivot sides of held-out sets that `write_heldout` wrote. `normalize` gives the
    same text for a sentence and for its words joined by blanks.
    """
    tables = [
        read_table(folder / name).column("tgt") for folder in folders for name in ("data", "dev")
    ]
    return frozenset(
        normalize(" ".join(words)) for column in tables for words in column.to_pylist()
    )
