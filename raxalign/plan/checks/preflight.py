"""Reading the files of tasks, methods and word aligners before anything is made: a bad label in a
test file is found before the training.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from raxalign.corpora.readers.inspection import FileRead
from raxalign.errors import RaxalignError
from raxalign.plan.checks.bitexts import swapped_translations
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.store.key import digest
from raxalign.version import VERSION

SHOWN = 20
"""Faults that are shown, the first ones of each file first; those beyond are counted."""


@dataclass(frozen=True)
class FilesRead:
    """The number of files, of their rows, and faults and remarks as lines to print."""

    files: int
    rows: int
    faults: tuple[str, ...] = ()
    more: int = 0
    remarks: tuple[str, ...] = ()

    def refuse_faults(self, grid: Path | str) -> None:
        """Raise `RaxalignError` with the faults, where there are any."""
        if self.faults:
            n = len(self.faults) + self.more
            told = f"{grid}: {n} fault{'s'[: n > 1]} in its data files; nothing was started"
            raise RaxalignError("\n".join([told, *self.indented()]))

    def indented(self) -> Iterator[str]:
        """Yield the faults, one per line."""
        yield from (f"  {fault}" for fault in self.faults)
        if self.more:
            yield f"  and {self.more} more"

    def __str__(self) -> str:
        files = "1 data file was" if self.files == 1 else f"{self.files} data files were"
        return f"{files} read: {self.rows:,} rows"


def read_files(plan: Plan, *, done: Collection[str] = (), memory: Path | None = None) -> FilesRead:
    """Read every local file that the tasks, methods and word aligners of the evaluations that are
    not `done` will read, by their own readers.

    `memory` is a folder that remembers by digest which files were found good; they are not read
    again. Remote data is not fetched, and bitext is not read here: it is the first thing that a
    grid reads.
    """
    found: list[FileRead] = []
    swapped: list[str] = []
    for unit in _units(plan, done):
        place = memory / unit.digest[:32] if memory is not None else None
        if place is not None and place.exists():
            continue
        read = list(unit.read())
        doubted = list(map(str, swapped_translations(plan, read)))
        found += [replace(entry, translations=None) for entry in read]
        swapped += doubted
        if place is not None and not doubted and not any(entry.faults for entry in read):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps({"files": sorted(str(entry.path) for entry in read)}))
    faults, more = _shown(found)
    told = [*(str(remark) for entry in found for remark in entry.remarks), *swapped]
    n_files, n_rows = len({entry.path for entry in found}), sum(entry.rows for entry in found)
    return FilesRead(n_files, n_rows, faults, more, tuple(dict.fromkeys(told)))


@dataclass(frozen=True)
class _Unit:
    """The files that one plug-in reads together: `stages` read them, for `languages`."""

    folder: str
    stages: tuple[Stage, ...]
    languages: tuple[str, ...]
    pivot: str

    @property
    def digest(self) -> str:
        """A digest of what is read, and of the reader."""
        stage = self.stages[0]
        digests = {name: value for entry in self.stages for name, value in entry.digests.items()}
        options = json.loads(stage.options)
        reader = [VERSION, stage.kind, stage.maker, stage.version, options]
        return digest([*reader, list(self.languages), self.pivot, digests])

    def read(self) -> Iterator[FileRead]:
        """Yield the files, as the plug-in reads them."""
        plugin, together = self.stages[0].plugin(), self.folder != "aligners"
        for languages in [self.languages] if together else self.languages:
            yield from plugin.read_files(languages, self.pivot)


def _units(plan: Plan, done: Collection[str]) -> Iterator[_Unit]:
    """What is to be read: for each task of the plan all languages together, then methods and word
    aligners by what they read.
    """
    missing = {
        key: name
        for trial in plan.trials
        for name, key in trial.evaluations.items()
        if key not in done
    }
    groups: dict[Any, dict[str, Stage]] = {}
    for key, name in missing.items():
        trained = plan.stages[key].inputs.get("trained", key)
        for entry in (key, trained):
            stage = plan.stages[entry]
            groups.setdefault(("tasks", name), {})[entry] = stage.task or stage
    for stage in map(plan.stages.__getitem__, plan.closure(list(missing))):
        if stage.catalogue in {"methods", "aligners"}:
            reads = (stage.catalogue, stage.maker, *sorted(_local(stage)))
            groups.setdefault(reads, {})[stage.key] = stage
    for (folder, *_), found in groups.items():
        group = tuple(found.values())
        if any(map(_local, group)):
            languages = dict.fromkeys(lang for stage in group for lang in _languages(stage.params))
            yield _Unit(folder, group, tuple(languages), str(group[0].params["pivot"]))


def _local(stage: Stage) -> list[str]:
    """The local files of a stage."""
    return [place for place in stage.locations.values() if Path(place).is_absolute()]


def _languages(params: Mapping[str, Any]) -> Iterable[str]:
    return params["languages"] if "languages" in params else (params["lang"],)


def _shown(found: Sequence[FileRead]) -> tuple[tuple[str, ...], int]:
    """The faults to show, each once, in the order of the files, and the number of the others."""
    by_file: dict[Path, dict[str, None]] = {}
    for entry in found:
        by_file.setdefault(entry.path, {}).update(dict.fromkeys(map(str, entry.faults)))
    ranked = [
        (rank, number, fault)
        for number, faults in enumerate(by_file.values())
        for rank, fault in enumerate(faults)
    ]
    shown = sorted(sorted(ranked)[:SHOWN], key=lambda entry: (entry[1], entry[0]))
    more = sum(entry.more for entry in found) + len(ranked) - len(shown)
    return tuple(fault for *_, fault in shown), more
