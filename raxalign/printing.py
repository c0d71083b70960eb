"""What may be shown on a terminal: no passwords of URIs, and no control characters of data."""

from __future__ import annotations

import re
import sys

_USER = re.compile(r"(?<=://)[^\s/@'\"]+@")
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r(?!\n)"
)


def printable(text: str) -> str:
    r"""Return a text that is safe to show.

    User names and passwords in URIs become ``***``. Control characters, which move the cursor or
    change the terminal, and marks that change the direction of writing are written as escapes;
    line ends and tabs stay.

    >>> printable("http://ann:secret@host/x \x1b[2Jgone")
    'http://***@host/x \\u001b[2Jgone'
    """
    return _CONTROL.sub(_escaped, _USER.sub("***@", text))


def to_stderr(text: str) -> None:
    """Print what is not a result."""
    sys.stderr.write(printable(text.rstrip("\n")) + "\n")


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"
