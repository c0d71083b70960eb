"""What the tasks of sentence pairs have in common that are trained on the pivot or on translations: settings, data and their faults."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from raxalign.config.params import BaseParams
from raxalign.config.sources import DataPath, LocalFile, RemoteData, Source, differs_by_language, expand_path
from raxalign.corpora.readers.hub import dataset_revision
from raxalign.tasks.base import Reads, Task
from raxalign.tasks.transfer.selection import Selection, kept

_COMMIT = re.compile(r"[0-9a-f]{40}")


class DataFiles(BaseParams):
    """A file a split; a split that is not given is not reported."""

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
        return RemoteData(f"hub:{self.dataset}/{self.config}@{self.revision}", self.revision if _COMMIT.fullmatch(self.revision) else None)


class TransferParams(Task.Params):
    """What is trained on; each task says what it is. `readout: refit` fits a method's readouts again on the encoder that the training left."""

    setting: str
    code_switching: Literal["none", "sentence"] = "none"
    selection: Selection = "pivot-dev"
    readout: Literal["keep", "refit"] = "keep"
    data: Literal["hub", "phrasebook"] | DataFiles = "hub"


class TransferTask(Task):
    """Trained on the pivot, or on all languages together (`translate-train`), and evaluated on every language."""

    params: TransferParams

    @abstractmethod
    def hub_sets(self, lang: str, pivot: str) -> Mapping[str, HubSet]:
        """What is read of the hub for one language, source name -> data set."""

    def reads(self, n_layers: int) -> Reads:
        """The last layer, which the training changes with all below."""
        return Reads(frozenset({n_layers}), tunes=True)

    def training_languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """The pivot, and all where their translations are trained on."""
        return self.languages(languages, pivot) if self.params.setting == "translate-train" else (pivot,)

    def refits(self) -> bool:
        """Where `readout: refit` is asked for."""
        return self.params.readout == "refit"

    def languages(self, languages: tuple[str, ...], pivot: str) -> tuple[str, ...]:
        """The pivot first, then all."""
        return (pivot, *(lang for lang in languages if lang != pivot))

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:
        """Files of a language (training data of the pivot alone, but in translate-train), or the hub's sets."""
        data = self.params.data
        if data == "phrasebook":
            return {}
        if data == "hub":
            return {name: found.source() for name, found in self.hub_sets(lang, pivot).items()}
        paths = {"train": data.train if lang in self.training_languages((lang,), pivot) else None, "dev": data.dev, "test": data.test}
        return {split: LocalFile(expand_path(path, lang=lang, pivot=pivot)) for split, path in paths.items() if path}

    def fetch(self, lang: str, pivot: str, downloads: Path) -> Mapping[str, str]:  # noqa: ARG002
        """The commits that the hub's data sets are at; the rows are fetched when they are read."""
        sets = self.hub_sets(lang, pivot).values() if self.params.data == "hub" else ()
        return {(source := found.source()).name: source.pin or dataset_revision(found.dataset, found.revision) for found in sets}

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """A training file a language in a zero-shot setting or none in translate-train, mixing without translations, a language that the
        phrasebook does not have.
        """
        data, faults, translated = self.params.data, [], self.params.setting == "translate-train"
        if self.params.code_switching != "none" and not translated:
            faults.append("code_switching mixes languages that are trained on: it needs `setting: translate-train`")
        if self.refits() and (translated or kept(self.params.selection) == "every"):
            faults.append("readout: refit fits on the one encoder that a zero-shot training keeps: it needs `selection: pivot-dev` or `last`")
        if data == "phrasebook":
            from raxalign.corpora.grammar import LANGS

            missing = [lang for lang in self.languages(languages, pivot) if lang not in LANGS]
            faults += [f"data: phrasebook has no {', '.join(missing)}; it has {', '.join(LANGS)}"] if missing else []
        if isinstance(data, DataFiles) and differs_by_language(data.train) and not translated:
            faults.append(f"data.train holds {{lang}}: {self.params.setting} training reads the pivot alone; write {{pivot}}")
        if isinstance(data, DataFiles) and not differs_by_language(data.train) and translated:
            faults.append("data.train has no {lang}: translate-train reads a file a language; write {lang} in the path")
        return faults


def split_faults(dev: str | None, test: str | None, selection: str, needed: str) -> list[str]:
    """Selection or evaluation without its data; `needed` is what the message says that selection needs."""
    faults = []
    if dev is None and selection != "last":
        faults.append(f"selection: {selection} needs {needed}; without one write `selection: last`")
    if dev is None and test is None:
        faults.append("data has neither dev nor test: there is nothing to evaluate")
    return faults
