"""Studies: the searches of a grid, one per encoder, method, languages and number of sentences, and
the points that they suggest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

from raxalign.catalog import catalog
from raxalign.config.search import Pruner
from raxalign.config.search_spaces import Space, Value
from raxalign.config.specs import Grid, MethodSpec
from raxalign.plan.trial import Trial
from raxalign.store.key import digest


@dataclass(frozen=True)
class SearchMetric:
    """What trials are judged by: a metric on development sets; `lower` values may be better."""

    task: str
    lang: str
    metric: str
    lower: bool = False

    @property
    def name(self) -> str:
        """The metric as results name it."""
        return f"{self.task}/{self.lang}/{self.metric}"


@dataclass(frozen=True)
class Study:
    """A search of one method's params, for one encoder, languages and number of sentences."""

    name: str  # the method, the languages and a digest of everything that decides the results
    method: str
    encoder: str
    languages: tuple[str, ...]
    sentences: int
    seed: int  # of its trials
    spaces: tuple[Space, ...]
    objectives: tuple[SearchMetric, ...]
    sampler: str
    sampler_seed: int  # of the suggestions
    most: int | None  # the largest number of its trials (None: not limited)
    seconds: float | None  # the worker time that they may take, likewise
    fresh_seeds: tuple[int, ...]  # with which the chosen points are run again
    pruner: Pruner = field(default_factory=Pruner)
    unwatched: str = ""  # why the pruner cannot act, in a clause

    @property
    def prunes(self) -> bool:
        """Whether trials may end early."""
        return self.pruner.prunes and not self.unwatched

    @property
    def about(self) -> str:
        """The method, the languages and the number of sentences, in words."""
        return f"{self.method} {'+'.join(self.languages)}, {self.sentences:,} sentences"

    @property
    def corner(self) -> Suggestion:
        """A point of the study that stands for all: its data and encoders are theirs."""
        return Suggestion(0, {space.name: space.values(2)[0] for space in self.spaces})

    def to_json(self) -> dict[str, Any]:
        """Return the study as JSON has it."""
        return {**asdict(self), "pruner": self.pruner.model_dump(exclude_unset=True)}


@dataclass(frozen=True)
class Suggestion:
    """A point that a study suggested: its number there, and the values of its spaces. A point that
    was chosen is `confirmed` with the fresh seeds of the study.
    """

    number: int
    values: Mapping[str, Value]
    confirmed: bool = False


@dataclass(frozen=True)
class Asked:
    """The trial of a suggestion; several may be one trial, where they differ in an idle param."""

    study: str
    number: int
    trial: str
    confirmed: bool = False


def study_of(grid: Grid, spec: MethodSpec, corner: Trial, sentences: int) -> Study:
    """Return the study that a trial at a corner of its space stands for.

    Its name depends on what decides the results of its trials, and on the spaces, the metric and
    the sampler; not on the budget, so that a larger one continues it.
    """
    assert spec.searched is not None
    assert grid.search is not None
    search, seed = grid.search, grid.seeds[0]
    objectives = tuple(_objective(grid, name, corner.languages) for name in search.metric)
    identity: dict[str, Any] = {
        "aligned": corner.aligned,
        "method": spec.name,
        "languages": corner.languages,
        "seed": seed,
        "spaces": [asdict(space) for space in spec.searched.spaces],
        "objectives": [asdict(objective) for objective in objectives],
        "evaluations": [corner.evaluations.get(entry.task, "") for entry in objectives],
        "sampler": [search.sampler, search.seed],
    }
    return Study(
        name=f"{spec.name}-{'+'.join(corner.languages)}-{digest(identity)[:12]}",
        method=spec.name,
        encoder=corner.encoder,
        languages=corner.languages,
        sentences=sentences,
        seed=seed,
        spaces=spec.searched.spaces,
        objectives=objectives,
        sampler=search.sampler,
        sampler_seed=search.seed,
        most=search.most,
        seconds=search.seconds,
        fresh_seeds=fresh_seeds(grid.seeds, search.confirm),
        pruner=search.pruner,
    )


def fresh_seeds(seeds: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return seeds that a search with the first one did not use: the grid's others, then the
    smallest whole numbers that it does not name.

    >>> fresh_seeds((0, 7), 3)
    (7, 1, 2)
    """
    others = list(seeds[1 : count + 1])
    unused = (seed for seed in range(len(seeds) + count + 1) if seed not in seeds)
    return (*others, *islice(unused, count - len(others)))


def _objective(grid: Grid, name: str, languages: tuple[str, ...]) -> SearchMetric:
    """Return the metric that a grid file names, for the languages of one study."""
    task, lang, metric = name.split("/")
    lang = lang.replace("{lang}", "+".join(languages)).replace("{pivot}", grid.pivot)
    spec = next(spec for spec in grid.tasks if spec.name == task)
    added = next((entry for entry in spec.metrics if entry.name == metric), None)
    task_kind = catalog("tasks")[spec.kind]
    declared = task_kind.measured(metric) if added is None else catalog("metrics")[added.kind]
    assert declared is not None, "the grid file is refused otherwise"
    return SearchMetric(task, lang, metric, declared.better == "lower")
