"""One file of columns that a delimiter divides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import ClassVar

from pydantic import Field, model_validator

from raxalign.config.sources import LocalFile, Source
from raxalign.corpora.base import CorpusInputs, FileCorpus, SentencePair, source_name
from raxalign.corpora.readers.columns import read_columns
from raxalign.corpora.readers.lines import count_lines, plain_or_packed
from raxalign.errors import DataError

_COLUMN = "Column of the {}'s sentence: its number from 0, or with `header` its name."


class Tsv(FileCorpus):
    """One sentence pair per row. A quotation mark is part of the text, unless commas divide the
    columns, or a program for CSV has quoted the whole file.
    """

    VERSION: ClassVar[int] = 3
    licence: ClassVar[str] = "that of the file"

    class Params(FileCorpus.Params):
        """Names of columns may hold ``{lang}`` and ``{pivot}`` too.

        With a `delimiter` of several characters (fast_align's `src ||| tgt` is read with
        `delimiter: "|||"`) blanks around columns are dropped. Training, dev and test as files of
        their own are `path: {train: ..., dev: ..., test: ...}`, with `split: files`. A file may be
        packed (`.gz`, `.bz2` or `.xz`). `codes` stand for ``{lang}`` and ``{pivot}``. Files with
        gold links are usually `pretokenized`.
        """

        source_column: int | str = Field(0, description=_COLUMN.format("other language"))
        target_column: int | str = Field(1, description=_COLUMN.format("pivot"))
        header: bool = False
        """Whether the first line names the columns."""
        delimiter: str = Field("\t", min_length=1)
        """What divides columns, one character or several."""

        @model_validator(mode="before")
        @classmethod
        def _keep_the_tab(cls, values: object) -> object:
            """Options are stripped of white space, which would leave nothing of a tab."""
            if isinstance(values, dict) and values.get("delimiter") == "\t":
                return {name: value for name, value in values.items() if name != "delimiter"}
            return values

        @model_validator(mode="after")
        def _names_need_a_header(self) -> Tsv.Params:
            for column in (self.source_column, self.target_column):
                if isinstance(column, str) and not self.header:
                    raise ValueError(
                        f"column {column!r} is a name, so `header: true` is needed (or give its"
                        " 0-based number)"
                    )
                if isinstance(column, int) and column < 0:
                    raise ValueError(f"column {column} is negative (columns count from 0)")
            return self

    params: Params

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the one file of each part."""
        return {
            source_name(part, "file"): LocalFile(plain_or_packed(self.place(part, lang, pivot)))
            for part in self.parts()
        }

    def read_part(
        self, part: str, lang: str, pivot: str, inputs: CorpusInputs
    ) -> Iterator[SentencePair]:
        """Yield the sentence pairs of one file, streamed; a row with another number of columns than
        the first is an error with its line.
        """
        path = Path(inputs.locations[source_name(part, "file")])
        header = int(self.params.header)
        rows = self._rows(path)
        first = next(rows, None)
        if first is None:
            raise DataError(path, "the corpus is empty")
        source = self._position(self.params.source_column, first[1], path, lang, pivot)
        target = self._position(self.params.target_column, first[1], path, lang, pivot)
        number = -1
        for number, (line, row) in enumerate(rows if header else chain([first], rows)):
            if len(row) != len(first[1]):
                columns = f"{len(row)} column{'s'[: len(row) != 1]}"
                fault = f"{columns}, the first line has {len(first[1])}"
                remedy = f"Columns are divided by {self.params.delimiter!r} (`delimiter`)"
                raise DataError(path, fault, line=line, remedy=remedy)
            yield SentencePair(number, row[source], row[target])
        if number < 0:
            raise DataError(path, "the corpus is empty: there is only a header")

    def n_pairs(self, lang: str, pivot: str, enough: int) -> int | None:
        """Count the rows up to `enough`, of the training part where there are parts."""
        header = int(self.params.header)
        path = plain_or_packed(self.place(self.parts()[0], lang, pivot))
        n_lines = count_lines(path, enough + header)
        return None if n_lines is None else max(n_lines - header, 0)

    def _rows(self, path: Path) -> Iterator[tuple[int, list[str]]]:
        delimiter = self.params.delimiter
        for line, row in read_columns(path, delimiter):
            yield line, row if len(delimiter) == 1 else [column.strip(" \t") for column in row]

    def _position(
        self, column: int | str, first: list[str], path: Path, lang: str, pivot: str
    ) -> int:
        if isinstance(column, str):
            name = column.replace("{lang}", self.code(lang)).replace("{pivot}", self.code(pivot))
            if name in first:
                return first.index(name)
            problem = f"there is no column {name!r}; there are: {', '.join(first)}"
            raise DataError(path, problem, line=1)
        if column < len(first):
            return column
        problem = f"there is no column {column}: a line has {len(first)} (columns count from 0)"
        divided = f"Columns are divided by {self.params.delimiter!r}; `delimiter` sets this"
        raise DataError(path, problem, line=1, remedy=divided if len(first) == 1 else "")
