"""What to run: a grid file, read and checked as a whole; its sections read themselves (`specs`).

`load` reports all faults of a file at once, each with its line and what would be right. It imports
the plug-ins that the file names, and with them nothing heavy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from raxalign.catalog import PluginFault, PluginFile, catalog
from raxalign.errors import GridError, RaxalignError
from raxalign.grid._validate import MOST_POINTS, validate
from raxalign.grid.claims import Claim, Stop
from raxalign.grid.search import Search
from raxalign.grid.specs import (
    CorpusSettings,
    Grouped,
    MethodSpec,
    PairsSpec,
    Spec,
    TaskSpec,
)
from raxalign.grid.yaml_file import Faults, Node, written
from raxalign.languages import spelled
from raxalign.measured import Measured
from raxalign.options.axes import Axis
from raxalign.options.params import BaseParams
from raxalign.options.run import RunConfig
from raxalign.options.sources import absolute
from raxalign.printing import with_article
from raxalign.trust import require_trust


@dataclass(frozen=True)
class Grid:
    """A grid file that was read and found good. A point is excluded for which all entries of one
    mapping of `exclude` hold, of which each may have several values. What `plugins` make carries
    their digests in its kind.
    """

    path: Path
    text_of_file: str = field(repr=False)
    name: str
    pivot: str
    encoders: tuple[Spec, ...]  # their names are labels
    together: bool  # one model for all languages, else one trial per language, or per set
    languages: tuple[str, ...]
    corpora: Mapping[str, Spec] = field(hash=False)  # by language, those `outside` too
    corpus: CorpusSettings  # what they share
    text: Spec | None  # monolingual; None: the training sides of the bitext
    pairs: PairsSpec
    sentences: tuple[int, ...]
    seeds: tuple[int, ...]
    methods: tuple[MethodSpec, ...]
    tasks: tuple[TaskSpec, ...]
    exclude: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    published: tuple[str, ...] = ()
    plugins: tuple[PluginFile, ...] = ()  # files outside the package that the grid names
    run: RunConfig = field(default_factory=RunConfig)  # never part of a key
    search: Search | None = None  # how the params of searched methods are chosen
    claims: tuple[Claim, ...] = ()  # what the grid is expected to show
    stop: Stop | None = None  # how many seeds that takes
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)  # by name
    outside: tuple[str, ...] = ()  # languages that no method aligns, of tasks with the corpus
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)  # of sections

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The languages of one trial each."""
        if self.sets:
            return tuple(self.sets.values())
        return (self.languages,) if self.together else tuple((lang,) for lang in self.languages)

    def set_of(self, languages: tuple[str, ...]) -> dict[str, str]:
        """Return the name of the set of these languages as a param; nothing without sets."""
        name = next((name for name, found in self.sets.items() if found == languages), None)
        return {} if name is None else {Axis.LANGUAGES.value: name}

    def fresh_seeds(self, count: int) -> tuple[int, ...]:
        """Return seeds that a search with the first one did not use: the other ones of the grid,
        then the smallest whole numbers that it does not name.
        """
        others = list(self.seeds[1 : count + 1])
        unused = (n for n in range(len(self.seeds) + count + 1) if n not in self.seeds)
        return (*others, *islice(unused, count - len(others)))

    def encoder_of_pieces(self) -> Spec | None:
        """Return the encoder whose tokenizer counts the pieces of training pairs; None where none
        does.

        Raises `RaxalignError` for a kind of encoder that is made from the grid's text: that text
        would be chosen by its own tokenizer.
        """
        if self.corpus.pieces is None:
            return None
        name = self.corpus.pieces.encoder
        if name in catalog("encoders"):
            raise RaxalignError(
                f"{self.path}: corpus: pieces: encoder: {name!r} is a kind of encoder; name a"
                " folder or a hub name"
            )
        return Spec.encoder("transformer", {"name": name})

    def every_encoder(self) -> tuple[Spec, ...]:
        """Return every encoder of the grid, also those of its word aligner and of `pieces`."""
        own = (self.pairs.encoder(), self.encoder_of_pieces())
        return (*self.encoders, *(spec for spec in own if spec is not None))

    def line_of(self, *path: str) -> int | None:
        """Return the line of a key of the file, given by the keys that lead to it; None where the
        file does not have it.
        """
        return Faults().parse("grid", self.text_of_file).line_of(*path)


_COMMON = (*Axis, Axis.LANGUAGE)
_MEANS = ("avg", "avg_zero_shot", "avg_unseen")  # not avg_all, which no evaluation has


def _read_exclude(
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
    encoders = {spec.name: spec.name for spec in grid.encoders}
    items = written["encoder"].items() if "encoder" in written else []
    if len(items) == len(grid.encoders):
        labels = zip(items, grid.encoders, strict=True)
        encoders |= {item.value: spec.name for item, spec in labels if isinstance(item.value, str)}
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
        Axis.LANGUAGE: list(grid.languages),
        Axis.LANGUAGES: list(grid.sets or grid.languages),
        Axis.SENTENCES: list(grid.sentences),
        Axis.SEED: list(grid.seeds),
        Axis.ENCODER: list(encoders),
    }
    chosen: dict[str, Any] = {}
    for name, node in conditions.items():
        if name not in choices:
            if whole:
                faults.add(node, "unknown key", faults.suggestion(name, choices))
            continue
        found = [_choice(item, name, choices[name], faults) for item in node.items()]
        if name == Axis.ENCODER:
            found = [encoders.get(str(value), value) for value in found]
        chosen[name] = found if isinstance(node.value, list) else found[0]
    return chosen


def _param_values(spec: MethodSpec) -> dict[str, list[Any]]:
    """Return the values that each option takes in the points of a method. A path is shown as in
    plans.
    """
    values: dict[str, list[Any]] = {}
    named = BaseParams.names_of_paths(spec.points)
    for point in spec.points:
        for name, info in type(point).model_fields.items():
            value = getattr(point, name)
            shown = named[name].get(value, value) if name in named else value
            shown = shown.identity() if isinstance(shown, BaseParams) else shown
            seen = values.setdefault(info.alias or name, [])
            if not any(_same(shown, other) for other in seen):
                seen.append(shown)
    return values


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _choice(node: Node, name: str, choices: list[Any], faults: Faults) -> Any:
    """Return the grid's own value that a condition means: `9` for the text ``9``, a mapping for a
    part of it, a path for its last parts. A value that the grid does not have is a fault.
    """
    value = node.plain()
    for choice in choices:
        within = isinstance(choice, dict) and isinstance(value, dict) and value
        if within and value.items() <= choice.items():
            return choice
        if _same(choice, value) or (
            isinstance(choice, str) and f"/{node.text}".endswith(f"/{choice}")
        ):
            return choice
    if choices:
        noun = with_article(name if name in _COMMON else f"value of {name}")
        noun = "in `languages`" if name == Axis.LANGUAGES else noun
        listed = [str(one).lower() if isinstance(one, bool) else str(one) for one in choices]
        remedy = faults.suggestion(node.text, listed, listed="it has")
        faults.add(node, f"{node.shown()} is not {noun} of this grid", remedy)
    return value


def _read_search(node: Node, grid: Grid, faults: Faults) -> Search | None:
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
            faults.add(item, f"unknown task {name!r}", faults.suggestion(name, tasks))
        return
    known = [*grid.languages, grid.pivot]
    spoken = [] if lang in known else lang.split("-")
    if grid.languages and lang not in _MEANS and {*spoken} - {*known, "{lang}", "{pivot}"}:
        faults.add(
            item, f"{lang!r} is not a language here", faults.suggestion(lang, [*_MEANS, *known])
        )
    declared = catalog("tasks")[tasks[name].kind].metrics
    added = [entry.name for entry in tasks[name].metrics]
    found = Measured.find(declared, metric)
    if metric in added:
        return
    if found is None:
        every = [*(entry.name for entry in declared if entry.role == "score"), *added]
        faults.add(item, f"{name} has no metric {metric!r}", faults.suggestion(metric, every))
    elif found.better == "neither":
        faults.add(item, f"{metric} has no better direction", "choose a metric that has one")


def _read_claims(node: Node, grid: Grid, faults: Faults) -> tuple[Claim, ...]:
    """Read the claims, and check their names against the methods and tasks of the grid."""
    methods, tasks = [spec.name for spec in grid.methods], {spec.name for spec in grid.tasks}
    found: list[Claim] = []
    for item in node.items():
        claim = Claim.of(item.value) if isinstance(item.value, str) else None
        if claim is None:
            faults.add(item, f"{item.shown()} is not a claim", Claim.FORMS)
            continue
        for name in (claim.first, claim.second):
            if methods and name.split()[0] not in methods:
                faults.add(item, f"unknown method {name!r}", faults.suggestion(name, methods))
            for word in name.split()[1:]:
                axis, _, value = word.partition("=")
                if grid.sets and axis == Axis.LANGUAGES and value not in grid.sets:
                    told = f"unknown set of languages {value!r}"
                    faults.add(item, told, faults.suggestion(value, grid.sets))
        if claim.over_languages and claim.lang is not None:
            faults.add(item, "is about one language and over languages", "leave one of them out")
        if claim.task not in tasks:
            if tasks:
                faults.add(
                    item, f"unknown task {claim.task!r}", faults.suggestion(claim.task, tasks)
                )
        elif claim.metric is not None:
            every = claim.lang in (None, *(["avg_all"] if grid.sets else []))
            whole = f"{claim.task}/{'avg' if every else claim.lang}/{claim.metric}"
            _check_metric(replace(item, value=whole, text=whole), grid, faults)
        if claim in found:
            faults.add(item, "is given twice", "keep one")
        found.append(claim)
    return tuple(found)


_REQUIRED = {
    "name": "the experiment's name in MLflow",
    "encoder": "a hub name, a folder, or {kind: scratch, ...}",
    "languages": "{together: [...]}, {each: [...]} or {sets: {name: [...]}}",
    "corpus": "{source: moses, path: ...}",
    "sentences": "training sentence pairs per language, one number or a list",
    "methods": "{name: {param: value}}",
    "tasks": "{name: {param: value}}",
}
KEYS = (
    *_REQUIRED,
    "pivot",
    "text",
    "pairs",
    "seeds",
    "exclude",
    "search",
    "claims",
    "stop",
    "published",
    "plugins",
    "run",
)


def load(source: Path | str | Mapping[str, Any]) -> Grid:
    """Return the grid of a YAML file, with absolute paths and all options filled in. A mapping is
    read as the file ``<name>.yaml`` of the working directory would be that holds it.

    Raises `GridError` with every fault of the file: its line, its key, what is wrong and what would
    be right; and `RaxalignError` where the user does not trust its plug-ins (`raxalign.trust`).
    """
    if isinstance(source, Mapping):
        path, text = Path(f"{source.get('name', 'grid')}.yaml").absolute(), written(source)
        faults = Faults(path.parent.resolve())
        root = faults.parse(path, text)
    else:
        path = Path(source).absolute()
        faults = Faults(path.parent.resolve())
        root, text = faults.read(path)
    with _plugins(path, root, faults) as plugins:
        grid = _read(path, text, root, faults, plugins) if plugins is not None else None
    if faults or grid is None:
        raise GridError(path, list(faults.found))
    return grid


@contextmanager
def _plugins(path: Path, root: Node, faults: Faults) -> Iterator[tuple[PluginFile, ...] | None]:
    """The plug-in files of the grid, whose names stand for them within the block; None after a
    fault in one. None of them runs before the user trusts all of them.
    """
    node, before = root.entries(faults).get("plugins"), len(faults)
    named: list[tuple[Path, Node]] = []
    for item in node.items() if node is not None and node.value is not None else ():
        if isinstance(item.value, str) and item.value.strip():
            named.append((Path(absolute(item.value.strip(), path.parent.resolve())), item))
        else:
            remedy = "for example [my_method.py], relative to the grid file"
            faults.add(item, f"{item.shown()} is not a file", remedy)
    require_trust(path, (place for place, _ in named))
    found: list[PluginFile] = []
    for place, item in named:
        try:
            found.append(PluginFile.open(place))
            with PluginFile.visible(found):
                pass
        except PluginFault as fault:
            faults.add(item, str(fault))
    if len(faults) > before:
        yield None
        return
    with PluginFile.visible(found):
        yield tuple(found)


def _sections(root: Node, faults: Faults) -> dict[str, Node]:
    """Return the sections that are there and not empty; a required one that is not is a fault."""
    entries = root.entries(faults)
    empty: tuple[Any, ...] = (None, {}, [])
    for name, node in entries.items():
        if name not in KEYS:
            faults.add(node, "unknown key", faults.suggestion(name, KEYS))
    for name, remedy in _REQUIRED.items():
        if name not in entries:
            faults.add(Node(None, root.line, name), "is missing", remedy)
        elif entries[name].value in empty:
            faults.add(entries[name], "is empty", remedy)
    if "seeds" in entries and entries["seeds"].value == []:
        faults.add(entries["seeds"], "is empty", "one number or a list; leave it out for [0]")
    return {n: node for n, node in entries.items() if n in KEYS and node.value not in empty}


def _read(
    path: Path, text: str, root: Node, faults: Faults, plugins: tuple[PluginFile, ...]
) -> Grid | None:
    """Read all sections; None where faults leave no grid."""
    top = _sections(root, faults)
    axes = _axes(top, faults)
    corpora, settings = dict[str, Spec](), CorpusSettings()
    if "corpus" in top:
        every = (*axes["languages"], *axes["outside"]) if axes["languages"] else ()
        corpora, settings = CorpusSettings.read(top["corpus"], every, faults)
    run = (validate(RunConfig, top["run"], faults) if "run" in top else None) or RunConfig()
    grid = Grid(
        path=path,
        text_of_file=text,
        name=_name(top["name"], faults) if "name" in top else "",
        **axes,
        corpora=corpora,
        corpus=settings,
        text=Spec.text(top.get("text"), faults),
        pairs=PairsSpec.read(top.get("pairs", Node(None, root.line, "pairs")), faults),
        published=_published(top["published"], faults) if "published" in top else (),
        plugins=plugins,
        run=run,
        lines={key: node.line for key, node in top.items()},
    )
    _refuse_many(grid, top, faults)
    exclude = _read_exclude(top["exclude"], grid, top, faults) if "exclude" in top else ()
    search = _read_search(top["search"], grid, faults) if "search" in top else None
    claims = _read_claims(top["claims"], grid, faults) if "claims" in top else ()
    stop = _read_stop(top, faults) if "stop" in top else None
    grid = replace(grid, exclude=exclude, search=search, claims=claims, stop=stop)
    return None if faults else grid


def _read_stop(top: Mapping[str, Node], faults: Faults) -> Stop | None:
    if "claims" not in top:
        faults.add(top["stop"], "there is nothing to answer", "write `claims`, or leave it out")
    if "search" in top:
        faults.add(top["stop"], "does not go with `search`", "leave one of them out")
    return validate(Stop, top["stop"], faults)


def _published(node: Node, faults: Faults) -> tuple[str, ...]:
    from raxalign.grid.published import Publication  # few grids have the section

    return Publication.named(node, faults)


def _axes(top: Mapping[str, Node], faults: Faults) -> dict[str, Any]:
    """Read what the points of a grid are the product of, and its tasks, by the names in `Grid`. A
    section that is missing or has faults is empty for those that refer to it.
    """
    search, grouped = "search" in top, Grouped.read(top, faults)
    of = grouped.languages, grouped.pivot
    tasks = TaskSpec.read_all(top["tasks"], *of, faults) if "tasks" in top else ()
    tasks = tuple(_by_source(tasks, top["tasks"], grouped, faults)) if tasks else ()
    return {
        **grouped._asdict(),
        "outside": _corpus_languages(tasks),
        "encoders": Spec.encoders(top["encoder"], faults) if "encoder" in top else (),
        "sentences": _read_numbers(top.get("sentences"), faults, least=1),
        "seeds": _read_seeds(top, faults),
        "methods": MethodSpec.read_all(top["methods"], faults, search=search)
        if "methods" in top
        else (),
        "tasks": tasks,
    }


def _by_source(
    tasks: Iterable[TaskSpec], section: Node, grouped: Grouped, faults: Faults
) -> Iterator[TaskSpec]:
    """Yield a task per language of its `train_on`, ``xnli.de``; one without it, or with the pivot
    alone, keeps its name.
    """
    entries, pivot = section.entries(faults), grouped.pivot
    for spec in tasks:
        own = entries[spec.name].entries(faults)
        node = own.get("train_on")
        if node is None:
            yield spec
            continue
        there = [pivot, *grouped.languages]
        codes = Grouped.codes(node, "", faults)
        for code in codes if grouped.languages else ():
            if spelled(code, there) is None:
                remedy = "add it to `languages`, so that methods align it, or take it out"
                faults.add(node, f"{code!r} is not one of the grid's languages", remedy)
        sources = [spelled(code, there) or code for code in codes]
        alone = sources == [pivot]
        if not alone and "{pivot}" in spec.params.model_dump_json().lower():
            remedy = f"write {{source}} for the language that is trained on, or {pivot} itself"
            faults.add(own["data"], "holds {pivot}, which may not be what is trained on", remedy)
        for source in sources:
            name = spec.name if alone else f"{spec.name}.{source}"
            if not alone and name in entries:
                faults.add(entries[name], f"`train_on` of {spec.name} makes one too", "rename it")
            yield replace(spec, name=name, source=source)


def _read_seeds(top: Mapping[str, Node], faults: Faults) -> tuple[int, ...]:
    """Read the seeds; a grid with `stop` has the first numbers, as many as it says."""
    found = _read_numbers(top.get("seeds"), faults, least=0)
    most = top["stop"].plain() if "stop" in top else None
    if most is not None and found:
        faults.add(top["seeds"], "does not go with `stop`", "leave it out: `at_most` says them")
    most = most.get("at_most") if isinstance(most, dict) else None
    return found or tuple(range(min(most, 1000) if type(most) is int else 1)) or (0,)


def _refuse_many(grid: Grid, top: Mapping[str, Node], faults: Faults) -> None:
    """Add a fault where a grid has more points than can be planned."""
    axes: list[Sized] = [grid.encoders, grid.sentences, grid.seeds, grid.groups]
    points = math.prod(map(len, axes)) * sum(len(spec.points) for spec in grid.methods)
    if points > MOST_POINTS:
        remedy = f"a grid may have {MOST_POINTS:,}; shorten its lists, or let `search` choose"
        faults.add(top["methods"], f"the grid has {points:,} configurations", remedy)


def _name(node: Node, faults: Faults) -> str:
    name = node.value if isinstance(node.value, str) else node.text
    if isinstance(node.value, dict | list):
        faults.add(node, f"{node.shown()} is not a name", _REQUIRED["name"])
    else:
        faults.check_name(node, name)
    return name


def _corpus_languages(tasks: Iterable[TaskSpec]) -> tuple[str, ...]:
    """Return the languages that no method aligns of tasks that read the grid's corpus."""
    unseen = [spec for spec in tasks if spec.unseen]
    reading = [s for s in unseen if s.plugin().needs().corpus]
    return tuple(dict.fromkeys(lang for spec in reading for lang in spec.unseen))


_MANY = 20  # numbers that a remedy lists


def _read_numbers(node: Node | None, faults: Faults, *, least: int) -> tuple[int, ...]:
    """Read one whole number or a list of different ones, none below `least`."""
    numbers: list[int] = []
    for item in node.items() if node is not None else ():
        number = item.value
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if isinstance(number, bool) or not isinstance(number, int):
            faults.add(item, f"{item.shown()} is not a whole number", _whole(item))
        elif number < least:
            comma = "; a comma ends a number: write 10_000 for ten thousand"
            remedy = f"at least {least}" + (comma if item.text == "000" else "")  # of ``10,000``
            faults.add(item, f"{item.shown()} is too small", remedy)
        elif number in numbers:
            remedy = "the values of an axis are different"
            faults.add(item, f"{item.shown()} is given twice", remedy)
        else:
            numbers.append(number)
    return tuple(numbers)


def _whole(item: Node) -> str:
    """Return what would be right for a value that is not a whole number."""
    text = item.value.strip() if isinstance(item.value, str) else ""
    several = re.fullmatch(r"(\d+) *(?:-|\.\.+|to) *(\d+)", text)
    if text.isdecimal():
        return f"leave out the quotes: {text}"
    if thousands := re.fullmatch(r"(\d+)[kK]", text):
        return f"write {thousands[1]}_000"
    if several and 0 < (last := int(several[2])) - (first := int(several[1])) < _MANY:
        return f"write {list(range(first, last + 1))}"
    if item.key.partition("[")[0] != "sentences":
        return "write one number, or a list: [0, 1, 2]"
    every = "`corpus: {shortage: use-all}` takes what there is"
    return f"write one number, or a list: [1_000, 10_000]; {every}"
