"""Pairs as tasks read them: held-out sentences, linked words as flat arrays, and translated
sentences of a task's own files or a set of the hub.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from raxalign.arrays import Bools, Ints
from raxalign.catalog import catalog
from raxalign.caveats import Caveats, LeftOut
from raxalign.corpora.base import CorpusInputs, FileCorpus
from raxalign.corpora.readers.codes import Codes, ListName, own_code
from raxalign.corpora.readers.hub import check_columns
from raxalign.corpora.readers.inspection import LocalRows
from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import read_sentences
from raxalign.corpora.text.words import given_words, tokenize, within_text
from raxalign.errors import DataError
from raxalign.languages import spelled
from raxalign.lazy import np
from raxalign.options.params import LATER, BaseParams, Removed
from raxalign.options.sources import DataPrefix, LocalFile, Source
from raxalign.pairing.links import Links
from raxalign.tasks.transfer.params import HubSet
from raxalign.tasks.transfer.rows import unit

if TYPE_CHECKING:
    from datasets import Dataset

_FOLDERS = {"dev": "dev", "test": "data"}
"""Split -> its folder in an artifact of held-out data."""


def held_out(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield each split of a held-out artifact that has rows, with its dataset folder. One that has
    none has a folder too.
    """
    for split, name in _FOLDERS.items():
        if len(read_table(folder / name)):
            yield split, folder / name


@dataclass(frozen=True)
class SentencePairs:
    """The sentence pairs of a language and the pivot, as words; `ids` (S,) are their numbers.

    `premises` (S,) are hashes by which pairs are not independent (None: they are). `remarks` say
    what was left out of the task's own data; what of the grid's text is recorded with it.
    """

    ids: Ints
    src: Sequence[Sequence[str]]
    tgt: Sequence[Sequence[str]]
    premises: Ints | None = None
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def note(self) -> dict[str, str]:
        """The note on the remarks in a record; empty where there are none."""
        return Caveats.warning(self.remarks)

    @classmethod
    def held_out(cls, folder: Path) -> Iterator[tuple[str, SentencePairs]]:
        """Yield each split of a held-out artifact that has rows, with its pairs."""
        for split, part in held_out(folder):
            yield split, cls.read(part)

    @classmethod
    def read(cls, folder: Path) -> SentencePairs:
        """Read a dataset of sentence pairs."""
        table = read_table(folder)
        src, tgt = (read_sentences(table, side) for side in ("src", "tgt"))
        return cls(np.asarray(table["id"], dtype=np.int64), src, tgt)

    def first(self, limit: int | None) -> SentencePairs:
        """Return the first pairs (None: all)."""
        return self.take(np.arange(len(self.ids))[:limit])

    def take(self, rows: Ints) -> SentencePairs:
        """Return the pairs of these rows."""
        src, tgt = ([side[row] for row in rows.tolist()] for side in (self.src, self.tgt))
        premises = None if self.premises is None else self.premises[rows]
        return replace(self, ids=self.ids[rows], src=src, tgt=tgt, premises=premises)

    @cached_property
    def units(self) -> Ints:
        """The hash of each pivot sentence (S,)."""
        return np.array([unit(words) for words in self.tgt], dtype=np.int64)


@dataclass(frozen=True)
class SideWords:
    """All words of the sentences of one language, numbered consecutively; word w is at
    `position[w]` of the sentence in row `row[w]`.
    """

    sentences: Sequence[Sequence[str]]

    @cached_property
    def offsets(self) -> Ints:
        """The number of each sentence's first word, and of all words."""
        return np.cumsum([0, *map(len, self.sentences)], dtype=np.int64)

    @cached_property
    def row(self) -> Ints:
        """The sentence of every word."""
        return np.repeat(np.arange(len(self.sentences)), np.diff(self.offsets))

    @cached_property
    def position(self) -> Ints:
        """The place of every word in its sentence."""
        return np.arange(self.offsets[-1]) - self.offsets[self.row]

    @cached_property
    def forms(self) -> list[str]:
        """The surface form of every word."""
        return [word for sentence in self.sentences for word in sentence]


@dataclass(frozen=True)
class LinkedWords:
    """Sentence pairs with their links: link p joins the source word numbered `src_word[p]` with the
    target word `tgt_word[p]`.
    """

    ids: Ints
    src: SideWords
    tgt: SideWords
    row: Ints
    src_word: Ints
    tgt_word: Ints

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def held_out(cls, folder: Path) -> Iterator[tuple[str, LinkedWords]]:
        """Yield each split of a held-out artifact that has rows, with its links."""
        for split, part in held_out(folder):
            yield split, cls.read(part)

    @classmethod
    def read(cls, folder: Path) -> LinkedWords:
        """Read a dataset of word pairs. Raises `DataError` for links beyond their sentence."""
        table = read_table(folder)
        src, tgt = (SideWords(read_sentences(table, side)) for side in ("src", "tgt"))
        links = Links.of_table(table)
        row, words = links.rows(), []
        for side, place in ((src, links.src), (tgt, links.tgt)):
            lengths = np.diff(side.offsets)[row]
            outside = np.flatnonzero((place < 0) | (place >= lengths))
            if len(outside):
                worst = outside[0]
                problem = f"link to word {place[worst]} of a sentence of {lengths[worst]} words"
                raise DataError(folder, problem, line=int(row[worst]) + 1)
            words.append(side.offsets[row] + place)
        return cls(np.asarray(table["id"], dtype=np.int64), src, tgt, row, *words)

    def sides(self) -> tuple[tuple[SideWords, Ints], tuple[SideWords, Ints]]:
        """Return the words of each side, and the word of every link."""
        return (self.src, self.src_word), (self.tgt, self.tgt_word)

    def keep(self, chosen: Bools) -> LinkedWords:
        """Return some of the links alone, with all words."""
        return replace(
            self,
            row=self.row[chosen],
            src_word=self.src_word[chosen],
            tgt_word=self.tgt_word[chosen],
        )

    def types(self) -> list[tuple[str, str]]:
        """Return the surface forms that each link joins."""
        src, tgt = ([side.forms[word] for word in words.tolist()] for side, words in self.sides())
        return list(zip(src, tgt, strict=True))


_PATH = (
    "Path of the {} sentences, up to the extension that is the code of a language, or with"
    " `{{side}}` in place of that code, as of the corpus `moses`{}."
)


class SentenceFiles(BaseParams):
    """Two files per language pair and split, of which line k of one translates line k of the other.

    FLORES-200 is `test: "flores200_dataset/devtest/{side}.devtest"` with `codes: flores`.
    """

    dev: DataPrefix | None = Field(
        None, description=_PATH.format("development", " (none: they are not reported)")
    )
    test: DataPrefix | None = Field(
        None, description=_PATH.format("test", " (none: they are not reported)")
    )
    removed: ClassVar[Mapping[str, Removed]] = {
        "pretokenized": Removed(
            "leave it out: words are found in the text, as the grid's own are", default=False
        )
    }
    codes: Annotated[dict[str, str] | ListName, LATER] = Field(
        default_factory=dict, description=FileCorpus.CODES.format("files'")
    )

    def splits(self) -> dict[str, FileCorpus]:
        """Return the text of each split that is given."""
        kind = catalog("corpora")["moses"]
        paths = {"dev": self.dev, "test": self.test}
        return {
            split: kind(kind.Params(path=path, codes=self.codes))
            for split, path in paths.items()
            if path is not None
        }

    def sources(self, lang: str, pivot: str) -> Mapping[str, LocalFile]:
        """Return the files of one language and the pivot: ``test_source``, ``test_target``."""
        return {
            f"{split}_{name}": source
            for split, corpus in self.splits().items()
            for name, source in corpus.sources(lang, pivot).items()
            if isinstance(source, LocalFile)
        }

    def rows(
        self, lang: str, pivot: str, files: Mapping[str, Mapping[str, Path]]
    ) -> Iterator[LocalRows]:
        """Yield the pairs of each split; `files` are those of `sources`, by name and language. They
        are read as the corpus `moses` reads them, and a split without pairs is a fault.
        """
        for split, corpus in self.splits().items():
            sides = {name: files[f"{split}_{name}"][lang] for name in ("source", "target")}
            read = partial(_file_pairs, corpus, lang, pivot, sides)
            yield LocalRows(split, sides["source"], read)


def _file_pairs(
    corpus: FileCorpus, lang: str, pivot: str, sides: Mapping[str, Path]
) -> SentencePairs:
    """The pairs of a split without those of which a side is blank."""
    locations = {name: str(path) for name, path in sides.items()}
    divide = {code: tokenize(code) for code in (lang, pivot)}
    found, left = [], LeftOut()
    for pair in corpus.read(lang, pivot, CorpusInputs(locations, Path())):
        given = ((pair.source_words, pair.source, lang), (pair.target_words, pair.target, pivot))
        own, other = (
            within_text(divide[code], text) if words is None else given_words(words, code)
            for words, text, code in given
        )
        if left.keep(own and other, _BLANK):
            found.append((pair.id, own, other))
    return _as_pairs(sides["source"], found, left, pivot)


_BLANK = "with a blank side"


def _as_pairs(
    where: Path | str,
    found: Sequence[tuple[int, Sequence[str], Sequence[str]]],
    left: LeftOut,
    pivot: str,
) -> SentencePairs:
    """The pairs that were found, each with its number. Raises `DataError` where there are none."""
    if not found:
        raise DataError(where, f"has no sentence with a translation in {pivot}")
    ids, src, tgt = (list(column) for column in zip(*found, strict=True))
    remarks = left.remarks("sentence pairs", len(ids))
    return SentencePairs(np.array(ids, dtype=np.int64), src, tgt, remarks=remarks)


SetName = Literal["tatoeba", "flores", "ntrex"]

_TATOEBA = """af=afr ar=ara bn=ben bg=bul zh=cmn de=deu el=ell et=est eu=eus fi=fin fr=fra he=heb
hi=hin hu=hun id=ind it=ita ja=jpn jv=jav ka=kat kk=kaz ko=kor ml=mal mr=mar nl=nld fa=pes pt=por
ru=rus es=spa sw=swh ta=tam te=tel tl=tgl th=tha tr=tur ur=urd vi=vie"""


@dataclass(frozen=True)
class SentenceSet:
    """One set: its name on the hub, the pattern of its configurations, with {lang} for a language
    (of pairs: the one that is not English), and the columns of `texts`: the language's and the
    pivot's in one row, or one in a configuration per language, whose rows `id` joins (None: their
    order does). `splits` are its names for ours. `codes` is what it calls languages: all that it
    has, or the name of a list.
    """

    dataset: str
    config: str
    texts: tuple[str, ...]
    splits: Mapping[str, str]
    codes: Codes
    licence: str
    id: str | None = None


SETS: Mapping[SetName, SentenceSet] = {
    "tatoeba": SentenceSet(
        "google/xtreme",
        "tatoeba.{lang}",
        ("source_sentence", "target_sentence"),
        {"test": "validation"},
        dict(pair.split("=") for pair in _TATOEBA.split()),
        "CC BY 2.0 FR",
    ),
    "flores": SentenceSet(
        "openlanguagedata/flores_plus",
        "{lang}",
        ("text",),
        {"dev": "dev", "test": "devtest"},
        "flores",
        "CC BY-SA 4.0; the hub asks for a login",
        id="id",
    ),
    "ntrex": SentenceSet(
        "davidstap/NTREX", "{lang}", ("text",), {"test": "test"}, "flores", "CC BY-SA 4.0"
    ),
}
"""Tatoeba as XTREME has it (Hu et al. 2020): up to 1,000 pairs of 36 languages with English.
FLORES+ (NLLB Team 2022) and NTREX-128 (Federmann et al. 2022): every language with every other.
"""


@dataclass(frozen=True)
class SentencesOfHub:
    """A set, and what the task's options say in place of its own: `dataset`, another name on the
    hub or a local copy, `revision` and `codes`.
    """

    name: SetName
    dataset: str | None
    revision: str
    codes: Mapping[str, str]

    @property
    def known(self) -> SentenceSet:
        """The set."""
        return SETS[self.name]

    def faults(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Return what cannot be read: a language that the set lacks, and another pivot than that
        of its pairs.
        """
        there = self.known.codes
        if isinstance(there, str):
            return []
        missing = [
            lang
            for lang in languages
            if spelled(lang, self.codes) is None and spelled(lang, there) is None
        ]
        faults = [f"data: {self.name} is paired with en, not with the pivot {pivot}"]
        faults = [] if spelled(pivot, ("en",)) else faults
        if missing:
            faults.append(
                f"data: {self.name} has no {', '.join(missing)}; its languages are"
                f" {', '.join(sorted(there))}. Name others in the task's `languages`"
            )
        return faults

    def hub_sets(self, lang: str, pivot: str) -> Mapping[str, HubSet]:
        """Return the configurations of a language and the pivot: one for both, or one each."""
        paired = len(self.known.texts) == 2
        sides = {"pairs": lang} if paired else {"source": lang, "target": pivot}
        return {side: self._set(code) for side, code in sides.items()}

    def _set(self, lang: str) -> HubSet:
        given = own_code(lang, self.codes)
        code = own_code(lang, self.known.codes) if given == lang else given
        name = self.dataset or self.known.dataset
        return HubSet(name, self.known.config.format(lang=code), self.revision)

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the configurations by side, as sources."""
        sets = self.hub_sets(lang, pivot).items()
        return {n: s for side, found in sets for n, s in found.sources(side).items()}

    def read(
        self, lang: str, pivot: str, digests: Mapping[str, str], cache: Path | None
    ) -> Iterator[tuple[str, SentencePairs]]:
        """Yield each split with its pairs; `digests` are those of the sources, by side and
        language. Raises `DataError` where columns are missing or sides do not go together.
        """
        sets = {
            side: found.at(digests, side, lang)
            for side, found in self.hub_sets(lang, pivot).items()
        }
        for split, own in self.known.splits.items():
            tables = [found.read(own, cache) for found in sets.values()]
            yield split, _pairs(self.known, tables, lang, pivot)


def _pairs(
    known: SentenceSet, tables: list[tuple[str, Dataset]], lang: str, pivot: str
) -> SentencePairs:
    """The pairs of a split without those of which a side is blank."""
    for where, table in tables:
        check_columns(where, table, [*known.texts, *([known.id] if known.id else [])])
    (where, first), (other, last) = tables[0], tables[-1]
    src, tgt = first[known.texts[0]], last[known.texts[-1]]
    ids = list(range(len(src)))
    if len(src) != len(tgt) or (known.id and list(first[known.id]) != list(last[known.id])):
        raise DataError(
            f"hub:{where}",
            f"has other rows than {other}, so that its sentences have no translations there",
            remedy="Take both from one revision of one data set",
        )
    divide, left = {code: tokenize(code) for code in (lang, pivot)}, LeftOut()
    divided = (
        (number, within_text(divide[lang], one), within_text(divide[pivot], another))
        for number, one, another in zip(ids, src, tgt, strict=True)
    )
    found = [pair for pair in divided if left.keep(pair[1] and pair[2], _BLANK)]
    return _as_pairs(f"hub:{where}", found, left, pivot)
