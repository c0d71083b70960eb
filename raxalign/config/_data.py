"""The sections about data: encoders, languages, corpora, text and word pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from raxalign.catalog import catalog
from raxalign.config._faults import Faults, nearest, suggestion
from raxalign.config._methods import plugin_params
from raxalign.config._paths import Paths
from raxalign.config._specs import (
    CorpusSpec,
    EncoderSpec,
    PairsSpec,
    SplitSpec,
    Symmetrization,
    TextSpec,
)
from raxalign.config._validate import key_names, validate
from raxalign.config._yaml import Node
from raxalign.config.params import BaseParams, models_in
from raxalign.config.parts import Parts
from raxalign.languages import LANGUAGES


class Split(BaseParams):
    """`split`: the last `test` lines of a corpus, and the `dev` lines before those."""

    test: int = Field(1024, ge=1)
    dev: int = Field(1024, ge=0)


class CorpusSettings(BaseParams):
    """What the `corpus` section holds beside the options of its source.

    `split: files` takes dev and test whole from files of their own, and training from the end of
    its file. Sides of more than `max_words` words are dropped: 128 words are about what an encoder
    of 128 to 512 pieces reads. `segmentation` is for languages without spaces.
    """

    split: Split | Literal["files"] = Split()
    overlap: Literal["drop", "keep"] = "drop"
    shortage: Literal["refuse", "use-all"] = "refuse"
    max_words: int = Field(128, ge=1)
    segmentation: Literal["characters", "words"] = "characters"


def corpus_fields(settings: CorpusSettings) -> dict[str, Any]:
    """The settings under their names in `Grid`."""
    split = (
        SplitSpec(0, 0, files=True)
        if settings.split == "files"
        else SplitSpec(settings.split.test, settings.split.dev)
    )
    return {**_values(settings), "split": split}


class PairsSettings(BaseParams):
    """What the `pairs` section holds beside the options of its word aligner."""

    symmetrization: Symmetrization = "intersection"
    one_to_one: bool = True
    align_on: Literal["own", "largest"] = "own"


def read_encoders(node: Node, paths: Paths) -> tuple[EncoderSpec, ...]:
    """One encoder or a list of them, each a name or a mapping with `kind`."""
    if isinstance(node.value, list) and not node.value:
        paths.faults.add(node, "an empty list", "name at least one encoder")
    found = [(item, spec) for item in node.items() if (spec := _encoder(item, paths)) is not None]
    seen: list[tuple[str, BaseParams]] = []
    for item, spec in found:
        if (spec.kind, spec.params) in seen:
            paths.faults.add(
                item, "the same encoder is given twice", "the values of an axis are different"
            )
        seen.append((spec.kind, spec.params))
    return _distinct([spec for _, spec in found])


def _encoder(node: Node, paths: Paths) -> EncoderSpec | None:
    faults = paths.faults
    if isinstance(node.value, str) and node.value.strip():
        named = node.value.strip()
        if named in catalog("encoders") and named != "transformer":
            kind, values = replace(node, value=named), {}
        else:
            kind, values = replace(node, value="transformer"), {"name": replace(node, value=named)}
    elif isinstance(node.value, dict):
        if "kind" not in node.value:
            known = ", ".join(catalog("encoders"))
            faults.add(
                node,
                "an encoder needs a `kind`",
                f"known: {known}; a folder or hub name is written without a mapping",
            )
            return None
        kind, values = (
            node.value["kind"],
            {name: entry for name, entry in node.value.items() if name != "kind"},
        )
    else:
        faults.add(
            node, f"{node.shown()} is no encoder", "a hub name, a folder, or {kind: scratch, ...}"
        )
        return None
    params = plugin_params("encoders", kind, faults)
    if params is None:
        return None
    if isinstance(node.value, dict):
        values = paths.entries(params, values)
    if "name" in values:
        values["name"] = paths.encoder(values["name"])
    built = validate(params, node, faults, values=values, also=("kind",))
    if built is None:
        return None
    return EncoderSpec(
        catalog("encoders").kind(str(kind.value)),
        built,
        catalog("encoders")[kind.value](built).label(),
    )


def _distinct(specs: list[EncoderSpec]) -> tuple[EncoderSpec, ...]:
    """Encoders of one label are told apart by the options in which they differ."""
    counts = Counter(spec.label for spec in specs)
    labelled = []
    for spec in specs:
        own = spec.params.model_dump(by_alias=True)
        others = [
            other.params.model_dump(by_alias=True)
            for other in specs
            if other.label == spec.label and other is not spec
        ]
        differing = {
            name: value
            for name, value in own.items()
            if any(other.get(name, value) != value for other in others)
        }
        suffix = " ".join(f"{name}={value}" for name, value in differing.items()) or spec.kind
        labelled.append(
            replace(spec, label=f"{spec.label} {suffix}") if counts[spec.label] > 1 else spec
        )
    return tuple(labelled)


def check_language(node: Node, faults: Faults) -> str | None:
    """The code of a known language, or None after a fault."""
    code = node.value if isinstance(node.value, str) else node.text
    if code in LANGUAGES:
        return code
    by_name = {known.name.lower(): known.code for known in LANGUAGES.values()}
    near = by_name.get(code.lower()) or nearest(code, LANGUAGES)
    hint = f"did you mean {near}? " if near else ""
    files = (
        f"; files named {code} are read with `codes: {{{near}: {code}}}` under `corpus`"
        if near and len(code) == 3
        else ""
    )
    faults.add(
        node,
        f"unknown language {node.shown()}",
        f"{hint}codes are ISO 639-1, for example de, tr, zh{files}",
    )
    return None


def read_languages(node: Node, pivot: str, faults: Faults) -> tuple[bool, tuple[str, ...]]:
    """(together, languages) of ``{together: [...]}`` or ``{each: [...]}``."""
    remedy = (
        "write {together: [...]} for one model of all, or {each: [...]} for one trial a language"
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
        if code is not None and code == pivot:
            faults.add(item, f"{code!r} is the pivot", "name the other languages only")
        elif code is not None and code in codes:
            faults.add(item, f"{code!r} is given twice", "keep one")
        elif code is not None:
            codes.append(code)
    return groups[0] == "together", tuple(codes)


def read_corpora(
    node: Node, languages: tuple[str, ...], paths: Paths
) -> tuple[dict[str, CorpusSpec], CorpusSettings]:
    """The corpus of each language, and the settings that all share."""
    faults = paths.faults
    entries = dict(node.entries(faults))
    if not entries:
        return {}, CorpusSettings()
    overrides = entries.pop("by_language", None)
    own = {name: entry for name, entry in entries.items() if name in key_names(CorpusSettings)}
    settings = validate(CorpusSettings, node, faults, values=own) or CorpusSettings()
    base = {name: entry for name, entry in entries.items() if name not in own}
    by_language = overrides.entries(faults) if overrides is not None else {}
    for lang, entry in by_language.items():
        if languages and lang not in languages:
            faults.add(
                entry,
                f"{lang!r} is none of the grid's languages",
                suggestion(lang, languages, listed="they are"),
            )
    files = settings.split == "files"
    found = {
        lang: _overridden(entry, base, paths, files=files) for lang, entry in by_language.items()
    }
    if not languages or set(languages) - set(by_language):
        whole = _corpus(node, base, paths, files=files)
        found |= {lang: whole for lang in languages if lang not in by_language}
    return {lang: spec for lang, spec in found.items() if spec is not None}, settings


def _overridden(
    node: Node, base: Mapping[str, Node], paths: Paths, *, files: bool
) -> CorpusSpec | None:
    """The corpus of a language with entries of its own; another `source` takes none of the shared
    options.
    """
    own = dict(node.entries(paths.faults))
    shared = key_names(CorpusSettings)
    for name in [name for name in own if name in shared]:
        paths.faults.add(
            own.pop(name), "is the same for all languages", "move it up, under `corpus`"
        )
    source, other = own.get("source"), base.get("source")
    inherits = source is None or (other is not None and source.value == other.value)
    return _corpus(
        node, {**(base if inherits else {}), **own}, paths, also=("source",), files=files
    )


def _corpus(
    node: Node,
    entries: Mapping[str, Node],
    paths: Paths,
    also: tuple[str, ...] | None = None,
    *,
    files: bool = False,
) -> CorpusSpec | None:
    """A corpus from its `source` and options; `files` says whether training, dev and test are to be
    files of their own.
    """
    source = entries.get("source")
    if source is None:
        paths.faults.add(node, "`source` is missing", f"known: {', '.join(catalog('corpora'))}")
        return None
    params = plugin_params("corpora", source, paths.faults)
    if params is None:
        return None
    values = paths.entries(
        params, {name: entry for name, entry in entries.items() if name != "source"}
    )
    every = ("source", "by_language", *key_names(CorpusSettings)) if also is None else also
    built = validate(params, node, paths.faults, values=values, also=every)
    if built is not None:
        _check_parts(built, entries.get("path", node), str(source.value), paths.faults, files=files)
    return (
        CorpusSpec(catalog("corpora").kind(str(source.value)), built) if built is not None else None
    )


def _check_parts(
    params: BaseParams, node: Node, source: str, faults: Faults, *, files: bool
) -> None:
    """Faults of parts without ``split: files``, and of ``split: files`` without parts."""
    has_parts = isinstance(getattr(params, "path", None), Parts)
    if has_parts and not files:
        faults.add(
            node,
            "training, dev and test are files of their own",
            "that goes with `split: files` under `corpus`; `text` takes one path",
        )
    elif files and not has_parts:
        fields = {name: corpus.Params.model_fields for name, corpus in catalog("corpora").items()}
        able = [
            name
            for name, own in fields.items()
            if "path" in own and Parts in models_in(own["path"].annotation)
        ]
        remedy = (
            "write {train: ..., dev: ..., test: ...}"
            if source in able
            else f"{source} has no such files; {' and '.join(able)} may have"
        )
        faults.add(
            node, "`split: files` requires a path for each of training, dev and test", remedy
        )


def read_text(node: Node | None, paths: Paths) -> TextSpec:
    """``parallel``, ``{source: parallel}`` or a corpus."""
    if node is None or node.value is None:
        return TextSpec()
    entries: dict[str, Node] = (
        {"source": node} if isinstance(node.value, str) else dict(node.entries(paths.faults))
    )
    source = entries.get("source")
    if source is not None and source.value == "parallel":
        for name, entry in entries.items():
            if name != "source":
                paths.faults.add(entry, "unknown key", "`source: parallel` has no options")
        return TextSpec()
    if (
        source is not None
        and isinstance(source.value, str)
        and source.value not in catalog("corpora")
    ):
        known = ["parallel", *catalog("corpora")]
        paths.faults.add(
            source, f"unknown text source {source.value!r}", suggestion(source.value, known)
        )
        return TextSpec()
    spec = _corpus(node, entries, paths, also=("source",))
    return TextSpec(spec.kind, spec) if spec is not None else TextSpec()


def read_pairs(node: Node, paths: Paths) -> PairsSpec | None:
    """The word aligner with its options, and what is done with its links."""
    faults = paths.faults
    entries = dict(node.entries(faults))
    aligner = entries.pop("aligner", None) or Node("eflomal", node.line, "pairs.aligner", "eflomal")
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
    return PairsSpec(catalog("aligners").kind(str(aligner.value)), built, **dict(_values(settings)))


def _values(settings: BaseParams) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in type(settings).model_fields}
