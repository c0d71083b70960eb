"""What to run: a grid file, read and checked as a whole.

`load` reports all faults of a file at once, each with its line and what would be right. It imports
the plug-ins that the file names, and with them nothing heavy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from raxalign.catalog import PluginFault, PluginFile, catalog, open_file, visible
from raxalign.config._faults import Faults, Node, suggestion
from raxalign.config._plugins import (
    check_name,
    read_corpora,
    read_encoders,
    read_methods,
    read_pairs,
    read_tasks,
    read_text,
)
from raxalign.config._points import MOST_POINTS
from raxalign.config._references import read_claims, read_exclude, read_search
from raxalign.config._validate import validate
from raxalign.config.run import RunConfig, storage_root
from raxalign.config.sources import absolute
from raxalign.config.specs import CorpusSettings, CorpusSpec, Grid, TaskSpec
from raxalign.config.trust import require_trust
from raxalign.config.yaml_file import parse, read, written
from raxalign.errors import GridError
from raxalign.languages import FORM, is_code, nearest_code, spelled

REQUIRED = {
    "name": "the experiment's name in MLflow",
    "encoder": "a hub name, a folder, or {kind: scratch, ...}",
    "languages": "{together: [...]}, {each: [...]} or {sets: {name: [...]}}",
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
    "claims",
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
    if isinstance(source, Mapping):
        path, text = Path(f"{source.get('name', 'grid')}.yaml").absolute(), written(source)
        faults = Faults(path.parent.resolve())
        root = parse(path, text, faults)
    else:
        path = Path(source).absolute()
        faults = Faults(path.parent.resolve())
        root, text = read(path, faults)
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
            found.append(open_file(place))
            with visible(found):
                pass
        except PluginFault as fault:
            faults.add(item, str(fault))
    if len(faults) > before:
        yield None
        return
    with visible(found):
        yield tuple(found)


def _sections(root: Node, faults: Faults) -> dict[str, Node]:
    """Return the sections that are there and not empty; a required one that is not is a fault."""
    entries = root.entries(faults)
    empty: tuple[Any, ...] = (None, {}, [])
    for name, node in entries.items():
        if name not in KEYS:
            faults.add(node, "unknown key", suggestion(name, KEYS))
    for name, remedy in REQUIRED.items():
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
    corpora, settings = dict[str, CorpusSpec](), CorpusSettings()
    if "corpus" in top:
        every = (*axes["languages"], *axes["outside"]) if axes["languages"] else ()
        corpora, settings = read_corpora(top["corpus"], every, faults)
    run = (validate(RunConfig, top["run"], faults) if "run" in top else None) or RunConfig()
    if run.storage:
        storage = storage_root(run.storage, path.parent.resolve())
        run = run.model_copy(update={"storage": storage})
    grid = Grid(
        path=path,
        text_of_file=text,
        name=_name(top["name"], faults) if "name" in top else "",
        **axes,
        corpora=corpora,
        corpus=settings,
        text=read_text(top.get("text"), faults),
        pairs=read_pairs(top.get("pairs", Node(None, root.line, "pairs")), faults),
        published=_published(top["published"], faults) if "published" in top else (),
        plugins=plugins,
        run=run,
        lines={key: node.line for key, node in top.items()},
    )
    _refuse_many(grid, top, faults)
    exclude = read_exclude(top["exclude"], grid, top, faults) if "exclude" in top else ()
    search = read_search(top["search"], grid, faults) if "search" in top else None
    claims = read_claims(top["claims"], grid, faults) if "claims" in top else ()
    return None if faults else replace(grid, exclude=exclude, search=search, claims=claims)


def _published(node: Node, faults: Faults) -> tuple[str, ...]:
    from raxalign.config.published import read_published  # few grids have the section

    return read_published(node, faults)


def _axes(top: Mapping[str, Node], faults: Faults) -> dict[str, Any]:
    """Read what the points of a grid are the product of, and its tasks, by the names in `Grid`. A
    section that is missing or has faults is empty for those that refer to it.
    """
    before, search = len(faults), "search" in top
    pivot = (check_language(top["pivot"], faults) or "") if "pivot" in top else "en"
    grouped = read_languages(top["languages"], pivot, faults) if "languages" in top else Grouped()
    grouped = Grouped() if len(faults) > before else grouped  # what refers to them is not checked
    languages = grouped.languages
    tasks = read_tasks(top["tasks"], languages, pivot, faults) if "tasks" in top else ()
    return {
        **grouped._asdict(),
        "pivot": pivot,
        "outside": corpus_languages(tasks),
        "encoders": read_encoders(top["encoder"], faults) if "encoder" in top else (),
        "sentences": read_numbers(top.get("sentences"), faults, least=1),
        "seeds": read_numbers(top.get("seeds"), faults, least=0) or (0,),
        "methods": read_methods(top["methods"], faults, search=search) if "methods" in top else (),
        "tasks": tasks,
    }


def _refuse_many(grid: Grid, top: Mapping[str, Node], faults: Faults) -> None:
    """Add a fault where a grid has more points than can be planned."""
    axes: list[Sized] = [grid.encoders, grid.sentences, grid.seeds, grid.groups]
    points = math.prod(map(len, axes)) * sum(len(spec.points) for spec in grid.methods)
    if points > MOST_POINTS:
        remedy = f"a grid may have {MOST_POINTS:,}; shorten its lists, or let `search` choose"
        faults.add(top["methods"], f"the grid has {points:,} points", remedy)


def _name(node: Node, faults: Faults) -> str:
    name = node.value if isinstance(node.value, str) else node.text
    if isinstance(node.value, dict | list):
        faults.add(node, f"{node.shown()} is not a name", REQUIRED["name"])
    else:
        check_name(node, name, faults)
    return name


def check_language(node: Node, faults: Faults) -> str | None:
    """Return the code of a language as it was written, or None after a fault."""
    code = node.value if isinstance(node.value, str) else node.text
    if is_code(code):
        return code
    near = nearest_code(code)
    hint = f"did you mean {near}? " if near else ""
    faults.add(node, f"unknown language {node.shown()}", f"{hint}{FORM}")
    return None


class Grouped(NamedTuple):
    """The languages of a grid: whether all are aligned together, all of them, and sets by name."""

    together: bool = False
    languages: tuple[str, ...] = ()
    sets: Mapping[str, tuple[str, ...]] = {}


_GROUPS = ("together", "each", "sets")


def read_languages(node: Node, pivot: str, faults: Faults) -> Grouped:
    """Read ``{together: [...]}``, ``{each: [...]}`` or ``{sets: {name: [...]}}``."""
    remedy = (
        "write {together: [...]} for one model of all, {each: [...]} for one trial per language,"
        " or {sets: {name: [...], ...}} for one model per set"
    )
    if not isinstance(node.value, dict):
        faults.add(node, f"{node.shown()} does not say how the languages are grouped", remedy)
        return Grouped()
    for name, entry in node.value.items():
        if name not in _GROUPS:
            faults.add(entry, "unknown key", suggestion(name, _GROUPS))
    groups = [name for name in _GROUPS if name in node.value]
    if len(groups) != 1:
        both = "both" if len(groups) == 2 else "all of"
        told = f"{both} {' and '.join(f'`{name}`' for name in groups)}"
        faults.add(node, told if groups else "none of `together`, `each` and `sets`", remedy)
        return Grouped()
    group = node.value[groups[0]]
    if groups[0] == "sets":
        return _sets(group, pivot, faults)
    return Grouped(groups[0] == "together", _codes(group, pivot, faults))


def _codes(group: Node, pivot: str, faults: Faults) -> tuple[str, ...]:
    """Read a list of different languages, none of them the pivot."""
    if group.value is None or (isinstance(group.value, list) and not group.value):
        faults.add(group, "no language is named", "for example [de, fr]")
        return ()
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
    return tuple(codes)


def _sets(node: Node, pivot: str, faults: Faults) -> Grouped:
    """Read sets of languages by name; the grid's languages are their union, first ones first."""
    if not isinstance(node.value, dict) or not node.value:
        told = f"{node.shown()} is not a mapping of sets" if node.value else "no set is named"
        faults.add(node, told, "for example {germanic: [de, nl], diverse: [de, tr, zh]}")
        return Grouped()
    sets: dict[str, tuple[str, ...]] = {}
    union: list[str] = []
    for name, entry in node.value.items():
        codes = _codes(entry, pivot, faults)
        check_name(entry, name, faults)
        for code in codes:
            other = spelled(code, union)
            if other not in (None, code):
                told = f"{code!r} and {other!r} are the same language"
                faults.add(entry, told, "write it alike in all sets")
            union += [code] if other is None else []
        same = next((n for n, found in sets.items() if codes and {*found} == {*codes}), None)
        if same is not None:
            faults.add(entry, f"has the same languages as the set {same}", "keep one of them")
        sets[name] = codes
    for name, entry in node.value.items():
        same = spelled(name, [pivot, *union]) if is_code(name) else None
        if same is not None and sets[name] != (same,):
            told = f"a set is called {name!r}, which is a language of the grid"
            faults.add(entry, told, f"rename it: only the set [{name}] may have this name")
    return Grouped(False, tuple(union), sets)


def corpus_languages(tasks: Iterable[TaskSpec]) -> tuple[str, ...]:
    """Return the languages that no method aligns of tasks that read the grid's corpus."""
    unseen = [spec for spec in tasks if spec.unseen]
    reading = [s for s in unseen if catalog("tasks")[s.kind](s.params).reads_corpus()]
    return tuple(dict.fromkeys(lang for spec in reading for lang in spec.unseen))


_MANY = 20  # numbers that a remedy lists


def read_numbers(node: Node | None, faults: Faults, *, least: int) -> tuple[int, ...]:
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
