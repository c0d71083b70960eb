"""The sections `corpus` and `text`: where sentence pairs and monolingual text come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from raxalign.catalog import catalog
from raxalign.config._faults import Faults, Node, suggestion
from raxalign.config._plugins import read_plugin
from raxalign.config._specs import PARALLEL, CorpusSpec, PieceLimits, SplitSpec, TextSpec
from raxalign.config._validate import key_names, validate
from raxalign.config.params import BaseParams, Parts, models_in
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
    return {**dict(settings), "split": split}


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


def _overridden(node: Node, base: Mapping[str, Node], faults: Faults) -> dict[str, Node]:
    """Return the options of the corpus of a language. With another `source` the shared ones do not
    apply.
    """
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


def read_text(node: Node | None, faults: Faults) -> TextSpec:
    """Read ``parallel``, ``{source: parallel}`` or a corpus."""
    if node is None or node.value is None:
        return TextSpec()
    entries = {"source": node} if isinstance(node.value, str) else dict(node.entries(faults))
    source = entries.get("source")
    if source is not None and source.value == PARALLEL:
        for name, entry in entries.items():
            if name != "source":
                faults.add(entry, "unknown key", "`source: parallel` has no options")
        return TextSpec()
    known = [PARALLEL, *catalog("corpora")]
    if source is not None and isinstance(source.value, str) and source.value not in known:
        told = f"unknown text source {source.value!r}"
        faults.add(source, told, suggestion(source.value, known))
        return TextSpec()
    spec = _corpus(node, entries, faults)
    return TextSpec(spec.kind, spec) if spec is not None else TextSpec()
