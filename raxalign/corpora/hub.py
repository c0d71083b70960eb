"""Translation datasets of the Hugging Face Hub, or local parquet, JSON and CSV files like them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from raxalign.corpora.base import Corpus, CorpusInputs, SentencePair
from raxalign.corpora.readers.codes import ListName, hub_code, own_code
from raxalign.corpora.readers.columns import read_records
from raxalign.corpora.readers.hub import HubRows, dataset_revision, load_rows
from raxalign.corpora.readers.repository import COMMIT, first_line
from raxalign.errors import DataError
from raxalign.options.params import LATER
from raxalign.options.sources import (
    DataPath,
    HubName,
    LocalFile,
    RemoteData,
    Source,
    expand_path,
)
from raxalign.printing import with_article
from raxalign.store.key import digest

_BUILDERS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv", ".tsv": "csv"}


class Hub(Corpus):
    """Rows of a dataset whose fields hold a sentence and its translation. Datasets that come with
    code are not run.

    Relations: `opus` takes a corpus from OPUS itself; `moses` and `tsv` are for plain text.

    Example:
        corpus:
          source: hub
          dataset: Helsinki-NLP/opus-100
          config: "{lang}-{pivot}"
          split: {test: 1024, dev: 1024}
    """

    VERSION: ClassVar[int] = 2
    licence: ClassVar[str] = "that of the dataset, see its card"

    class Params(Corpus.Params):
        """Either `dataset` or `path` is given; `config`, `split` and `revision` are those of a
        `dataset`. A local copy has no `revision`.

        `dataset`, `config`, `path` and the fields may hold ``{lang}`` and ``{pivot}``; a dot in a
        field leads into it (``translation.de``).
        """

        dataset: HubName | None = None
        """Name of the dataset on the hub, or the folder of a local copy of its repository."""
        path: DataPath | None = None
        """Local file, or folder of files that are read in the order of their names."""
        config: str | None = None
        """Name of the dataset's configuration (none: its default one)."""
        split: str = "train"
        """Split of the dataset that is read."""
        revision: str = "main"
        """Branch, tag or commit of the dataset; a commit pins its files."""
        source_field: str = "translation.{lang}"
        """Field of a row that holds the other language's sentence."""
        target_field: str = "translation.{pivot}"
        """Field of a row that holds the pivot's sentence."""
        pretokenized: Annotated[bool, LATER] = Field(False, description=Corpus.PRETOKENIZED)
        codes: Annotated[dict[str, str] | ListName, LATER] = Field(
            default_factory=dict, description=Corpus.CODES.format("dataset's")
        )

        @model_validator(mode="after")
        def _one_place(self) -> Hub.Params:
            if (self.dataset is None) == (self.path is None):
                raise ValueError(
                    "give `dataset` (a name on the hub) or `path` (local files), one of them"
                )
            return self

        def identity(self) -> dict[str, Any]:
            """Return all options but the revision, which the resolved one replaces, and the folder
            of a local copy.
            """
            named = None if self.dataset and Path(self.dataset).is_absolute() else self.dataset
            found = {name: own for name, own in super().identity().items() if name != "revision"}
            return {**found, "dataset": named}

    params: Params

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Return the dataset, or each local file by its name in the folder or the copy."""
        if self.params.path is not None:
            path = self._place(self.params.path, lang, pivot)
            return {
                f"files/{file.relative_to(path) if file != path else file.name}": LocalFile(file)
                for file in _data_files(path)
            }
        params, name = self.params, self._filled(str(self.params.dataset), lang, pivot)
        if Path(name).is_absolute():
            return {**LocalFile.within(Path(name), "dataset")}
        config = self._filled(params.config, lang, pivot) if params.config else None
        named = f"hub:{name}@{params.revision}"
        parts = (HubRows(named, name, config, params.revision),)
        # the files are fetched into the hub's cache when they are read
        look_up = lambda _: dataset_revision(name, params.revision)  # noqa: E731
        return {"dataset": RemoteData(named, params.revision, look_up, parts)}

    def read(self, lang: str, pivot: str, inputs: CorpusInputs) -> Iterator[SentencePair]:
        """Yield the sentence pairs in the order of the rows; a field that is missing or no text is
        an error with its row.
        """
        fields = [
            self._filled(field, lang, pivot)
            for field in (self.params.source_field, self.params.target_field)
        ]
        place, rows = self._rows(lang, pivot, inputs)
        n = -1
        for n, row in enumerate(rows):
            source, target = (_text(row, field, place, n) for field in fields)
            pair = SentencePair(n, source, target)
            yield pair.divided() if self.params.pretokenized else pair
        if n < 0:
            raise DataError(place, "the corpus is empty")

    def _rows(
        self, lang: str, pivot: str, inputs: CorpusInputs
    ) -> tuple[str, Iterable[dict[str, Any]]]:
        """What messages call the data, and its rows."""
        if self.params.path is None:
            name = self._filled(str(self.params.dataset), lang, pivot)
            config = self._filled(self.params.config, lang, pivot) if self.params.config else None
            found, local = inputs.digests.get("dataset", ""), Path(name).is_absolute()
            revision = found if COMMIT.fullmatch(found) else self.params.revision
            revision = digest(inputs.digests) if local else revision
            return name, load_rows(name, config, self.params.split, revision, inputs.downloads)
        files = [
            path for name, path in sorted(inputs.locations.items()) if name.startswith("files/")
        ]
        if not files:
            place = self._place(self.params.path, lang, pivot)
            remedy = f"Give a file or a folder of {', '.join(_BUILDERS)} files"
            raise DataError(place, "there are no data files", remedy=remedy)
        return str(Path(files[0]).parent), _local_rows(files)

    def _place(self, template: str, lang: str, pivot: str) -> Path:
        codes = self.params.codes
        return expand_path(template, lang=own_code(lang, codes), pivot=own_code(pivot, codes))

    def _filled(self, template: str, lang: str, pivot: str) -> str:
        """A name of the dataset with its codes filled in."""
        codes, name = self.params.codes, str(self.params.dataset)
        return template.replace("{lang}", hub_code(name, lang, codes)).replace(
            "{pivot}", hub_code(name, pivot, codes)
        )


def _data_files(path: Path) -> list[Path]:
    """A file itself; the data files of a folder and its folders in order of name."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.suffix in _BUILDERS and file.is_file())


def _text(row: Mapping[str, Any], field: str, place: str, number: int) -> str:
    value: Any = row
    for name in field.split("."):
        if not isinstance(value, Mapping) or name not in value:
            named = isinstance(value, Mapping)
            there = ", ".join(map(str, value)) if named else with_article(type(value).__name__)
            problem = f"row {number} has no field {field!r}; at {name!r} there is: {there}"
            raise DataError(place, problem)
        value = value[name]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(place, f"row {number}: field {field!r} is not text but {value!r}")
    if "\0" in value:
        raise DataError(place, f"row {number}: field {field!r} has a NUL character")
    return value


def _local_rows(files: list[str]) -> Iterator[dict[str, Any]]:
    """Rows of local files, streamed; parquet and JSON by the datasets library without its cache."""
    from datasets import load_dataset

    for file in files:
        suffix = Path(file).suffix
        if suffix not in _BUILDERS:
            raise DataError(file, f"has an unknown file type (known: {', '.join(_BUILDERS)})")
        if not Path(file).is_file():
            raise DataError(file, "there is no such file")
        if _BUILDERS[suffix] == "csv":
            yield from (row for _, row in read_records(Path(file)))
            continue
        try:
            yield from load_dataset(
                _BUILDERS[suffix], data_files=[file], split="train", streaming=True
            )
        except Exception as error:
            raise DataError(file, f"cannot be read ({first_line(error)})") from error
