"""The plan: a pure value of everything that a grid will compute, its JSON form for workers, what
its trials and cells are called and which options are in effect; and which evaluations a method
leaves untouched, since where it acts is not what the task reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeVar

from raxalign.analysis.cells import Cell, Name
from raxalign.catalog import PluginFile, catalog
from raxalign.errors import Fault, RaxalignError
from raxalign.grid.file import Grid
from raxalign.grid.metrics import Added
from raxalign.grid.stage import Stage
from raxalign.grid.study import Asked, Study
from raxalign.grid.trial import Trial, Untouched, plain
from raxalign.languages import remark
from raxalign.measured import Measured
from raxalign.methods.base import Acts, Method
from raxalign.options.axes import Axis
from raxalign.printing import counted
from raxalign.store.sealed import parse, recorded
from raxalign.tasks.base import Reads, Task

_Layers = TypeVar("_Layers")


@dataclass
class Meeting:
    """Compares methods with the tasks of a grid. `faults` gathers methods and tasks that name
    layers that an encoder does not have.
    """

    grid: Grid
    tasks: Mapping[str, Task]
    faults: dict[Fault, None] = field(default_factory=dict)  # layers that encoders do not have
    _reads: dict[tuple[str, int, str], Reads | None] = field(default_factory=dict)

    def untouched(
        self, name: str, method: Method, encoder: str, family: str, depth: int | None
    ) -> dict[str, Untouched]:
        """Return task -> why a method, called `name` in the grid, leaves it untouched. Of the
        encoder there are the label, the family and the number of blocks (None: not known yet).
        """
        found: dict[str, Untouched] = {}
        if depth is None:
            return found
        acts = self._layers(("methods", name), encoder, depth, method.acts)
        inside = method.effect().inside
        for task, plugin in self.tasks.items():
            if family not in plugin.accepts:
                continue
            key = (task, depth, encoder)
            if key not in self._reads:
                self._reads[key] = self._layers(("tasks", task), encoder, depth, plugin.reads)
            reads = self._reads[key]
            if acts is None or reads is None or meet(acts, reads) or (inside and reads.tunes):
                continue  # what lies below an inside transform is not trained
            remedy = ""
            if acts.readouts and reads.layers:
                low, high = min(reads.layers), max(reads.layers)
                remedy = str(low) if low == high else f"{low}-{high}"
            past = "what leaves the encoder, past all post-hoc maps"
            told = _in_words(reads.layers) if reads.layers else past
            found[task] = Untouched(_acts_told(acts), told, remedy)
        return found

    def _layers(
        self, path: tuple[str, ...], encoder: str, depth: int, of: Callable[[int], _Layers]
    ) -> _Layers | None:
        """Return where a plug-in acts or what it reads; None, after a fault, where it names layers
        that are not there.
        """
        try:
            return of(depth)
        except RaxalignError as error:
            line = self.grid.line_of(*path, "layers") or self.grid.line_of(*path)
            self.faults[Fault(line, f"{'.'.join(path)}.layers", f"{error} ({encoder})")] = None
            return None


def told(trials: Sequence[Trial], axes: Mapping[str, Sequence[str]]) -> list[str]:
    """Write one line per task and reason: how many evaluations of some trials are untouched, and
    what to do. `axes` are the params that vary, by method.
    """
    groups: dict[tuple[str, Untouched], dict[str, list[Trial]]] = {}
    for trial in trials:
        for task, why in trial.untouched.items():
            methods = groups.setdefault((task, replace(why, instead="")), {})
            methods.setdefault(trial.method, []).append(trial)
    lines = []
    for (task, why), methods in groups.items():
        names = []
        for name, own in methods.items():
            touched = [t.params for t in trials if t.method == name and task in t.evaluations]
            names.append(" ".join([name, *_apart(own, touched, axes.get(name, ()))]))
        count = sum(map(len, methods.values()))
        how_many = "1 evaluation is untouched and will not run, as it"
        if count > 1:
            how_many = f"{count:,} evaluations are untouched and will not run, as they"
        layers = f"`layers: {why.remedy}` or a range that contains it"
        remedy = f"; to fit what is read, set {layers}" if why.remedy else ""
        reason = f"{why.told(names, [task])}{remedy}"
        lines.append(f"{how_many} would repeat the encoder's own: {reason}")
    return lines


def _apart(
    untouched: Sequence[Trial], touched: Sequence[Mapping[str, object]], axes: Sequence[str]
) -> list[str]:
    """Return the params that distinguish the untouched trials of a method from its other ones."""
    first, *others = [trial.params for trial in untouched]
    values = {axis: first.get(axis) for axis in axes}
    return [
        f"{axis}={value:g}" if isinstance(value, float) else f"{axis}={value}"
        for axis, value in values.items()
        if touched
        and all(params.get(axis) == value for params in others)
        and all(params.get(axis) != value for params in touched)
    ]


def meet(acts: Acts, reads: Reads) -> bool:
    """Check whether a method changes anything that a task reads."""
    highest = max([*reads.layers, *([] if reads.stream is None else [reads.stream])], default=-1)
    begins = acts.stream_from
    return bool(acts.readouts & reads.layers) or (begins is not None and begins <= highest)


def _acts_told(acts: Acts) -> str:
    if acts.readouts:
        return f"fitted at {_in_words(acts.readouts)}"
    begins = acts.stream_from
    return "without effect" if begins is None else f"at work from layer {begins} on"


def _in_words(layers: frozenset[int]) -> str:
    low, high = min(layers), max(layers)
    if low == high:
        return f"layer {low}"
    whole = len(layers) == high - low + 1
    return f"layers {low} to {high}" if whole else f"layers {', '.join(map(str, sorted(layers)))}"


@dataclass(frozen=True)
class Plan:
    """All trials, stages and evaluations of a grid. While an encoder has an unknown depth, some
    untouched evaluations may still count as wanted.
    """

    name: str
    pivot: str
    points: int  # of the grid, before equal ones are merged
    trials: tuple[Trial, ...]
    stages: Mapping[str, Stage]  # by key, evaluations too, inputs before what reads them
    axes: Mapping[str, tuple[str, ...]]  # method -> the params that vary in the grid
    merged: tuple[str, ...] = ()  # in words what was merged and what was dropped
    unresolved: tuple[str, ...] = ()  # remote data without a digest yet: its keys are provisional
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # local files that are not there, likewise
    unknown_depths: tuple[str, ...] = ()  # encoders whose number of layers is not known yet
    plugins: tuple[PluginFile, ...] = ()  # files outside the package that make its stages
    metrics: tuple[Added, ...] = ()  # that the grid adds: in no key, computed from predictions
    studies: tuple[Study, ...] = ()  # the searches of the grid
    asked: tuple[Asked, ...] = ()  # which trials they have suggested
    # what planned looks at the grid's claims are recorded under: empty without `stop`, None in
    # plans of versions that did not know
    looks: str | None = None

    @cached_property
    def by_key(self) -> dict[str, Trial]:
        """Trials by their keys."""
        return {trial.key: trial for trial in self.trials}

    @cached_property
    def encoders(self) -> tuple[str, ...]:
        """The encoders of all trials in order."""
        return tuple(dict.fromkeys(trial.encoder for trial in self.trials))

    @cached_property
    def sizes(self) -> frozenset[int]:
        """The numbers of training sentences of all trials."""
        found = (trial.sentences for trial in self.trials)
        return frozenset(size for size in found if size is not None)

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages of all trials in order, and the pivot."""
        spoken = (lang for trial in self.trials for lang in trial.languages)
        return tuple(dict.fromkeys([*spoken, self.pivot]))

    @cached_property
    def evaluated(self) -> dict[str, Stage]:
        """The first evaluation of each task, by the name that the grid gives it."""
        found: dict[str, Stage] = {}
        for trial in self.trials:
            for task, key in trial.evaluations.items():
                if task not in found and key in self.stages:
                    found[task] = self.stages[key]
        return found

    @cached_property
    def _made(self) -> dict[str, Task]:
        """The tasks of the trials, with their options; those whose plug-in, or an option of an
        older plan, is not here are not.
        """
        known, made = catalog("tasks"), dict[str, Task]()
        for name, stage in self.evaluated.items():
            if stage.maker in known:
                with suppress(RaxalignError):
                    made[name] = stage.plugin()
        return made

    @cached_property
    def _measured(self) -> dict[tuple[str, str], Measured]:
        """What was looked up by `measured`."""
        return {}

    def task(self, name: str) -> type[Task] | None:
        """Return the plug-in of a task, by the grid's name or its kind; None where none is here."""
        kind = self.evaluated[name].maker if name in self.evaluated else name
        if kind not in catalog("tasks"):
            return None
        plugin: type[Task] = catalog("tasks")[kind]
        return plugin

    def home_of(self, task: str) -> str:
        """Return the language that a task is trained on: the pivot, or one of `train_on`."""
        stage = self.evaluated.get(task)
        return self.pivot if stage is None else str(stage.params["pivot"])

    def main_metric(self, task: str) -> str | None:
        """Return the metric that a task calls its main one, by its options where a trial has it, or
        by its plug-in; None where it is not here.
        """
        return getattr(self._made.get(task) or self.task(task), "main_metric", None)

    def guessing(self, task: str) -> float | None:
        """Return the main metric of a guesser; None where there is no such level."""
        return getattr(self._made.get(task) or self.task(task), "guessing", None)

    def measured(self, task: str, metric: str) -> Measured:
        """Return what is declared of a metric of a task, by the metric that the grid adds or by the
        task's plug-in.

        Where neither is here, or the plug-in does not declare the metric, the answer is neutral
        (`undeclared`).
        """
        if (task, metric) not in self._measured:
            added, plugin = self.added(task, metric), self.task(task)
            found = Measured.find(plugin.metrics, metric) if plugin is not None else None
            self._measured[task, metric] = (
                added[0].metric.measured(metric) if added else found or Measured.undeclared(metric)
            )
        return self._measured[task, metric]

    def tables_of(self, names: Iterable[Name]) -> list[tuple[str, str, str]]:
        """Return (task, metric, split) of what is worth a table: no counts, errors, directions or
        points of a sweep; dev where a task has no test.
        """
        entries = dict.fromkeys((task, metric, split) for task, _, metric, split in names)
        found = [entry for entry in entries if self.measured(*entry[:2]).role == "score"]
        tested = {task for task, _, split in found if split == "test"}
        return [entry for entry in found if entry[2] == "test" or entry[0] not in tested]

    def count_of(self, task: str, metric: str) -> str:
        """Return the metric that counts the pairs behind another one, ``<metric>_pairs``; nothing
        where no count of that name is declared.
        """
        name = f"{metric}_pairs"
        return name if self.measured(task, name).role == "count" else ""

    def added(self, task: str, metric: str | None = None) -> tuple[Added, ...]:
        """Return the metrics that the grid adds to a task, or that of a name; none where it adds
        none.
        """
        return tuple(
            entry for entry in self.metrics if entry.task == task and metric in (None, entry.name)
        )

    def cached(self, there: AbstractSet[str]) -> int:
        """Count the trials that have something to run and all of it in a ledger of these keys."""
        return sum(
            bool(trial.evaluations) and there >= set(trial.evaluations.values())
            for trial in self.trials
        )

    def remarks(self) -> list[str]:
        """Return what the user should know before the grid runs: warnings, the evaluations that are
        not run, outdated readouts that are kept, and what is not known yet.
        """
        unknown = ", ".join(self.unknown_depths)
        found = [*self.warnings, *told(self.trials, self.axes)]
        found += Trial.kept_readouts(
            (trial, task) for trial in self.trials for task in trial.evaluations
        )
        found += Trial.joint_trainings(self.trials)
        if unknown:
            found.append(
                f"the number of layers of {unknown} is not known yet (`raxalign grid` looks it"
                " up): layers are not checked against it"
            )
        found += filter(None, map(remark, self.languages))
        named = {trial.seed for trial in self.trials if trial.searched is None} - {None}
        if self.studies and len(named) == 1:
            found.append(
                "methods without a search run with one seed, so the best configuration of a search"
                " cannot be tested against them: give `seeds` several"
            )
        idle = sum(not trial.evaluations for trial in self.trials)
        if idle:
            has = "has" if idle == 1 else "have"
            found.append(f"{idle} of {counted(len(self.trials), 'trial')} {has} nothing to run")
        return found

    def closure(self, keys: list[str], stored: AbstractSet[str] = frozenset()) -> list[str]:
        """Return the keys of all stages that the given ones depend on, themselves included, inputs
        first; without what is prepared for those alone that are `stored`.
        """
        seen: dict[str, None] = {}
        stack = [(key, False) for key in reversed(keys)]
        while stack:
            key, expanded = stack.pop()
            if expanded:
                seen[key] = None
            elif key not in seen:
                stack.append((key, True))
                stage = self.stages[key]
                read = [*stage.inputs.values()]
                read += [] if key in stored else stage.prepared.values()
                stack += [(entry, False) for entry in read if entry not in seen]
        return list(seen)

    def trains(self, trial: Trial) -> bool:
        """Check whether a trial has training that several workers can share: a task's own, or that
        of a method that changes weights, unless dropout draws for whole batches.
        """
        inputs = [self.stages[key].inputs for key in trial.evaluations.values()]
        trained = [self.stages[read["trained"]] for read in inputs if "trained" in read]
        aligned = {read["aligned"]: self.stages[read["aligned"]] for read in inputs}.values()
        return any(stage.shares > 1 for stage in (*trained, *aligned)) or any(
            not stage.shares and stage.plugin().effect().weights for stage in aligned
        )

    def leaves(self, trial: Trial, *, unseen: bool) -> bool:
        """Check whether a trial's method changes nothing of the representations of a language: it
        changes nothing at all, or the language is `unseen` and the method has readouts of other
        languages alone.
        """
        stages = [self.stages[key] for key in self.aligned(trial)]
        if not stages or any(stage.catalogue is None for stage in stages):
            return False
        known = catalog("methods")
        effects = [stage.plugin().effect() for stage in stages]
        readouts = not any(found.weights or found.inside or found.pivot for found in effects)
        return all(known[stage.maker].is_baseline for stage in stages) or (unseen and readouts)

    def stays(self, trial: Trial, task: str, metric: str, at: tuple[int, int] | None) -> bool:
        """Check whether a metric of representations is that of the encoder itself whatever the
        method finds: readouts move each language as a whole in a way that the metric does not see,
        or nothing is changed `at` a layer of an encoder (the layer, its number of blocks), where
        that is known.
        """
        stage = self.stages.get(trial.evaluations.get(task, ""))
        made = self.stages.get(stage.inputs["aligned"]) if stage is not None else None
        if made is None or made.catalogue is None or self.leaves(trial, unseen=False):
            return False
        method = made.plugin()
        if at is not None and not meet(method.acts(at[1]), Reads(frozenset({at[0]}))):
            return True
        effect = method.effect()
        moved = effect.weights or effect.inside
        return not moved and self.measured(task, metric).stays(effect.motion)

    def aligned(self, trial: Trial) -> list[str]:
        """Return the keys of the stages that a trial's method makes: its aligned encoder where an
        evaluation reads it, and the readouts that are fitted again after a task's training.
        """
        made = (self.stages.get(key) for key in trial.evaluations.values())
        read = (stage.inputs["aligned"] for stage in made if stage is not None)
        return [key for key in dict.fromkeys([trial.aligned, *read]) if key in self.stages]

    def part_of(self, trial: str, stage: str) -> str:
        """Return of which of `Trial.parts` the curves of a stage are: the first that needs it."""
        parts = [key for key in self.by_key[trial].parts if key in self.stages]
        return next((key for key in parts if stage in self.closure([key])), stage)

    def start_of(self, key: str) -> Stage | None:
        """Return the stage of the encoder that a stage is, reads or starts from; None without."""
        stage = self.stages[key]
        while stage.kind != "encoder":
            names = (name for name in ("encoder", "aligned", "trained") if name in stage.inputs)
            before = next(names, None)
            if before is None:
                return None
            stage = self.stages[stage.inputs[before]]
        return stage

    def to_make(self, done: AbstractSet[str], stored: AbstractSet[str]) -> list[str]:
        """Return the keys of the evaluations that are not `done` and of the stages that they need
        and that are not `stored`.
        """
        pending = [key for trial in self.trials for key in trial.evaluations.values()]
        stack = [key for key in dict.fromkeys(pending) if key not in done]
        found: dict[str, None] = {}
        while stack:
            key = stack.pop()
            if key not in found and key not in stored:
                found[key] = None
                stage = self.stages[key]
                stack += [*stage.inputs.values(), *stage.prepared.values()]
        return [key for key in found if not self.stages[key].inline]

    def sentences_of(self, key: str) -> float | None:
        """Return the number of sentence pairs that a stage of data has, or an alignment reads; None
        for all of a corpus whose size is not among its params.
        """
        stage = self.stages[key]
        if isinstance(wanted := stage.params.get("sentences"), int):
            corpus: Any = stage.params.get("corpus", {})
            size = corpus.get("size")
            known = min(wanted, size) if isinstance(size, int) else wanted
            return None if known == Stage.EVERYTHING else float(known)
        split: Any = stage.params.get("split")
        if split is not None:
            return float(sum(split.values()))
        read = [k for k in stage.inputs.values() if self.stages[k].reads_training]
        counts = [self.sentences_of(key) for key in read]
        return (
            max((c for c in counts if c is not None), default=1.0) if None not in counts else None
        )

    def users(self) -> dict[str, int]:
        """Count the trials that need each stage, whether or not it is stored."""
        counts: dict[str, int] = {}
        for trial in self.trials:
            for key in self.closure(list(trial.evaluations.values())):
                counts[key] = counts.get(key, 0) + 1
        return counts

    def only(self, trials: Iterator[Trial]) -> Plan:
        """Return the same plan with some of its trials. Keys, and what counts as seen, stay those
        of the whole grid.
        """
        chosen = tuple(trials)
        keys = self.closure([key for trial in chosen for key in trial.evaluations.values()])
        stages = {key: self.stages[key] for key in keys}
        return replace(self, trials=chosen, stages=stages)

    def varying(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of a method's params that have several values in the grid."""
        return {axis: params[axis] for axis in self.axes.get(method, ()) if axis in params}

    def cell_name(self, cell: Cell) -> str:
        """Return a cell's method with its varying params, as `results` prints it: ``rotation
        center=true``.
        """
        params = self.varying(cell.method, cell.params)
        axes = (f"{axis}={plain(value)}" for axis, value in params.items())
        return " ".join([cell.method, *axes, *self.marks_of(cell)])

    def name_without_set(self, cell: Cell) -> str:
        """Return the name of a cell without the set of languages that was aligned."""
        params = {name: value for name, value in cell.params.items() if name != Axis.LANGUAGES}
        return self.cell_name(replace(cell, params=params))

    def base_names(self, pairs: Iterable[tuple[Cell, Cell]]) -> list[str]:
        """Return the different names of baselines, each given after what is compared with it;
        without the set of languages where both always have the same one.
        """
        found = list(pairs)
        if all(base.set and base.set == cell.set for cell, base in found):
            names = [f"{self.name_without_set(base)} of the same set" for _, base in found]
        else:
            names = [self.cell_name(base) for _, base in found]
        return list(dict.fromkeys(names))

    def searched_mark(self, cell: Cell) -> list[str]:
        """Return the mark of a cell whose params a search has chosen; nothing for another."""
        trials = (self.by_key.get(key) for key in cell.trials)
        return ["(searched)"] if any(trial and trial.searched for trial in trials) else []

    def marks_of(self, cell: Cell) -> list[str]:
        """Return `searched_mark`, and the mark of a cell that was trained together with a task."""
        trials = (self.by_key.get(key) for key in cell.trials)
        joint = dict.fromkeys(task for trial in trials if trial for task in trial.joint)
        return [*self.searched_mark(cell), *(f"(joint with {task})" for task in joint)]

    def trial_name(self, trial: Trial) -> str:
        """Return a trial's method with its varying params, its languages and its seed: ``rotation
        center=True de+fr seed 0``.
        """
        params = self.varying(trial.method, trial.params)
        seed = [] if trial.seed is None else [f"seed {trial.seed}"]
        axes = [f"{axis}={value}" for axis, value in params.items()]
        return " ".join([trial.method, *axes, "+".join(trial.languages), *seed])

    def ordered(self, langs: Iterable[str]) -> list[str]:
        """Return languages, or pairs of languages, as tables and figures show them: the pivot
        first, the others in the order of the grid, means last.
        """
        places = {lang: place for place, lang in enumerate(self.languages)}

        def place(label: str) -> tuple[object, ...]:
            cuts = [len(label), *(at for at, sign in enumerate(label) if sign == "-")]
            first = next((label[:at] for at in cuts if label[:at] in places), label)
            ends = first, label[len(first) + 1 :]
            known = (places.get(lang, len(places)) for lang in ends)
            return label.startswith("avg"), label != self.pivot, *known, label

        return sorted(langs, key=place)

    def method_options(self) -> dict[str, list[dict[str, Any]]]:
        """Return the options of each method, one entry per point of the grid."""
        found: dict[str, list[dict[str, Any]]] = {}
        for trial in self.trials:
            own = self.filled("methods", trial.kind, trial.params)
            points = found.setdefault(trial.method, [])
            if own not in points:
                points.append(own)
        return found

    def task_options(self) -> dict[str, dict[str, Any]]:
        """Return the options of each task, by the name that the grid gives it."""
        found: dict[str, dict[str, Any]] = {}
        for task, stage in self.evaluated.items():
            params = stage.params["task"]
            assert isinstance(params, Mapping)
            found[task] = self.filled("tasks", stage.maker, params)
        return found

    def encoder_options(self) -> dict[str, dict[str, Any]]:
        """Return the kind and the options of each encoder, by its label."""
        found: dict[str, dict[str, Any]] = {}
        for trial in self.trials:
            keys = self.aligned(trial) if trial.encoder not in found else []
            start = self.start_of(keys[0]) if keys else None
            if start is not None:
                options = self.filled("encoders", start.maker, start.params)
                found[trial.encoder] = {"kind": start.maker, **options}
        return found

    @staticmethod
    def filled(catalogue: str, maker: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the params of a plug-in, and the single values of its `LATER` options, which keys
        leave out at default. What is None or empty has no effect.
        """
        kinds = catalog(catalogue)
        later = kinds[maker].Params.later() if maker in kinds else {}
        simple = bool | int | float | str
        single = {name: value for name, value in later.items() if isinstance(value, simple)}
        shown = {**params, **{name: value for name, value in single.items() if name not in params}}
        return {name: value for name, value in shown.items() if value is not None and value != {}}

    def to_json(self) -> str:
        """Write one JSON text from which `from_json` makes an equal plan."""
        data = {part.name: getattr(self, part.name) for part in fields(self)}
        data["stages"] = self.stages.values()
        for name in ("trials", "stages", "plugins", "metrics", "studies", "asked"):
            data[name] = [asdict(entry) for entry in data[name]]
        return json.dumps(data, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read the plan that `to_json` wrote. Raises `ValueError` for any other text."""
        read = parse(text, _Stored)
        stages: dict[str, Stage] = {}
        for stage in read.stages:
            if not stages.keys() >= {*stage.inputs.values(), *stage.prepared.values()}:
                raise ValueError(f"has another form: it lacks what the stage {stage.key} reads")
            stages[stage.key] = stage
        if not stages.keys() >= {k for trial in read.trials for k in trial.evaluations.values()}:
            raise ValueError("has another form: it lacks an evaluation of a trial")
        return cls(**{**vars(read), "stages": stages})


@recorded
class _Stored(Plan):
    """The form of a plan in JSON."""

    stages: tuple[Stage, ...]  # type: ignore[assignment]
