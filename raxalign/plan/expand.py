"""Grid -> Plan: a pure function, the same for the same files whatever the order of keys, the
machine or the number of workers.

Points are the product encoder x languages x sentences x seeds x method params. What cannot change a
result is dropped before hashing, so that equal points fall together: `sentences` where a method
reads no training text, `seed` where neither method nor task has chance, params that others make
idle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from raxalign.catalog import catalog
from raxalign.config.params import BaseParams, path_fields
from raxalign.errors import GridError, RaxalignError
from raxalign.plan.data import SharedStages, depth_of
from raxalign.plan.identity import Identity
from raxalign.plan.plan import Plan
from raxalign.plan.stage import Stage
from raxalign.plan.tasks import TaskStages
from raxalign.plan.touch import Meeting
from raxalign.plan.trial import Trial, Untouched

if TYPE_CHECKING:
    from raxalign.config.grid import EncoderSpec, Grid, MethodSpec
    from raxalign.methods.base import Method

BASE = "none"  # the method that leaves the encoder as it is


@dataclass
class _Expansion:
    """What is gathered while a grid is expanded."""

    grid: Grid
    shared: SharedStages
    tasks: TaskStages
    meeting: Meeting
    depths: Mapping[str, int | None]
    trials: dict[str, Trial] = field(default_factory=dict)
    points: Counter[str] = field(default_factory=Counter)
    excluded: Counter[str] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    methods: dict[int, tuple[Any, dict[str, Any]]] = field(default_factory=dict)


def expand(grid: Grid, identity: Identity | None = None, *, allow_missing: bool = False) -> Plan:
    """The plan of a grid. `identity` looks up digests (default: reads the files; remote data stays
    unresolved).

    Raises `DataError` naming every local file that is missing (with `allow_missing` they stand in
    `missing`, for a plan that is only looked at), `GridError` for layers that an encoder does not
    have, and `RaxalignError` for what else only the whole grid shows to be wrong.
    """
    identity = identity or Identity()
    for start in grid.encoders:
        for fault in catalog("encoders")[start.kind](start.params).check():
            raise RaxalignError(f"{grid.path}: encoder: {fault}")
    shared = SharedStages(grid, identity)
    tasks = TaskStages(grid, shared)
    depths = {encoder.label: depth_of(encoder, identity) for encoder in grid.encoders}
    expansion = _Expansion(grid, shared, tasks, Meeting(grid, tasks.by_name()), depths)
    for encoder in grid.encoders:
        for spec in grid.methods:
            for point in spec.points:
                _expand_method(expansion, encoder, spec, point)
    if expansion.meeting.faults:
        raise GridError(grid.path, list(expansion.meeting.faults))
    if not allow_missing:
        identity.refuse_missing()
    if not expansion.trials:
        raise RaxalignError(
            f"{grid.path}: no trial is left: every point is excluded or its encoder does not suit"
            " its method"
        )
    return Plan(
        name=grid.name,
        pivot=grid.pivot,
        points=sum(expansion.points.values()),
        trials=tuple(expansion.trials.values()),
        stages=_reachable(expansion),
        axes={spec.name: _axes(spec) for spec in grid.methods},
        merged=tuple(_merged(expansion)),
        unresolved=tuple(identity.unresolved),
        warnings=tuple(expansion.tasks.warnings),
        missing=tuple(map(str, identity.missing)),
        plugins=grid.plugins,
        unknown_depths=tuple(label for label, depth in depths.items() if depth is None),
    )


def _expand_method(
    expansion: _Expansion, encoder: EncoderSpec, spec: MethodSpec, point: Any
) -> None:
    """All points of one method's params: languages x sentences x seeds."""
    grid = expansion.grid
    kind = catalog("methods")[spec.kind]
    method: Method = kind(point)
    family = catalog("encoders")[encoder.kind].family
    canonical = method.canonical()
    shown = _shown(point, canonical)
    combinations = list(_languages(grid))
    untouched: dict[str, Untouched] | None = None
    for languages in combinations:
        for sentences in grid.sentences:
            for seed in grid.seeds:
                expansion.points[spec.name] += 1
                if _is_excluded(grid, encoder, spec, shown, languages, sentences, seed):
                    expansion.excluded[spec.name] += 1
                elif family not in method.accepts:
                    expansion.refused[spec.name, family] += 1
                else:
                    if untouched is None:
                        untouched = expansion.meeting.untouched(
                            spec.name,
                            method,
                            encoder.label,
                            family,
                            expansion.depths[encoder.label],
                        )
                    _add_trial(
                        expansion,
                        encoder,
                        spec,
                        method,
                        canonical,
                        shown,
                        untouched,
                        languages,
                        sentences,
                        seed,
                    )


def _languages(grid: Grid) -> Iterator[tuple[str, ...]]:
    if grid.together:
        yield grid.languages
    else:
        for lang in grid.languages:
            yield (lang,)


def _shown(point: Any, canonical: Mapping[str, Any]) -> dict[str, Any]:
    """The params as tables show them: the canonical ones, the names of files where their sources
    are read, and a profile that was asked for.
    """
    shown = dict(canonical)
    model: type[BaseParams] = type(point)
    if (
        "profile" in point.model_fields_set
    ):  # it stands for several values, which are in the key in its place
        shown["profile"] = point.profile
    for name in sorted(path_fields(model)):
        value = getattr(point, name)
        if value is not None and point.model_fields_set & {name}:
            shown[name] = value.rsplit("/", 1)[-1]
    return shown


def _add_trial(
    expansion: _Expansion,
    encoder: EncoderSpec,
    spec: MethodSpec,
    method: Method,
    canonical: Mapping[str, Any],
    shown: Mapping[str, Any],
    untouched: Mapping[str, Untouched],
    languages: tuple[str, ...],
    sentences: int,
    seed: int,
) -> None:
    shared, tasks, family = (
        expansion.shared,
        expansion.tasks,
        catalog("encoders")[encoder.kind].family,
    )
    start = shared.encoder(encoder)
    needs = method.needs()
    reads_training = (
        needs.links or needs.bitext or (needs.text and expansion.grid.text.corpus is None)
    )
    aligned = shared.add(
        _aligned(expansion, spec.kind, method, canonical, languages, sentences, seed, start)
    )
    instead = (
        _of_the_encoder(expansion, aligned, start, family, languages, seed, untouched)
        if untouched
        else {}
    )
    touched = [name for name in tasks.by_name() if name not in instead]
    evaluations = tasks.evaluations(method, start, aligned, family, languages, seed, touched)
    has_chance = method.has_chance() or tasks.has_chance()
    trial = Trial(
        method=spec.name,
        kind=spec.kind,
        params=shown,
        encoder=encoder.label,
        languages=languages,
        sentences=sentences if reads_training else None,
        seed=seed if has_chance else None,
        aligned=aligned.key,
        evaluations=evaluations,
        untouched={name: replace(untouched[name], instead=key) for name, key in instead.items()},
    )
    expansion.trials.setdefault(trial.key, trial)


def _of_the_encoder(
    expansion: _Expansion,
    aligned: Stage,
    start: Stage,
    family: str,
    languages: tuple[str, ...],
    seed: int,
    tasks: Mapping[str, Untouched],
) -> dict[str, str]:
    """Task -> key of the evaluation of the encoder as it is, for those of the tasks that are asked
    of these languages; none for that very encoder.

    Its stages are the plan's only where another trial wants them.
    """
    kind = catalog("methods")[BASE]
    base: Method = kind(kind.Params())
    itself = expansion.shared.add(
        _aligned(expansion, BASE, base, base.canonical(), languages, 0, seed, start)
    )
    return (
        {}
        if itself is aligned
        else expansion.tasks.evaluations(base, start, itself, family, languages, seed, tasks)
    )


def _aligned(
    expansion: _Expansion,
    kind: str,
    method: Method,
    canonical: Mapping[str, Any],
    languages: tuple[str, ...],
    sentences: int,
    seed: int,
    start: Stage,
) -> Stage:
    """The stage of an aligned encoder: everything that `align` reads, and nothing else."""
    shared, needs = expansion.shared, method.needs()
    inputs = {"encoder": start.key}
    digests: dict[str, str] = {}
    locations: dict[str, str] = {}
    for lang in languages:
        if needs.links:
            inputs[f"pairs/{lang}"] = shared.training_pairs(lang, sentences).key
        if needs.bitext:
            inputs[f"bitext/{lang}"] = shared.training_bitext(lang, sentences).key
        if needs.dev:
            inputs[f"dev/{lang}"] = shared.dev(lang, sentences, links=needs.links).key
        found, places = shared.identity.of(method.sources(lang, expansion.grid.pivot))
        digests |= {f"{name}/{lang}": value for name, value in found.items()}
        locations |= {f"{name}/{lang}": value for name, value in places.items()}
    if needs.text:
        inputs |= {
            f"text/{lang}": shared.text(lang, sentences).key
            for lang in (*languages, expansion.grid.pivot)
        }
    params: dict[str, Any] = {
        "method": dict(canonical),
        "languages": list(languages),
        "pivot": expansion.grid.pivot,
    }
    if method.has_chance():
        params["seed"] = seed
    locations["params"] = method.params.model_dump_json(by_alias=True)
    return Stage("aligned", kind, method.VERSION, params, inputs, digests, locations)


def _is_excluded(
    grid: Grid,
    encoder: EncoderSpec,
    spec: MethodSpec,
    shown: Mapping[str, Any],
    languages: tuple[str, ...],
    sentences: int,
    seed: int,
) -> bool:
    facts = {
        **shown,
        "method": spec.name,
        "sentences": sentences,
        "seed": seed,
        "encoder": encoder.label,
    }
    return any(
        all(_matches(name, wanted, facts, languages) for name, wanted in entry.items())
        for entry in grid.exclude
    )


def _matches(name: str, wanted: Any, facts: Mapping[str, Any], languages: tuple[str, ...]) -> bool:
    values = wanted if isinstance(wanted, list | tuple) else [wanted]
    if name in {"language", "languages"}:
        return set(values) >= set(languages)
    return name in facts and facts[name] in values


def _axes(spec: MethodSpec) -> tuple[str, ...]:
    """The params that differ among the points of a method."""
    dumps = [point.model_dump(by_alias=True) for point in spec.points]
    return tuple(name for name in dumps[0] if any(dump[name] != dumps[0][name] for dump in dumps))


def _reachable(expansion: _Expansion) -> dict[str, Stage]:
    """The stages that some trial needs, in the order in which they were made."""
    stages = expansion.shared.stages
    plan = Plan("", "", 0, (), stages, {})
    wanted = set(
        plan.closure(
            [key for trial in expansion.trials.values() for key in trial.evaluations.values()]
        )
    )
    return {key: stage for key, stage in stages.items() if key in wanted}


def _merged(expansion: _Expansion) -> Iterator[str]:
    """What fell together and what was dropped, in words."""
    trials = Counter(trial.method for trial in expansion.trials.values())
    for name, points in expansion.points.items():
        refused = {
            family: count for (method, family), count in expansion.refused.items() if method == name
        }
        left = points - expansion.excluded[name] - sum(refused.values())
        if expansion.excluded[name]:
            yield f"{name}: {expansion.excluded[name]} of {points} points excluded"
        if trials[name] and trials[name] < left:
            why = _why_merged(
                expansion.grid,
                [trial for trial in expansion.trials.values() if trial.method == name],
            )
            yield f"{name}: {left} points are {trials[name]} trials{why}"
        yield from (
            f"{name} does not take {family} encoders: {count} points dropped"
            for family, count in refused.items()
        )


def _why_merged(grid: Grid, trials: list[Trial]) -> str:
    axes = {"sentences": grid.sentences, "seed": grid.seeds}
    reasons = [
        name
        for name, values in axes.items()
        if len(values) > 1 and any(getattr(trial, name) is None for trial in trials)
    ]
    return (
        f" ({' and '.join(reasons)} cannot change the result)"
        if reasons
        else " (some params are idle)"
    )
