"""The sections `claims` and `stop` of a grid file: what it is expected to show, and with how many
seeds that is looked at; and the records of the looks that were taken, from which it follows which
trials the grid asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, model_validator

from raxalign.analysis.sequential import PlannedLooks, PlannedQuestions, Seen
from raxalign.errors import StorageError
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


_FOLDER = "looks/planned"
_Share = Annotated[float, Field(ge=0, le=1)]


@recorded
class PlannedLook:
    """What one look has seen of each open test, by its name: the p-values that there is a
    difference and that it is within the margin, each by itself, and whether another seed may give
    another value; the cells (`Trial.cell`) that get the seeds of the next look; and by the
    sentences of claims what it says of each in words, with the cells that the claim is about.
    """

    when: str
    seen: Mapping[str, tuple[_Share, _Share | None, bool]]
    cells: tuple[str, ...]
    verdicts: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)

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

    @classmethod
    def last_verdicts(cls, storage: Storage) -> list[tuple[str, tuple[str, ...]]]:
        """Return what the last looks of all grids of a storage say of their claims in words, with
        the cells that each is about.
        """
        there = storage.files.read_many([f"{_FOLDER}/{n}" for n in storage.files.names(_FOLDER)])
        looks = [cls.read(storage, path, data) for path, data in there.items()]
        found: dict[tuple[str, tuple[str, ...]], str] = {}
        for look in sorted(looks, key=lambda look: look.when):
            found |= {(text, cells): told for text, (told, cells) in look.verdicts.items()}
        return [(told, cells) for (_, cells), told in found.items()]


class Stop(BaseParams):
    """Adds seeds look by look, and ends each claim at the look that answers it."""

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

    def told(self, claims: Iterable[Claim]) -> str:
        """Return what the lock calls this plan of looks at the sentences of claims."""
        looks, margin = ", ".join(map(str, self.looks)), self.difference
        within = "" if margin is None else f", difference {margin:g}"
        sentences = digest(sorted(claim.text for claim in claims))[:12]
        return f"stop: looks {looks}{within}; claims {sentences}"

    def reached(
        self, trials: Sequence[Trial], claims: Iterable[Claim], storage: Storage
    ) -> Iterator[Trial]:
        """Return those of all trials that the looks so far ask for."""
        taken = self.taken(trials, claims, storage)
        asked = [None, *(set(look.cells) for look in taken)]
        seeds = dict(zip(self.looks, asked, strict=False))
        return (
            trial
            for trial in trials
            if trial.seed is None
            or any(
                trial.seed < most and (cells is None or trial.cell in cells)
                for most, cells in seeds.items()
            )
        )

    def goes_on(self, taken: Sequence[PlannedLook]) -> bool:
        """Return whether there is a next look: one is left, and a question is open."""
        if not taken:
            return True
        return len(taken) < len(self.looks) and bool(self.questions(taken)[1].open)

    def state(
        self, trials: Sequence[Trial], claims: Iterable[Claim], storage: Storage
    ) -> tuple[str, bool]:
        """Return how far the looks are in words, and whether they are over: which claims are open,
        and how many trials there are of those that all seeds of all configurations would take.
        """
        taken, looks = self.taken(trials, claims, storage), self.looks
        first = [trial for trial in trials if (trial.seed or 0) < looks[0]]
        moved = sum(trial.seed is not None for trial in first)
        most = len(first) - moved + moved * self.at_most // looks[0]
        count = f"{len(trials):,} of at most {most:,} trials"
        if not taken:
            return f"looks at {', '.join(map(str, looks))} seeds, none taken yet; {count}", False
        names, questions = self.questions(taken)
        told = [names[which].rpartition(" [")[0] for which in questions.open]
        left = f"open: {'; '.join(dict.fromkeys(told))}" if told else "no claim is open"
        left += "; no look is left" if told and len(taken) == len(looks) else ""
        at = f"look {len(taken)} of {len(looks)} taken, at {looks[len(taken) - 1]} seeds"
        return f"{at}; {count}; {left}", not self.goes_on(taken)

    def taken(
        self, trials: Sequence[Trial], claims: Iterable[Claim], storage: Storage
    ) -> list[PlannedLook]:
        """Return the looks that were taken, in their order."""
        paths = [self.place(trials, claims, number) for number in range(1, len(self.looks) + 1)]
        there, found = storage.files.read_many(paths), list[PlannedLook]()
        for path in paths:
            if path not in there:
                break
            found.append(PlannedLook.read(storage, path, there[path]))
        return found

    def place(self, trials: Sequence[Trial], claims: Iterable[Claim], number: int) -> str:
        """Return where a look (from 1) is recorded: it belongs to its plan of looks, and to the
        trials of the first one.
        """
        first = sorted(trial.key for trial in trials if (trial.seed or 0) < self.looks[0])
        return f"{_FOLDER}/{digest([self.told(claims), first])}-{number}.json"

    def questions(self, taken: Sequence[PlannedLook]) -> tuple[list[str], PlannedQuestions]:
        """Return the names of all tests, and what the looks have answered of them."""
        names = list(taken[0].seen) if taken else []
        found = PlannedQuestions(self.planned, len(names))
        for number, look in enumerate(taken, start=1):
            found.look(number, {names.index(name): Seen(*p) for name, p in look.seen.items()})
        return names, found
