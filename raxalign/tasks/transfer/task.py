"""What the tasks have in common that are trained in one language and evaluated in all: data, their
sources, and readouts.

The names that a data set has for languages: in paths, in configurations of the hub and in
columns.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field

from raxalign.config.params import LATER, BaseParams
from raxalign.config.sources import DataPath, LocalFile, RemoteData, Source, expand_path
from raxalign.corpora.readers.codes import own_code
from raxalign.corpora.readers.hub import dataset_revision
from raxalign.languages import spelled
from raxalign.tasks.base import Refit, Task
from raxalign.tasks.transfer.selection import Selection, kept

if TYPE_CHECKING:
    from raxalign.encoders.base import Encoder
    from raxalign.encoders.models.vectors import Pooling


LanguageNames = Mapping[str, str]
"""Language code -> the data set's own name of the language; codes that are missing are their own
name.
"""


def path_of(template: str, lang: str, pivot: str, names: LanguageNames) -> Path:
    """The file of one language: {lang} and {pivot} become the data set's names.

    >>> str(path_of("{lang}/train.txt", "sw", "en", {"sw": "swa"}))
    'swa/train.txt'
    """
    return expand_path(template, lang=own_code(lang, names), pivot=own_code(pivot, names))


_COMMIT = re.compile(r"[0-9a-f]{40}")


class DataFiles(BaseParams):
    """Paths of local files, one per split; {lang} and {pivot} in a path stand for languages."""

    train: DataPath = Field(
        description="Training file: of the pivot, or of each language that is trained on."
    )
    dev: DataPath | None = Field(
        None, description="Development file of each language (none: it is not reported)."
    )
    test: DataPath | None = Field(
        None, description="Test file of each language (none: it is not reported)."
    )


@dataclass(frozen=True)
class HubSet:
    """A configuration of a data set of the hub, at a branch, tag or commit."""

    dataset: str
    config: str
    revision: str

    def source(self) -> RemoteData:
        """Its name in keys and lock files, pinned where the revision is a commit."""
        return RemoteData(
            f"hub:{self.dataset}/{self.config}@{self.revision}",
            self.revision if _COMMIT.fullmatch(self.revision) else None,
        )


DATA = Field(
    description=(
        "Where the rows come from: a data set of the hub, the phrasebook that raxalign carries, or"
        " local files."
    )
)
DATASET = Field(
    description=(
        "Data set of the hub, by its name there or as a local copy of its repository, for `data:"
        " hub`."
    )
)
REVISION = Field(description="Branch, tag or commit of the data set of the hub.")
PHRASEBOOK = Field(
    description=(
        "Rows per language of the phrasebook, for `data: phrasebook`; raxalign's own tasks have no"
        " more than by default."
    )
)
OF_TRAINING = "Training rows, less those that another split has too."
OF_DEVELOPMENT = "Development rows."
OF_TEST = "Test rows."


CODES = (
    "The data's own codes for languages, by language (`{ha: hau}`), in paths, configurations of the"
    " hub and columns, where they differ from those of the grid."
)


class TransferParams(Task.Params):
    """Data and readouts."""

    data: Annotated[Literal["hub", "phrasebook"] | DataFiles, DATA] = "hub"
    codes: Annotated[dict[str, str], LATER] = Field(default_factory=dict, description=CODES)
    readout: Literal["keep", "refit"] | None = Field(
        None,
        description=(
            "Whether a method's readouts are fitted again on the encoder that this training left"
            " (`refit`), or kept as they were fitted before it (`keep`) (none: `refit` where the"
            " training changes the encoder and leaves the weights of one epoch, else `keep`)."
        ),
    )


class TransferTask(Task):
    """Task that is trained on the pivot, or on all languages together, and evaluated on every
    language.
    """

    language_names: ClassVar[LanguageNames] = {}
    """The data set's own names of languages, by code (``{"sw": "swa"}``), in paths, configurations
    and columns; others go by their codes.
    """
    params: TransferParams

    def __init__(self, params: TransferParams) -> None:
        super().__init__(params)
        self._asked = params.readout
        if params.readout is None:  # keys and records say what was done
            readout = "refit" if self.leaves_one_encoder() else "keep"
            self.params = params.model_copy(update={"readout": readout})

    @property
    def names(self) -> LanguageNames:
        """The data's own names of languages: the data set's, and those of `codes`."""
        return {**self.language_names, **self.params.codes}

    @property
    def name(self) -> str:
        """The name of the training, in curves and in the files that it leaves."""
        return type(self).__name__.lower()

    @abstractmethod
    def hub_sets(self, lang: str, pivot: str) -> Mapping[str, HubSet]:
        """What is read of the hub for one language, source name -> data set."""

    def has_phrasebook(self) -> bool:
        """Whether the phrasebook has rows for this task."""
        return True

    def trains_on(self, lang: str, pivot: str) -> bool:
        """Whether the training set of a language is read."""
        return lang == pivot

    def outdates(self) -> bool:
        """Whether the training changes the encoder and reads rows of the pivot alone, so that
        readouts of other languages that were fitted before no longer fit.
        """
        return False

    @abstractmethod
    def selection(self) -> Selection:
        """What chooses the weights that are evaluated."""

    def leaves_one_encoder(self) -> bool:
        """Whether readouts can be fitted again on the encoder that the training leaves."""
        return self.outdates() and kept(self.selection()) != "every"

    def keeps_outdated(self) -> str:
        """Why readouts are kept that the training outdates."""
        if self.refit() is not None or not self.outdates():
            return ""
        if self._asked == "keep":
            return "`readout: keep`"
        return f"`selection: {self.selection()}` leaves the weights of several epochs"

    def refit(self) -> Refit | None:
        """The task itself, where readouts are to be fitted again."""
        return self if self.params.readout == "refit" else None

    def insists(self) -> bool:
        """Whether `readout: refit` is written in the file."""
        return self._asked == "refit"

    def reads_words(self) -> Pooling | None:
        """None: what is read is not words."""
        return None

    def keeping(self) -> Self:
        """The same task with `readout: keep`."""
        return type(self)(self.params.model_copy(update={"readout": "keep"}))

    def trained_encoder(self, start: Encoder, folder: Path) -> Encoder:
        """The encoder `start` with the weights that `train` left in `folder`, where it kept one
        model of one epoch.
        """
        from raxalign.tasks.transfer.trained import trained_encoder

        return trained_encoder(start, folder)

    def languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """The pivot first, then all."""
        return (pivot, *(lang for lang in languages if lang != pivot))

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Files of a language (training data where it is trained on), or the hub's sets."""
        data = self.params.data
        if data == "phrasebook":
            return {}
        if data == "hub":
            return {name: found.source() for name, found in self.hub_sets(lang, pivot).items()}
        paths = {
            "train": data.train if self.trains_on(lang, pivot) else None,
            "dev": data.dev,
            "test": data.test,
        }
        return {
            split: LocalFile(path_of(path, lang, pivot, self.names))
            for split, path in paths.items()
            if path
        }

    def fetch(self, lang: str, pivot: str, downloads: Path) -> Mapping[str, str]:  # noqa: ARG002
        """The commits that the hub's data sets are at; the rows are fetched when they are read."""
        sets = self.hub_sets(lang, pivot).values() if self.params.data == "hub" else ()
        return {
            (source := found.source()).name: (
                source.pin or dataset_revision(found.dataset, found.revision)
            )
            for found in sets
        }

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Reports a task, a language or rows that the phrasebook does not have, and a data set of
        the hub without a name.
        """
        if self.params.data == "hub":
            named = all(found.dataset for found in self.hub_sets(pivot, pivot).values())
            return [] if named else ["data: hub needs the name of a data set (dataset)"]
        if self.params.data != "phrasebook":
            return []
        if not self.has_phrasebook():
            return ["data: phrasebook has no rows for this task; name files, or a set of the hub"]
        from raxalign.corpora.phrases.rows import LANGS, held

        asked = self.params.model_dump().get("phrasebook", {})
        missing = [
            lang for lang in self.languages(languages, pivot) if spelled(lang, LANGS) is None
        ]
        faults = [
            f"phrasebook.{part}: there are {most:,} rows for this task, not {asked[part]:,}; ask"
            " for fewer, or name files in `data`"
            for part, most in held(self.name).items()
            if asked[part] > most
        ]
        if missing:
            faults.append(
                f"data: phrasebook has no {', '.join(missing)}; it has {', '.join(LANGS)}"
            )
        return faults
