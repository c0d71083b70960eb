"""The phrasebook: parallel sentences in six languages, with gold links, and labelled examples for
tasks; and sample texts for looking at a tokenizer. Nothing is downloaded.

``phrases/phrasebook.parquet`` holds the rows. Each has its kind, its part (a seed or a split), and
one list of texts per language, in which blanks divide words, their tags and their senses. A program
drew them once from a small grammar. ``phrasebook.json`` has the commit of that program, its
command, and the number of rows of each kind and part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from raxalign.corpora.base import Corpus, CorpusInputs, SentencePair
from raxalign.errors import DataError
from raxalign.languages import spelled
from raxalign.lazy import pq
from raxalign.options.sources import Source

LANGS = ("en", "de", "es", "fr", "bg", "el")
FILE = Path(__file__).with_name("phrases") / "phrasebook.parquet"
Words = tuple[str, ...]


class PhraseSentence(NamedTuple):
    """A sentence in one language: its words, their universal parts of speech, and what each word
    expresses (for links).
    """

    words: Words
    tags: Words
    senses: tuple[tuple[int, ...], ...]


@cache
def record() -> Mapping[str, Any]:
    """Return how the rows were made; `rows` has their numbers by kind and part."""
    found: Mapping[str, Any] = json.loads(FILE.with_suffix(".json").read_text(encoding="utf-8"))
    return found


def held(kind: str) -> Mapping[str, int]:
    """Return the number of rows of a kind by part; empty for a kind that has none."""
    found: Mapping[str, int] = record()["rows"].get(kind, {})
    return found


def read(kind: str, part: str, langs: Sequence[str], rows: range) -> Iterator[tuple[Any, ...]]:
    """Return the texts of some rows, for each row one list per language. `kind` is ``sentences``,
    ``text`` or the name of a task, `part` a seed of sentences or a split.

    Raises `DataError` where there is no such part, or it has fewer rows.
    """
    parts = held(kind)
    if part not in parts:
        known = f"has no {kind} {part!r}"
        raise DataError("phrasebook", known, remedy=f"use {', '.join(parts)}")
    if rows.stop > parts[part]:
        known = f"has {parts[part]:,} rows of {kind} {part}, not {rows.stop:,}"
        raise DataError("phrasebook", known, remedy="ask for fewer, or use data of your own")
    wanted = [("kind", "=", kind), ("part", "=", part)]
    table = pq.read_table(FILE, columns=list(dict.fromkeys(langs)), filters=wanted)
    found = table.slice(rows.start, len(rows)).to_pydict()
    return zip(*(found[lang] for lang in langs), strict=True)


def sentences(
    langs: Sequence[str], count: int, seed: int = 0, first: int = 0
) -> Iterator[tuple[PhraseSentence, ...]]:
    """Return `count` sentences of a seed from number `first` on, each in some of `LANGS`."""
    found = read("sentences", str(seed), langs, range(first, first + count))
    return (tuple(_sentence(*cells) for cells in row) for row in found)


def _sentence(words: str, tags: str, senses: str) -> PhraseSentence:
    expressed = tuple(tuple(map(int, word.split(","))) for word in senses.split(" "))
    return PhraseSentence(tuple(words.split(" ")), tuple(tags.split(" ")), expressed)


def tagged(task: str, n: int, lang: str, split: str) -> Iterator[tuple[Words, Words]]:
    """Return the first n sentences of a split of a tagging task, with one tag per word."""
    found = read(task, split, (lang,), range(n))
    return ((tuple(words.split(" ")), tuple(tags.split(" "))) for ((words, tags),) in found)


def links(
    source: tuple[tuple[int, ...], ...], target: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, int], ...]:
    """Return the gold links between two sides, by what their words express. A part that the other
    side does not express links to the whole that it belongs to.
    """
    of_source, of_target = _places(source), _places(target)
    found = set()
    for sense, places in of_source.items():
        for other in of_target.get(sense) or of_target.get(sense - sense % 10, []):
            found.update([(place, other) for place in places])
    for sense, places in of_target.items():
        if sense not in of_source:
            for other in of_source.get(sense - sense % 10, []):
                found.update([(other, place) for place in places])
    return tuple(sorted(found))


def _places(senses: tuple[tuple[int, ...], ...]) -> dict[int, list[int]]:
    table: dict[int, list[int]] = {}
    for place, expressed in enumerate(senses):
        for sense in expressed:
            table.setdefault(sense, []).append(place)
    return table


def detokenized(words: Sequence[str]) -> str:
    """Return the words joined by spaces, but not before punctuation and after opening marks."""
    text = ""
    for word in words:
        glue = not text or text[-1] in "'¿" or word in (".", ",", "?", ";")
        text += word if glue else " " + word
    return text


@cache
def built_in_texts() -> Mapping[str, Sequence[str]]:
    """Return ten parallel sentences by language, in eight languages of six scripts."""
    found: dict[str, list[str]] = {}
    for line in FILE.with_name("samples.txt").read_text(encoding="utf-8").splitlines():
        lang, text = line.split("\t")
        found.setdefault(lang, []).append(text)
    return found


class PhrasebookCorpus(Corpus):
    """Made-up but correct sentences with word order, agreement and ambiguity worth aligning; the
    same id is the same sentence in all languages. There are 13,000 with `seed: 0` and 3,000 with
    `seed: 1`, which are part of the package.

    Relations: The corpus of the encoder `phrasebook`, for trying things out; `moses` and `tsv` read
    text of your own.

    Example:
        corpus:
          source: phrasebook
          size: 3_000
          split: {test: 300, dev: 200}
    """

    VERSION = 1
    licence = "Apache-2.0, part of raxalign"

    class Params(Corpus.Params):
        """The sentence pairs of a smaller `size` are the first ones of a larger."""

        size: int = Field(12_000, ge=1)
        """Number of sentence pairs."""
        seed: int = Field(0, ge=0)
        """Seed that the sentences were drawn by."""

        @model_validator(mode="after")
        def _there(self) -> PhrasebookCorpus.Params:
            most = held("sentences")
            if self.size > most.get(str(self.seed), 0):
                seeds = " and ".join(f"{n:,} with seed {seed}" for seed, n in most.items())
                raise ValueError(
                    f"the phrasebook has {seeds}, not {self.size:,} sentences with seed"
                    f" {self.seed}; ask for fewer, or name text of your own (`source: moses`)"
                )
            return self

    params: Params

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:  # noqa: ARG002
        """Return nothing: the rows are part of the package."""
        return {}

    def lacks(self, lang: str, pivot: str) -> str:
        """Return which of two languages the phrasebook does not have."""
        missing = [code for code in (lang, pivot) if spelled(code, LANGS) is None]
        told = f"the phrasebook has no {' and no '.join(missing)}; it has {', '.join(LANGS)}"
        return told if missing else ""

    def n_pairs(self, lang: str, pivot: str, enough: int) -> int | None:  # noqa: ARG002
        """Return `size`."""
        return self.params.size

    def read(self, lang: str, pivot: str, inputs: CorpusInputs) -> Iterator[SentencePair]:  # noqa: ARG002
        """Return all pairs, with words and gold links. Raises `DataError` for another language."""
        if told := self.lacks(lang, pivot):
            raise DataError("phrasebook", told)
        return self._pairs([spelled(code, LANGS) or code for code in (lang, pivot)])

    def _pairs(self, langs: Sequence[str]) -> Iterator[SentencePair]:
        found = sentences(langs, self.params.size, self.params.seed)
        for number, (source, target) in enumerate(found):
            yield SentencePair(
                number,
                detokenized(source.words),
                detokenized(target.words),
                source.words,
                target.words,
                links(source.senses, target.senses),
            )
