"""One file of columns that a delimiter divides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field, model_validator

from raxalign.corpora.base import CorpusInputs, FileCorpus, SentencePair
from raxalign.corpora.readers.columns import read_columns
from raxalign.corpora.readers.lines import count_lines, plain_or_packed
from raxalign.errors import DataError
from raxalign.options.params import Removed
from raxalign.options.sources import LocalFile, Source

_NAMED = (
    "leave it out: the other language's sentence is in the first column and the pivot's in the"
    ' second; `source: hub` reads columns of a `path` by name (`source_field: "{lang}"`)'
)


class Tsv(FileCorpus):
    """One sentence pair per row: the other language's sentence in the first column, the pivot's in
    the second. A quotation mark is part of the text, unless commas divide the
    columns, or a program for CSV has quoted the whole file.

    Relations: `moses` is for one file per side, `hub` for files whose columns have names.

    Example:
        corpus:
          source: tsv
          path: "train/{lang}-{pivot}.src-tgt"
          delimiter: "|||"
          pretokenized: true
          split: {test: 256, dev: 256}
    """

    VERSION: ClassVar[int] = 3
    licence: ClassVar[str] = "that of the file"

    class Params(FileCorpus.Params):
        """With a `delimiter` of several characters (fast_align's `src ||| tgt` is read with
        `delimiter: "|||"`) spaces around columns are dropped. Training, dev and test as files of
        their own are `path: {train: ..., dev: ..., test: ...}`, with `split: files`. A file may be
        compressed (`.gz`, `.bz2` or `.xz`). `codes` stand for ``{lang}`` and ``{pivot}``. Files
        with gold links are usually `pretokenized`.
        """

        removed: ClassVar[Mapping[str, Removed]] = {
            "source_column": Removed(_NAMED, 0),
            "target_column": Removed(_NAMED, 1),
            "header": Removed(_NAMED, False),
        }
        delimiter: str = Field("\t", min_length=1)
        """What divides columns, one character or several."""

        @model_validator(mode="before")
        @classmethod
        def _keep_the_tab(cls, values: object) -> object:
            """Options are stripped of white space, which would leave nothing of a tab."""
            if isinstance(values, dict) and values.get("delimiter") == "\t":
                return {name: value for name, value in values.items() if name != "delimiter"}
            return values

    params: Params

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the one file of each part."""
        return {
            self.source_name(part, "file"): LocalFile(
                plain_or_packed(self.place(part, lang, pivot))
            )
            for part in self.parts()
        }

    def read_part(
        self,
        part: str,
        lang: str,  # noqa: ARG002
        pivot: str,  # noqa: ARG002
        inputs: CorpusInputs,
    ) -> Iterator[SentencePair]:
        """Yield the sentence pairs of one file, streamed; a row with another number of columns than
        the first is an error with its line.
        """
        path = Path(inputs.locations[self.source_name(part, "file")])
        width, number = 0, -1
        remedy = f"Columns are divided by {self.params.delimiter!r} (`delimiter`)"
        for number, (line, row) in enumerate(self._rows(path)):
            width = width or len(row)
            if width < 2:
                raise DataError(path, "a line has 1 column, not 2", line=line, remedy=remedy)
            if len(row) != width:
                columns = f"{len(row)} column{'s'[: len(row) != 1]}"
                fault = f"{columns}, the first line has {width}"
                raise DataError(path, fault, line=line, remedy=remedy)
            yield SentencePair(number, row[0], row[1])
        if number < 0:
            raise DataError(path, "the corpus is empty")

    def n_pairs(self, lang: str, pivot: str, enough: int) -> int | None:
        """Count the rows up to `enough`, of the training part where there are parts."""
        return count_lines(plain_or_packed(self.place(self.parts()[0], lang, pivot)), enough)

    def _rows(self, path: Path) -> Iterator[tuple[int, list[str]]]:
        delimiter = self.params.delimiter
        for line, row in read_columns(path, delimiter):
            yield line, row if len(delimiter) == 1 else [column.strip(" \t") for column in row]
