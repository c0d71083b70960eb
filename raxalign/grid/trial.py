"""A trial: one point of the grid with all its tasks, those that its method leaves untouched too;
and the conditions that choose among points.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import with_config

from raxalign.analysis.cells import Cell
from raxalign.options.axes import Axis
from raxalign.store.key import Json, digest
from raxalign.store.sealed import FORM


def plain(value: object) -> str:
    """Write a param as a grid file has it, with numbers as short as they can be and no two alike:
    ``0.1``, ``false``, ``{blocks: 1-6, embeddings: false}``.

    >>> plain(0.1), plain(1e-5), plain(2.0), plain(0.1234567)
    ('0.1', '1e-05', '2', '0.1234567')
    """
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {plain(part)}' for name, part in value.items())}}}"
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


@dataclass(frozen=True)
class Point:
    """One coordinate per axis, and one value per param of the method.

    `sentences` and `seed` are None in the point of a trial whose result they cannot change.
    """

    method: str
    params: Mapping[str, Json]
    encoder: str
    languages: tuple[str, ...]
    sentences: int | None
    seed: int | None

    def values(self) -> dict[str, Any]:
        """Return the name of an axis or param -> its value; `languages` are left out where they
        are not a set that has a name, which is among the params.
        """
        return {
            **self.params,
            Axis.METHOD: self.method,
            Axis.SENTENCES: self.sentences,
            Axis.SEED: self.seed,
            Axis.ENCODER: self.encoder,
        }

    def meets(self, conditions: Mapping[str, Any]) -> bool:
        """Check whether all conditions of an entry of `exclude` hold: a name -> a value or a list
        of values. Languages meet one that names all of them, a set one that names it.
        """
        values = self.values()
        return all(
            set(_listed(wanted)) >= set(self.languages)
            if name in {Axis.LANGUAGE, Axis.LANGUAGES} - values.keys()
            else name in values and values[name] in _listed(wanted)
            for name, wanted in conditions.items()
        )


def _listed(wanted: Any) -> list[Any] | tuple[Any, ...]:
    return wanted if isinstance(wanted, list | tuple) else [wanted]


@dataclass(frozen=True)
class Untouched:
    """Why an evaluation is not run: where the method acts, and what the task reads."""

    acts: str
    reads: str
    remedy: str = ""  # the value of `layers` at which the two meet, where there is one
    instead: str = ""  # the key of the evaluation of the encoder itself, which it would repeat

    def told(self, methods: Sequence[str], tasks: Sequence[str]) -> str:
        """Describe in words that the two do not meet."""
        read, act = "reads" if len(tasks) == 1 else "read", "is" if len(methods) == 1 else "are"
        return f"{', '.join(tasks)} {read} {self.reads}, but {', '.join(methods)} {act} {self.acts}"


@dataclass(frozen=True)
class Searched:
    """Where a trial of a search comes from: the name of the study, the number of the suggestion,
    and whether the trial confirms it with a fresh seed. Test values of the others are not shown.
    """

    study: str
    number: int
    confirmed: bool = False


@with_config({**FORM, "extra": "ignore"})  # older plans have a field `grid`
@dataclass(frozen=True)
class Trial:
    """One point: encoder x method and its params x languages x sentences x seed. In a grid with
    sets of languages the name of the set is among the params. Neither tasks nor a study that
    suggests it are part of its identity: a task added to a grid adds results to trials that are
    there. `untouched` tasks are not run, and are not results.
    """

    method: str
    kind: str
    params: Mapping[str, Json]
    encoder: str
    languages: tuple[str, ...]
    sentences: int | None  # None where it cannot change a result
    seed: int | None  # likewise
    aligned: str  # the key of the aligned encoder's stage
    evaluations: Mapping[str, str]  # task -> key of its entry in the ledger
    # task -> why it reads nothing of what the method changes
    untouched: Mapping[str, Untouched] = field(default_factory=dict)
    searched: Searched | None = None  # None: the grid names it
    # task whose training changes the encoder -> why readouts from before it are kept
    outdated: Mapping[str, str] = field(default_factory=dict)
    # task that is trained in the method's own training -> the schedule
    joint: Mapping[str, str] = field(default_factory=dict)

    @property
    def point(self) -> Point:
        """The coordinates of the trial."""
        return Point(
            self.method, self.params, self.encoder, self.languages, self.sentences, self.seed
        )

    @property
    def cell(self) -> str:
        """What the trials of one cell have in common, as text."""
        return Cell.key_of(self.method, self.params, self.encoder, self.sentences)

    def outdated_in(self, task: str, lang: str, pivot: str) -> str:
        """Return why outdated readouts are kept under a value; the pivot's own are up to date."""
        return "" if lang in (pivot, f"{pivot}-{pivot}") else self.outdated.get(task, "")

    @cached_property
    def key(self) -> str:
        """SHA-256 of the aligned encoder, the languages, the seed and the method's name."""
        return digest(
            {
                "aligned": self.aligned,
                "languages": self.languages,
                "seed": self.seed,
                "method": self.method,
            }
        )

    @cached_property
    def run(self) -> str:
        """What is kept of its run is filed under: its key, and its evaluations, which are not in
        the key.
        """
        return digest({"trial": self.key, "evaluations": sorted(set(self.evaluations.values()))})

    @property
    def parts(self) -> dict[str, str]:
        """What its curves may be of, by key: the method's aligned encoder, and its evaluations with
        the training runs of their tasks; with the names of these.
        """
        return {self.aligned: self.method, **{key: task for task, key in self.evaluations.items()}}

    @staticmethod
    def kept_readouts(found: Iterable[tuple[Trial, str]]) -> list[str]:
        """Return a remark per task and reason on the post-hoc maps that its training run makes
        stale and that are kept, among some (trial, task).
        """
        methods: dict[tuple[str, str], dict[str, None]] = {}
        for trial, task in found:
            if task in trial.outdated:
                methods.setdefault((task, trial.outdated[task]), {})[trial.method] = None
        return [
            f"{task}: the post-hoc maps of {', '.join(names)} (`readout`) were fitted before the"
            f" task's training run, which changes the encoder, and are kept: {why}"
            for (task, why), names in methods.items()
        ]

    @staticmethod
    def joint_trainings(trials: Iterable[Trial]) -> list[str]:
        """Return a remark per task and schedule on the methods that are trained with it."""
        methods: dict[tuple[str, str], dict[str, None]] = {}
        for trial in trials:
            for task in trial.joint.keys() & trial.evaluations.keys():
                methods.setdefault((task, trial.joint[task]), {})[trial.method] = None
        return [
            f"{task}: trained together with {', '.join(names)} (`schedule: {schedule}`), whose rows"
            f" are those of the joint model; other tasks read its encoder"
            for (task, schedule), names in methods.items()
        ]
