"""Grid -> Plan: a pure function, the same for the same files whatever the order of keys, the
machine or the number of workers.

Points are the product encoder x languages x sentences x seeds x method params. What cannot change a
result is dropped before hashing, so that equal points are merged: `sentences` where a method
reads no training text, `seed` where neither method nor task depends on chance, and params that
other params make idle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any

from raxalign.analysis.cells import MEANS
from raxalign.catalog import catalog
from raxalign.errors import Fault, GridError
from raxalign.grid.expansion.data import SharedStages
from raxalign.grid.expansion.identity import Identity
from raxalign.grid.expansion.tasks import TaskStages, TrialInputs
from raxalign.grid.file import Grid
from raxalign.grid.metrics import Added
from raxalign.grid.plan import Meeting, Plan
from raxalign.grid.specs import MethodSpec, Spec
from raxalign.grid.stage import Stage
from raxalign.grid.study import Asked, SearchMetric, Study, Suggestion
from raxalign.grid.trial import Point, Searched, Trial, Untouched, plain
from raxalign.measured import Measured
from raxalign.methods.base import Method
from raxalign.options.axes import Axis
from raxalign.options.params import BaseParams
from raxalign.printing import are, counted
from raxalign.store.key import digest

if TYPE_CHECKING:
    from raxalign.tasks.base import Task


_UNTRAINED = "it is not trained", "name a task that is: a classifier, a tagger, answers"


def _joint_faults(grid: Grid, tasks: Mapping[str, Task]) -> Iterator[Fault]:
    """Yield a fault per method whose `with_task` names several tasks, one that the grid does not
    have, or one whose training cannot be part of another.
    """
    for spec in grid.methods:
        asked = (getattr(point, "with_task", "none") for point in spec.points)
        named = list(dict.fromkeys(one.task for one in asked if not isinstance(one, str)))
        if not named:
            continue
        path = ("methods", spec.name, "with_task", "task")
        lines = (grid.line_of(*path[:n]) for n in (4, 3, 2))
        line, key = next((n for n in lines if n is not None), None), ".".join(path)
        task = tasks.get(named[0])
        if len(named) > 1:
            told = f"several tasks: {', '.join(named)}; a training run can have only one"
            remedy = (
                f"write a method for each, such as `{spec.name}-{named[1]}: {{kind: {spec.kind}"
            )
            yield Fault(line, key, told, remedy + ", ...}`")
        elif task is None:
            near = get_close_matches(named[0], tasks, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"it has {', '.join(tasks)}"
            yield Fault(line, key, f"the grid has no task {named[0]!r}", remedy)
        elif why := training.alone if (training := task.training()) else _UNTRAINED:
            yield Fault(line, key, f"{named[0]} cannot be trained with a method: {why[0]}", why[1])


@dataclass
class _Counts:
    """Counts points by the name of their method: all of them, those that `exclude` names, and those
    that are dropped, each for a reason.
    """

    points: Counter[str] = field(default_factory=Counter)
    excluded: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)

    def nothing_left(self, grid: Grid) -> Fault:
        """Return the fault of a grid whose points are all left out."""
        excluded, points = self.excluded.total(), self.points.total()
        key = "exclude" if excluded else "methods"
        told = f"{excluded} of {counted(points, 'configuration')} {are(excluded)} excluded"
        if points > excluded:
            told += f" and {points - excluded} have an encoder that does not suit their method"
        remedy = "exclude less" if excluded else "`raxalign doctor --encoder` names those that do"
        return Fault(grid.lines.get(key), key, f"no trial is left: {told}", remedy)

    def told(self, grid: Grid, trials: Collection[Trial]) -> Iterator[str]:
        """Yield one line per method for each of: points excluded, points merged, points dropped."""
        searched = {spec.name for spec in grid.methods if spec.searched is not None}
        for name, points in self.points.items():
            all_of = counted(points, "configuration")
            own = [trial for trial in trials if trial.method == name]
            dropped = {why: count for (of, why), count in self.dropped.items() if of == name}
            left = points - self.excluded[name] - sum(dropped.values())
            if self.excluded[name]:
                yield f"{name}: {self.excluded[name]} of {all_of} excluded"
            if own and len(own) < left and name not in searched:
                axes = {Axis.SENTENCES: grid.sentences, Axis.SEED: grid.seeds}
                idle = " and ".join(
                    axis
                    for axis, values in axes.items()
                    if len(values) > 1 and any(getattr(trial, axis) is None for trial in own)
                )
                why = (
                    f"{idle} cannot change the result"
                    if idle
                    else "some params are idle, or their files are equal"
                )
                merged = f"{counted(left, 'configuration')} are {counted(len(own), 'trial')}"
                yield f"{name}: {merged} ({why})"
            for why, count in dropped.items():
                yield f"{name} {why}: {counted(count, 'configuration')} dropped"


def _study_of(
    grid: Grid, spec: MethodSpec, corner: Trial, sentences: int, stages: Mapping[str, Stage]
) -> Study:
    """Return the study that a trial at a corner of its space stands for."""
    search, searched, seed = grid.search, spec.searched, grid.seeds[0]
    assert searched is not None
    assert search is not None
    objective, pruner = _objective(grid, search.metric, corner.languages), search.pruner
    judged = corner.evaluations.get(objective.task, "")
    marks = Added.marks(_added(grid), objective.task, objective.metric)
    unwatched = "" if pruner == "none" else _why_not(grid, corner, stages, objective)
    # what decides the results of its trials; not the budget, so that a larger one continues it
    identity: dict[str, Any] = {
        "aligned": corner.aligned,
        "method": spec.name,
        "languages": corner.languages,
        "seed": seed,
        "spaces": [asdict(space) for space in searched.spaces],
        "objectives": [asdict(objective)],
        "evaluations": [judged, *marks],
        "sampler": [search.sampler, search.seed],
        **({} if pruner == "none" or unwatched else {"pruner": pruner}),
    }
    return Study(
        name=f"{spec.name}-{'+'.join(corner.languages)}-{digest(identity)[:12]}",
        method=spec.name,
        encoder=corner.encoder,
        languages=corner.languages,
        sentences=sentences,
        seed=seed,
        spaces=searched.spaces,
        objective=objective,
        sampler=search.sampler,
        sampler_seed=search.seed,
        most=search.most,
        seconds=search.seconds,
        fresh_seeds=grid.fresh_seeds(search.confirm),
        pruner=pruner,
        unwatched=unwatched,
    )


def _added(grid: Grid) -> tuple[Added, ...]:
    return tuple(Added.of(task.name, m) for task in grid.tasks for m in task.metrics)


def _objective(grid: Grid, name: str, languages: tuple[str, ...]) -> SearchMetric:
    """Return the metric that a grid file names, for the languages of one study."""
    task, lang, metric = name.split("/")
    lang = lang.replace("{lang}", "+".join(languages)).replace("{pivot}", grid.pivot)
    spec = next(spec for spec in grid.tasks if spec.name == task)
    added = next((entry for entry in spec.metrics if entry.name == metric), None)
    reported = catalog("tasks")[spec.kind].metrics
    declared = Measured.find(reported, metric) if added is None else catalog("metrics")[added.kind]
    assert declared is not None, "the grid file is refused otherwise"
    return SearchMetric(task, lang, metric, declared.better == "lower")


def _why_not(grid: Grid, trial: Trial, stages: Mapping[str, Stage], objective: SearchMetric) -> str:
    """Return in a clause why a trial cannot be pruned; nothing where it can."""
    task, metric = objective.task, objective.metric
    spec = next(spec for spec in grid.tasks if spec.name == task)
    if task not in trial.evaluations:
        return f"{task} reads nothing that {trial.method} changes"
    if Measured.find(catalog("tasks")[spec.kind].metrics, metric) is None:
        return f"{metric} is computed after the evaluation"
    stage = stages[trial.evaluations[task]]
    if "trained" not in stage.inputs:
        return f"{task} is not trained, so {metric} is measured once, at the end"
    trained = stages[stage.inputs["trained"]]
    if trained.task is None and "aligned" not in trained.inputs:
        return f"all trials share one training run of {task}"
    training = stage.plugin().training()
    if training is None or metric not in training.watched:
        return f"the training run of {task} makes no dev selections by {metric}"
    if objective.lang not in (*MEANS, *stage.params["languages"]):  # type: ignore[misc]
        return f"{objective.lang} is not one of the languages that {task} scores"
    return ""


BASE = "none"
"""The method that leaves the encoder as it is. It is named here because the keys of its stages
stand for evaluations that a method leaves untouched, in grids without this method too.
"""


def expand(
    grid: Grid,
    identity: Identity | None = None,
    *,
    allow_missing: bool = False,
    suggested: Callable[[Study], Iterable[Suggestion]] = lambda _: (),
) -> Plan:
    """Return the plan of a grid. `identity` looks up digests; by default it reads the files, and
    remote data stays unresolved. `suggested` looks up what a search has suggested so far.

    Raises `DataError` that names all local files that are missing (with `allow_missing` they are
    listed in `Plan.missing`, for a plan that is only looked at), and `GridError` with the faults
    that the grid shows as a whole.
    """
    identity = identity or Identity()
    shared = SharedStages(grid, identity)
    if faults := list(shared.encoder_faults()):
        raise GridError(grid.path, faults)
    expansion = _Expansion.of(shared)
    if faults := list(_joint_faults(grid, expansion.tasks.by_name())):
        raise GridError(grid.path, faults)
    groups = [(languages,) for languages in grid.groups] if grid.sets else [grid.groups]
    for encoder, group, spec in product(grid.encoders, groups, grid.methods):
        if spec.searched is not None:
            expansion.search(encoder, spec, group, suggested)
        else:
            expansion.add(encoder, spec, group)
    if expansion.meeting.faults:
        raise GridError(grid.path, list(expansion.meeting.faults))
    expansion.tasks.refuse_faults()
    if not allow_missing:
        identity.refuse_missing()
    if not expansion.trials and not expansion.studies:
        raise GridError(grid.path, [expansion.counts.nothing_left(grid)])
    if faults := list(_of_one_name(grid, expansion.trials.values())):
        raise GridError(grid.path, faults)
    plan = expansion.plan()
    if faults := list(shared.corpus_faults(plan.stages.values())):
        raise GridError(grid.path, faults)
    return plan


def _of_one_name(grid: Grid, trials: Iterable[Trial]) -> Iterator[Fault]:
    """Yield a fault for the first two configurations of each method that results would show as one
    (`Trial.cell`), as the mean of both.
    """
    found, refused = dict[tuple[object, ...], Trial](), set[str]()
    for trial in trials:
        other = found.setdefault((trial.cell, trial.languages, trial.seed), trial)
        if other.aligned != trial.aligned and trial.method not in refused:
            refused.add(trial.method)
            line, key = grid.line_of("methods", trial.method), f"methods.{trial.method}"
            shown = ", ".join(f"{name}={plain(value)}" for name, value in trial.params.items())
            told = (
                f"two configurations on {trial.encoder} have one name in results ({shown}):"
                f" the trials {other.key[:12]} and {trial.key[:12]}"
            )
            yield Fault(line, key, told, "write a method for each, with a name of its own")


_Groups = tuple[tuple[str, ...], ...]
"""The languages of one trial each."""


@dataclass
class _Expansion:
    """What is gathered while a grid is expanded. `depths` are numbers of blocks by encoder, `heads`
    whether it has a masked-LM head.
    """

    grid: Grid
    shared: SharedStages
    tasks: TaskStages
    meeting: Meeting
    depths: Mapping[str, int | None]  # encoder -> its number of blocks
    heads: Mapping[str, bool]  # encoder -> whether it has a masked-LM head
    unpooled: Mapping[str, Callable[[str], Sequence[str]]]  # encoder -> see `TrialInputs`
    paths: Mapping[str, Mapping[str, Mapping[str, str]]]  # method -> `BaseParams.names_of_paths`
    trials: dict[str, Trial] = field(default_factory=dict)
    counts: _Counts = field(default_factory=_Counts)
    studies: dict[str, Study] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    @classmethod
    def of(cls, shared: SharedStages) -> _Expansion:
        grid = shared.grid
        tasks = TaskStages(grid, shared)
        known = shared.identity.locked
        depths = {spec.name: spec.plugin().depth(known) for spec in grid.encoders}
        heads = {spec.name: shared.has_head(spec) for spec in grid.encoders}
        unpooled = {
            spec.name: cache(partial(spec.plugin().unpooled, known=known)) for spec in grid.encoders
        }
        paths = {spec.name: BaseParams.names_of_paths(spec.points) for spec in grid.methods}
        meeting = Meeting(grid, tasks.by_name())
        return cls(grid, shared, tasks, meeting, depths, heads, unpooled, paths)

    def add(self, encoder: Spec, spec: MethodSpec, groups: _Groups) -> None:
        """Add the trials of a method, each for the languages of a group, unless they are there."""
        at = list(product(groups, self.grid.sentences, self.grid.seeds))
        for params in spec.points:
            for trial in self.trials_of(encoder, spec, params, at):
                self.trials.setdefault(trial.key, trial)

    def search(
        self,
        encoder: Spec,
        spec: MethodSpec,
        groups: _Groups,
        suggested: Callable[[Study], Iterable[Suggestion]],
    ) -> None:
        """Add the studies of a method whose params are searched, and the trials that they have
        suggested: languages x sentences.
        """
        assert spec.searched is not None
        for languages, sentences in product(groups, self.grid.sentences):
            at = [(languages, sentences, self.grid.seeds[0])]
            for corner in self.trials_of(encoder, spec, spec.points[0], at):
                study = _study_of(self.grid, spec, corner, sentences, self.shared.stages)
                if study.name in self.studies:
                    continue
                self.studies[study.name] = study
                for suggestion in suggested(study):
                    self._add_suggested(encoder, spec, study, suggestion)

    def _add_suggested(
        self, encoder: Spec, spec: MethodSpec, study: Study, suggestion: Suggestion
    ) -> None:
        """Add the trials of a suggestion. One that confirms takes the place of the suggested one
        where the seed cannot change a result.
        """
        assert spec.searched is not None
        params, confirmed = spec.searched.point(suggestion.values), suggestion.confirmed
        origin = Searched(study.name, suggestion.number, confirmed)
        seeds = study.fresh_seeds if confirmed else (study.seed,)
        at = [(study.languages, study.sentences, seed) for seed in seeds]
        for trial in self.trials_of(encoder, spec, params, at):
            there = self.trials.get(trial.key)
            self.asked.append(Asked(study.name, suggestion.number, trial.key, confirmed))
            if there is None or (confirmed and there.searched and not there.searched.confirmed):
                self.trials[trial.key] = replace(trial, searched=origin)

    def trials_of(
        self,
        encoder: Spec,
        spec: MethodSpec,
        params: BaseParams,
        points: Iterable[tuple[tuple[str, ...], int, int]],
    ) -> Iterator[Trial]:
        """Yield the trials of one value of a method's params, at (languages, sentences, seed)."""
        name, head = spec.name, self.heads[encoder.name]
        method: Method = catalog("methods")[spec.kind](params)
        family: str = catalog("encoders")[encoder.kind].family
        canonical, shown = method.canonical(), method.shown()
        for option, paths in self.paths[name].items():
            if path := getattr(params, option):
                shown[option] = paths.get(path, path)
        untouched: Mapping[str, Untouched] | None = None
        for languages, sentences, seed in points:
            params_of = {**shown, **self.grid.set_of(languages)}
            point = Point(name, params_of, encoder.name, languages, sentences, seed)
            if not self._is_kept(point, method, family):
                continue
            if untouched is None:
                depth = self.depths[encoder.name]
                untouched = self.meeting.untouched(name, method, encoder.name, family, depth)
            start = self.shared.encoder(encoder)
            alignment = TrialInputs(
                spec.kind, method, canonical, start, family, languages, sentences, seed, head
            )
            unpooled = self.unpooled[encoder.name]
            alignment = replace(alignment, unpooled=unpooled, task=self.tasks.joint(alignment))
            yield self._trial(point, alignment, untouched)

    def _is_kept(self, point: Point, method: Method, family: str) -> bool:
        """Count a point, and say whether it is a trial: neither excluded nor with an encoder that
        does not suit its method.
        """
        name, counts = point.method, self.counts
        counts.points[name] += 1
        why = ""
        if any(map(point.meets, self.grid.exclude)):
            counts.excluded[name] += 1
            return False
        if family not in method.accepts:
            why = f"does not take {family} encoders"
        elif not self.heads[point.encoder] and method.needs().head:
            why = f"requires a masked-LM head, which {point.encoder} does not have"
        counts.dropped.update([(name, why)] if why else [])
        return not why

    def _trial(
        self, point: Point, alignment: TrialInputs, untouched: Mapping[str, Untouched]
    ) -> Trial:
        """Return the trial of a point."""
        shared, tasks = self.shared, self.tasks
        aligned = alignment.stage(shared)
        instead = self._of_the_encoder(alignment, aligned, untouched) if untouched else {}
        touched = [name for name in tasks.by_name() if name not in instead]
        drawn = alignment.method.needs().links and shared.draw(point.seed) is not None
        has_chance = drawn or alignment.method.has_chance() or tasks.has_chance()
        evaluations, outdated = tasks.evaluations(alignment, aligned, touched)
        return Trial(
            method=point.method,
            kind=alignment.kind,
            params=point.params,
            encoder=point.encoder,
            languages=point.languages,
            sentences=point.sentences if alignment.reads_training(shared) else None,
            seed=point.seed if has_chance else None,
            aligned=aligned.key,
            evaluations=evaluations,
            untouched={n: replace(untouched[n], instead=key) for n, key in instead.items()},
            outdated=outdated,
            joint=alignment.joint_tasks(),
        )

    def _of_the_encoder(
        self, alignment: TrialInputs, aligned: Stage, tasks: Mapping[str, Untouched]
    ) -> dict[str, str]:
        """Return task -> key of the evaluation of the encoder as it is, for those of the tasks that
        are asked of these languages; nothing where `aligned` is that very encoder.

        The stages of these evaluations are in the plan only where another trial needs them.
        """
        kind = catalog("methods")[BASE]
        method: Method = kind(kind.Params())
        base = replace(alignment, kind=BASE, method=method, params=method.canonical(), sentences=0)
        base = replace(base, task=None)
        itself = base.stage(self.shared)
        return {} if itself is aligned else self.tasks.evaluations(base, itself, tasks)[0]

    def plan(self) -> Plan:
        """Return the plan of everything that was added, with the stages that some trial needs."""
        grid, identity, stages = self.grid, self.shared.identity, self.shared.stages
        evaluations = [key for trial in self.trials.values() for key in trial.evaluations.values()]
        wanted = set(Plan("", "", 0, (), stages, {}).closure(evaluations))
        return Plan(
            name=grid.name,
            pivot=grid.pivot,
            points=self.counts.points.total(),
            trials=tuple(self.trials.values()),
            stages={key: stage for key, stage in stages.items() if key in wanted},
            axes={
                spec.name: (*_axes(spec), *([Axis.LANGUAGES.value] if len(grid.sets) > 1 else []))
                for spec in grid.methods
            },
            merged=(*self.counts.told(grid, self.trials.values()), *self._without_head()),
            unresolved=tuple(identity.unresolved),
            warnings=(
                *_single_seed(grid),
                *self.tasks.warnings,
                *_idle_prefixes(grid, self.tasks.by_name()),
                *self.shared.code_not_run(),
                *self.shared.folders_not_read(),
            ),
            missing=tuple(map(str, identity.missing)),
            plugins=grid.plugins,
            metrics=_added(grid),
            unknown_depths=tuple(label for label, depth in self.depths.items() if depth is None),
            studies=tuple(self.studies.values()),
            asked=tuple(self.asked),
            looks="",
        )

    def _without_head(self) -> Iterator[str]:
        """Yield one line per task that predicts words, for each encoder that cannot."""
        headless = [label for label, head in self.heads.items() if not head]
        for (name, task), label in product(self.tasks.by_name().items(), headless):
            count = sum(trial.encoder == label for trial in self.trials.values())
            if task.needs().head and count:
                yield (
                    f"{name} requires a masked-LM head, which {label} does not have: {count}"
                    " evaluations dropped"
                )


_FEW_RUNS = 20  # who writes a larger number, such as 42, means a seed


def _axes(spec: MethodSpec) -> tuple[str, ...]:
    """Return the params that differ among the points of a method; those that are searched."""
    if spec.searched is not None:
        return tuple(dict.fromkeys(s.name.partition(".")[0] for s in spec.searched.spaces))
    dumps = [point.model_dump(by_alias=True) for point in spec.points]
    return tuple(name for name in dumps[0] if any(dump[name] != dumps[0][name] for dump in dumps))


def _idle_prefixes(grid: Grid, tasks: Mapping[str, Task]) -> Iterator[str]:
    """Yield a note per encoder whose `prefix` is put before nothing: of all tasks, or of what some
    methods train, which is read as it was trained.
    """
    own = "pooling: own"
    asked = {name: task.needs().pooling for name, task in tasks.items()}
    may = [name for name, pooling in asked.items() if pooling.startswith("pooling:")]
    kinds = [(spec.name, catalog("methods")[spec.kind], spec.points) for spec in grid.methods]
    trained = [name for name, kind, of in kinds if any(kind(p).effect().pooling for p in of)]
    for spec in grid.encoders:
        prefix = getattr(spec.params, "prefix", "")
        where = f"encoder: the prefix {prefix!r} of {spec.name} is put before no sentence"
        if prefix and own not in asked.values():
            remedy = f"set `{own}` at {', '.join(may)}, or " if may else ""
            yield f"{where}: no task has `{own}`; {remedy}leave the prefix out"
        elif prefix and trained:
            yield f"{where} after {', '.join(trained)}: `{own}` then reads sentences as trained"


def _single_seed(grid: Grid) -> Iterator[str]:
    """Yield a note where `seeds` is one number that may be meant as how many there are."""
    first, *others = grid.seeds
    if not others and 1 < first <= _FEW_RUNS:
        yield (
            f"seeds: {first} means one training run per configuration, with seed {first}; for"
            f" {first} runs write seeds: {list(range(first))}"
        )
