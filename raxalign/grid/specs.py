"""The sections of a grid file as values that read themselves: names checked, options filled in,
paths absolute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

from pydantic import Field, ValidationError

from raxalign.catalog import catalog
from raxalign.errors import RaxalignError
from raxalign.grid._validate import SearchedMethod, key_names, validate
from raxalign.grid.yaml_file import Faults, Node
from raxalign.languages import (
    is_code,
    language,
    meant,
    no_segmenter,
    spelled,
)
from raxalign.options.params import BaseParams, Parts, models_in
from raxalign.options.sources import EncoderName
from raxalign.printing import with_article

Symmetrization = Literal[
    "intersection",
    "union",
    "grow-diag",
    "grow-diag-final-and",
    "forward",
    "reverse",
    "atools-grow-diag",
    "atools-grow-diag-final",
    "atools-grow-diag-final-and",
]

OneToOne = bool | Literal["first"]


_PARALLEL = "parallel"
"""The source of text that is not a corpus: the training sides of the bitext."""


@dataclass(frozen=True)
class Spec:
    """A plug-in that a grid file names: the folder of the catalogue that has it, its kind as plans
    have it, and its options. `name` is what results call it (encoders have labels, different for
    each; corpora have no names).
    """

    folder: str
    kind: str
    params: BaseParams
    name: str = ""

    def plugin(self) -> Any:
        """Return the plug-in with its options."""
        return catalog(self.folder)[self.kind](self.params)

    @staticmethod
    def class_of(folder: str, kind: Node, faults: Faults) -> type[BaseParams] | None:
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
            faults.add(kind, told, faults.suggestion(name, known))
            return None
        return cast(type[BaseParams], known[name].Params)

    @classmethod
    def read(
        cls,
        folder: str,
        kind: Node,
        node: Node,
        entries: Mapping[str, Node],
        faults: Faults,
        also: Iterable[str] = ("kind",),
    ) -> Self | None:
        """Read a plug-in of a folder of the catalogue; None after a fault. `kind` names it, `node`
        is the mapping that it is in, and `also` names the `entries` that are not options.
        """
        params = cls.class_of(folder, kind, faults)
        if params is None:
            return None
        own = {name: entry for name, entry in entries.items() if name not in also}
        built = validate(params, node, faults, values=own, also=also)
        return None if built is None else cls(folder, catalog(folder).kind(str(kind.value)), built)

    @classmethod
    def encoder(cls, kind: str, options: Mapping[str, Any]) -> Self:
        """Return an encoder with some of its options. Raises `ValidationError`."""
        encoders = catalog("encoders")
        params = encoders[kind].Params(**options)
        return cls("encoders", encoders.kind(kind), params, encoders[kind](params).label())

    @classmethod
    def encoders(cls, node: Node, faults: Faults) -> tuple[Self, ...]:
        """Read one encoder or a list of them, each a name or a mapping with `kind`."""
        if isinstance(node.value, list) and not node.value:
            faults.add(node, "an empty list", "name at least one encoder")
        specs: list[Self] = []
        for item in node.items():
            entries = _encoder(item, faults)
            read = cls.read("encoders", entries["kind"], item, entries, faults) if entries else None
            if read is None:
                continue
            spec = replace(read, name=read.plugin().label())
            if spec in specs:
                remedy = "the values of an axis must be different; keep one"
                faults.add(item, "the same encoder is given twice", remedy)
            specs.append(spec)
        return tuple(spec._distinct(specs) for spec in specs)

    def _distinct(self, specs: list[Self]) -> Self:
        """Add to a label that several encoders have the options in which these differ."""
        alike = [other for other in specs if other.name == self.name and other is not self]
        others = [other.params.model_dump(by_alias=True) for other in alike]
        differing = (
            f"{name}={value}"
            for name, value in self.params.model_dump(by_alias=True).items()
            if any(other.get(name, value) != value for other in others)
        )
        label = f"{self.name} {' '.join(differing) or self.kind}"
        return replace(self, name=label) if others else self

    @classmethod
    def corpus(
        cls,
        node: Node,
        entries: Mapping[str, Node],
        faults: Faults,
        also: tuple[str, ...] = (),
        *,
        files: bool = False,
    ) -> Self | None:
        """Read a corpus from its `source` and options. `files` is whether training, dev and test
        must be separate files.
        """
        source = entries.get("source")
        if source is None:
            faults.add(node, "`source` is missing", f"known: {', '.join(catalog('corpora'))}")
            return None
        read = cls.read("corpora", source, node, entries, faults, ("source", *also))
        if read is not None:
            place = entries.get("path", node)
            _check_parts(read.params, place, str(source.value), faults, files=files)
        return read

    @classmethod
    def text(cls, node: Node | None, faults: Faults) -> Self | None:
        """Read ``parallel`` or ``{source: parallel}`` (None: the training sides), or a corpus."""
        if node is None or node.value is None:
            return None
        entries = {"source": node} if isinstance(node.value, str) else dict(node.entries(faults))
        source, known = entries.get("source"), [_PARALLEL, *catalog("corpora")]
        if source is not None and source.value == _PARALLEL:
            for name in entries.keys() - {"source"}:
                faults.add(entries[name], "unknown key", "`source: parallel` has no options")
            return None
        if source is not None and isinstance(source.value, str) and source.value not in known:
            told = f"unknown text source {source.value!r}"
            faults.add(source, told, faults.suggestion(source.value, known))
            return None
        return cls.corpus(node, entries, faults)

    @classmethod
    def read_metrics(cls, node: Node, faults: Faults) -> tuple[Self, ...]:
        """Read the metrics that are added to a task's own, in the order of the file.

        ``[macro_f1]`` names kinds; ``{p3: {kind: precision_at, k: 3}}`` names metrics, whose kind
        is their name where it is not given.
        """
        entries: dict[str, Node] = dict(node.value) if isinstance(node.value, dict) else {}
        for item in node.items() if node.value is not None and not entries else ():
            if not isinstance(item.value, str):
                remedy = (
                    "write [macro_f1], or {name: {kind: precision_at, k: 3}} for one with options"
                )
                faults.add(item, f"{item.shown()} is not the name of a metric", remedy)
            elif item.value in entries:
                faults.add(item, f"{item.shown()} is given twice", "keep one")
            else:
                entries[item.value] = replace(item, value={}, text=item.value)
        specs = []
        for name, entry in entries.items():
            options = entry.entries(faults)
            read = cls.read("metrics", _kind_of(name, entry, options), entry, options, faults)
            if faults.check_name(entry, name) and read is not None:
                specs.append(replace(read, name=name))
        return tuple(specs)


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
        return dict(node.value)
    return entries


def _kind_of(name: str, node: Node, entries: Mapping[str, Node]) -> Node:
    """Return the node that names the kind: `kind`, or the entry's own name."""
    return entries.get("kind") or replace(node, value=name, text=name)


def _named(section: Node, faults: Faults) -> list[tuple[str, Node, dict[str, Node]]]:
    """Return (name, node, entries) of the methods or tasks of a section."""
    names = [item.text for item in section.items() if Faults.NAME.fullmatch(item.text)]
    remedy = f"write {{{', '.join(f'{name}: {{}}' for name in names) or 'name: {option: value}'}}}"
    return [
        (name, node, node.entries(faults, f"write {name}: {{}}, or its options in place of {{}}"))
        for name, node in section.entries(faults, remedy).items()
    ]


def _chosen(
    node: Node, known: list[str], pivot: str, faults: Faults
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A task's own languages: those of the grid, in its order, and others, which none aligns."""
    others: list[str] = []
    for item in node.items() if known else ():
        if not isinstance(item.value, str) or not is_code(item.value):
            told = f"{item.shown()} is not the code of a language"
            faults.add(item, told, faults.suggestion(item.text, known, listed="the grid has"))
        elif item.value == pivot:
            faults.add(item, f"{item.shown()} is the pivot, which needs no naming", "take it out")
        elif item.value not in known and item.value not in others:
            others.append(item.value)
    if not node.items():
        faults.add(node, "an empty list", "name languages, or leave `languages` out")
    wanted = {item.value for item in node.items() if isinstance(item.value, str)}
    return tuple(lang for lang in known if lang in wanted), tuple(others)


class PieceLimits(BaseParams):
    """Which training pairs are taken, by the pieces that the tokenizer of `encoder` makes of them:
    `min_pieces` or more on each side, and `max_pieces` or less on both together (0: no limit).
    Special pieces do not count.
    """

    encoder: EncoderName
    min_pieces: int = Field(1, ge=1)
    max_pieces: int = Field(0, ge=0)


class Split(BaseParams):
    """`split`: the last `test` lines of a corpus, and the `dev` lines before those."""

    test: int = Field(1024, ge=1)
    """Number of lines."""
    dev: int = Field(1024, ge=0)
    """Number of lines."""


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

    @classmethod
    def read(
        cls, node: Node, languages: tuple[str, ...], faults: Faults
    ) -> tuple[dict[str, Spec], CorpusSettings]:
        """Read the corpus of each language, and the settings that all share."""
        entries = dict(node.entries(faults))
        if not entries:
            return {}, cls()
        overrides, shared = entries.pop("by_language", None), key_names(cls)
        own = {name: entries.pop(name) for name in list(entries) if name in shared}
        settings = validate(cls, node, faults, values=own) or cls()
        by_language = overrides.entries(faults) if overrides is not None else {}
        read: dict[str, Spec | None] = {}
        files = settings.split == "files"
        for lang, entry in by_language.items():
            if languages and lang not in languages:
                remedy = faults.suggestion(lang, languages, listed="they are")
                faults.add(entry, f"{lang!r} is not one of the grid's languages", remedy)
            read[lang] = Spec.corpus(
                entry, _overridden(entry, entries, faults), faults, files=files
            )
        if not languages or set(languages) - set(by_language):
            whole = Spec.corpus(node, entries, faults, ("by_language", *shared), files=files)
            read |= {lang: whole for lang in languages if lang not in by_language}
        found = {lang: spec for lang, spec in read.items() if spec is not None}
        for lang, spec in found.items() if settings.segmentation == "words" else ():
            spoken = language(lang) if is_code(lang) else None
            divided = spoken is None or spoken.spaced or spoken.segmenter is not None
            if not divided and not getattr(spec.params, "pretokenized", False):
                faults.add(own["segmentation"], *no_segmenter(lang))
        return found, settings


class PairsSettings(BaseParams):
    """What the `pairs` section holds besides the options of its word aligner.

    `draws` is for a word aligner without a seed: links of training per seed, or once for all.
    """

    symmetrization: Symmetrization = "intersection"
    one_to_one: OneToOne = True
    align_on: Literal["own", "largest"] = "own"
    draws: Literal["per-run", "once"] = "per-run"


class PairsSpec(PairsSettings):
    """How word pairs are made: the word aligner, and what its links undergo."""

    DEFAULT: ClassVar = "thot"
    aligner: Spec

    @classmethod
    def read(cls, node: Node, faults: Faults) -> PairsSpec:
        """Read the section."""
        entries, shared = node.entries(faults), key_names(PairsSettings)
        default = Node(cls.DEFAULT, node.line, "pairs.aligner", cls.DEFAULT)
        own = {name: entry for name, entry in entries.items() if name in shared}
        settings = validate(PairsSettings, node, faults, values=own) or PairsSettings()
        aligner = entries.get("aligner") or default
        read = Spec.read("aligners", aligner, node, entries, faults, ("aligner", *shared))
        return cls(aligner=read or Spec("aligners", "", BaseParams()), **dict(settings))

    def encoder(self) -> Spec | None:
        """Return the encoder that the word aligner reads; None where it reads words alone.

        A name is read as under `encoder` in a grid file: a kind of encoder with its default
        options, or else a folder or a hub name. Raises `RaxalignError` for a kind that cannot do
        without options.
        """
        name = self.aligner.plugin().encoder()
        if name is None:
            return None
        is_kind = name in catalog("encoders") and name != "transformer"
        try:
            return Spec.encoder(*((name, {}) if is_kind else ("transformer", {"name": name})))
        except ValidationError as error:
            raise RaxalignError(
                f"pairs: encoder: {name!r} is a kind of encoder that requires options, which a word"
                " aligner cannot give; name a folder or a hub name"
            ) from error


@dataclass(frozen=True)
class MethodSpec:
    """A method: the name that the grid gives it, its kind, and one value of its options for each
    point of the product of its lists. Where its options are `searched`, the points are the corners
    of the space, which are not run.
    """

    name: str
    kind: str
    points: tuple[BaseParams, ...]
    searched: SearchedMethod | None = field(default=None, hash=False)

    @classmethod
    def read_all(cls, section: Node, faults: Faults, *, search: bool) -> tuple[Self, ...]:
        """Read all methods, in the order of the file. With `search` their options may be spaces."""
        specs = []
        for name, node, entries in _named(section, faults):
            kind = _kind_of(name, node, entries)
            params = Spec.class_of("methods", kind, faults)
            if faults.check_name(node, name) and params is not None:
                values = {key: value for key, value in entries.items() if key != "kind"}
                if "with_task" in values and "with_task" not in params.model_fields:
                    told = f"{kind.value} trains no encoder, so that no task can be trained with it"
                    remedy = "leave it out: the task is trained on what the method leaves"
                    faults.add(values.pop("with_task"), told, remedy)
                read = SearchedMethod.read(params, node, values, faults, search=search)
                specs.append(cls(name, catalog("methods").kind(str(kind.value)), *read))
        return tuple(specs)


@dataclass(frozen=True)
class TaskSpec(Spec):
    """A task of a grid file. `lines` are those of the task (under the empty name) and of each
    option (``data.train``).
    """

    languages: tuple[str, ...] | None = None  # of the grid's (None: all)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)
    metrics: tuple[Spec, ...] = ()  # computed from its predictions, part of no key
    unseen: tuple[str, ...] = ()  # languages besides these, which no method aligns
    source: str = ""  # the language of `train_on` that it is trained on (empty: the pivot)

    @property
    def entry(self) -> str:
        """The name of its entry in the file, which `train_on` makes one task per language of."""
        return self.name.removesuffix(f".{self.source}")

    def home(self, pivot: str) -> str:
        """Return the language that it is trained on, and starts from in zero-shot transfer."""
        return self.source or pivot

    @classmethod
    def read_all(
        cls, section: Node, languages: Iterable[str], pivot: str, faults: Faults
    ) -> tuple[TaskSpec, ...]:
        """Read all tasks, in the order of the file. Lists are values here, not axes."""
        specs, known = [], list(languages)
        also = ("kind", "languages", "metrics", "train_on")
        for name, node, entries in _named(section, faults):
            own = entries.get("languages")
            chosen, unseen = _chosen(own, known, pivot, faults) if own else (None, ())
            metrics = Spec.read_metrics(entries["metrics"], faults) if "metrics" in entries else ()
            kind = _kind_of(name, node, entries)
            read = Spec.read("tasks", kind, node, entries, faults, also)
            if faults.check_name(node, name) and read is not None:
                more = name, chosen, node.lines(), metrics, unseen
                specs.append(cls("tasks", read.kind, read.params, *more))
        return tuple(specs)

    def line_of(self, message: str) -> int | None:
        """Return the line of the option with which a message begins (as ``data.train holds ...``),
        of what it lies in where it is not given, or else of the task; None where there was no file.
        """
        key = message.split(" ", 1)[0].rstrip(":,")
        while key and key not in self.lines:
            key = key.rpartition(".")[0]
        return self.lines.get(key)


def _overridden(node: Node, base: Mapping[str, Node], faults: Faults) -> dict[str, Node]:
    """Return the options of the corpus of a language; with another `source` its own alone."""
    own = dict(node.entries(faults))
    for name in own.keys() & key_names(CorpusSettings):
        faults.add(own.pop(name), "is the same for all languages", "move it up, under `corpus`")
    source, other = own.get("source"), base.get("source")
    inherits = source is None or (other is not None and source.value == other.value)
    return {**(base if inherits else {}), **own}


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


def _code(node: Node, faults: Faults) -> str | None:
    """Return the code of a language as it was written, or None after a fault."""
    code = node.value if isinstance(node.value, str) else node.text
    if is_code(code):
        return code
    faults.add(node, f"unknown language {node.shown()}", meant(code))
    return None


_GROUPS = ("together", "each", "sets")


class Grouped(NamedTuple):
    """The languages of a grid: the pivot, whether all others are aligned together, all of them, and
    sets by name.
    """

    pivot: str
    together: bool = False
    languages: tuple[str, ...] = ()
    sets: Mapping[str, tuple[str, ...]] = {}

    @classmethod
    def read(cls, top: Mapping[str, Node], faults: Faults) -> Grouped:
        """Read the sections `pivot` and `languages`. Where they have faults there is the pivot at
        most, so that what refers to the languages is not checked.
        """
        before = len(faults)
        pivot = (_code(top["pivot"], faults) or "") if "pivot" in top else "en"
        read = cls._of(top["languages"], pivot, faults) if "languages" in top else cls(pivot)
        return cls(pivot) if len(faults) > before else read

    @classmethod
    def _of(cls, node: Node, pivot: str, faults: Faults) -> Grouped:
        """Read ``{together: [...]}``, ``{each: [...]}`` or ``{sets: {name: [...]}}``."""
        remedy = (
            "write {together: [...]} for one model of all, {each: [...]} for one trial per"
            " language, or {sets: {name: [...], ...}} for one model per set"
        )
        if not isinstance(node.value, dict):
            faults.add(node, f"{node.shown()} does not say how the languages are grouped", remedy)
            return cls(pivot)
        for name, entry in node.value.items():
            if name not in _GROUPS:
                faults.add(entry, "unknown key", faults.suggestion(name, _GROUPS))
        groups = [name for name in _GROUPS if name in node.value]
        if len(groups) != 1:
            both = "both" if len(groups) == 2 else "all of"
            told = f"{both} {' and '.join(f'`{name}`' for name in groups)}"
            faults.add(node, told if groups else "none of `together`, `each` and `sets`", remedy)
            return cls(pivot)
        group = node.value[groups[0]]
        if groups[0] == "sets":
            return cls._of_sets(group, pivot, faults)
        return cls(pivot, groups[0] == "together", cls.codes(group, pivot, faults))

    @classmethod
    def _of_sets(cls, node: Node, pivot: str, faults: Faults) -> Grouped:
        """Read sets of languages by name; the languages are their union, first ones first."""
        if not isinstance(node.value, dict) or not node.value:
            told = f"{node.shown()} is not a mapping of sets" if node.value else "no set is named"
            faults.add(node, told, "for example {germanic: [de, nl], diverse: [de, tr, zh]}")
            return cls(pivot)
        sets: dict[str, tuple[str, ...]] = {}
        union: list[str] = []
        for name, entry in node.value.items():
            codes = cls.codes(entry, pivot, faults)
            faults.check_name(entry, name)
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
        return cls(pivot, False, tuple(union), sets)

    @staticmethod
    def codes(group: Node, pivot: str, faults: Faults) -> tuple[str, ...]:
        """Read a list of different languages, none of them the pivot (empty: it may be)."""
        if group.value is None or (isinstance(group.value, list) and not group.value):
            faults.add(group, "no language is named", "for example [de, fr]")
            return ()
        codes: list[str] = []
        for item in group.items():
            code = _code(item, faults)
            if code is None:
                continue
            other = spelled(code, [*([pivot] if pivot else []), *codes])
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
