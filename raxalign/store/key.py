"""The only place where a key is computed: SHA-256 over canonical JSON (design: identity and
storage).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
else:  # what reads records of this type reads JSON, which has nothing else
    Json = Any
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LEAVES = frozenset({str, int, bool, type(None)})
"""The types whose values stay as they are; looked up first, since plans have millions of them."""


def canonical_json(value: Json) -> str:
    """Return one text for equal values: keys sorted, ``1.0`` written as ``1``, tuples as lists;
    what JSON has no form for raises TypeError.

    NaN and the infinities are written as Python's json writes them (bare words), which no other
    value is.
    """
    return _ENCODER.encode(_canonical(value))


def digest(value: Json) -> str:
    """Return the key of a value: 64 hexadecimal digits."""
    # surrogatepass: file names that are not UTF-8 come as lone surrogates
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def is_name(name: str) -> bool:
    """Return whether something that is stored can have this name."""
    return _NAME.fullmatch(name) is not None


def checked(name: str, what: str) -> str:
    """Return the name of something that is stored; raises `ValueError` where it cannot be one."""
    if not is_name(name):
        raise ValueError(f"{name!r} cannot name {what}")
    return name


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _canonical(value: Json) -> Json:
    if type(value) in _LEAVES or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, (dict, Mapping)):
        found = {}
        for key, entry in value.items():
            if not isinstance(key, str):
                raise TypeError(f"keys of a hashed mapping are strings: {sorted(map(repr, value))}")
            found[key] = entry if type(entry) in _LEAVES else _canonical(entry)
        return found
    if isinstance(value, (list, tuple)) or (
        isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview))
    ):
        return [entry if type(entry) in _LEAVES else _canonical(entry) for entry in value]
    raise TypeError(f"{type(value).__name__} has no canonical form: {value!r}")
