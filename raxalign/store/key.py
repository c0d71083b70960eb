"""The only place where a key is computed: SHA-256 over canonical JSON (design: identity and
storage).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


def canonical_json(value: Json) -> str:
    """Return one text for equal values: keys sorted, ``1.0`` written as ``1``, tuples as lists;
    what JSON has no form for raises TypeError.

    NaN and the infinities are written as Python's json writes them (bare words), which no other
    value is.
    """
    return json.dumps(_canonical(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def digest(value: Json) -> str:
    """Return the key of a value: 64 hexadecimal digits."""
    # surrogatepass: file names that are not UTF-8 come as lone surrogates
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _canonical(value: Json) -> Json:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"keys of a hashed mapping are strings: {sorted(map(repr, value))}")
        return {key: _canonical(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [_canonical(entry) for entry in value]
    raise TypeError(f"{type(value).__name__} has no canonical form: {value!r}")
