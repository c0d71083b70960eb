"""The numbered lines of tagged files, in the encoding that they are given in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from raxalign.corpora.readers.lines import read_lines
from raxalign.errors import DataError


def numbered_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Yields (1-based line, its text). Raises `DataError` for a file that is missing, and with the
    line for bytes that are not of the encoding.
    """
    if not path.is_file():
        raise DataError(path, "there is no such file")
    if encoding != "utf-8":
        _refuse_utf8(path, encoding)
    remedy = (
        "Set `encoding` to that of the file, for example latin-1"
        if encoding == "utf-8"
        else "Set `encoding` to that of the file"
    )
    with path.open("rb") as file:
        yield from enumerate(read_lines(file, path, encoding=encoding, remedy=remedy), 1)


def _refuse_utf8(path: Path, encoding: str) -> None:
    """Refuses text that is UTF-8, which nearly every encoding of single bytes would silently turn
    into other letters.
    """
    content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return
    if not text.isascii():
        line = next(i for i, part in enumerate(content.split(b"\n"), 1) if not part.isascii())
        remedy = (
            "Leave `encoding` out; two tasks, each with its `languages`, may read files of two"
            " encodings"
        )
        raise DataError(path, f"is UTF-8, not {encoding}", line=line, remedy=remedy)
