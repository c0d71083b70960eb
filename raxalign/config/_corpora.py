"""The sections `corpus` and `text`: where sentence pairs and monolingual text come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from raxalign.catalog import catalog
from raxalign.config._faults import Faults, suggestion
from raxalign.config._fields import field_values, key_names
from raxalign.config._methods import plugin_params
from raxalign.config._paths import Paths
from raxalign.config._specs import PARALLEL, CorpusSpec, PieceLimits, SplitSpec, TextSpec
from raxalign.config._validate import validate
from raxalign.config.params import BaseParams, models_in
from raxalign.config.parts import Parts
from raxalign.config.yaml_file import Node
from raxalign.languages import WITHOUT_SEGMENTER, is_code, language, no_segmenter


class Split(BaseParams):
    """`split`: the last `test` lines of a corpus, and the `dev` lines before those."""

    test: int = Field(1024, ge=1, description="Number of lines.")
    dev: int = Field(1024, ge=0, description="Number of lines.")


class CorpusSettings(BaseParams):
    """What the `corpus` section holds besides the options of its source.

    `split: files` takes dev and test whole from files of their own, and training from the end of
    its file. `training_from: start` takes training from the beginning of the corpus instead.
    Training pairs with a side of more than `max_words` words are dropped: 128 words, or 512
    characters of a script without spaces, are about what an encoder of 128 to 512 pieces reads.
    `max_basic_tokens` limits the tokens of BERT's basic tokeniser in the same way. `pieces` leaves
    out training pairs before they are counted. `segmentation` is for languages without spaces.
    """

    split: Split | Literal["files"] = Split()
    overlap: Literal["drop", "keep"] = "drop"
    shortage: Literal["refuse", "use-all"] = "refuse"
    training_from: Literal["end", "start"] = "end"
    max_words: int = Field(128, ge=1)
    max_basic_tokens: int | None = Field(None, ge=1)
    pieces: PieceLimits | None = None
    segmentation: Literal["characters", "words"] = "characters"


def corpus_fields(settings: CorpusSettings) -> dict[str, Any]:
    """Return the settings under their names in `Grid`."""
    split = (
        SplitSpec(0, 0, files=True)
        if settings.split == "files"
        else SplitSpec(settings.split.test, settings.split.dev)
    )
    return {**field_values(settings), "split": split}


def read_corpora(
    node: Node, languages: tuple[str, ...], paths: Paths
) -> tuple[dict[str, CorpusSpec], CorpusSettings]:
    """Read the corpus of each language, and the settings that all share."""
    faults = paths.faults
    entries = dict(node.entries(faults))
    if not entries:
        return {}, CorpusSettings()
    overrides = entries.pop("by_language", None)
    own = {name: entry for name, entry in entries.items() if name in key_names(CorpusSettings)}
    values = paths.entries(CorpusSettings, own)
    settings = validate(CorpusSettings, node, faults, values=values) or CorpusSettings()
    base = {name: entry for name, entry in entries.items() if name not in own}
    by_language = overrides.entries(faults) if overrides is not None else {}
    for lang, entry in by_language.items():
        if languages and lang not in languages:
            faults.add(
                entry,
                f"{lang!r} is not one of the grid's languages",
                suggestion(lang, languages, listed="they are"),
            )
    files = settings.split == "files"
    read = {
        lang: _overridden(entry, base, paths, files=files) for lang, entry in by_language.items()
    }
    if not languages or set(languages) - set(by_language):
        whole = _corpus(node, base, paths, files=files)
        read |= {lang: whole for lang in languages if lang not in by_language}
    found = {lang: spec for lang, spec in read.items() if spec is not None}
    if settings.segmentation == "words":
        _check_segmenters(found, own["segmentation"], faults)
    return found, settings


def _check_segmenters(specs: Mapping[str, CorpusSpec], node: Node, faults: Faults) -> None:
    """Add a fault for each language without spaces whose text is to be divided into words and that
    has no segmenter.
    """
    for lang, spec in specs.items():
        known = language(lang) if is_code(lang) else None
        divided = known is None or known.spaced or known.segmenter is not None
        if not divided and not getattr(spec.params, "pretokenized", False):
            faults.add(node, no_segmenter(lang), WITHOUT_SEGMENTER)


def _overridden(
    node: Node, base: Mapping[str, Node], paths: Paths, *, files: bool
) -> CorpusSpec | None:
    """Read the corpus of a language with its own entries. With another `source` the shared options
    do not apply.
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
    """Read a corpus from its `source` and options. `files` is whether training, dev and test must
    be separate files.
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
    """Add faults for parts without ``split: files``, and for ``split: files`` without parts."""
    has_parts = isinstance(getattr(params, "path", None), Parts)
    if has_parts and not files:
        faults.add(
            node,
            "training, dev and test are separate files",
            "that requires `split: files` under `corpus`; `text` takes one path",
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
    """Read ``parallel``, ``{source: parallel}`` or a corpus."""
    if node is None or node.value is None:
        return TextSpec()
    entries: dict[str, Node] = (
        {"source": node} if isinstance(node.value, str) else dict(node.entries(paths.faults))
    )
    source = entries.get("source")
    if source is not None and source.value == PARALLEL:
        for name, entry in entries.items():
            if name != "source":
                paths.faults.add(entry, "unknown key", "`source: parallel` has no options")
        return TextSpec()
    if (
        source is not None
        and isinstance(source.value, str)
        and source.value not in catalog("corpora")
    ):
        known = [PARALLEL, *catalog("corpora")]
        paths.faults.add(
            source, f"unknown text source {source.value!r}", suggestion(source.value, known)
        )
        return TextSpec()
    spec = _corpus(node, entries, paths, also=("source",))
    return TextSpec(spec.kind, spec) if spec is not None else TextSpec()
