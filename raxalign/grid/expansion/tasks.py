"""The stages of a trial: the aligned encoder; the trainings of its tasks, shared where methods
leave weights alone; and its evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from raxalign.catalog import catalog
from raxalign.encoders.models.vectors import Pooling
from raxalign.errors import Fault, GridError, RaxalignError
from raxalign.grid.expansion.data import SharedStages
from raxalign.grid.expansion.identity import Identity
from raxalign.grid.file import Grid
from raxalign.grid.metrics import Added
from raxalign.grid.specs import TaskSpec
from raxalign.grid.stage import Stage
from raxalign.methods.base import Method
from raxalign.options.sources import LocalFile
from raxalign.tasks.base import Task, TaskNeeds, Training

_Files = tuple[dict[str, str], dict[str, str]]
"""The digests and the locations of files, by their names."""


@dataclass
class TaskStages:
    """Makes the evaluation of each task of the grid for one aligned encoder."""

    grid: Grid
    shared: SharedStages
    warnings: list[str] = field(default_factory=list)
    faults: dict[Fault, None] = field(default_factory=dict)  # vectors that encoders do not have
    _tasks: list[tuple[TaskSpec, Task]] = field(default_factory=list)
    _dictionaries: dict[str, _Files] = field(default_factory=dict)  # by language
    _rows: dict[tuple[Any, ...], dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the tasks once, and check what only the whole grid shows."""
        self._tasks = [(spec, spec.plugin()) for spec in self.grid.tasks]
        faults = [fault for spec, task in self._tasks for fault in self._faults(spec, task)]
        if faults:
            raise GridError(self.grid.path, list(dict.fromkeys(faults)))
        for spec, task in self._tasks:
            self.warnings += self._naming(spec)
            needs = task.needs()
            drawn = self.shared.draw(0) is not None
            if needs.seen and needs.unseen_in is None and (drawn or len(self.grid.sentences) > 1):
                self.warnings.append(
                    f"tasks.{spec.name}: adding a larger size to `sentences`{' or a seed' * drawn}"
                    " later changes which test pairs count as"
                    f" unseen; `unseen_in: {max(self.grid.sentences)}`, or the"
                    " largest size that you plan, fixes them now"
                )

    def _naming(self, spec: TaskSpec) -> Iterator[str]:
        """Yield what a task is called where its `train_on` has one language, and what `{source}` in
        a path is without it.
        """
        pivot, key = self.grid.pivot, f"tasks.{spec.entry}"
        if not spec.source:
            if "{source}" in spec.params.model_dump_json().lower():
                yield f"{key}: without `train_on`, {{source}} in a path is {pivot}, the pivot"
        elif sum(other.entry == spec.entry for other in self.grid.tasks) == 1:
            named = "keeps its name" if spec.source == pivot else f"is called {spec.name}"
            yield f"{key}: trained on {spec.source} alone, it {named} in results and claims"

    def _faults(self, spec: TaskSpec, task: Task) -> Iterator[Fault]:
        """Yield what is wrong with a task in its languages."""
        key, home = f"tasks.{spec.entry}", spec.home(self.grid.pivot)
        for name, wrong in Added.faults(task, spec.metrics):
            where = f"metrics.{name}"
            yield Fault(spec.line_of(where), f"{key}.{where}", f"{name} {wrong}")
        asked = (*_narrowed(spec, self.grid.languages), *spec.unseen)
        found = task.check(self._with_hub(spec, asked), home)
        yield from (Fault(spec.line_of(fault), key, fault) for fault in found)
        if spec.source:
            yield from self._source_faults(spec, task)
        lacking = [name for name, own in self.grid.sets.items() if {*asked} - {*own}]
        unseen = task.unseen()
        if unseen.use == "refused" and (spec.unseen or lacking):
            told = f"{', '.join(spec.unseen)}: not among the grid's languages, and {unseen.why}"
            if not spec.unseen:
                rest = ", ".join(lang for lang in asked if lang not in self.grid.sets[lacking[0]])
                told = f"the set {lacking[0]} leaves {rest} unaligned, and {unseen.why}"
            yield Fault(spec.line_of("languages"), f"{key}.languages", told, unseen.remedy)
        needs = task.needs()
        without = [lang for lang in asked if needs.dev and not self.shared.has_dev(lang)]
        if without:
            yield Fault(
                spec.line_of(needs.dev),
                key,
                f"{needs.dev} needs the dev part of the corpus, and {', '.join(without)} has none",
                "raise `split.dev` of the corpus, or name its `dev` file, or choose another value",
            )
        unseen_in, largest = needs.unseen_in, max(self.grid.sentences)
        if unseen_in is not None and unseen_in < largest:
            yield Fault(
                spec.line_of("unseen_in"),
                f"{key}.unseen_in",
                f"{unseen_in} is smaller than the grid's largest training set ({largest}): pairs"
                " that are trained on would count as unseen",
                f"make it at least {largest}",
            )

    def _source_faults(self, spec: TaskSpec, task: Task) -> Iterator[Fault]:
        """Yield why a task cannot be trained on a language: it is not trained, not all models align
        the language with the others, or it has no training data of its own.
        """
        home, pivot, key = spec.source, self.grid.pivot, f"tasks.{spec.entry}.train_on"
        line, told, remedy = spec.line_of("train_on"), "", f"take {home} out"
        lacking = [name for name, own in self.grid.sets.items() if home not in own]
        found = [task.sources(lang, lang) for lang in (home, pivot)]
        own, other = (sources.get("train", sources.get("hub")) for sources in found)
        files = [found.path for found in (own, other) if isinstance(found, LocalFile)]
        training = task.training()
        if training is None:
            told, remedy = "this task has no training run", "take `train_on` out"
        elif training.translations:
            told = "`setting: translate-train` trains on all languages at once"
            remedy = "write `setting: zero-shot`, or take `train_on` out"
        elif home == pivot:
            return
        elif not (self.grid.together or self.grid.sets):
            told = f"with `languages: each` no model aligns {home} with another language"
            remedy = f"write `languages: {{together: [...]}}`, or {remedy}"
        elif lacking:
            told = f"the set {lacking[0]} leaves {home} unaligned"
            remedy = f"add {home} to it, or {remedy}"
        elif own is not None and own == other:
            told = f"the training data is the same for {home} as for {pivot}"
            remedy = f"name files by `data: {{train: ...{{source}}...}}`, or {remedy}"
        elif [path.is_file() for path in files] == [False, True]:
            told = f"{home} has no training data: {Identity.absent(files[0])}"
        if told:
            yield Fault(line, key, told, remedy)

    def refuse_faults(self) -> None:
        """Raise `GridError` for the `faults` of the evaluations so far, if there are any."""
        if self.faults:
            raise GridError(self.grid.path, list(self.faults))

    def by_name(self) -> Mapping[str, Task]:
        """Return the tasks by the names that the grid gives them."""
        return {spec.name: task for spec, task in self._tasks}

    def has_chance(self) -> bool:
        """Check whether any task depends on the seed."""
        return any(task.has_chance() for _, task in self._tasks)

    def evaluations(
        self, alignment: TrialInputs, aligned: Stage, named: Container[str] | None = None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return task name -> key of its evaluation, for the `named` tasks (None: all) that take
        the family of the encoder, and that it has a masked-LM head for; and task name -> why
        readouts that the task's training outdates are kept, for those of these tasks where they
        are. `faults` then has those that read vectors which the encoder does not have.
        """
        keys: dict[str, str] = {}
        outdated: dict[str, str] = {}
        for spec, task in self._tasks:
            chosen = _narrowed(spec, alignment.languages)
            if (
                alignment.family in task.accepts
                and (alignment.head or not task.needs().head)
                and (chosen or self._evaluated(spec, alignment))
                and (named is None or spec.name in named)
            ):
                self.faults.update(dict.fromkeys(_pooling_faults(spec, task, alignment)))
                self.faults.update(dict.fromkeys(self._turned(spec, alignment)))
                asked = replace(alignment, languages=chosen or alignment.languages)
                made, why = self._evaluation(spec, task, asked, aligned)
                keys[spec.name] = made.key
                outdated |= {spec.name: why} if why else {}
        return keys, outdated

    def _turned(self, spec: TaskSpec, alignment: TrialInputs) -> Iterator[Fault]:
        """Yield a fault where the pivot is what moves, so that two other languages do not meet."""
        home, pivot, name = spec.home(self.grid.pivot), self.grid.pivot, alignment.kind
        if home != pivot and alignment.params.get("direction") == "to-other":
            told = f"`direction: to-other` of {name} moves {pivot} alone: {home} meets no other"
            remedy = f"write `direction: to-pivot`, or take {home} out"
            yield Fault(spec.line_of("train_on"), f"tasks.{spec.entry}.train_on", told, remedy)

    def _evaluation(
        self, spec: TaskSpec, task: Task, alignment: TrialInputs, aligned: Stage
    ) -> tuple[Stage, str]:
        """Add the evaluation of one task, in the languages of `alignment`; return it, and why
        outdated readouts are kept (empty where none are).
        """
        why, home = "", spec.home(self.grid.pivot)
        own = self._evaluated(spec, alignment)
        unseen = [lang for lang in own if lang not in alignment.languages]
        if unseen and self._is_shared(spec, task, alignment, own):
            aligned, unseen = replace(alignment, languages=own).stage(self.shared), []
        covered = task.languages(self._with_hub(spec, own), home)
        inputs = {"aligned": aligned.key, **self._read(task.needs(), own)}
        if spec.name in alignment.joint_tasks():
            inputs["trained"] = aligned.key
        elif (training := task.training()) is not None:
            trained = self._trained(spec, task, alignment, aligned)
            inputs["trained"] = trained.key
            fitted, why = self._fitted(spec.name, training, alignment, aligned, trained)
            inputs["aligned"] = fitted.key
            if fitted is aligned and training.refit is not None:
                # where nothing is fitted again there is one result, whatever was asked for
                task = training.refit.keeping
        params: dict[str, Any] = {"task": task.canonical()}
        if home != self.grid.pivot:
            params["task"]["train_on"], params["hub"] = home, self.grid.pivot
        params |= {"seed": alignment.seed} if task.has_chance() else {}
        params |= {"unseen": unseen} if unseen else {}
        made = self._stage("evaluation", spec, task, covered, aligned)
        made = replace(made, params={**made.params, **params}, inputs=inputs)
        return self.shared.add(made), why

    def _with_hub(self, spec: TaskSpec, languages: tuple[str, ...]) -> tuple[str, ...]:
        """Return the languages of a task that is trained on one of them, with the pivot."""
        hub = self.grid.pivot
        return languages if spec.home(hub) == hub else (hub, *languages)

    def _is_shared(
        self, spec: TaskSpec, task: Task, alignment: TrialInputs, own: tuple[str, ...]
    ) -> bool:
        """Check whether an evaluation has one result, whichever of its own languages are aligned:
        that of a method that changes nothing, by a task for which they choose and train nothing.
        """
        methods, home = catalog("methods"), spec.home(self.grid.pivot)
        base = alignment.kind in methods and methods[alignment.kind].is_baseline
        training = task.training()
        read = (home,) if training is None else training.languages(own, home)
        return base and read == (home,) and task.unseen().use == "ignored"

    def _evaluated(self, spec: TaskSpec, alignment: TrialInputs) -> tuple[str, ...]:
        """Return the languages, aligned or not, in which a task is evaluated: with sets those of
        all of them, in one order.
        """
        chosen = self.grid.languages if self.grid.sets else alignment.languages
        return (*_narrowed(spec, chosen), *spec.unseen)

    def _stage(
        self, kind: str, spec: TaskSpec, task: Task, languages: tuple[str, ...], aligned: Stage
    ) -> Stage:
        """Return a stage of a task in some languages, with the outside data that it reads. Its
        pivot is the language that it is trained on.
        """
        pivot = spec.home(self.grid.pivot)
        sources = {lang: task.sources(lang, pivot) for lang in languages}
        outside, named = self.shared.identity.of_languages(sources)
        params: dict[str, Any] = {"languages": list(languages), "pivot": pivot, **named}
        options = task.params.model_dump_json(by_alias=True)
        made = Stage(kind, spec.kind, task.VERSION, params, {}, *outside, options=options)
        return replace(
            made,
            precision=aligned.precision,
            base_precision=aligned.base_precision,
            compiled=aligned.compiled,
        )

    def _read(self, needs: TaskNeeds, languages: tuple[str, ...]) -> dict[str, str]:
        """Return the shared stages that an evaluation reads, by the names of its inputs."""
        inputs, shared, largest = {}, self.shared, max(self.grid.sentences)
        for lang in languages:
            if needs.heldout:
                pairs = shared.heldout_pairs(lang, needs.unseen_in or largest)
                inputs[f"heldout/{lang}"] = pairs.key
            if needs.bitext:
                inputs[f"bitext/{lang}"] = shared.heldout_bitext(lang).key
            if needs.seen:
                inputs[f"seen/{lang}"] = self._seen(lang, needs.unseen_in).key
        if needs.text:
            inputs |= {
                f"text/{lang}": shared.text(lang, largest).key
                for lang in (*languages, self.grid.pivot)
            }
        return inputs

    def _trained(self, spec: TaskSpec, task: Task, alignment: TrialInputs, aligned: Stage) -> Stage:
        """Add the task's own training. It starts from the encoder as it is, and so is shared, where
        neither weights nor what the training reads are changed.

        An inside transform of other languages changes nothing that is read, except that the blocks
        below it stay frozen.
        """
        home, effect = spec.home(self.grid.pivot), alignment.method.effect()
        made, read = self._training(spec, task, alignment, alignment.languages, aligned)
        untouched = (
            not (effect.weights or effect.pivot)
            and read == (home,)
            and (not effect.inside or bool(effect.inside_layers))
        )
        params = dict(made.params)
        if effect.pivot:
            params["toward"] = list(alignment.languages)
        if effect.inside and untouched:
            params["frozen"] = effect.inside_layers
        inputs = {"encoder": alignment.start.key} if untouched else {"aligned": aligned.key}
        # a task always trains with dropout
        made = replace(made, params=params, inputs=inputs, shares=self.grid.run.workers)
        return self.shared.add(made)

    def joint(self, alignment: TrialInputs) -> Stage | None:
        """Return the training of a task that the method's is one with; None where there is none.
        It is part of the aligned encoder's stage, and not one of the plan.
        """
        joint = alignment.method.effect().with_task
        if joint is None:
            return None
        spec, task = next((spec, task) for spec, task in self._tasks if spec.name == joint.task)
        chosen = _narrowed(spec, alignment.languages) or alignment.languages
        return self._training(spec, task, alignment, chosen, alignment.start)[0]

    def _training(
        self, spec: TaskSpec, task: Task, alignment: TrialInputs, own: tuple[str, ...], on: Stage
    ) -> tuple[Stage, tuple[str, ...]]:
        """Return the training of a task in its own languages on a stage, without inputs, and the
        languages that it reads.
        """
        training = task.training()
        assert training is not None, "the caller asks first"
        read = training.languages(self._with_hub(spec, own), spec.home(self.grid.pivot))
        made = self._stage("tuned", spec, task, read, on)
        prepared = self._prepared(spec, task, alignment, read)
        params = {**made.params, "task": dict(training.options), "seed": alignment.seed}
        return replace(made, params=params, prepared=prepared), read

    def _prepared(
        self, spec: TaskSpec, task: Task, alignment: TrialInputs, languages: tuple[str, ...]
    ) -> dict[str, str]:
        """Add the stages of the pieces of training rows where there are many; return their keys."""
        if alignment.family != "transformer":
            return {}
        known = (spec.name, alignment.start.key, languages)
        if known not in self._rows:  # every point of the grid is looked at: once is enough
            rows = self.shared.prepared_rows(alignment.start, spec.kind, task, languages)
            self._rows[known] = rows
        return self._rows[known]

    def _fitted(
        self, name: str, training: Training, alignment: TrialInputs, aligned: Stage, trained: Stage
    ) -> tuple[Stage, str]:
        """Add the method's readouts, fitted again on the encoder that the task's training left, on
        words as the task reads them. Where they cannot be, or are not to be, or where there are
        none, return the stage as it is, and why outdated ones are kept.
        """
        effect, refit = alignment.method.effect(), training.refit
        readouts = bool(aligned.digests or aligned.inputs.keys() - {"encoder"})
        if effect.weights or effect.inside or not readouts or alignment.family != "transformer":
            return aligned, ""
        if refit is None:
            return aligned, training.outdated
        why, remedy = "", ""
        if aligned.maker not in catalog("methods"):
            why = "the transforms of a folder cannot be fitted again"
            remedy = "write `readout: keep`, or name other tasks"
        elif "encoder" not in trained.inputs:
            why = f"{aligned.maker} moves the pivot, so that the task trains through its maps"
            remedy = "leave it out by `exclude`, or write `readout: keep`"
        if why and refit.insists:
            where = f"{self.grid.path}: tasks.{name}.readout: refit"
            raise RaxalignError(f"{where}: {why}; {remedy}")
        if why:
            return aligned, why
        method = _reading(alignment.method, refit.pooling)
        params: dict[str, Any] = {**aligned.params, "method": method.canonical()}
        options = method.params.model_dump_json(by_alias=True)

        def again(stage: Stage) -> Stage:
            fits = {n: again(self.shared.stages[key]).key for n, key in stage.prepared.items()}
            inputs = {**stage.inputs, "encoder": trained.key}
            own = {**params, "languages": stage.params["languages"]}
            made = replace(stage, params=own, inputs=inputs, options=options, prepared=fits)
            return self.shared.add(made)

        return again(aligned), ""

    def _seen(self, lang: str, unseen_in: int | None) -> Stage:
        """Add the seen word types, with every dictionary that a method of the grid trains on."""
        if lang not in self._dictionaries:  # every point of the grid is looked at: once is enough
            self._dictionaries[lang] = self._trained_on(lang)
        return self.shared.seen(lang, unseen_in, *self._dictionaries[lang])

    def _trained_on(self, lang: str) -> _Files:
        """Return the dictionaries of one language that the methods of the grid train on."""
        digests, locations = dict[str, str](), dict[str, str]()
        for spec in self.grid.methods:
            for params in spec.points:
                method: Method = catalog("methods")[spec.kind](params)
                source = method.sources(lang, self.grid.pivot).get("dictionary")
                if source is not None:
                    swap = getattr(params, "swap", False)
                    order = SharedStages.SEEN_SWAPPED if swap else SharedStages.SEEN_DICTIONARY
                    found, places = self.shared.identity.of({order: source})
                    name = f"{order}/{found[order]}"
                    digests[name], locations[name] = found[order], places[order]
        return digests, locations


def _reading(method: Method, pooling: Pooling | None) -> Method:
    """Return a method on words whose pieces are joined by `pooling`: the same where that is None,
    or where it has no such option.
    """
    field = type(method.params).model_fields.get("pooling")
    if field is None or pooling not in get_args(field.annotation):
        return method
    return type(method)(method.params.model_copy(update={"pooling": pooling}))


def _pooling_faults(spec: TaskSpec, task: Task, alignment: TrialInputs) -> Iterator[Fault]:
    """Yield a fault where the encoder has no vectors of sentences as the task reads them, and the
    method trains none.
    """
    asked = task.needs().pooling
    option, _, pooling = asked.partition(": ")
    if not asked or (pooling == "own" and alignment.method.effect().pooling):
        return
    if lacking := alignment.unpooled(pooling):
        yield Fault(spec.line_of(asked), f"tasks.{spec.name}.{option}", *lacking)


def _narrowed(spec: TaskSpec, languages: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the languages that a task is for."""
    return tuple(lang for lang in languages if spec.languages is None or lang in spec.languages)


@dataclass(frozen=True)
class TrialInputs:
    """Everything that the stages of a trial depend on."""

    kind: str  # of the method
    method: Method
    params: Mapping[str, Any]  # those of the method, canonical
    start: Stage  # the encoder that is aligned
    family: str  # of that encoder
    languages: tuple[str, ...]  # without the pivot
    sentences: int  # the number of training pairs per language
    seed: int  # of the method and of the tasks' trainings
    head: bool = True  # whether the encoder has a masked-LM head
    unpooled: Callable[[str], Sequence[str]] = lambda _: ()  # see `EncoderKind.unpooled`
    task: Stage | None = None  # the training of a task that the method's is one with

    def joint_tasks(self) -> dict[str, str]:
        """Return the task that is trained with the method, if one is: its name -> the schedule."""
        joint = self.method.effect().with_task if self.task is not None else None
        return {} if joint is None else {joint.task: joint.schedule}

    def stage(self, shared: SharedStages) -> Stage:
        """Add the stage of the aligned encoder: everything that `align` reads, and nothing else."""
        grid, inputs = shared.grid, self._inputs(shared)
        run = shared.computed_by(self.family)
        sources = {lang: self.method.sources(lang, grid.pivot) for lang in self.languages}
        outside, _ = shared.identity.of_languages(sources)
        prepared = self._shared_fits(shared)
        if self.method.needs().pieces:
            prepared = shared.prepared_pieces(self.start, inputs, self.sentences)
        prepared = {**prepared, **(self.task.prepared if self.task else {})}
        effect = self.method.effect()
        draws = (effect.weights and effect.dropout) or self.task is not None
        return shared.add(
            Stage(
                "aligned",
                self.kind,
                self.method.VERSION,
                self._params_in_key(grid.pivot),
                inputs,
                *outside,
                options=self.method.params.model_dump_json(by_alias=True),
                prepared=prepared,
                precision=run.precision,
                base_precision=run.base_precision,
                compiled=run.compile,
                shares=grid.run.workers if draws else 0,
                task=self.task,
            )
        )

    def _params_in_key(self, pivot: str) -> dict[str, Any]:
        """Return what the key is made of beside the inputs. It knows the task that is trained with
        the method by its params, whatever the grid calls it.
        """
        method = dict(self.params)
        if self.task is not None:
            method["with_task"] = {n: v for n, v in method["with_task"].items() if n != "task"}
        params = {"method": method, "languages": list(self.languages), "pivot": pivot}
        return params | ({"seed": self.seed} if self.method.has_chance() or self.task else {})

    def _inputs(self, shared: SharedStages) -> dict[str, str]:
        """Add the stages that `align` reads; return their keys by the names of the inputs."""
        needs, inputs = self.method.needs(), {"encoder": self.start.key}
        among = self.languages if shared.grid.sets else ()
        for lang in self.languages:
            if needs.links:
                draw = shared.draw(self.seed)
                inputs[f"pairs/{lang}"] = shared.training_pairs(lang, self.sentences, draw).key
            if needs.bitext:
                inputs[f"bitext/{lang}"] = shared.training_bitext(lang, self.sentences).key
            if needs.dev:
                inputs[f"dev/{lang}"] = shared.dev(lang, self.sentences, links=needs.links).key
        if needs.text:
            inputs |= {
                f"text/{lang}": shared.text(lang, self.sentences, among).key
                for lang in (*self.languages, shared.grid.pivot)
            }
        return inputs

    def _shared_fits(self, shared: SharedStages) -> dict[str, str]:
        """Add the fits of languages that several sets have, where a method fits each by itself."""
        several = len(self.languages) > 1 and self.method.fits_alone
        return {
            f"{Stage.FIT}{lang}": replace(self, languages=(lang,)).stage(shared).key
            for lang in (self.languages if several else ())
            if sum(lang in own for own in shared.grid.sets.values()) > 1
        }

    def reads_training(self, shared: SharedStages) -> bool:
        """Check whether the number of training sentences can change the result."""
        needs = self.method.needs()
        return needs.links or needs.bitext or (needs.text and shared.grid.text is None)
