"""Where the sentences of a tagging task come from, by its params."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from raxalign.config.sources import expand_path
from raxalign.corpora.readers.hub import load_rows
from raxalign.corpora.readers.inspection import FileRead, Report, read_through, refuse
from raxalign.errors import DataError
from raxalign.tasks.tagging.multiatis import is_atis, read_atis
from raxalign.tasks.tagging.rows import UPOS, Sentences, Tagged, iob2, read_conll, read_conllu

if TYPE_CHECKING:
    from raxalign.tasks.base import TaskInputs
    from raxalign.tasks.tagging.params import TaggingParams

Split = Literal["train", "dev", "test"]
_PHRASEBOOK_SEED = 0
"""The examples are data: they do not change with the seed of a trial."""
_FROM = {"train": 20_000, "dev": 50_000, "test": 60_000}
"""Where the phrasebook's sentences with parts of speech begin, by split; those that methods learn
from have low numbers.
"""
_RANGE = "_"
"""What a range of words (``2-3 zum``) has among its words (``2 zu``, ``3 dem``) where they stand in
one list.
"""
_COLUMNS = {
    "ner": ("ner_tags", "tags"),
    "slots": ("slots", "tags", "ner_tags"),
    "pos": ("upos", "upos_tags", "pos_tags"),
}


@dataclass(frozen=True)
class TaggingData:
    """Reads one split of one language; `kind` is `ner`, `slots` or `pos`."""

    params: TaggingParams
    kind: str
    inputs: TaskInputs

    @property
    def pivot(self) -> str:
        """The language that is trained on."""
        return self.inputs.pivot

    def splits(self) -> list[Split]:
        """The splits that are evaluated."""
        both: tuple[Split, ...] = ("dev", "test")
        data = self.params.data
        return [
            split for split in both if isinstance(data, str) or getattr(data, split) is not None
        ]

    def sentences(self, split: Split, lang: str) -> Sentences:
        """The sentences; raises `DataError` with file and line. Training sentences are the pivot's,
        at most `max_train`.
        """
        found = self._read(split, lang)
        if (
            split == "train" and self.params.data == "phrasebook"
        ):  # different sentences may look the same
            found = found.without([self._read(other, lang) for other in self.splits()])
        return found.first(self.params.max_train) if split == "train" else found

    def _read(self, split: Split, lang: str) -> Sentences:
        data = self.params.data
        if data == "hub":
            revision = self.inputs.digests.get(f"hub/{lang}", self.params.revision)
            config = self.params.configs.get(lang, lang)
            return read_hub(
                self.params.dataset, config, split, revision, self.inputs.downloads, self.kind
            )
        if data == "phrasebook":
            return _phrasebook(self.kind, getattr(self.params.phrasebook, split), split, lang)
        return self.local(split, lang)

    def path(self, split: Split, lang: str) -> Path:
        """The local file of one split and language."""
        return self.inputs.files.get(split, {}).get(lang) or expand_path(
            getattr(self.params.data, split), lang=lang, pivot=self.inputs.pivot
        )

    def local(self, split: Split, lang: str, report: Report = refuse) -> Sentences:
        """All sentences of a local file, with its faults going to `report`."""
        path, encoding = self.path(split, lang), self.params.encoding
        if self.kind == "pos":
            return read_conllu(path, encoding, report)
        return (
            read_atis(path, encoding, report)
            if is_atis(path, encoding)
            else read_conll(path, encoding, report)
        )

    def read_files(self, languages: Sequence[str]) -> Iterator[FileRead]:
        """Reads the local files of all splits, before anything is trained; evaluated sentences that
        are mostly trained on are a fault.
        """
        trained = np.empty(0, dtype=np.int64)

        def training(report: Report) -> int:
            nonlocal trained
            found = self.local("train", self.pivot, report)
            trained = found.first(self.params.max_train).fingerprints()
            return len(found)

        def evaluated(report: Report, split: Split, lang: str) -> int:
            found = self.local(split, lang, report)
            refuse_overlap(trained, found)
            return len(found)

        yield read_through(self.path("train", self.pivot), training)
        for split in self.splits():
            for lang in languages:
                yield read_through(
                    self.path(split, lang), partial(evaluated, split=split, lang=lang)
                )


def _phrasebook(kind: str, n: int, split: Split, lang: str) -> Sentences:
    from raxalign.corpora import grammar as phrasebook

    if kind == "pos":
        made = (
            phrasebook.sentence(_FROM[split] + i, _PHRASEBOOK_SEED).realize(lang) for i in range(n)
        )
        pairs = [(said.words, said.tags) for said in made]
    else:
        make = phrasebook.entities if kind == "ner" else phrasebook.slots
        pairs = [(tagged.words, tagged.tags) for tagged in make(n, lang, split, _PHRASEBOOK_SEED)]
    return Sentences(
        f"phrasebook/{lang}:{split}",
        [Tagged(words, tags, i) for i, (words, tags) in enumerate(pairs, 1)],
    )


def read_hub(
    name: str, config: str, split: Split, revision: str | None, cache: Path | None, kind: str
) -> Sentences:
    """The sentences of a hub data set (or of a local copy of its repository) with a configuration a
    language: a column `tokens`, and one of tags, as text or as numbers whose names the data set
    has. For `pos`, words with the tag ``_`` are left out. Raises `DataError` with the row for
    another tag that is no part of speech, and `TransientError`.
    """
    hub_split = "validation" if split == "dev" else split
    where = f"{name}/{config}:{hub_split}"
    table = load_rows(name, config, hub_split, revision, cache)
    column = next((column for column in _COLUMNS[kind] if column in table.column_names), None)
    if "tokens" not in table.column_names or column is None:
        raise DataError(
            where,
            f"has the columns {', '.join(table.column_names)}, expected tokens and"
            f" {' or '.join(_COLUMNS[kind])}",
        )
    names = getattr(getattr(table.features[column], "feature", None), "names", None)
    rows = list(_hub_rows(where, zip(table["tokens"], table[column], strict=True), names, kind))
    if not rows:
        raise DataError(where, "has no sentences")
    return Sentences(where, rows)


def _hub_rows(
    where: str,
    rows: Iterable[tuple[Sequence[str], Sequence[object]]],
    names: Sequence[str] | None,
    kind: str,
) -> Iterator[Tagged]:
    for number, (words, tags) in enumerate(rows, 1):
        if len(words) != len(tags):
            raise DataError(where, f"{len(words)} words, but {len(tags)} tags", line=number)
        named = [
            (word, _tag(where, number, tag, names)) for word, tag in zip(words, tags, strict=True)
        ]
        if kind == "pos":
            named = [(word, tag) for word, tag in named if tag != _RANGE]
            if unknown := next((tag for _, tag in named if tag not in UPOS), None):
                raise DataError(
                    where,
                    f"unknown part of speech {unknown!r}",
                    line=number,
                    remedy=f"The universal ones are {', '.join(UPOS)}",
                )
        if named:
            text = tuple(tag for _, tag in named)
            yield Tagged(
                tuple(word for word, _ in named), text if kind == "pos" else iob2(text), number
            )


def _tag(where: str, number: int, tag: object, names: Sequence[str] | None) -> str:
    """A tag as text; a number is the place of its name."""
    if isinstance(tag, str):
        return tag
    if not isinstance(tag, int) or names is None or not 0 <= tag < len(names):
        told = f"the tag {tag!r} is no text and has no name in the data set"
        raise DataError(
            where, told, line=number, remedy="Tags are text, or numbers of a `ClassLabel`"
        )
    return str(names[tag])


def refuse_overlap(trained: npt.NDArray[np.int64], evaluated: Sentences) -> npt.NDArray[np.bool_]:
    """Which sentences are training sentences too, by text; raises `DataError` where more than half
    are.

    Some are in honest data: short requests come again and again (a third of the Facebook slots'
    English development set), headlines too. More than half is the training file, or a part of it.
    """
    seen = np.isin(evaluated.fingerprints(), trained)
    if 2 * int(seen.sum()) > len(evaluated):
        raise DataError(
            evaluated.source,
            f"{int(seen.sum())} of {len(evaluated)} sentences are training sentences too",
            line=evaluated.rows[int(np.flatnonzero(seen)[0])].line,
            remedy="Evaluate on other data than is trained on",
        )
    return seen
