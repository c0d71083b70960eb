"""Whether a value is of the type that an annotation of the package promises, and if not, where."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from itertools import repeat
from numbers import Integral, Real
from types import SimpleNamespace, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from raxalign.printing import with_article

_AS_GOOD: dict[Any, Any] = {float: Real, int: Integral, bool: Integral, Iterator: Iterable}
_AS_GOOD |= dict.fromkeys((tuple, list, set, frozenset, Sequence, Collection), Collection)
"""What else a value may be of: numbers of NumPy, and collections of another sort."""


def misfit(value: Any, promised: Any, told: str, at: str = "") -> str:
    """Return that a value, or something within it, is not of its type; nothing where all is.

    >>> misfit({"size": "large"}, Mapping[str, int], "needs returned")
    "needs returned a dict, whose ['size'] is 'large', not an int"
    """
    if promised is Any:
        return ""
    kind, inner, found = get_origin(promised) or promised, get_args(promised), list[str]()
    wanted, sort = _AS_GOOD.get(kind, kind), with_article(type(value).__name__)
    if kind in (Union, UnionType):
        found = [misfit(value, one, told, at) for one in inner]
        fits = not all(found)
    elif isinstance(wanted, type):
        text = wanted is Collection and isinstance(value, str | bytes)
        fits = isinstance(value, wanted) and not text
    else:
        fits = kind is not Literal or value in inner
    if fits:
        told, parts = told if at else f"{told} {sort}, whose", _parts(value, kind, inner)
        return next(filter(None, (misfit(v, one, told, at + name) for name, v, one in parts)), "")
    shown = f"{value!r:.60}" if value is None or isinstance(value, str | int | float) else sort
    here = f"{told} {at} is {shown}" if at else f"{told} {shown}"
    name = re.sub(r"(\w+\.)+", "", str(promised)) if inner else promised.__name__
    within = (one for one in found if not one.startswith(here))
    return next(within, f"{here}, not {with_article(name)}")


@cache
def type_of(text: Any, module: str) -> Any:
    """Return the type of an annotation in a module of the package; `Any` where it has a name that
    type checkers alone know.
    """
    if str(text).startswith("ClassVar"):
        text = str(text).removeprefix("ClassVar").removeprefix("[").removesuffix("]") or "object"
    holder: Any = SimpleNamespace(__annotations__={"it": text})
    try:
        return get_type_hints(holder, vars(sys.modules[module]))["it"]
    except NameError:
        return Any


def _parts(value: Any, kind: Any, inner: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the place, the value and the type of each thing within a value. What a mapping to any
    objects holds is written as JSON.
    """
    if kind in (Union, UnionType):
        return
    if isinstance(value, Mapping) and len(inner) == 2:
        of = _Json if inner[1] in (Any, object) else inner[1]
        yield from ((f"[{key!r}]", one, of) for key, one in value.items())
    elif _AS_GOOD.get(kind) is Collection and inner:
        types = inner if kind is tuple and ... not in inner else repeat(inner[0])
        yield from ((f"[{n}]", *pair) for n, pair in enumerate(zip(value, types, strict=False)))
    elif is_dataclass(kind) or hasattr(kind, "_fields"):
        for name, text in inspect.get_annotations(kind).items():
            if not str(text).startswith("ClassVar"):  # else a constant of its own class never ends
                yield f".{name}", getattr(value, name), type_of(text, kind.__module__)


class _Written(type):
    def __instancecheck__(cls, value: object) -> bool:
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            return False
        return True


_Json = _Written("value that JSON can hold", (), {})
