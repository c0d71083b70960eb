"""Reading a grid's local files before anything is made, by the readers that it uses later: a bad
line or label is found before the training, `raxalign plan` names what looks as if it were not a
translation, corpora that are too short are found by counting their lines, and libraries that divide
their text into words are missed.
"""

from __future__ import annotations

import json
import tempfile
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

from raxalign.corpora.base import CorpusInputs, FileCorpus, SentencePair
from raxalign.corpora.readers.inspection import FileRead, Remark, Report, Translations, read_through
from raxalign.corpora.readers.lines import count_lines, n_lines, unequal
from raxalign.corpora.text.words import clean
from raxalign.errors import DataError, RaxalignError
from raxalign.extras import missing
from raxalign.grid.estimates import Times
from raxalign.grid.expansion.identity import Identity
from raxalign.grid.plan import Plan
from raxalign.grid.specs import Split
from raxalign.grid.stage import Stage
from raxalign.languages import language
from raxalign.printing import counted
from raxalign.store.key import digest
from raxalign.store.storage import Storage
from raxalign.version import VERSION

_ALL = 1 << 62  # lines: more than any file has
_TEXT = 5000  # sentence pairs whose words dictionaries and gold texts are compared with


@dataclass(frozen=True)
class LocalData:
    """What a plan reads of the files of this machine, looked at before anything is made."""

    plan: Plan

    def obstacles(self, storage: Storage) -> tuple[str, ...]:
        """Return what keeps a plan from being run: one message per local file that is missing,
        whose lines do not fit (`_line_faults`), per language whose corpus is too short
        (`shortages`), and per library or program that is not installed: those that divide the text
        of a language into words, and that align it.
        """
        gone = [Identity.absent(Path(path)) for path in self.plan.missing]
        lines = [
            str(fault) for stage in _local(self.plan) for fault in _line_faults(stage, storage)
        ]
        absent = {
            key: told for key, stage in self.plan.stages.items() if (told := [*_absent(stage)])
        }
        stored = Times(self.plan, storage).stored() if absent else set()
        needed = self.plan.to_make(storage.ledger.keys(), stored) if absent else []
        faults = dict.fromkeys(fault for key in needed for fault in absent.get(key, ()))
        return tuple(dict.fromkeys((*gone, *lines, *self.shortages(), *faults)))

    def shortages(self) -> tuple[str, ...]:
        """Return one message per language whose corpus has fewer lines than its training, dev and
        test text need, for the largest training text.

        What is dropped from training (blank and repeated pairs, say) is found only when the text is
        made. Corpora that are not on this machine are passed over.
        """
        largest: dict[str, Stage] = {}
        for stage in self.plan.stages.values():
            asked = stage.kind == "bitext" and stage.params["part"] == "training"
            if asked and stage.params["shortage"] == "refuse":
                before = largest.setdefault(str(stage.params["lang"]), stage)
                largest[str(stage.params["lang"])] = max(before, stage, key=_asked_for)
        return tuple(
            message for stage in largest.values() if (message := _shortage(stage)) is not None
        )

    def doubts(self) -> Iterator[DataError]:
        """Look at the beginning of each corpus of text files on this machine, and yield a remark
        per reason to doubt that its sides are what they should be, or why it cannot be read. One
        that is not read line by line is passed over.
        """
        from raxalign.corpora.text.parallel import Parallel

        for stage in _local(self.plan):
            if _of_lines(stage):
                seen = _Seen(stage)
                try:
                    with _reading(stage) as pairs:
                        seen.see(islice(pairs, Parallel.GLANCE))
                    yield from seen.doubts()
                except DataError as fault:
                    yield fault

    def bitexts(self, storage: Storage) -> Iterator[FileRead]:
        """Read each corpus of a plan whose files are all on this machine, once per language; yield
        its number of sentence pairs, its first fault (`_line_faults` before any other), and what
        looks wrong. Remote corpora are passed over.
        """
        limits = (stage.params.get("max_words", 0) for stage in self.plan.stages.values())
        longest = max((int(str(limit)) for limit in limits), default=0) or _ALL
        for stage in _local(self.plan):
            seen = _Seen(stage, longest)
            found = FileRead(_place(stage), 0, _line_faults(stage, storage))
            if not found.faults:
                found = read_through(found.path, seen.read)
            if not found.faults:
                found = replace(found, remarks=(*seen.doubts(), *seen.left_out()))
            yield found

    def other_lengths(self, sizes: Mapping[Path, int]) -> Iterator[tuple[bool, str]]:
        """Compare files of given word links with the corpora that they belong to; yield, for each
        that has another number of lines, whether lines are missing that are read, and a message.
        `sizes` are numbers of sentence pairs by the first file of a corpus (see `bitexts`).
        """
        found: dict[tuple[str, Path], Stage] = {}
        for stage in self.plan.stages.values():
            for key in stage.inputs.values() if stage.kind == "pairs" else ():
                if self.plan.stages[key].kind == "bitext" and "links" in stage.locations:
                    corpus = self.plan.stages[key]
                    found.setdefault((stage.locations["links"], _place(corpus)), corpus)
        for (links, place), corpus in found.items():
            lines, pairs = count_lines(Path(links), _ALL), sizes.get(place)
            if lines is not None and pairs is not None and lines != pairs:
                fatal = lines < pairs and corpus.params.get("training_from", "end") == "end"
                remedy = "Line k has the links of sentence pair k, so both need equally many"
                yield fatal, f"{links}: has {lines:,} lines, and {place} {pairs:,}. {remedy}"

    def remembered(self, memory: Path) -> list[str]:
        """Return the remarks that `files` remembers, without opening a data file."""
        units = _units(self.plan, ()) if memory.is_dir() else ()
        found = (_remembered(unit.place(memory)) for unit in units)
        return list(dict.fromkeys(told for remarks in found for told in remarks or ()))

    def files(
        self, *, done: Collection[str] = (), memory: Path | None = None, again: bool = False
    ) -> FilesRead:
        """Read every local file that the tasks, methods and word aligners of the evaluations that
        are not `done` will read, by their own readers.

        `memory` is a folder that remembers by digest which files were found good, with the remarks
        on them; they are read anew only with `again`. Remote data is not fetched, and bitext is not
        read here: it is the first thing that a grid reads.
        """
        found: list[FileRead] = []
        remembered: list[str] = []
        swapped: list[str] = []
        for unit in _units(self.plan, done):
            place = unit.place(memory) if memory is not None else None
            known = None if place is None or again else _remembered(place)
            if known is not None:
                remembered += known
                continue
            read = list(unit.read())
            doubted = list(map(str, self.swapped_translations(read)))
            found += [replace(entry, translations=None) for entry in read]
            swapped += doubted
            if place is not None and not doubted and not any(entry.faults for entry in read):
                good = {"files": sorted(str(entry.path) for entry in read)}
                good |= {"remarks": [str(remark) for entry in read for remark in entry.remarks]}
                with suppress(OSError):  # where a storage cannot be written, it is read each time
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_text(json.dumps(good), encoding="utf-8")
        faults, more = _shown(found)
        told = [str(remark) for entry in found for remark in entry.remarks]
        told += [*remembered, *swapped]
        n_files, n_rows = len({entry.path for entry in found}), sum(entry.rows for entry in found)
        return FilesRead(n_files, n_rows, faults, more, tuple(dict.fromkeys(told)))

    def swapped_translations(self, found: Iterable[FileRead]) -> Iterator[Remark]:
        """Yield a remark per dictionary or gold text whose sides seem to be swapped, by their
        letters and frequent words, or by the words of the plan's corpora on this machine.
        """
        for entry in found:
            own = entry.translations
            if own is None or not own.pairs:
                continue
            from raxalign.corpora.text.parallel import swapped

            why = swapped(own.pairs, own.lang, own.pivot, partial(_beginning, self.plan, own))
            if why is not None:
                sides = f"the sides of {own.lang}-{own.pivot} seem to be swapped: {why}"
                yield Remark(entry.path, sides, remedy="If so, set `swap` the other way")


def _line_faults(stage: Stage, storage: Storage) -> tuple[DataError, ...]:
    """Count the lines of a corpus of text files on this machine; return a fault per file that is
    damaged or grows as no text does, and per two sides that differ.
    """
    counts, faults = dict[str, int](), list[DataError]()
    for name, place in stage.locations.items() if _of_lines(stage) else ():
        try:
            counts[name] = _counted(Path(place), stage.digests[name], storage.local / "read")
        except DataError as error:
            faults.append(error)
        except OSError as error:
            faults.append(DataError(place, f"cannot be read ({error.strerror or error})"))
    for name, count in counts.items():
        other = f"{name.removesuffix('source')}target"
        if name.endswith("source") and count != counts.get(other, count):
            sides = stage.locations[name], stage.locations[other]
            faults.append(unequal(*sides, (count, counts[other])))
    return tuple(faults)


def _remembered(place: Path) -> list[str] | None:
    """Return the remarks on files that were found good; None where they are to be read."""
    with suppress(OSError, ValueError, KeyError):
        remarks: list[str] = json.loads(place.read_text(encoding="utf-8"))["remarks"]
        return remarks
    return None


def _counted(path: Path, digest: str, memory: Path) -> int:
    """Return the number of lines of a file, remembered by its digest: unpacking takes time."""
    place = memory / f"{digest[:32]}.lines"
    with suppress(OSError, ValueError):
        count, end, _ = place.read_text().partition("\n")
        if end:  # else it is being written
            return int(count)
    found = n_lines(path)
    with suppress(OSError):  # a plan can be made without writing
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{found}\n")
    return found


@dataclass
class _Seen:
    """What was seen of the sentence pairs of one corpus: its beginning, all pairs as translations,
    how many have a blank side or one of more than `longest` words, and the last ones, which are
    held out (after `read`).
    """

    stage: Stage
    longest: int = _ALL
    blank: int = 0
    overlong: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)
    heldout: deque[SentencePair] = field(default_factory=lambda: deque(maxlen=0))

    def __post_init__(self) -> None:
        from raxalign.corpora.text.parallel import Parallel

        self.langs = str(self.stage.params["lang"]), str(self.stage.params["pivot"])
        self.parallel = Parallel(*self.langs)

    def read(self, _: Report) -> int:
        """Read the corpus to its end; return its number of pairs. Raises `DataError`."""
        count = _n_heldout(self.stage)
        if self.stage.params["split"] == "files":
            with _inputs(self.stage) as inputs:
                count = sum(self.stage.plugin().part_sizes(*self.langs, inputs))
        self.heldout = deque(maxlen=count)
        with _reading(self.stage) as pairs:
            return self.see(pairs)

    def see(self, pairs: Iterable[SentencePair]) -> int:
        """Take account of pairs; return their number."""
        count = 0
        for count, pair in enumerate(self.parallel.see(pairs), 1):
            self.heldout.append(pair)
            self.blank += _is_blank(pair)
            self.overlong += self._is_long(pair)
            if count <= self.parallel.SIDES_GLANCE:
                self.first.append((pair.source, pair.target))
        return count

    def doubts(self) -> Iterator[Remark]:
        """Yield a remark per reason to doubt what was seen."""
        from raxalign.corpora.text.parallel import swapped

        place, (lang, pivot) = _place(self.stage), self.langs
        if why := swapped(self.first, lang, pivot):
            yield Remark(
                place,
                f"the sides of {lang}-{pivot} seem to be swapped: {why}",
                remedy="If so, exchange the names of the two files, or their columns",
            )
        yield from (Remark(place, why) for why in self.parallel.doubts())

    def _is_long(self, pair: SentencePair) -> bool:
        """Whether a side has too many words for training, as blanks divide them."""
        long = (side for side in (pair.source, pair.target) if len(side) > self.longest)
        return any(len(side.split()) > self.longest for side in long)

    def left_out(self) -> Iterator[Remark]:
        """Yield a remark on what training leaves out of a corpus that was read, and on what is left
        out of the held-out lines.
        """
        place, blank = _place(self.stage), sum(map(_is_blank, self.heldout))
        counts = {"a blank side": self.blank - blank, f"over {self.longest} words": self.overlong}
        if told := " and ".join(f"{counted(n, 'pair')} with {of}" for of, n in counts.items() if n):
            yield Remark(place, f"training leaves out {told}")
        if blank:
            yield Remark(
                place,
                f"{blank:,} of {len(self.heldout):,} sentence pairs that are held out have a blank"
                " side and are left out",
            )


def _is_blank(pair: SentencePair) -> bool:
    """Whether a side has no word."""
    return not all(clean(side).strip() for side in (pair.source, pair.target))


def _local(plan: Plan) -> list[Stage]:
    """Return a stage for each corpus and language whose files are all on this machine."""
    found: dict[Any, Stage] = {}
    for stage in plan.stages.values():
        places = tuple(stage.locations.values())
        if stage.kind == "bitext" and places and all(Path(place).is_file() for place in places):
            found.setdefault((stage.maker, stage.options, stage.params["lang"], places), stage)
    return list(found.values())


def _place(stage: Stage) -> Path:
    """Return the first file of a corpus."""
    return Path(next(iter(stage.locations.values()), ""))


def _of_lines(stage: Stage) -> bool:
    """Whether a corpus is read line by line, so that its beginning takes no time."""
    return isinstance(stage.plugin(), FileCorpus)


def _beginning(plan: Plan, own: Translations) -> list[tuple[str, str]]:
    """Return sentence pairs of a corpus in the languages of a file; none where none is here."""
    for stage in _local(plan):
        if stage.params["lang"] == own.lang and _of_lines(stage):
            with suppress(DataError, OSError), _reading(stage) as pairs:
                return [(pair.source, pair.target) for pair in islice(pairs, _TEXT)]
    return []


@contextmanager
def _inputs(stage: Stage) -> Iterator[CorpusInputs]:
    """Provide what a corpus on this machine reads."""
    with tempfile.TemporaryDirectory(prefix="raxalign-") as downloads:
        yield CorpusInputs(stage.locations, Path(downloads), stage.digests)


@contextmanager
def _reading(stage: Stage) -> Iterator[Iterator[SentencePair]]:
    """Provide the sentence pairs of a corpus."""
    with _inputs(stage) as inputs:
        yield stage.plugin().read(str(stage.params["lang"]), str(stage.params["pivot"]), inputs)


def _absent(stage: Stage) -> Iterator[str]:
    """Yield the faults of a stage that this machine lacks a library or a program for."""
    if stage.kind == "pairs" and stage.params["part"] != "slice":
        yield from stage.plugin().missing()
    if stage.kind != "bitext" or stage.params["segmentation"] != "words":
        return
    if getattr(stage.plugin().params, "pretokenized", False):
        return
    for code in (str(stage.params["lang"]), str(stage.params["pivot"])):
        if (library := language(code).segmenter) is not None:
            yield from missing(library, f"corpus.segmentation: words, for {code}")


def _n_heldout(stage: Stage) -> int:
    """Return the number of lines that are held out of a corpus; 0 where dev and test are files."""
    split: Any = stage.params["split"]
    return 0 if split == "files" else int(split["test"]) + int(split["dev"])


def _asked_for(stage: Stage) -> int:
    return int(str(stage.params["sentences"]))


def _shortage(stage: Stage) -> str | None:
    needed, lang, pivot = _asked_for(stage), str(stage.params["lang"]), str(stage.params["pivot"])
    heldout, split = _n_heldout(stage), cast("Any", stage.params["split"])
    there: int | None = stage.plugin().n_pairs(lang, pivot, needed + heldout)
    if there is None or there >= needed + heldout:
        return None
    place = next(iter(stage.locations.values()), stage.maker)
    left = max(there - heldout, 0)
    apart = ""
    if heldout:
        apart = f", of them {split['dev']:,} for dev and {split['test']:,} for test"
        apart += f" (the default is {Split().dev:,} for each)"
    smaller = "make `split` smaller, or " if there > 1 else ""
    remedy = (
        f"ask for at most {left:,}, make `split` smaller, or set `shortage: use-all`"
        if left
        else f"{smaller}name a corpus with more text"
    )
    return (
        f"{place}: {lang}-{pivot}: {needed:,} training sentences were asked for, and there are"
        f" {there:,} lines{apart}; {remedy}"
    )


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

    def place(self, memory: Path) -> Path:
        """Return the file that remembers what was found, in a folder."""
        return memory / self.digest[:32]

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
            reads = (stage.catalogue, stage.maker, *sorted(_local_files(stage)))
            groups.setdefault(reads, {})[stage.key] = stage
    for (folder, *_), found in groups.items():
        group = tuple(found.values())
        if any(map(_local_files, group)):
            languages = dict.fromkeys(lang for stage in group for lang in _languages(stage.params))
            yield _Unit(folder, group, tuple(languages), str(group[0].params["pivot"]))


def _local_files(stage: Stage) -> list[str]:
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
