"""What the tasks have in common that are trained in one language and evaluated in all: data, their
sources, and readouts.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from raxalign.config.params import BaseParams
from raxalign.config.sources import DataPath, LocalFile, RemoteData, Source, expand_path
from raxalign.corpora.readers.hub import dataset_revision
from raxalign.tasks.base import Refit, Task

if TYPE_CHECKING:
    from raxalign.encoders.base import Encoder
    from raxalign.encoders.models.vectors import Pooling

_COMMIT = re.compile(r"[0-9a-f]{40}")


class DataFiles(BaseParams):
    """One file per split; a split that is not given is not reported."""

    train: DataPath
    dev: DataPath | None = None
    test: DataPath | None = None


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


class TransferParams(Task.Params):
    """`data` is where the rows come from. `readout: refit` fits a method's readouts again on the
    encoder that the training left.
    """

    data: Literal["hub", "phrasebook"] | DataFiles = "hub"
    readout: Literal["keep", "refit"] = "keep"


class TransferTask(Task):
    """Trained on the pivot, or on all languages together, and evaluated on every language."""

    params: TransferParams

    @abstractmethod
    def hub_sets(self, lang: str, pivot: str) -> Mapping[str, HubSet]:
        """What is read of the hub for one language, source name -> data set."""

    def trains_on(self, lang: str, pivot: str) -> bool:
        """Whether the training set of a language is read."""
        return lang == pivot

    def refit(self) -> Refit | None:
        """The task itself, where `readout: refit` is asked for."""
        return self if self.params.readout == "refit" else None

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
            split: LocalFile(expand_path(path, lang=lang, pivot=pivot))
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
        """A language that the phrasebook does not have."""
        if self.params.data != "phrasebook":
            return []
        from raxalign.corpora.grammar import LANGS

        missing = [lang for lang in self.languages(languages, pivot) if lang not in LANGS]
        return (
            [f"data: phrasebook has no {', '.join(missing)}; it has {', '.join(LANGS)}"]
            if missing
            else []
        )
