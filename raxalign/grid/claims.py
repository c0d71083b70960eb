"""The sections `claims` and `stop` of a grid file: what it is expected to show, and with how many
seeds that is looked at; and the records of the looks that were taken, from which it follows which
trials the grid asks for.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, model_validator

from raxalign.analysis.sequential import PlannedLooks, PlannedQuestions, Seen
from raxalign.errors import StorageError
from raxalign.grid.metrics import Added
from raxalign.options.params import BaseParams
from raxalign.store.key import digest
from raxalign.store.sealed import recorded, unseal

if TYPE_CHECKING:
    from raxalign.grid.trial import Trial
    from raxalign.store.storage import Storage

_FORM = re.compile(
    r"(?:abs\((?P<one>.+?) - (?P<other>.+?)\) < (?P<margin>[\d.]+)(?P<percent> ?%)?"
    r"|(?P<more>.+?) > (?P<less>.+?))"
    r" in (?P<task>\S+)(?: (?!for |over )(?P<metric>\S+))?(?: for (?P<lang>\S+))?"
    r"(?P<sample> over languages)?"
)


@dataclass(frozen=True)
class Claim:
    """A sentence of the section `claims`, on what a grid is expected to show, written down before
    it runs: that the value of `first` is larger than that of `second`, or, with a `margin`, that
    they differ by less.

        claims:
          - finetune > rotation in retrieval contextual_accuracy over languages
          - abs(rotation center=true - rotation center=false) < 1 in xnli for de

    Methods are named as `results` names them, the metric is the task's main one where none is
    named, and the value is the mean over languages where no language is (`for`). A margin is in
    points of metrics in percent, else in the metric's own unit; with a percent sign it is that
    share of how far the value of `second` is from chance.
    """

    FORMS: ClassVar = (
        "write `A > B in TASK [METRIC] [for LANGUAGE] [over languages]`, or `abs(A - B) < D in ...`"
        " with D in points or, as `5%`, of how far B is from chance"
    )
    text: str
    first: str
    second: str
    task: str
    metric: str | None = None  # None: the main one
    lang: str | None = None  # None: the mean over languages
    margin: float | None = None
    over_languages: bool = False  # for new languages, of which the grid's are a sample
    relative: bool = False  # the margin is in percent of how far `second` is from chance

    @classmethod
    def of(cls, text: str) -> Claim | None:
        """Return the claim that a sentence makes; None where it has neither form.

        >>> Claim.of("finetune > none in xnli over languages").over_languages
        True
        """
        text = " ".join(text.split())
        found = _FORM.fullmatch(text)
        if found is None:
            return None
        parts = found.groupdict()
        return cls(
            text,
            parts["one"] or parts["more"],
            parts["other"] or parts["less"],
            parts["task"],
            parts["metric"],
            parts["lang"],
            float(parts["margin"]) if parts["margin"] else None,
            over_languages=bool(parts["sample"]),
            relative=bool(parts["percent"]),
        )

    def written(self, metrics: Iterable[Added]) -> str:
        """Return the sentence, and a digest of its metric where it is among those that the grid
        adds, whose kind and options the sentence does not say.
        """
        added = Added.marks(metrics, self.task, self.metric) if self.metric else []
        return " ".join([self.text, *(f"[{mark[:12]}]" for mark in added)])


_FOLDER = "looks/planned"
_Share = Annotated[float, Field(ge=0, le=1)]
_Verdict = tuple[str, tuple[str, ...]]  # in words, with the cells that it is about


@recorded
class PlannedLook:
    """What one look has seen of each open test, by its name: the p-values that there is a
    difference and that it is within the margin, each by itself, and whether another seed may give
    another value; the cells (`Trial.cell`) that get the seeds of the next look; by the sentences
    of claims what it says of each in words, with the cells that the claim is about; and the
    sentence of the one claim whose look it is, where others wait (empty: all that were due).
    """

    when: str
    seen: Mapping[str, tuple[_Share, _Share | None, bool]]
    cells: tuple[str, ...]
    verdicts: Mapping[str, _Verdict] = field(default_factory=dict)
    claim: str = ""

    @classmethod
    def read(cls, storage: Storage, path: str, data: bytes) -> PlannedLook:
        """Read a record. Raises `StorageError` that names one which cannot be read."""
        try:
            return unseal(data, cls)
        except ValueError as error:
            raise StorageError(
                f"{storage.files.root}/{path}: is not a record of a look ({error}); restore it from"
                " a copy, or delete it: `raxalign grid` takes the look again"
            ) from error

    @staticmethod
    def path(looks: str | None, number: int, claim: str) -> str:
        """Return where one of the looks of a plan (`Plan.looks`) is recorded, by its number (from
        1) and its claim (empty: all that were due).
        """
        return f"{_FOLDER}/{looks}-{number}{claim and f'-{digest(claim)[:12]}'}.json"

    @classmethod
    def last_verdicts(cls, storage: Storage, looks: str | None) -> list[_Verdict]:
        """Return what the last looks of a plan (`Plan.looks`) say of its claims in words, with the
        cells that each is about. Warns where there are looks and the plan does not name its own.
        """
        names = storage.files.names(_FOLDER)
        if looks is None and names:
            warnings.warn(
                f"{storage}: no verdicts on claims are shown: an earlier version stored the plan,"
                " without the names of its planned looks; a grid with `stop` that is run again"
                " stores them",
                stacklevel=2,
            )
        own = [name for name in names if name.startswith(f"{looks}-")]
        there = storage.files.read_many([f"{_FOLDER}/{name}" for name in own])
        taken = [cls.read(storage, path, data) for path, data in there.items()]
        found: dict[str, _Verdict] = {}
        for look in sorted(taken, key=lambda look: look.when):
            found |= look.verdicts
        return list(found.values())


_Taken = Sequence[tuple[int, PlannedLook]]  # looks with their numbers, ascending


class Stop(BaseParams):
    """Adds seeds look by look, and ends each claim at the look that answers it.

    All claims come to a look together, or, under a budget, one after the other.
    """

    at_most: int = Field(ge=2, le=1000)
    """How many seeds a configuration has at most: 0, 1, 2 and so on."""
    looks: list[Annotated[int, Field(ge=2)]] = Field(min_length=2, max_length=10)
    """The numbers of seeds at which all open claims are tested; the last one is `at_most`."""
    difference: float | None = Field(None, gt=0, allow_inf_nan=False)
    """The smallest difference that matters, in points of metrics in percent, else in the metric's
    own unit: a claim ends, too, where the difference is within it. Left out, none does.
    """

    @model_validator(mode="after")
    def _in_order(self) -> Stop:
        if sorted(set(self.looks)) != self.looks:
            raise ValueError(f"looks: {self.looks} do not rise; each look has more seeds")
        if self.looks[-1] != self.at_most:
            told = f"the last look has {self.looks[-1]} seeds, and at_most is {self.at_most}"
            raise ValueError(f"{told}; write the same number for both")
        return self

    @property
    def planned(self) -> PlannedLooks:
        """The looks, and the level of each."""
        return PlannedLooks(tuple(self.looks))

    def told(self, claims: Iterable[Claim], metrics: Sequence[Added]) -> str:
        """Return what the lock calls this plan of looks at the sentences of claims, given the
        metrics that the grid adds.
        """
        looks, margin = ", ".join(map(str, self.looks)), self.difference
        within = "" if margin is None else f", difference {margin:g}"
        sentences = digest(sorted(claim.written(metrics) for claim in claims))[:12]
        return f"stop: looks {looks}{within}; claims {sentences}"

    def reached(self, trials: Sequence[Trial], taken: _Taken) -> Iterator[Trial]:
        """Return those of all trials that the looks so far ask for."""
        granted = list(self._granted(taken))
        return (
            trial
            for trial in trials
            if (trial.seed or 0) < self.looks[0]
            or any((trial.seed or 0) < most and trial.cell in cells for most, cells in granted)
        )

    def _granted(self, taken: _Taken) -> Iterator[tuple[int, set[str]]]:
        """Yield the seeds that looks give to cells. One that another claim's look has answered
        since takes none, unless it has gone on.
        """
        due = self.due(taken)
        for number, look in taken:
            of = [look.claim] if look.claim else [*look.verdicts]
            on = [text for text in of if text in due or self.depth(taken, text) > number]
            cells = {cell for text in on for cell in self._cells(look, text)}
            if number < len(self.looks):
                yield self.looks[number], cells if look.verdicts else set(look.cells)

    @staticmethod
    def _cells(look: PlannedLook, claim: str) -> set[str]:
        """Return the cells that a look gives more seeds for a claim."""
        return {*look.cells}.intersection(look.verdicts.get(claim, ("", look.cells))[1])

    @staticmethod
    def depth(taken: _Taken, claim: str) -> int:
        """Return how many looks were taken at a claim."""
        return max((number for number, look in taken if look.claim in ("", claim)), default=0)

    def due(self, taken: _Taken) -> list[str]:
        """Return the claims that are open and have a look left, by their sentences."""
        names, questions = self.questions(taken)
        found = dict.fromkeys(self.claim_of(names[which]) for which in questions.open)
        return [text for text in found if self.depth(taken, text) < len(self.looks)]

    @staticmethod
    def claim_of(test: str) -> str:
        """Return the sentence of the claim that a test is of, by the test's name."""
        return test.rpartition(" [")[0]

    def needed(self, trials: Sequence[Trial], taken: _Taken, claim: str) -> list[Trial]:
        """Return the trials that the next look at a claim needs, of all of them the first one."""
        number = self.depth(taken, claim)
        own = [look for n, look in taken if n == number and look.claim in ("", claim)]
        if not own:
            return [trial for trial in trials if (trial.seed or 0) < self.looks[0]]
        cells, most = self._cells(own[-1], claim), self.looks[number]  # the last one is its own
        return [trial for trial in trials if trial.cell in cells and (trial.seed or 0) < most]

    def state(self, trials: Sequence[Trial], taken: _Taken) -> tuple[str, bool]:
        """Return how far the looks are in words, and whether they are over: which claims are open,
        and how many trials there are of those that all seeds of all configurations would take.
        """
        looks = self.looks
        first = [trial for trial in trials if (trial.seed or 0) < looks[0]]
        moved = sum(trial.seed is not None for trial in first)
        most = len(first) - moved + moved * self.at_most // looks[0]
        count = f"{len(trials):,} of at most {most:,} trials"
        if not taken:
            return f"looks at {', '.join(map(str, looks))} seeds, none taken yet; {count}", False
        (names, questions), due = self.questions(taken), self.due(taken)
        last = max(number for number, _ in taken)
        told = [self.claim_of(names[which]) for which in questions.open]
        depths = [(text, self.depth(taken, text)) for text in told]
        told = [f"{text} (after look {n})" if n < last else text for text, n in depths]
        left = f"open: {'; '.join(dict.fromkeys(told))}" if told else "no claim is open"
        left += "; no look is left" if told and not due else ""
        at = f"look {last} of {len(looks)} taken, at {looks[last - 1]} seeds"
        return f"{at}; {count}; {left}", not due

    def taken(
        self, looks: str | None, claims: Iterable[Claim], storage: Storage
    ) -> list[tuple[int, PlannedLook]]:
        """Return the looks of a plan (`Plan.looks`) that were taken with their numbers, in the
        order of these.
        """
        found, every = list[tuple[int, PlannedLook]](), ["", *(claim.text for claim in claims)]
        numbers = range(1, len(self.looks) + 1)
        paths = [[PlannedLook.path(looks, number, claim) for claim in every] for number in numbers]
        there = storage.files.read_many([path for several in paths for path in several])
        for number, several in enumerate(paths, start=1):
            own = [PlannedLook.read(storage, p, there[p]) for p in several if p in there]
            if not own:
                break
            found += [(number, look) for look in own]
        return found

    def named(
        self,
        trials: Sequence[Trial],
        claims: Sequence[Claim],
        metrics: Sequence[Added],
        storage: Storage,
    ) -> str:
        """Return what the looks are recorded under (`Plan.looks`), which depends on the plan of
        looks, on the trials of the first one, and on what it reads: the results of these trials on
        the tasks that claims name, by the metrics that they name.
        """
        first = [trial for trial in trials if (trial.seed or 0) < self.looks[0]]
        keys, told = sorted(trial.key for trial in first), self.told(claims, metrics)
        tasks = {claim.task for claim in claims}
        read = [key for trial in first for task, key in trial.evaluations.items() if task in tasks]
        named, earlier = digest([told, keys, sorted(read)]), digest([told, keys])
        # earlier versions named looks after the trials alone: grids that began so go on so
        paths = [PlannedLook.path(looks, 1, "") for looks in (named, earlier)]
        return earlier if storage.files.existing(paths) == {paths[1]} else named

    def questions(self, taken: _Taken) -> tuple[list[str], PlannedQuestions]:
        """Return the names of all tests, and what the looks have answered of them."""
        names = list(taken[0][1].seen) if taken else []
        found = PlannedQuestions(self.planned, len(names))
        for number in sorted({number for number, _ in taken}):
            seen = {t: p for n, look in taken if n == number for t, p in look.seen.items()}
            found.look(number, {names.index(name): Seen(*p) for name, p in seen.items()})
        return names, found
