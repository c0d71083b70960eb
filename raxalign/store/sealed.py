"""JSON records that know their own checksum, so that a changed byte in one is seen, and that have
the one form of their kind: a type, most often a dataclass, whose fields say what may be in them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

T = TypeVar("T")
FORM = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_HEAD = b'{\n "sha256": "'
_BODY = len(_HEAD) + 64 + len(b'",')


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def recorded(form: type[T]) -> type[T]:
    """Make a class the form of a record, a frozen dataclass: nothing is converted or added when it
    is read.
    """
    return with_config(FORM)(dataclass(frozen=True)(form))


def parse(data: bytes | str, form: type[T]) -> T:
    """Return JSON as a value of a type. Raises `ValueError` for what is not JSON, is nested more
    deeply than anything of this project, or has another form.
    """
    try:
        return cast("T", _reader(cast("Any", form)).validate_json(data, strict=True))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"]))
        told = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "json_invalid":
            raise ValueError(f"is not JSON ({told})") from None
        raise ValueError(f"has another form ({place and f'{place}: '}{told})") from None


def seal(record: Mapping[str, Any]) -> bytes:
    """Return a JSON object with ``sha256`` before the record's own fields: the digest of the text
    as it would be without that field.
    """
    if not record or "sha256" in record:
        raise ValueError("a sealed record has fields, and none called sha256")
    # what no text can hold (a file name that is not UTF-8) comes back as question marks
    body = json.dumps(record, ensure_ascii=False, indent=1).encode("utf-8", "replace")
    return _HEAD + hashlib.sha256(body).hexdigest().encode() + b'",' + body[1:]


def unseal(data: bytes, form: type[T], *, bare: bool = False) -> T:
    """Return a sealed record as a value of its type. Raises `ValueError` with what is wrong with
    the bytes. A record of an earlier version may be `bare`, without a checksum; a changed byte does
    not make a sealed one bare, since no record has other fields than its own.
    """
    if not data.startswith(_HEAD):
        if bare:
            return parse(data, form)
        raise ValueError("has no checksum")
    body = b"{" + data[_BODY:]
    if hashlib.sha256(body).hexdigest().encode() + b'",' != data[len(_HEAD) : _BODY]:
        raise ValueError("was changed: it does not match its checksum")
    return parse(body, form)


@cache
def _reader(form: Any) -> TypeAdapter[Any]:
    return TypeAdapter(form)
