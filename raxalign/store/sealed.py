"""JSON records that know their own checksum, so that a changed byte in one is seen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_HEAD = b'{\n "sha256": "'
_BODY = len(_HEAD) + 64 + len(b'",')


def parse(data: bytes | str) -> Any:
    """Return what JSON says. Raises `ValueError` for what is not JSON, and for JSON that is nested
    more deeply than anything of this project.
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"is not JSON ({error})") from None


def seal(record: Mapping[str, Any]) -> bytes:
    """Return a JSON object with ``sha256`` before the record's own fields: the digest of the text
    as it would be without that field.
    """
    if not record or "sha256" in record:
        raise ValueError("a sealed record has fields, and none called sha256")
    body = json.dumps(record, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
    return _HEAD + hashlib.sha256(body).hexdigest().encode() + b'",' + body[1:]


def unseal(data: bytes) -> dict[str, Any]:
    """Return the record. Raises `ValueError` with what is wrong with the bytes."""
    record = parse(data)
    if not isinstance(record, dict) or "sha256" not in record:
        raise ValueError("has no checksum")
    if not data.startswith(_HEAD) or hashlib.sha256(b"{" + data[_BODY:]).hexdigest() != record.pop(
        "sha256"
    ):
        raise ValueError("was changed: it does not match its checksum")
    return record
