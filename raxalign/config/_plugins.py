"""The sections that name plug-ins: `encoder`, `methods`, `tasks`, `pairs`, `corpus` and `text`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast

from raxalign.catalog import catalog
from raxalign.config._faults import Faults, Node, suggestion
from raxalign.config._validate import key_names, read_points, validate
from raxalign.config.specs import (
    CorpusSettings,
    CorpusSpec,
    EncoderSpec,
    MethodSpec,
    MetricSpec,
    PairsSettings,
    PairsSpec,
    TaskSpec,
)
from raxalign.languages import WITHOUT_SEGMENTER, is_code, language, no_segmenter
from raxalign.options.params import BaseParams, Parts, models_in
from raxalign.options.sources import EncoderMarker
from raxalign.printing import with_article

DEFAULT_ALIGNER = "thot"
PARALLEL = "parallel"
"""The source of text that is not a corpus: the training sides of the bitext."""
_OF_EVERY_TASK = ("kind", "languages", "metrics")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def check_name(node: Node, name: str, faults: Faults) -> bool:
    """Return whether a name can stand in metric names and paths; adds a fault where it cannot."""
    if _NAME.fullmatch(name):
        return True
    remedy = "use letters, digits, `_`, `.` and `-`, a letter or digit first"
    faults.add(node, f"{name!r} is not a valid name", remedy)
    return False


def plugin_params(folder: str, kind: Node, faults: Faults) -> type[BaseParams] | None:
    """Return the class of a plug-in's options; None, after a fault, for an unknown kind."""
    known = catalog(folder)
    name = kind.value if isinstance(kind.value, str) else kind.text
    if isinstance(kind.value, list | dict):
        told = f"{kind.shown()} is not the name of {with_article(known.noun)}"
        faults.add(kind, told, f"name one of: {', '.join(known)}")
        return None
    if name not in known:
        told = f"unknown {known.noun} {name!r}"
        told = told if kind.value is not None else f"the {known.noun} has no name"
        faults.add(kind, told, suggestion(name, known))
        return None
    return cast(type[BaseParams], known[name].Params)


def read_plugin(
    folder: str,
    kind: Node,
    node: Node,
    entries: Mapping[str, Node],
    faults: Faults,
    also: Iterable[str] = ("kind",),
) -> tuple[str, BaseParams] | None:
    """Read a plug-in of a folder of the catalogue: its kind as plans have it, and its options; None
    after a fault. `kind` names it, `node` is the mapping that it is in, and `also` names the
    `entries` that are not options.
    """
    params = plugin_params(folder, kind, faults)
    if params is None:
        return None
    own = {name: entry for name, entry in entries.items() if name not in also}
    built = validate(params, node, faults, values=own, also=also)
    return None if built is None else (catalog(folder).kind(str(kind.value)), built)


def read_encoders(node: Node, faults: Faults) -> tuple[EncoderSpec, ...]:
    """Read one encoder or a list of them, each a name or a mapping with `kind`."""
    if isinstance(node.value, list) and not node.value:
        faults.add(node, "an empty list", "name at least one encoder")
    specs: list[EncoderSpec] = []
    for item in node.items():
        entries = _encoder(item, faults)
        read = read_plugin("encoders", entries["kind"], item, entries, faults) if entries else None
        if read is None:
            continue
        spec = EncoderSpec(*read, catalog("encoders")[read[0]](read[1]).label())
        if spec in specs:
            remedy = "the values of an axis must be different; keep one"
            faults.add(item, "the same encoder is given twice", remedy)
        specs.append(spec)
    return _distinct(specs)


def _encoder(node: Node, faults: Faults) -> dict[str, Node]:
    """Return the entries of an encoder with its `kind`; a text is a kind, or else a name."""
    known, entries = catalog("encoders"), dict[str, Node]()
    if isinstance(node.value, str) and node.value.strip():
        named = node.value.strip()
        if named in known and not known[named].by_name:
            return {"kind": replace(node, value=named)}
        by_name = next(kind for kind, plugin in known.items() if plugin.by_name)  # loads all
        entries = {"kind": replace(node, value=by_name), "name": replace(node, value=named)}
    elif not isinstance(node.value, dict):
        remedy = "write a hub name, a folder, or {kind: scratch, ...}"
        faults.add(node, f"{node.shown()} is not an encoder", remedy)
    elif "kind" not in node.value:
        remedy = f"known: {', '.join(known)}; a folder or hub name is written without a mapping"
        faults.add(node, "an encoder needs a `kind`", remedy)
    else:
        entries = dict(node.value)
    name = entries.get("name")
    if name is not None and isinstance(name.value, str) and faults.folder is not None:
        found = EncoderMarker().resolve(name.value, faults.folder)
        entries["name"] = replace(name, value=found)
    return entries


def _distinct(specs: list[EncoderSpec]) -> tuple[EncoderSpec, ...]:
    """Add to labels that several encoders have the options in which these differ."""
    labelled = []
    for spec in specs:
        alike = [other for other in specs if other.label == spec.label and other is not spec]
        others = [other.params.model_dump(by_alias=True) for other in alike]
        differing = (
            f"{name}={value}"
            for name, value in spec.params.model_dump(by_alias=True).items()
            if any(other.get(name, value) != value for other in others)
        )
        label = f"{spec.label} {' '.join(differing) or spec.kind}"
        labelled.append(replace(spec, label=label) if others else spec)
    return tuple(labelled)


def _kind_of(name: str, node: Node, entries: Mapping[str, Node]) -> Node:
    """Return the node that names the kind: `kind`, or the entry's own name."""
    return entries.get("kind") or replace(node, value=name, text=name)


def _named(section: Node, faults: Faults) -> list[tuple[str, Node, dict[str, Node]]]:
    """Return (name, node, entries) of the methods or tasks of a section."""
    names = [item.text for item in section.items() if _NAME.fullmatch(item.text)]
    remedy = f"write {{{', '.join(f'{name}: {{}}' for name in names) or 'name: {option: value}'}}}"
    return [
        (name, node, node.entries(faults, f"write {name}: {{}}, or its options in place of {{}}"))
        for name, node in section.entries(faults, remedy).items()
    ]


def read_methods(section: Node, faults: Faults, *, search: bool) -> tuple[MethodSpec, ...]:
    """Read all methods, in the order of the file. With `search` their options may be spaces."""
    specs = []
    for name, node, entries in _named(section, faults):
        kind = _kind_of(name, node, entries)
        params = plugin_params("methods", kind, faults)
        if check_name(node, name, faults) and params is not None:
            values = {key: value for key, value in entries.items() if key != "kind"}
            if "with_task" in values and "with_task" not in params.model_fields:
                told = f"{kind.value} trains no encoder, so that no task can be trained with it"
                remedy = "leave it out: the task is trained on what the method leaves"
                faults.add(values.pop("with_task"), told, remedy)
            points, searched = read_points(params, node, values, faults, search=search)
            known_as = catalog("methods").kind(str(kind.value))
            specs.append(MethodSpec(name, known_as, points, searched))
    return tuple(specs)


def read_tasks(
    section: Node, languages: Iterable[str], pivot: str, faults: Faults
) -> tuple[TaskSpec, ...]:
    """Read all tasks, in the order of the file. Lists are values here, not axes."""
    specs, known = [], list(languages)
    for name, node, entries in _named(section, faults):
        own = entries.get("languages")
        chosen, unseen = _chosen(own, known, pivot, faults) if own else (None, ())
        metrics = _metrics(entries["metrics"], faults) if "metrics" in entries else ()
        kind = _kind_of(name, node, entries)
        read = read_plugin("tasks", kind, node, entries, faults, _OF_EVERY_TASK)
        if check_name(node, name, faults) and read is not None:
            specs.append(TaskSpec(name, *read, chosen, _lines(node), metrics, unseen))
    return tuple(specs)


def _metrics(node: Node, faults: Faults) -> tuple[MetricSpec, ...]:
    """Read the metrics that are added to a task's own, in the order of the file.

    ``[macro_f1]`` names kinds; ``{p3: {kind: precision_at, k: 3}}`` names metrics, whose kind is
    their name where it is not given.
    """
    entries: dict[str, Node] = dict(node.value) if isinstance(node.value, dict) else {}
    for item in node.items() if node.value is not None and not entries else ():
        if not isinstance(item.value, str):
            remedy = "write [macro_f1], or {name: {kind: precision_at, k: 3}} for one with options"
            faults.add(item, f"{item.shown()} is not the name of a metric", remedy)
        elif item.value in entries:
            faults.add(item, f"{item.shown()} is given twice", "keep one")
        else:
            entries[item.value] = replace(item, value={}, text=item.value)
    specs = []
    for name, entry in entries.items():
        options = entry.entries(faults)
        read = read_plugin("metrics", _kind_of(name, entry, options), entry, options, faults)
        if check_name(entry, name, faults) and read is not None:
            specs.append(MetricSpec(name, *read))
    return tuple(specs)


def _lines(node: Node, name: str = "") -> dict[str, int]:
    """The line of a node, and of every entry in it by its dotted name."""
    lines = {name: node.line}
    for key, entry in node.value.items() if isinstance(node.value, dict) else ():
        lines |= _lines(entry, f"{name}.{key}".lstrip("."))
    return lines


def _chosen(
    node: Node, known: list[str], pivot: str, faults: Faults
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A task's own languages: those of the grid, in its order, and others, which none aligns."""
    others: list[str] = []
    for item in node.items() if known else ():
        if not isinstance(item.value, str) or not is_code(item.value):
            told = f"{item.shown()} is not the code of a language"
            faults.add(item, told, suggestion(item.text, known, listed="the grid has"))
        elif item.value == pivot:
            faults.add(item, f"{item.shown()} is the pivot, which needs no naming", "take it out")
        elif item.value not in known and item.value not in others:
            others.append(item.value)
    if not node.items():
        faults.add(node, "an empty list", "name languages, or leave `languages` out")
    wanted = {item.value for item in node.items() if isinstance(item.value, str)}
    return tuple(lang for lang in known if lang in wanted), tuple(others)


def read_pairs(node: Node, faults: Faults) -> PairsSpec:
    """Read the word aligner with its options, and what is done with its links."""
    entries, shared = node.entries(faults), key_names(PairsSettings)
    default = Node(DEFAULT_ALIGNER, node.line, "pairs.aligner", DEFAULT_ALIGNER)
    own = {name: entry for name, entry in entries.items() if name in shared}
    settings = validate(PairsSettings, node, faults, values=own) or PairsSettings()
    aligner = entries.get("aligner") or default
    read = read_plugin("aligners", aligner, node, entries, faults, ("aligner", *shared))
    kind, params = read or ("", BaseParams())
    return PairsSpec(kind=kind, params=params, **dict(settings))


def read_corpora(
    node: Node, languages: tuple[str, ...], faults: Faults
) -> tuple[dict[str, CorpusSpec], CorpusSettings]:
    """Read the corpus of each language, and the settings that all share."""
    entries = dict(node.entries(faults))
    if not entries:
        return {}, CorpusSettings()
    overrides, shared = entries.pop("by_language", None), key_names(CorpusSettings)
    own = {name: entries.pop(name) for name in list(entries) if name in shared}
    settings = validate(CorpusSettings, node, faults, values=own) or CorpusSettings()
    by_language = overrides.entries(faults) if overrides is not None else {}
    read: dict[str, CorpusSpec | None] = {}
    files = settings.split == "files"
    for lang, entry in by_language.items():
        if languages and lang not in languages:
            remedy = suggestion(lang, languages, listed="they are")
            faults.add(entry, f"{lang!r} is not one of the grid's languages", remedy)
        read[lang] = _corpus(entry, _overridden(entry, entries, faults), faults, files=files)
    if not languages or set(languages) - set(by_language):
        whole = _corpus(node, entries, faults, ("by_language", *shared), files=files)
        read |= {lang: whole for lang in languages if lang not in by_language}
    found = {lang: spec for lang, spec in read.items() if spec is not None}
    for lang, spec in found.items() if settings.segmentation == "words" else ():
        spoken = language(lang) if is_code(lang) else None
        divided = spoken is None or spoken.spaced or spoken.segmenter is not None
        if not divided and not getattr(spec.params, "pretokenized", False):
            faults.add(own["segmentation"], no_segmenter(lang), WITHOUT_SEGMENTER)
    return found, settings


def _overridden(node: Node, base: Mapping[str, Node], faults: Faults) -> dict[str, Node]:
    """Return the options of the corpus of a language; with another `source` its own alone."""
    own = dict(node.entries(faults))
    for name in own.keys() & key_names(CorpusSettings):
        faults.add(own.pop(name), "is the same for all languages", "move it up, under `corpus`")
    source, other = own.get("source"), base.get("source")
    inherits = source is None or (other is not None and source.value == other.value)
    return {**(base if inherits else {}), **own}


def _corpus(
    node: Node,
    entries: Mapping[str, Node],
    faults: Faults,
    also: tuple[str, ...] = (),
    *,
    files: bool = False,
) -> CorpusSpec | None:
    """Read a corpus from its `source` and options. `files` is whether training, dev and test must
    be separate files.
    """
    source = entries.get("source")
    if source is None:
        faults.add(node, "`source` is missing", f"known: {', '.join(catalog('corpora'))}")
        return None
    read = read_plugin("corpora", source, node, entries, faults, ("source", *also))
    if read is None:
        return None
    _check_parts(read[1], entries.get("path", node), str(source.value), faults, files=files)
    return CorpusSpec(*read)


def _check_parts(
    params: BaseParams, node: Node, source: str, faults: Faults, *, files: bool
) -> None:
    """Add faults for parts without ``split: files``, and for ``split: files`` without parts."""
    has_parts = isinstance(getattr(params, "path", None), Parts)
    if has_parts and not files:
        remedy = "that requires `split: files` under `corpus`; `text` takes one path"
        faults.add(node, "training, dev and test are separate files", remedy)
    elif files and not has_parts:
        paths = {n: c.Params.model_fields.get("path") for n, c in catalog("corpora").items()}
        able = [n for n, path in paths.items() if path and Parts in models_in(path.annotation)]
        remedy = "write {train: ..., dev: ..., test: ...}"
        if source not in able:
            remedy = f"{source} has no such files; {' and '.join(able)} may have"
        told = "`split: files` requires a path for each of training, dev and test"
        faults.add(node, told, remedy)


def read_text(node: Node | None, faults: Faults) -> CorpusSpec | None:
    """Read ``parallel`` or ``{source: parallel}`` (None: the training sides), or a corpus."""
    if node is None or node.value is None:
        return None
    entries = {"source": node} if isinstance(node.value, str) else dict(node.entries(faults))
    source, known = entries.get("source"), [PARALLEL, *catalog("corpora")]
    if source is not None and source.value == PARALLEL:
        for name in entries.keys() - {"source"}:
            faults.add(entries[name], "unknown key", "`source: parallel` has no options")
        return None
    if source is not None and isinstance(source.value, str) and source.value not in known:
        told = f"unknown text source {source.value!r}"
        faults.add(source, told, suggestion(source.value, known))
        return None
    return _corpus(node, entries, faults)
