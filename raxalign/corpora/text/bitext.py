"""The bitext of a language: its split, cleaned and tokenised, written as Arrow datasets.

The last `test` lines of a corpus are the test side, the `dev` lines before them the dev side;
training runs backwards from there, nearest to dev first, so that a smaller training set is a prefix
of a larger one. Held-out lines that are blank or over-long are dropped and counted, so a held-out
side may be smaller than its number of lines.
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
from raxalign.corpora.text.dataset import DatasetWriter, read_metadata, read_table
from raxalign.corpora.text.overlap import fingerprint, normalize
from raxalign.corpora.text.tail import Tail, read_tail
from raxalign.corpora.text.words import Segmentation, Tokenize, describe, tokenize
from raxalign.errors import DataError

ELSEWHERE = (  # the count of training pairs whose pivot side is held out for another language
    "overlapping_elsewhere"
)
WORDS, OWN_WORDS = (
    "words",
    "own",
)  # metadata of a dataset whose words are those of the corpus: no tokeniser made any
_BATCH = 1000
_WORDS = pa.list_(pa.string())
_POSITIONS = pa.list_(pa.int32())
_COLUMNS = {"id": pa.int64(), "src": _WORDS, "tgt": _WORDS}
_GOLD = {"src_links": _POSITIONS, "tgt_links": _POSITIONS}

_Row = dict[str, Any]


class TooShort(DataError):
    """A corpus that has less text than asked for; `problem` is the message without a remedy, for
    callers that have other names for it.
    """

    def __init__(
        self, file: Path | str, problem: str, *, line: int | None = None, remedy: str = ""
    ) -> None:
        super().__init__(file, problem, line=line, remedy=remedy)
        self.problem = problem


@dataclass(frozen=True)
class BitextOptions:
    """How bitext is cleaned: `overlap` and `shortage` concern training only; a side of more than
    `max_words` words is over-long.
    """

    max_words: int = 128
    segmentation: Segmentation = "characters"
    overlap: Literal["drop", "keep"] = "drop"
    shortage: Literal["refuse", "use-all"] = "refuse"


def write_heldout(
    corpus: Corpus,
    lang: str,
    pivot: str,
    inputs: CorpusInputs,
    split: tuple[int, int],
    options: BitextOptions,
    folder: Path,
) -> dict[str, Any]:
    """Write the test side to `<folder>/data` and the dev side to `<folder>/dev`, in file order;
    returns notes with counts.

    `split` is (test, dev) in lines. Raises `DataError` where the corpus is shorter than that or a
    side has no sentence pair left.
    """
    bitext = _Bitext(corpus, lang, pivot, inputs, options)
    test, dev = split
    heldout = bitext.heldout(bitext.tail(test + dev), split)
    all_counts = {}
    for part, name, pairs in (("test", "data", heldout[dev:]), ("dev", "dev", heldout[:dev])):
        counts: Counter[str] = Counter(lines=len(pairs), blank=0, overlong=0, kept=0)
        bitext.write(folder / name, part, bitext.clean(pairs, counts), counts)
        if pairs and not counts["kept"]:
            raise bitext.error(f"no sentence pair of the {part} side is left ({_told(counts)})")
        all_counts[part] = dict(counts)
    return {**bitext.notes(), "counts": all_counts}


def write_training(
    corpus: Corpus,
    lang: str,
    pivot: str,
    inputs: CorpusInputs,
    split: tuple[int, int],
    sentences: int,
    options: BitextOptions,
    folder: Path,
    elsewhere: Sequence[Path] = (),
) -> dict[str, Any]:
    """Write the last `sentences` clean pairs before dev to `<folder>/data`, nearest to dev first;
    returns notes with counts.

    With ``overlap: drop`` a pair goes that shares a normalised side with a held-out line, whose
    pivot side is one of the held-out sentences in `elsewhere` (the folders that `write_heldout`
    filled for the other languages of one model), or that was there before (nearer to dev). Raises
    `DataError` where there are fewer than `sentences` (``shortage: refuse``) or none at all.
    """
    bitext = _Bitext(corpus, lang, pivot, inputs, options, _pivot_sides(elsewhere))
    tail = bitext.tail(sum(split) + sentences + sentences // 4 + 1000)
    counts = bitext.write_training(tail, split, sentences, folder)
    if counts["kept"] < sentences and not tail.whole:
        tail = bitext.tail(None)
        counts = bitext.write_training(tail, split, sentences, folder)
    if not counts["kept"]:
        raise bitext.error(
            f"nothing is left to train on ({tail.total} lines in all; before dev {_told(counts)})",
            kind=TooShort,
        )
    if counts["kept"] < sentences and options.shortage == "refuse":
        problem = (
            f"{sentences} training pairs were asked for, there are {counts['kept']} ({tail.total}"
            f" lines in all; before dev {_told(counts)})"
        )
        raise bitext.error(
            problem,
            f"Ask for at most {counts['kept']} sentences, or set `shortage: use-all`",
            TooShort,
        )
    return {**bitext.notes(), "counts": {"training": dict(counts), "corpus_lines": tail.total}}


def write_text(
    bitexts: Sequence[Path], side: Literal["src", "tgt"], folder: Path
) -> dict[str, Any]:
    """Write one side of bitext datasets to `<folder>/data`, column `words`: sentences in order,
    each once; returns notes with counts.
    """
    counts: Counter[str] = Counter(read=0, repeated=0, kept=0)

    def rows() -> Iterator[_Row]:
        seen: set[bytes] = set()
        for bitext in bitexts:
            for batch in read_table(bitext).select([side]).to_batches(max_chunksize=_BATCH):
                for words in batch.column(0).to_pylist():
                    counts["read"] += 1
                    key = fingerprint(*words)
                    if key not in seen:
                        seen.add(key)
                        yield {"words": words}

    metadata = {"bitexts": [read_metadata(bitext) for bitext in bitexts], "side": side}
    with DatasetWriter(folder / "data", pa.schema({"words": _WORDS}), metadata) as writer:
        _write_rows(writer, rows())
        counts.update(kept=writer.n_rows, repeated=counts["read"] - writer.n_rows)
        writer.metadata["counts"] = dict(counts)
    return {"counts": dict(counts)}


class _Bitext:
    """What the functions above share: one corpus, one language pair, one way of cleaning."""

    def __init__(
        self,
        corpus: Corpus,
        lang: str,
        pivot: str,
        inputs: CorpusInputs,
        options: BitextOptions,
        elsewhere: frozenset[str] = frozenset(),
    ) -> None:
        self.corpus, self.lang, self.pivot, self.inputs, self.options, self.elsewhere = (
            corpus,
            lang,
            pivot,
            inputs,
            options,
            elsewhere,
        )
        self.name = type(corpus).__module__.rpartition(".")[2]
        self._has_links, self._has_tokenized = False, False

    @cached_property
    def _source(self) -> Tokenize:
        return tokenize(self.lang, self.options.segmentation)

    @cached_property
    def _target(self) -> Tokenize:
        return tokenize(self.pivot, self.options.segmentation)

    def tail(self, size: int | None) -> Tail:
        """The last `size` pairs of the corpus; all of them for None."""
        tail = read_tail(self.corpus.read(self.lang, self.pivot, self.inputs), size)
        self._has_links = tail.has_links
        return tail

    def heldout(self, tail: Tail, split: tuple[int, int]) -> list[SentencePair]:
        """The dev lines, then the test lines, in file order."""
        size = sum(split)
        if tail.total < size:
            problem = (
                f"the corpus has {tail.total} lines, and {split[0]} for test and {split[1]} for dev"
                " were asked for"
            )
            raise self.error(problem, "Make `split` smaller", TooShort)
        return list(islice(tail.backwards(), size))[::-1]

    def write_training(
        self, tail: Tail, split: tuple[int, int], sentences: int, folder: Path
    ) -> Counter[str]:
        """Write what there is in a tail, up to `sentences`; `counts["read"]` is how many lines that
        took.
        """
        heldout = self.heldout(tail, split)
        apart = [ELSEWHERE] if self.elsewhere else []
        counts: Counter[str] = Counter(
            dict.fromkeys(
                ["read", "blank", "overlapping", *apart, "repeated", "overlong", "kept"], 0
            )
        )
        pairs: Iterable[SentencePair] = self._count(
            islice(tail.backwards(), len(heldout), None), counts
        )
        if self.options.overlap == "drop":
            pairs = _without_overlap(pairs, heldout, self.elsewhere, counts)
        self.write(
            folder / "data", "training", islice(self.clean(pairs, counts), sentences), counts
        )
        return counts

    @staticmethod
    def _count(pairs: Iterable[SentencePair], counts: Counter[str]) -> Iterator[SentencePair]:
        for pair in pairs:
            counts["read"] += 1
            yield pair

    def clean(self, pairs: Iterable[SentencePair], counts: Counter[str]) -> Iterator[_Row]:
        """Tokenised rows; blank and over-long pairs are counted."""
        for pair in pairs:
            self._has_tokenized = (
                self._has_tokenized or pair.source_words is None or pair.target_words is None
            )
            src = (
                self._source(pair.source)
                if pair.source_words is None
                else self._given(pair, pair.source_words)
            )
            tgt = (
                self._target(pair.target)
                if pair.target_words is None
                else self._given(pair, pair.target_words)
            )
            if not src or not tgt:
                counts["blank"] += 1
            elif max(len(src), len(tgt)) > self.options.max_words:
                counts["overlong"] += 1
            else:
                counts["kept"] += 1
                row = {"id": pair.id, "src": src, "tgt": tgt}
                yield row | self._links(pair, src, tgt) if self._has_links else row

    def _given(self, pair: SentencePair, words: tuple[str, ...]) -> list[str]:
        if any(word.split() != [word] for word in words):
            raise self.error(
                f"sentence pair {pair.id}: a word is empty or has white space in it: {words}"
            )
        return list(words)

    def _links(self, pair: SentencePair, src: list[str], tgt: list[str]) -> _Row:
        links = pair.links or ()
        for i, j in links:
            if not (0 <= i < len(src) and 0 <= j < len(tgt)):
                raise self.error(
                    f"sentence pair {pair.id}: link {i}-{j} is out of range ({len(src)} and"
                    f" {len(tgt)} words, counted from 0)"
                )
        return {"src_links": [i for i, _ in links], "tgt_links": [j for _, j in links]}

    def write(
        self, folder: Path, part: str, rows: Iterable[_Row], counts: Mapping[str, int]
    ) -> None:
        """Write rows; the counts are read at the end, when the rows have run out."""
        schema = pa.schema(_COLUMNS | (_GOLD if self._has_links else {}))
        metadata = {"lang_pair": f"{self.lang}-{self.pivot}", "corpus": self.name, "split": part}
        with DatasetWriter(folder, schema, metadata) as writer:
            _write_rows(writer, rows)
            writer.metadata["counts"] = dict(counts)
            if not self._has_tokenized:
                writer.metadata[WORDS] = OWN_WORDS

    def notes(self) -> dict[str, Any]:
        """What a manifest records besides counts, when the text is written."""
        words = {
            code: describe(code, self.options.segmentation) for code in (self.lang, self.pivot)
        }
        if not self._has_tokenized:
            words = dict.fromkeys(words, "the words of the corpus")
        return {"corpus": self.name, "licence": self.corpus.licence, "words": words}

    def error(self, problem: str, remedy: str = "", kind: type[DataError] = DataError) -> DataError:
        """An error that names the corpus by its first place."""
        place = next(iter(self.inputs.locations.values()), self.name)
        return kind(place, f"{self.lang}-{self.pivot}: {problem}", remedy=remedy)


def _pivot_sides(folders: Sequence[Path]) -> frozenset[str]:
    """The normalised pivot sides of held-out sets that `write_heldout` wrote: `normalize` leaves
    the same of words as of their sentence.
    """
    tables = [
        read_table(folder / name).column("tgt") for folder in folders for name in ("data", "dev")
    ]
    return frozenset(
        normalize(" ".join(words)) for column in tables for words in column.to_pylist()
    )


def _without_overlap(
    pairs: Iterable[SentencePair],
    heldout: Sequence[SentencePair],
    elsewhere: frozenset[str],
    counts: Counter[str],
) -> Iterator[SentencePair]:
    """Pairs of which neither side is in the held-out text, nor the pivot side in that of other
    languages, each once.

    Sides are compared as `normalize` leaves them.
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


def _write_rows(writer: DatasetWriter, rows: Iterable[_Row]) -> None:
    rows = iter(rows)
    while batch := list(islice(rows, _BATCH)):
        writer.write({name: [row[name] for row in batch] for name in writer.schema.names})


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {name}" for name, n in counts.items())
