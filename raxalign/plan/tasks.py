"""The stages of a trial's tasks: a task's own training, shared where methods leave weights alone,
and its evaluation.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from raxalign.catalog import catalog
from raxalign.config.sources import RemoteData
from raxalign.errors import Fault, GridError, RaxalignError
from raxalign.plan.metrics import faults as metric_faults
from raxalign.plan.stage import Stage

if TYPE_CHECKING:
    from raxalign.config.grid import Grid, TaskSpec
    from raxalign.methods.base import Method
    from raxalign.plan.data import SharedStages
    from raxalign.tasks.base import Refit, Task


@dataclass
class TaskStages:
    """Makes the evaluation of each task of the grid for one aligned encoder."""

    grid: Grid
    shared: SharedStages
    warnings: list[str] = field(default_factory=list)
    _tasks: list[tuple[TaskSpec, Task]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the tasks once, and check what only the whole grid shows."""
        self._tasks = [(spec, catalog("tasks")[spec.kind](spec.params)) for spec in self.grid.tasks]
        faults = [fault for spec, task in self._tasks for fault in self._faults(spec, task)]
        if faults:
            raise GridError(self.grid.path, faults)
        for spec, task in self._tasks:
            needs = task.needs()
            if needs.seen and needs.unseen_in is None and len(self.grid.sentences) > 1:
                self.warnings.append(
                    f"tasks.{spec.name}: without `unseen_in` a larger size added to `sentences`"
                    " later changes which test pairs count as unseen"
                )

    def _faults(self, spec: TaskSpec, task: Task) -> Iterator[Fault]:
        """What is wrong with a task in the languages that it is for."""
        key = f"tasks.{spec.name}"
        for name, wrong in metric_faults(task, spec.metrics):
            where = f"metrics.{name}"
            yield Fault(spec.line_of(where), f"{key}.{where}", f"{name} {wrong}")
        yield from (
            Fault(spec.line_of(fault), key, fault)
            for fault in task.check(_narrowed(spec, self.grid.languages), self.grid.pivot)
        )
        unseen_in, largest = task.needs().unseen_in, max(self.grid.sentences)
        if unseen_in is not None and unseen_in < largest:
            yield Fault(
                spec.line_of("unseen_in"),
                f"{key}.unseen_in",
                f"{unseen_in} is smaller than the grid's largest training set ({largest}): pairs"
                " that are trained on would count as unseen",
                f"make it at least {largest}",
            )

    def by_name(self) -> Mapping[str, Task]:
        """The tasks by the names that the grid gives them."""
        return {spec.name: task for spec, task in self._tasks}

    def has_chance(self) -> bool:
        """Whether any task depends on the seed."""
        return any(task.has_chance() for _, task in self._tasks)

    def evaluations(
        self,
        method: Method,
        start: Stage,
        aligned: Stage,
        family: str,
        languages: tuple[str, ...],
        seed: int,
        named: Container[str] | None = None,
    ) -> dict[str, str]:
        """Task name -> key of its evaluation, for the tasks that take this family of encoders
        (`named`: of those names alone).
        """
        keys = {}
        for spec, task in self._tasks:
            chosen = _narrowed(spec, languages)
            if family in task.accepts and chosen and (named is None or spec.name in named):
                keys[spec.name] = self._evaluation(
                    spec, task, method, start, aligned, chosen, seed
                ).key
        return keys

    def _evaluation(
        self,
        spec: TaskSpec,
        task: Task,
        method: Method,
        start: Stage,
        aligned: Stage,
        languages: tuple[str, ...],
        seed: int,
    ) -> Stage:
        pivot, needs = self.grid.pivot, task.needs()
        covered = task.languages(languages, pivot)
        inputs = {"aligned": aligned.key}
        for lang in languages:
            if needs.heldout:
                inputs[f"heldout/{lang}"] = self.shared.heldout_pairs(
                    lang, needs.unseen_in or max(self.grid.sentences)
                ).key
            if needs.bitext:
                inputs[f"bitext/{lang}"] = self.shared.heldout_bitext(lang).key
            if needs.seen:
                inputs[f"seen/{lang}"] = self._seen(lang, needs.unseen_in).key
        if needs.text:
            inputs |= {
                f"text/{lang}": self.shared.text(lang, max(self.grid.sentences)).key
                for lang in (*languages, pivot)
            }
        if task.training() is not None:
            trained = self._trained(spec, task, method, start, aligned, languages, seed)
            inputs["trained"] = trained.key
            if (refit := task.refit()) is not None:
                refitted = self._refitted(spec, refit, method, aligned, trained)
                inputs["aligned"] = refitted.key
                task = (
                    task if refitted is not aligned else refit.keeping()
                )  # what has no readout has one result, whatever was asked for
        digests, locations, named = self._sources(task, covered)
        params: dict[str, Any] = {
            "task": task.canonical(),
            "languages": list(covered),
            "pivot": pivot,
            **named,
        }
        if task.has_chance():
            params["seed"] = seed
        locations["params"] = task.params.model_dump_json(by_alias=True)
        return self.shared.add(
            Stage("evaluation", spec.kind, task.VERSION, params, inputs, digests, locations)
        )

    def _trained(
        self,
        spec: TaskSpec,
        task: Task,
        method: Method,
        start: Stage,
        aligned: Stage,
        languages: tuple[str, ...],
        seed: int,
    ) -> Stage:
        """The task's own training: from the untouched encoder, and so shared, where neither weights
        nor what the training reads are changed.

        An inside transform of other languages changes nothing that is read either, but that the
        blocks up to it stay as they are.
        """
        pivot, effect = self.grid.pivot, method.effect()
        read = task.training_languages(languages, pivot)
        untouched = (
            not (effect.weights or effect.pivot)
            and read == (pivot,)
            and (not effect.inside or bool(effect.inside_layers))
        )
        digests, locations, named = self._sources(task, read)
        params: dict[str, Any] = {
            "task": dict(task.training() or {}),
            "languages": list(read),
            "pivot": pivot,
            "seed": seed,
            **named,
        }
        if effect.pivot:
            params["toward"] = list(languages)
        if effect.inside and untouched:
            params["frozen"] = effect.inside_layers
        locations["params"] = task.params.model_dump_json(by_alias=True)
        inputs = {"encoder": start.key} if untouched else {"aligned": aligned.key}
        return self.shared.add(
            Stage("tuned", spec.kind, task.VERSION, params, inputs, digests, locations)
        )

    def _refitted(
        self, spec: TaskSpec, refit: Refit, method: Method, aligned: Stage, trained: Stage
    ) -> Stage:
        """The method's readouts, fitted again on the encoder that the task's training left, on
        words as the task reads them; what is no readout stays as it is.
        """
        effect = method.effect()
        if (
            effect.weights
            or effect.inside
            or not (aligned.digests or aligned.inputs.keys() - {"encoder"})
        ):
            return aligned
        where = f"{self.grid.path}: tasks.{spec.name}.readout: refit"
        if aligned.maker not in catalog("methods"):
            raise RaxalignError(
                f"{where}: the transforms of a folder cannot be fitted again; write `readout:"
                " keep`, or name other tasks"
            )
        if "encoder" not in trained.inputs:
            raise RaxalignError(
                f"{where}: {aligned.maker} moves the pivot, so that the task trains through its"
                " readouts; leave it out by `exclude`, or write `readout: keep`"
            )
        method = method.reading(refit.reads_words())
        params: dict[str, Any] = {**aligned.params, "method": method.canonical()}
        locations = {**aligned.locations, "params": method.params.model_dump_json(by_alias=True)}
        return self.shared.add(
            replace(
                aligned,
                params=params,
                inputs={**aligned.inputs, "encoder": trained.key},
                locations=locations,
            )
        )

    def _sources(
        self, task: Task, languages: tuple[str, ...]
    ) -> tuple[dict[str, str], dict[str, str], dict[str, Any]]:
        """(digests, locations, params) of the task's outside data: a commit says which state of a
        repository is read, but not what of it, so that remote data enters the key by its name too.
        """
        digests: dict[str, str] = {}
        locations: dict[str, str] = {}
        names: dict[str, str] = {}
        for lang in languages:
            sources = task.sources(lang, self.grid.pivot)
            found, places = self.shared.identity.of(sources)
            digests |= {f"{name}/{lang}": value for name, value in found.items()}
            locations |= {f"{name}/{lang}": value for name, value in places.items()}
            names |= {
                f"{name}/{lang}": _unpinned(source.name)
                for name, source in sources.items()
                if isinstance(source, RemoteData)
            }
        return digests, locations, {"sources": names} if names else {}

    def _seen(self, lang: str, unseen_in: int | None) -> Stage:
        """Seen word types, with every dictionary that a method of the grid uses for the
        language.
        """
        digests: dict[str, str] = {}
        locations: dict[str, str] = {}
        for spec in self.grid.methods:
            for point in spec.points:
                sources = catalog("methods")[spec.kind](point).sources(lang, self.grid.pivot)
                found, places = self.shared.identity.of(
                    {name: source for name, source in sources.items() if name == "dictionary"}
                )
                for name, value in found.items():
                    order = "swapped" if getattr(point, "swap", False) else name
                    digests[f"{order}/{value}"] = value
                    locations[f"{order}/{value}"] = places[name]
        return self.shared.seen(lang, unseen_in, digests, locations)


def _narrowed(spec: TaskSpec, languages: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the languages that a task is for."""
    return tuple(lang for lang in languages if spec.languages is None or lang in spec.languages)


def _unpinned(name: str) -> str:
    """The name of remote data without its revision, for which the digest stands: a tag and the
    commit that it is at are one.
    """
    return name.rpartition("@")[0] or name
