"""What to run: a grid file, read and checked as a whole.

`load` reports all faults of a file at once, each with its line and what would be right. It imports
the plug-ins that the file names, and with them nothing heavy.

The sections `pivot` and `languages`: codes, and which languages one model is for.

The sections that are whole numbers, `sentences` and `seeds`, and what is right in place of one
that is not.

The section `pairs`: the word aligner, and what is done with its links.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from raxalign.catalog import PluginFault, PluginFile, catalog
from raxalign.config._corpora import CorpusSettings, corpus_fields, read_corpora, read_text
from raxalign.config._encoders import read_encoders
from raxalign.config._exclude import Declared, encoder_names, read_exclude
from raxalign.config._faults import Faults, suggestion
from raxalign.config._fields import field_values, key_names
from raxalign.config._methods import (
    MOST_POINTS,
    check_name,
    plugin_params,
    read_methods,
    read_tasks,
)
from raxalign.config._paths import Paths, absolute
from raxalign.config._search import read_search
from raxalign.config._specs import (
    CorpusSpec,
    EncoderSpec,
    Grid,
    MethodSpec,
    MetricSpec,
    OneToOne,
    PairsSpec,
    SplitSpec,
    Symmetrization,
    TaskSpec,
    TextSpec,
)
from raxalign.config._validate import validate
from raxalign.config.params import BaseParams
from raxalign.config.published import read_published
from raxalign.config.run import RunConfig, storage_root
from raxalign.config.search import Search
from raxalign.config.trust import require_trust
from raxalign.config.yaml_file import Node, parse, read, written
from raxalign.errors import GridError
from raxalign.languages import FORM, is_code, nearest_code, spelled
from raxalign.plugin_files import open_file, visible


def check_language(node: Node, faults: Faults) -> str | None:
    """Return the code of a language as it was written, or None after a fault."""
    code = node.value if isinstance(node.value, str) else node.text
    if is_code(code):
        return code
    near = nearest_code(code)
    hint = f"did you mean {near}? " if near else ""
    faults.add(node, f"unknown language {node.shown()}", f"{hint}{FORM}")
    return None


def read_languages(node: Node, pivot: str, faults: Faults) -> tuple[bool, tuple[str, ...]]:
    """Read (together, languages) from ``{together: [...]}`` or ``{each: [...]}``."""
    remedy = (
        "write {together: [...]} for one model of all, or {each: [...]} for one trial per language"
    )
    if not isinstance(node.value, dict):
        faults.add(node, f"{node.shown()} does not say how the languages are grouped", remedy)
        return False, ()
    for name, entry in node.value.items():
        if name not in {"together", "each"}:
            faults.add(entry, "unknown key", suggestion(name, ["together", "each"]))
    groups = [name for name in ("together", "each") if name in node.value]
    if len(groups) != 1:
        faults.add(
            node,
            "both `together` and `each`" if groups else "neither `together` nor `each`",
            remedy,
        )
        return False, ()
    group = node.value[groups[0]]
    if group.value is None or (isinstance(group.value, list) and not group.value):
        faults.add(group, "no language is named", "for example [de, fr]")
        return False, ()
    codes: list[str] = []
    for item in group.items():
        code = check_language(item, faults)
        if code is None:
            continue
        other = spelled(code, [pivot, *codes])
        if other is None:
            codes.append(code)
        elif other == pivot:
            same = "" if code == pivot else f" {pivot!r}"
            faults.add(item, f"{code!r} is the pivot{same}", "name the other languages only")
        elif code == other:
            faults.add(item, f"{code!r} is given twice", "keep one")
        else:
            faults.add(item, f"{code!r} and {other!r} are the same language", "keep one")
    return groups[0] == "together", tuple(codes)


_MANY = 20  # numbers that a remedy lists


def read_numbers(node: Node, faults: Faults, *, least: int) -> tuple[int, ...]:
    """Read one whole number or a list of different ones, none below `least`."""
    numbers: list[int] = []
    for item in node.items():
        number = item.value
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if isinstance(number, bool) or not isinstance(number, int):
            faults.add(item, f"{item.shown()} is not a whole number", _whole(item))
        elif number < least:
            faults.add(item, f"{item.shown()} is too small", _least(item, least))
        elif number in numbers:
            faults.add(
                item, f"{item.shown()} is given twice", "the values of an axis are different"
            )
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
    more = "; `corpus: {shortage: use-all}` takes what there is" if _of_sentences(item) else ""
    return f"write one number, or a list: [{'1_000, 10_000' if more else '0, 1, 2'}]{more}"


def _of_sentences(item: Node) -> bool:
    return item.key.partition("[")[0] == "sentences"


def _least(item: Node, least: int) -> str:
    """Return what would be right for a number that is too small: of ``10,000`` YAML makes two."""
    grouped = "; a comma ends a number: write 10_000 for ten thousand"
    return f"at least {least}" + (grouped if item.text == "000" else "")


DEFAULT_ALIGNER = "eflomal"


class PairsSettings(BaseParams):
    """What the `pairs` section holds besides the options of its word aligner."""

    symmetrization: Symmetrization = "intersection"
    one_to_one: OneToOne = True
    align_on: Literal["own", "largest"] = "own"


def read_pairs(node: Node, paths: Paths) -> PairsSpec | None:
    """Read the word aligner with its options, and what is done with its links."""
    faults = paths.faults
    entries = dict(node.entries(faults))
    aligner = entries.pop("aligner", None) or Node(
        DEFAULT_ALIGNER, node.line, "pairs.aligner", DEFAULT_ALIGNER
    )
    own = {name: entry for name, entry in entries.items() if name in key_names(PairsSettings)}
    settings = validate(PairsSettings, node, faults, values=own)
    params = plugin_params("aligners", aligner, faults)
    if params is None:
        return None
    values = paths.entries(
        params, {name: entry for name, entry in entries.items() if name not in own}
    )
    built = validate(
        params, node, faults, values=values, also=("aligner", *key_names(PairsSettings))
    )
    if built is None or settings is None:
        return None
    return PairsSpec(
        catalog("aligners").kind(str(aligner.value)), built, **dict(field_values(settings))
    )


T = TypeVar("T")

__all__ = [
    "CorpusSpec",
    "EncoderSpec",
    "Grid",
    "MethodSpec",
    "MetricSpec",
    "PairsSpec",
    "SplitSpec",
    "TaskSpec",
    "TextSpec",
    "load",
    "written",
]

REQUIRED = {
    "name": "the experiment's name in MLflow",
    "encoder": "a hub name, a folder, or {kind: scratch, ...}",
    "languages": "{together: [...]} or {each: [...]}",
    "corpus": "{source: moses, path: ...}",
    "sentences": "training sentence pairs per language, one number or a list",
    "methods": "{name: {param: value}}",
    "tasks": "{name: {param: value}}",
}
KEYS = (
    *REQUIRED,
    "pivot",
    "text",
    "pairs",
    "seeds",
    "exclude",
    "search",
    "published",
    "plugins",
    "run",
)


def load(source: Path | str | Mapping[str, Any]) -> Grid:
    """Return the grid of a YAML file, with absolute paths and all options filled in. A mapping is
    read as the file ``<name>.yaml`` of the working directory would be that holds it.

    Raises `GridError` with every fault of the file: its line, its key, what is wrong and what would
    be right; and `RaxalignError` where the user does not trust its plug-ins (`config.trust`).
    """
    faults = Faults()
    if isinstance(source, Mapping):
        path, text = Path(f"{source.get('name', 'grid')}.yaml").absolute(), written(source)
        root = parse(path, text, faults)
    else:
        path = Path(source).absolute()
        root, text = read(path, faults)
    paths = Paths(path.parent.resolve(), faults)
    try:
        with _plugins(path, root, paths) as plugins:
            grid = _read(path, text, root, paths, plugins)
    except _Incomplete:
        grid = None
    if faults or grid is None:
        raise GridError(path, list(faults.found))
    return grid


class _Incomplete(Exception):
    """Faults leave no grid to be made."""


@dataclass(frozen=True)
class _Sections:
    """The sections that are there; one that is required and missing is a fault, and reads as
    something empty.
    """

    entries: Mapping[str, Node]
    faults: Faults

    @classmethod
    def of(cls, root: Node, faults: Faults) -> _Sections:
        entries = root.entries(faults)
        for name, node in entries.items():
            if name not in KEYS:
                faults.add(node, "unknown key", suggestion(name, KEYS))
        for name, remedy in REQUIRED.items():
            if name not in entries:
                faults.add(Node(None, root.line, name), "is missing", remedy)
            elif entries[name].value in (None, {}, []):
                faults.add(entries[name], "is empty", remedy)
        if "seeds" in entries and entries["seeds"].value == []:
            faults.add(entries["seeds"], "is empty", "one number or a list; leave it out for [0]")
        given = {
            name: node
            for name, node in entries.items()
            if name in KEYS and node.value not in (None, {}, [])
        }
        return cls(given, faults)

    def read(self, name: str, reader: Callable[[Node], T]) -> T | None:
        """Return what a reader makes of a section; None where it is not there."""
        return reader(self.entries[name]) if name in self.entries else None


@contextmanager
def _plugins(path: Path, root: Node, paths: Paths) -> Iterator[tuple[PluginFile, ...]]:
    """The plug-in files of the grid, whose names stand for them within the block. With a fault in
    one, the other sections are not read. None of them runs before the user trusts all of them.
    """
    node = root.value.get("plugins") if isinstance(root.value, dict) else None
    found, before = [], len(paths.faults)
    named: list[tuple[Path, Node]] = []
    for item in node.items() if node is not None and node.value is not None else ():
        if not isinstance(item.value, str) or not item.value.strip():
            paths.faults.add(
                item,
                f"{item.shown()} is not a file",
                "for example [my_method.py], relative to the grid file",
            )
            continue
        named.append((Path(absolute(item.value.strip(), paths.folder)), item))
    require_trust(path, (place for place, _ in named))
    for place, item in named:
        try:
            found.append(open_file(place))
            with visible(found):
                pass
        except PluginFault as fault:
            paths.faults.add(item, str(fault))
    if len(paths.faults) > before:
        raise _Incomplete
    with visible(found):
        yield tuple(found)


@dataclass(frozen=True)
class _Axes:
    """What the points of a grid are the product of, and the tasks that are run at each."""

    pivot: str
    together: bool
    languages: tuple[str, ...]
    encoders: tuple[EncoderSpec, ...]
    sentences: tuple[int, ...]
    seeds: tuple[int, ...]
    methods: tuple[MethodSpec, ...]
    tasks: tuple[TaskSpec, ...]


def _axes(top: _Sections, paths: Paths) -> _Axes:
    """Read the axes. A section that is missing or has faults is empty."""
    faults, search = paths.faults, "search" in top.entries
    pivot, together, languages = _languages(top)
    return _Axes(
        pivot,
        together,
        languages,
        top.read("encoder", lambda node: read_encoders(node, paths)) or (),
        top.read("sentences", lambda node: read_numbers(node, faults, least=1)) or (),
        top.read("seeds", lambda node: read_numbers(node, faults, least=0)) or (0,),
        top.read("methods", lambda node: read_methods(node, paths, search=search)) or (),
        top.read("tasks", lambda node: read_tasks(node, languages, paths)) or (),
    )


def _read(path: Path, text: str, root: Node, paths: Paths, plugins: tuple[PluginFile, ...]) -> Grid:
    """Read all sections. Raises `_Incomplete` where faults leave no grid."""
    faults = paths.faults
    top = _Sections.of(root, faults)
    name = top.read("name", lambda node: _name(node, faults)) or ""
    axes = _axes(top, paths)
    _refuse_many(top, axes)
    corpora, settings = top.read(
        "corpus", lambda node: read_corpora(node, axes.languages, paths)
    ) or ({}, CorpusSettings())
    pairs = read_pairs(top.entries.get("pairs", Node(None, root.line, "pairs")), paths)
    text_spec = read_text(top.entries.get("text"), paths)
    exclude = _exclude(top, axes)
    search = _search(top, axes)
    published = top.read("published", lambda node: read_published(node, paths)) or ()
    run = top.read("run", lambda node: _run(node, paths)) or RunConfig()
    if faults or pairs is None:
        raise _Incomplete
    return Grid(
        path=path,
        text_of_file=text,
        name=name,
        **vars(axes),
        corpora=corpora,
        **corpus_fields(settings),
        text=text_spec,
        pairs=pairs,
        exclude=exclude,
        published=published,
        plugins=plugins,
        run=run,
        search=search,
        lines={key: node.line for key, node in top.entries.items()},
    )


def _refuse_many(top: _Sections, axes: _Axes) -> None:
    """Add a fault, at the longest axis, where a grid has more points than can be planned."""
    lengths = {
        "encoder": len(axes.encoders),
        "languages": 1 if axes.together else len(axes.languages),
        "sentences": len(axes.sentences),
        "seeds": len(axes.seeds),
        "methods": sum(len(spec.points) for spec in axes.methods),
    }
    points = math.prod(lengths.values())
    if points > MOST_POINTS:
        longest = max(lengths, key=lambda name: lengths[name])
        shown = " x ".join(f"{name} {count:,}" for name, count in lengths.items())
        remedy = f"a grid may have {MOST_POINTS:,}; shorten its lists, or let `search` choose"
        top.faults.add(top.entries[longest], f"{points:,} points ({shown})", remedy)


def _languages(top: _Sections) -> tuple[str, bool, tuple[str, ...]]:
    """Read (pivot, together, languages). With a fault in the languages there are none, and what
    refers to them is not checked.
    """
    faults = top.faults
    pivot = top.read("pivot", lambda node: check_language(node, faults)) or (
        "" if "pivot" in top.entries else "en"
    )
    before = len(faults)
    read = top.read("languages", lambda node: read_languages(node, pivot, faults))
    together, languages = read or (False, ())
    return pivot, together, languages if len(faults) == before else ()


def _exclude(top: _Sections, axes: _Axes) -> tuple[Mapping[str, object], ...]:
    """Read `exclude`, which refers to the other sections."""
    faults = top.faults
    methods = top.entries["methods"].value if "methods" in top.entries else None
    names = tuple(methods) if isinstance(methods, dict) else ()
    labels = top.read("encoder", lambda node: encoder_names(node, axes.encoders)) or {}
    declared = Declared(labels, axes.languages, axes.sentences, axes.seeds, axes.methods, names)
    return top.read("exclude", lambda node: read_exclude(node, declared, faults)) or ()


def _search(top: _Sections, axes: _Axes) -> Search | None:
    """Read `search`, which refers to the tasks and is there for the methods with spaces."""
    methods, tasks, spoken = axes.methods, axes.tasks, (*axes.languages, axes.pivot)
    return top.read("search", lambda node: read_search(node, methods, tasks, spoken, top.faults))


def _name(node: Node, faults: Faults) -> str:
    name = node.value if isinstance(node.value, str) else node.text
    if isinstance(node.value, dict | list):
        faults.add(node, f"{node.shown()} is not a name", REQUIRED["name"])
        return ""
    check_name(node, name, faults)
    return name


def _run(node: Node, paths: Paths) -> RunConfig:
    run = validate(RunConfig, node, paths.faults)
    if run is None or not run.storage:
        return run or RunConfig()
    return run.model_copy(update={"storage": storage_root(run.storage, paths.folder)})
