"""The sections `exclude`, `search` and `claims`, which refer to what other sections declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from raxalign.catalog import catalog
from raxalign.config._faults import Faults, Node, suggestion
from raxalign.config._validate import validate
from raxalign.config.axes import LANGUAGE, Axis
from raxalign.config.claims import FORMS, Claim, claim_of
from raxalign.config.params import BaseParams, path_fields
from raxalign.config.search import Search
from raxalign.config.specs import Grid, MethodSpec
from raxalign.printing import with_article

_COMMON = (*Axis, LANGUAGE)
_MEANS = ("avg", "avg_zero_shot", "avg_unseen")  # not avg_all, which no evaluation has


def read_exclude(
    node: Node, grid: Grid, written: Mapping[str, Node], faults: Faults
) -> tuple[dict[str, Any], ...]:
    """Read the excluded points, with the values of the grid that each entry means.

    A section of `grid` with faults lacks what has them; `written` has the other sections, for the
    names of methods that have faults, and the encoders as they are written.
    """
    if not isinstance(node.value, list):
        remedy = "write [{method: name, sentences: 1000}, ...]"
        faults.add(node, f"{node.shown()} is not a list", remedy)
        return ()
    methods = written["methods"].value if "methods" in written else None
    names = list(methods) if isinstance(methods, dict) else []
    encoders = {spec.label: spec.label for spec in grid.encoders}
    items = written["encoder"].items() if "encoder" in written else []
    if len(items) == len(grid.encoders):
        labels = zip(items, grid.encoders, strict=True)
        encoders |= {item.value: spec.label for item, spec in labels if isinstance(item.value, str)}
    entries = []
    for item in node.value:
        conditions = item.entries(faults)
        if not conditions:
            told = "an entry without conditions would exclude everything"
            faults.add(item, told, "write {method: name, ...}")
        entries.append(_entry(conditions, grid, names, encoders, faults))
    return tuple(entries)


def _entry(
    conditions: dict[str, Node],
    grid: Grid,
    names: list[str],
    encoders: Mapping[str, str],
    faults: Faults,
) -> dict[str, Any]:
    asked = conditions[Axis.METHOD].items() if Axis.METHOD in conditions else []
    named = [value.value for value in asked if value.value in names]
    methods = [spec for spec in grid.methods if spec.name in named or not named]
    whole = len(methods) == len(set(named) or set(names)) > 0
    choices: dict[str, list[Any]] = {}
    for spec in methods:
        for name, values in _param_values(spec).items():
            choices.setdefault(name, []).extend(values)
    choices |= {
        Axis.METHOD: names,
        LANGUAGE: list(grid.languages),
        Axis.LANGUAGES: list(grid.sets or grid.languages),
        Axis.SENTENCES: list(grid.sentences),
        Axis.SEED: list(grid.seeds),
        Axis.ENCODER: list(encoders),
    }
    chosen: dict[str, Any] = {}
    for name, node in conditions.items():
        if name not in choices:
            if whole:
                faults.add(node, "unknown key", suggestion(name, choices))
            continue
        found = [_choice(item, name, choices[name], faults) for item in node.items()]
        if name == Axis.ENCODER:
            found = [encoders.get(str(value), value) for value in found]
        chosen[name] = found if isinstance(node.value, list) else found[0]
    return chosen


def _param_values(spec: MethodSpec) -> dict[str, list[Any]]:
    """Return the values that each option takes in the points of a method. A path is shown as the
    name of its file, as in plans.
    """
    values: dict[str, list[Any]] = {}
    for point in spec.points:
        paths = path_fields(type(point))
        for name, field in type(point).model_fields.items():
            value = getattr(point, name)
            shown = value.rsplit("/", 1)[-1] if name in paths and isinstance(value, str) else value
            shown = shown.identity() if isinstance(shown, BaseParams) else shown
            seen = values.setdefault(field.alias or name, [])
            if not any(_same(shown, other) for other in seen):
                seen.append(shown)
    return values


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _choice(node: Node, name: str, choices: list[Any], faults: Faults) -> Any:
    """Return the grid's own value that a condition means: `9` for the text ``9``, a mapping for a
    part of it. A value that the grid does not have is a fault.
    """
    value, texts = node.plain(), {node.text, node.text.rsplit("/", 1)[-1]}
    for choice in choices:
        within = isinstance(choice, dict) and isinstance(value, dict) and value
        if within and value.items() <= choice.items():
            return choice
        if _same(choice, value) or (isinstance(choice, str) and choice in texts):
            return choice
    if choices:
        noun = with_article(name if name in _COMMON else f"value of {name}")
        noun = "in `languages`" if name == Axis.LANGUAGES else noun
        listed = [str(one).lower() if isinstance(one, bool) else str(one) for one in choices]
        remedy = suggestion(node.text, listed, listed="it has")
        faults.add(node, f"{node.shown()} is not {noun} of this grid", remedy)
    return value


def read_search(node: Node, grid: Grid, faults: Faults) -> Search | None:
    """Read the section, and check it against the methods, of which one has to have a space, and the
    tasks, one of which the metric names.
    """
    written = dict(node.entries(faults))
    split, metric = written.get("split"), written.get("metric")
    if split is not None and split.value != "dev":
        remedy = (
            "what is chosen by test values is luck, and its test value means nothing: dev is the"
            " only split"
        )
        faults.add(written.pop("split"), f"{split.shown()} is not permitted", remedy)
    search = validate(Search, node, faults, values=written)
    if metric is not None and isinstance(metric.value, str):
        _check_metric(metric, grid, faults)
    if not faults and grid.methods and not any(spec.searched for spec in grid.methods):
        remedy = "write for example lambda: {log_uniform: [0.01, 10]}, or leave `search` out"
        faults.add(node, "no param of a method has a space to search", remedy)
    return search


def _check_metric(item: Node, grid: Grid, faults: Faults) -> None:
    """Check task/lang/metric against what the tasks of the grid declare."""
    parts = item.value.split("/")
    if len(parts) != 3 or not all(parts):
        remedy = "for example xnli/avg_zero_shot/accuracy"
        faults.add(item, f"{item.shown()} is not task/lang/metric", remedy)
        return
    name, lang, metric = parts
    tasks = {spec.name: spec for spec in grid.tasks}
    if name not in tasks:
        if tasks:
            faults.add(item, f"unknown task {name!r}", suggestion(name, tasks))
        return
    known = [*grid.languages, grid.pivot]
    spoken = [] if lang in known else lang.split("-")
    if grid.languages and lang not in _MEANS and {*spoken} - {*known, "{lang}", "{pivot}"}:
        faults.add(item, f"{lang!r} is not a language here", suggestion(lang, [*_MEANS, *known]))
    declared = catalog("tasks")[tasks[name].kind].metrics
    added = [entry.name for entry in tasks[name].metrics]
    found = next((entry for entry in declared if entry.names(metric)), None)
    if metric in added:
        return
    if found is None:
        every = [*(entry.name for entry in declared if entry.role == "score"), *added]
        faults.add(item, f"{name} has no metric {metric!r}", suggestion(metric, every))
    elif found.better == "neither":
        faults.add(item, f"{metric} has no better direction", "choose a metric that has one")


def read_claims(node: Node, grid: Grid, faults: Faults) -> tuple[Claim, ...]:
    """Read the claims, and check their names against the methods and tasks of the grid."""
    methods, tasks = [spec.name for spec in grid.methods], {spec.name for spec in grid.tasks}
    found: list[Claim] = []
    for item in node.items():
        claim = claim_of(item.value) if isinstance(item.value, str) else None
        if claim is None:
            faults.add(item, f"{item.shown()} is not a claim", FORMS)
            continue
        for name in (claim.first, claim.second):
            if methods and name.split()[0] not in methods:
                faults.add(item, f"unknown method {name!r}", suggestion(name, methods))
            for word in name.split()[1:]:
                axis, _, value = word.partition("=")
                if grid.sets and axis == Axis.LANGUAGES and value not in grid.sets:
                    told = f"unknown set of languages {value!r}"
                    faults.add(item, told, suggestion(value, grid.sets))
        if claim.over_languages and claim.lang is not None:
            faults.add(item, "is about one language and over languages", "leave one of them out")
        if claim.task not in tasks:
            if tasks:
                faults.add(item, f"unknown task {claim.task!r}", suggestion(claim.task, tasks))
        elif claim.metric is not None:
            every = claim.lang in (None, *(["avg_all"] if grid.sets else []))
            whole = f"{claim.task}/{'avg' if every else claim.lang}/{claim.metric}"
            _check_metric(replace(item, value=whole, text=whole), grid, faults)
        if claim in found:
            faults.add(item, "is given twice", "keep one")
        found.append(claim)
    return tuple(found)
