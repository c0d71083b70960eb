"""What may be shown on a terminal: no passwords of URIs, and no control characters of data. What
cannot be shown ends no work.
"""

from __future__ import annotations

import io
import os
import re
import select
import sys
from contextlib import suppress
from typing import Any, TextIO

_BEFORE_AT = re.compile(r"(?<![^\s@'\"])[^\s@'\"]++@")
"""Only its beginning is where a match may begin: long texts take no more time than their length."""
_USER = re.compile(r"(?<=://)(?:[^/]+|[^/:]*:(?!\d+/).+)@$")
"""Secrets may have a slash; what a port is before is a path."""
_TOKEN = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}|([Bb]earer |[?&][\w.;-]{0,40}"
    r"(?i:token|secret|passw(?:or)?d|sig(?:nature)?|(?:api|access)[_-]?key)=)[^\s&#'\"<>]+"
)
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
    return _CONTROL.sub(_escaped, masked(text))


def masked(text: str) -> str:
    """Return a text that may leave this machine: without what lets its readers in somewhere."""
    hidden = _BEFORE_AT.sub(lambda found: _USER.sub("***@", found.group()), text)
    return _TOKEN.sub(r"\1***", hidden)


def counted(count: int, noun: str) -> str:
    """Return a number with what it counts.

    >>> counted(1, "trial"), counted(2_000, "trial")
    ('1 trial', '2,000 trials')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def are(count: int) -> str:
    """Return the verb that so many things have."""
    return "is" if count == 1 else "are"


def with_article(noun: str) -> str:
    """Return a noun, or the name of a class, with its indefinite article.

    >>> with_article("AlignedEncoder"), with_article("method")
    ('an AlignedEncoder', 'a method')
    """
    return f"{'an' if noun[0] in 'AEIOaeio' else 'a'} {noun}"


class _Lasting(io.FileIO):
    """A file that never fails: what it cannot write is dropped, and the last reason is `lost`."""

    lost: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write, or drop."""
        try:
            while (written := super().write(data)) is None:  # it is full, and does not block
                select.select((), (self,), ())
        except OSError as error:
            self.lost, written = error, memoryview(data).nbytes
        return written


def lasting(stream: TextIO) -> TextIO:
    """Return what writes to where a standard stream does, and outlives its reader, its terminal and
    the room on its disk; signs that its encoding lacks become escapes. A notebook's own stream, or
    a test's, stays what it is.
    """
    with suppress(OSError, AttributeError):
        if (number := stream.fileno()) in (1, 2):
            file = io.BufferedWriter(_Lasting(number, "w", closefd=False))
            # an unbuffered stream (PYTHONUNBUFFERED) does not call itself line-buffered
            lines = number == 2 or bool(stream.line_buffering or stream.write_through)  # type: ignore[attr-defined]
            return io.TextIOWrapper(file, stream.encoding, "backslashreplace", line_buffering=lines)
    return stream


def why_lost(stream: TextIO) -> OSError | None:
    """Return why something was dropped of what a lasting stream was to write."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw.lost if isinstance(raw, _Lasting) else None


def to_stderr(text: str) -> None:
    """Print what is not a result."""
    with suppress(OSError):  # of the stream of who uses the package as functions
        sys.stderr.write(printable(text.rstrip("\n")) + "\n")


def past_buffer(text: str) -> None:
    """Print what a signal has to say, which may come in the middle of another line's way to the
    stream: what is added to its buffer there is lost.
    """
    try:
        number = sys.stderr.fileno()
    except (OSError, ValueError):  # a notebook's stream, or a test's
        to_stderr(text)
        return
    with suppress(OSError):
        os.write(number, f"{printable(text)}\n".encode())


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"
