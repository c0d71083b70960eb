"""The base of every plug-in's options, and options that several corpora have."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from abc import ABC
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict

from raxalign.options.sources import DataPrefix, PathMarker


class Later:
    """Marks an option that was added after results had been stored without it: ``swap:
    Annotated[bool, LATER] = False``.

    At its default, which must do what was done without it, it enters no key, so that no stored
    result is made again.
    """


LATER = Later()


@dataclass(frozen=True, slots=True)
class Removed:
    """An option that was taken away: what to do instead, the value that it has in keys (`LATER`: it
    was in no key), and the `default` of who did not set it, where that is another one (`ANY`: each
    task or preset filled in its own).
    """

    ANY: ClassVar = Later()
    instead: str
    keyed: Any = LATER
    default: Any = LATER

    def __post_init__(self) -> None:
        if self.keyed is self.default is LATER:
            raise TypeError("an option that was in no key had a default, which older plans have")

    def had(self, value: Any) -> bool:
        """Whether a plan with the value is one of everyone who did not set it."""
        return self.default is self.ANY or value in (self.keyed, self.default)


SEVERAL = BeforeValidator(lambda given: given if isinstance(given, list | tuple) else [given])
"""Marks an option with several values, of which YAML may give one without brackets."""


class BaseParams(BaseModel):
    """Frozen options: unknown keys are refused, defaults are part of the identity (except those of
    `LATER` options), names are those of the YAML file.

    A field that YAML names by a Python keyword is declared with an alias: ``reg_weight: float =
    Field(1.0, alias="lambda")``. Identity and YAML use the alias (`model_dump(by_alias=True)`),
    code uses the field. The sentence under a field says what it is, as `Field(description=...)`
    does.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        allow_inf_nan=True,
        str_strip_whitespace=True,
        coerce_numbers_to_str=True,
        defer_build=True,  # a command checks few of the options that it imports
    )
    removed: ClassVar[Mapping[str, Removed]] = {}
    """Options that were taken away, by their YAML names. A class has those of its bases too, except
    those that it declares again.
    """

    def identity(self) -> dict[str, Any]:
        """Return all options by their YAML names, defaults filled in, paths left out (a file enters
        a key as its digest), and `LATER` ones at default. Removed ones have their last default.
        """
        paths, later = self.path_fields(), later_defaults(type(self))
        identity: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name in paths or (name in later and value == later[name]):
                continue
            identity[field.alias or name] = (
                value.identity() if isinstance(value, BaseParams) else value
            )
        for name, option in removed_options(type(self)).items():
            if option.keyed is not LATER:
                identity.setdefault(name, option.keyed)
        return identity

    @classmethod
    def stored(cls, text: str) -> Self:
        """Return the options that a plan keeps as JSON, also one that was made when there were
        options that have been removed since: at their last defaults they are passed over.
        """
        given = json.loads(text)
        known = _without_removed(cls, given)
        return cls.model_validate_json(text if known == given else json.dumps(known))

    @classmethod
    def path_fields(cls) -> frozenset[str]:
        """Return the names of the fields that hold paths (`DataPath`, `DataPrefix`, optional)."""
        return _path_fields(cls)

    @staticmethod
    def names_of_paths(points: Iterable[BaseParams]) -> dict[str, dict[str, str]]:
        """Return field -> path -> what results call it, for the paths that are given in the points
        of one method: the name of the file, below as many folders as tell it from the field's
        others.
        """
        found: dict[str, dict[str, list[str]]] = {}
        for point in points:
            for name in sorted(point.path_fields() & point.model_fields_set):
                if isinstance(path := getattr(point, name), str):
                    found.setdefault(name, {})[path] = path.split("/")
        return {name: {path: _apart(path, of) for path in of} for name, of in found.items()}

    @classmethod
    def later(cls) -> dict[str, Any]:
        """The defaults of the `LATER` options, by their YAML names, paths left out."""
        paths, fields = cls.path_fields(), cls.model_fields
        later = later_defaults(cls).items()
        return {fields[name].alias or name: value for name, value in later if name not in paths}


class PlugIn(ABC):
    """What methods, tasks, corpora, encoders, word aligners and metrics have in common."""

    VERSION: ClassVar[int]
    papers: ClassVar[tuple[str, ...]] = ()
    """What to cite: keys of `raxalign/papers.bib`, or whole BibTeX entries. `option=text key` is
    cited where the option's value contains the text.
    """

    def __init__(self, params: BaseParams) -> None:
        self.params = params


def about(model: type[BaseModel], name: str) -> str:
    """Return the sentence on a field: its description, or else the text under it, or else what the
    nearest base says on it; empty without.
    """
    for base in model.__mro__:
        field = getattr(base, "model_fields", {}).get(name)
        if field is not None and (said := field.description or _texts_under_fields(base).get(name)):
            return str(said)
    return ""


@cache
def _texts_under_fields(model: type) -> Mapping[str, str]:
    """The texts under the fields of a class itself, each in one line, read from its source."""
    try:
        source = inspect.getsource(model)
    except (OSError, TypeError):  # it has none, as in an interpreter
        return {}
    found, written = {}, ast.parse(textwrap.dedent(source)).body[0]
    for field, below in pairwise(written.body if isinstance(written, ast.ClassDef) else ()):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            found[ast.unparse(field.target)] = " ".join(ast.literal_eval(below.value).split())
    return found


def _apart(path: str, paths: Mapping[str, list[str]]) -> str:
    """The shortest end of a path, in whole parts, that none of the other paths has."""
    own, others = paths[path], [parts for other, parts in paths.items() if other != path]
    ends = (n for n in range(1, len(own)) if all(own[-n:] != parts[-n:] for parts in others))
    return "/".join(own[-next(ends, len(own)) :])


@cache
def _path_fields(model: type[BaseParams]) -> frozenset[str]:
    marked = set()
    for name, field in model.model_fields.items():
        parts: list[Any] = [*field.metadata, field.annotation, *get_args(field.annotation)]
        nested = [entry for part in parts for entry in getattr(part, "__metadata__", ())]
        if any(isinstance(entry, PathMarker) for entry in [*parts, *nested]):
            marked.add(name)
    return frozenset(marked)


@cache
def removed_options(model: type[BaseModel]) -> Mapping[str, Removed]:
    """Return the options that a class and its bases had and the class has not, by YAML name."""
    bases = [base for base in reversed(model.__mro__) if issubclass(base, BaseParams)]
    found = {name: option for base in bases for name, option in base.removed.items()}
    return {name: option for name, option in found.items() if name not in model.model_fields}


def _without_removed(model: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a model and of those within it without removed options at their defaults."""
    gone, known = removed_options(model), dict(given)
    for name in [name for name in gone if name in given and gone[name].had(given[name])]:
        del known[name]
    for field, info in model.model_fields.items():
        name = info.alias or field
        for inner in models_in(info.annotation) if isinstance(known.get(name), dict) else ():
            known[name] = _without_removed(inner, known[name])
    return known


@cache
def later_defaults(model: type[BaseParams]) -> Mapping[str, Any]:
    """Return the defaults of the `LATER` fields, by field name."""
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in model.model_fields.items()
        if LATER in field.metadata
    }


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation names, anywhere in it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


class Parts(BaseParams):
    """Training, dev and test text as files of their own, as published splits have them; read with
    ``split: files``.

    Paths may hold ``{lang}`` and ``{pivot}``, and are completed as a single path is.
    """

    train: DataPrefix
    """Path of the training text."""
    dev: DataPrefix | None = None
    """Path of the dev text (none: there is no dev set)."""
    test: DataPrefix
    """Path of the test text."""

    def paths(self) -> dict[str, str]:
        """Return the paths by part, in the order in which the parts make up the corpus."""
        paths = {"train": self.train, "dev": self.dev, "test": self.test}
        return {name: path for name, path in paths.items() if path is not None}
