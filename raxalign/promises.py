"""What the base classes of plug-ins promise of them, and whether a class from outside keeps it."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, wraps
from importlib import import_module
from itertools import repeat
from numbers import Integral, Real
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from raxalign.errors import DataError
from raxalign.printing import with_article

_REMEDY = "Its base class documents it"
_Json = type("value that JSON can hold", (), {})
_AS_GOOD: dict[Any, Any] = {float: Real, int: Integral, bool: Integral, Iterator: Iterable}
_AS_GOOD |= dict.fromkeys((tuple, list, set, frozenset, Sequence, Collection), Collection)
_AS_GOOD[Any] = object
"""What else a value may be of: numbers of NumPy, collections of another sort; for Any, anything."""


def broken_promise(plugin: Any) -> tuple[str, str, int | None] | None:
    """Return what a class from outside declares otherwise than the classes of the package above it
    promise (an option, the type of an attribute, or what a function takes), what to do, and the
    line where it is known; None where it keeps all. What its functions return is looked at from now
    on: they raise `DataError` with their file and line for something else.
    """
    if option := _unfit_option(getattr(plugin, "Params", None)):
        return *option, None
    ours = [part for part in plugin.__mro__ if part.__module__.startswith("raxalign.")]
    theirs = {name for part in plugin.__mro__ if part not in ours for name in vars(part)}
    for name in sorted(name for name in theirs if not name.startswith("_")):
        own, problem = inspect.getattr_static(plugin, name), ""
        function = next((f for part in ours if inspect.isfunction(f := vars(part).get(name))), None)
        above = next((part for part in ours if name in inspect.get_annotations(part)), None)
        if function is not None:
            bound = isinstance(own, staticmethod | classmethod)
            problem = _uncallable(getattr(plugin, name), function, bound=bound)
            setattr(plugin, name, _looked_at(own, function))
        elif above is not None and not hasattr(own, "__get__"):
            promised = _type_of(inspect.get_annotations(above)[name], above.__module__)
            problem = _misfit(own, promised, f"{plugin.__name__}.{name} is")
        if problem:
            return problem, _REMEDY, getattr(getattr(own, "__code__", None), "co_firstlineno", None)
    return None


def _unfit_option(options: Any) -> tuple[str, str] | None:
    """Return that an option cannot be one, and what to do; None where all can."""
    for name, field in getattr(options, "model_fields", {}).items():
        told = f"the default of the option {name} is"
        if Path in (field.annotation, *get_args(field.annotation)):
            remedy = "Declare it as DataPath: it is then relative to the grid file"
            return f"the option {name} is a Path", remedy
        if not field.is_required() and (
            problem := _misfit(field.get_default(call_default_factory=True), field.annotation, told)
        ):
            return problem, "Give it a default of its type"
    return None


def _uncallable(own: Any, function: Any, *, bound: bool) -> str:
    """Return why a function cannot be called as that of its base class; nothing where it can."""
    if not callable(own):
        return f"{function.__name__} is {own!r}, not a function"
    entries = [*inspect.signature(function).parameters.values()][bound:]
    needed = [entry for entry in entries if entry.default is entry.empty]
    named = {entry.name: None for entry in needed if entry.kind is entry.KEYWORD_ONLY}
    taken = inspect.signature(own)
    try:
        taken.bind(*needed[len(named) :], **named)
    except TypeError:
        names = ", ".join(entry.name for entry in entries)
        return f"{function.__name__} takes {taken}, not ({names})"
    return ""


def _looked_at(own: Any, function: Any) -> Any:
    """Return a function of a plug-in that raises `DataError` where it returns something else than
    that of its base class, or would end the program.
    """
    code = getattr(inspect.unwrap(getattr(own, "__func__", own)), "__code__", function.__code__)

    def refuse(problem: str, remedy: str = _REMEDY) -> NoReturn:
        line, told = code.co_firstlineno, f"{function.__name__} {problem}"
        raise DataError(code.co_filename, told, line=line, remedy=remedy)

    def checked(found: Any, promised: Any, did: str) -> Any:
        if problem := _misfit(found, promised, did):
            refuse(problem)
        return found

    @wraps(getattr(own, "__func__", own))
    def looked_at(self: Any, *given: Any, **named: Any) -> Any:
        try:
            found = own.__get__(self, type(self))(*given, **named)
        except SystemExit as error:
            refuse(f"raised SystemExit: {error}", "It may end no program: raise another exception")
        promised = _type_of(function.__annotations__.get("return", "object"), function.__module__)
        checked(found, promised, "returned")
        if get_origin(promised) is not Iterator:
            return found
        (kind,) = get_args(promised)
        return (checked(entry, kind, "gave") for entry in found)

    return looked_at


def _misfit(value: Any, promised: Any, told: str, at: str = "") -> str:
    """Return that a value, or something within it, is not of its type; nothing where all is."""
    kind, inner, found = get_origin(promised) or promised, get_args(promised), list[str]()
    wanted, sort = _AS_GOOD.get(kind, kind), with_article(type(value).__name__)
    if kind in (Union, UnionType):
        found = [_misfit(value, one, told, at) for one in inner]
        fits = not all(found)
    elif isinstance(wanted, type):
        text = wanted is Collection and isinstance(value, str | bytes)
        fits = isinstance(value, wanted) and not text
    else:
        fits = kind is not Literal or value in inner
    if fits:
        told, parts = told if at else f"{told} {sort}, whose", _parts(value, kind, inner)
        return next(filter(None, (_misfit(v, one, told, at + name) for name, v, one in parts)), "")
    shown = f"{value!r:.60}" if value is None or isinstance(value, str | int | float) else sort
    here = f"{told} {at} is {shown}" if at else f"{told} {shown}"
    name = re.sub(r"(\w+\.)+", "", str(promised)) if inner else promised.__name__
    within = (one for one in found if not one.startswith(here))
    return next(within, f"{here}, not {with_article(name)}")


@cache
def _type_of(text: Any, module: str) -> Any:
    """Return the type of an annotation in a module of the package, also where it has names that are
    imported for type checkers alone or within functions; `Any` where it has one that is not there.
    """
    if str(text).startswith("ClassVar"):
        text = str(text).removeprefix("ClassVar").removeprefix("[").removesuffix("]") or "object"
    holder: Any = SimpleNamespace(__annotations__={"it": text})
    known = dict(vars(sys.modules[module]))
    while True:
        try:
            return get_type_hints(holder, known)["it"]
        except NameError as error:
            if (found := _imported_later(module, str(error.name))) is None:
                return Any
            known[str(error.name)] = found
        except TypeError:  # such a name in quotes, `| None`
            return Any


def _imported_later(module: str, name: str) -> Any:
    """Return what a module imports under a name for type checkers alone, or within functions; None
    where it does not.
    """
    for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return getattr(import_module(str(node.module)), name, None)
    return None


def _parts(value: Any, kind: Any, inner: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the place, the value and the type of each thing within a value. What a mapping to any
    objects holds is written as JSON.
    """
    if inspect.isclass(kind) and issubclass(kind, Mapping) and inner:
        for key, one in value.items():
            of = inner[1]
            if of in (Any, object):
                try:
                    json.dumps(one)
                except (TypeError, ValueError):
                    of = _Json  # which no value is
            yield f"[{key!r}]", one, of
    elif _AS_GOOD.get(kind) is Collection and inner:
        types = inner if kind is tuple and ... not in inner else repeat(inner[0])
        yield from ((f"[{n}]", *pair) for n, pair in enumerate(zip(value, types, strict=False)))
    elif is_dataclass(kind) or hasattr(kind, "_fields"):
        for name, text in inspect.get_annotations(kind).items():
            if not str(text).startswith("ClassVar"):  # else a constant of its own class never ends
                yield f".{name}", getattr(value, name), _type_of(text, kind.__module__)
