"""Lines of text, UTF-8 unless another encoding is named, read fast and checked: bad bytes are an
error with file and line.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

from raxalign.corpora.base import SentencePair
from raxalign.errors import DataError

_BLOCK = 1 << 20
_LONGEST = 1 << 26  # bytes of a line, 64 MiB: beyond that it is not text by lines
_GROWTH = 100
"""How many times its packed size a text may have; sentences have three to six times."""
_SLACK = 1 << 23  # bytes that any file may have: a small one may repeat one sentence
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_UNPACKED_BY: dict[str, Callable[[Path], object]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
_DAMAGE = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)
_XML = (b"<?xml ", b"<tmx", b"<!DOCTYPE ")
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf\x27\x1c": "7z",
}
"""The first bytes of packed files, by format."""


def plain_or_packed(path: Path) -> Path:
    """Return the file that a path names: itself, or the same with ``.gz``, ``.bz2`` or ``.xz``
    added where only that is there.
    """
    if path.exists():
        return path
    packed = (path.with_name(f"{path.name}{suffix}") for suffix in _UNPACKED_BY)
    return next((file for file in packed if file.is_file()), path)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file as a stream of bytes, unpacked where its name ends in ``.gz``, ``.bz2`` or ``.xz``,
    after its byte order mark, if it has one.

    Raises `DataError` for a file that is not there or cannot be opened, and for a packed one that
    is damaged, at whichever byte, or that grows as no text does.
    """
    if not path.is_file():
        raise DataError(path, "there is no such file")
    unpack = _UNPACKED_BY.get(path.suffix)
    try:
        stream: Any = unpack(path) if unpack else path.open("rb")
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})") from error
    with stream:
        file = io.BufferedReader(_Unpacked(stream, path)) if unpack else stream
        if file.peek(len(_BOM)).startswith(_BOM):
            file.read(len(_BOM))
        yield file


class _Unpacked(io.RawIOBase):
    """What is unpacked from a file, as long as it can be text (`refuse_growth`). It raises its
    damage itself, so that of two files that are read at once the damaged one is named.
    """

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self._stream, self._path, self._read = stream, path, 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        try:
            block = self._stream.read(len(into))
        except (*_DAMAGE, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # bz2's own have no number
                raise
            problem = f"the {self._path.suffix} file is damaged ({error})"
            raise DataError(self._path, problem, remedy="Fetch or pack it again") from error
        self._read += len(block)
        refuse_growth(self._path, self._path.stat().st_size, self._read)
        into[: len(block)] = block
        return len(block)


def refuse_growth(file: Path | str, packed: int, unpacked: int) -> None:
    """Raise `DataError` for what is so much larger than it was packed that it cannot be text."""
    if unpacked > _GROWTH * packed + _SLACK:
        sizes = f"from {packed / 1e6:,.1f} MB to {unpacked / 1e6:,.0f} MB or more"
        remedy = "Fetch it again, and look at what it holds"
        raise DataError(file, f"unpacks {sizes}, which text never does", remedy=remedy)


def count_lines(path: Path, enough: int) -> int | None:
    """Return the number of lines of a file, counted up to `enough` (about a megabyte of lines
    further); None where it cannot be read.
    """
    with suppress(OSError, DataError):
        return n_lines(path, enough)
    return None


def n_lines(path: Path, enough: int = 1 << 62) -> int:
    """Return the number of lines of a file, as `count_lines`. Raises as `opened`."""
    found, last = 0, b"\n"
    with opened(path) as stream:
        while found < enough and (block := stream.read(_BLOCK)):
            found, last = found + block.count(b"\n"), block[-1:]
    return found + (last != b"\n")


def unequal(source: Path | str, target: Path | str, counts: tuple[int, int]) -> DataError:
    """Return the fault of two parallel files that have different numbers of lines."""
    fault = f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}"
    remedy = "Parallel files have a translation on the same line, so equally many lines"
    shorter = source if counts[0] < counts[1] else target
    return DataError(shorter, fault, line=min(counts) + 1, remedy=remedy)


def read_lines(stream: IO[bytes], name: Path | str) -> Iterator[str]:
    r"""Yield the lines of a file without their ends. Only ``\n`` ends a line (one ``\r`` before it
    is dropped); NEL and U+2028 do not.

    A byte order mark is dropped. Raises `DataError` with `name` and the 1-based line for bytes that
    are not UTF-8, and for NUL bytes.
    """
    n_lines, rest = 0, b""
    while block := stream.read(_BLOCK):
        if n_lines == 0 and not rest:
            _refuse_other_files(block, name)
            block = block.removeprefix(_BOM)
        head, end, tail = block.rpartition(b"\n")
        if end:
            lines = _decode(rest + head, name, n_lines)
            yield from lines
            n_lines, rest = n_lines + len(lines), tail
            continue
        rest += block
        if len(rest) > _LONGEST:
            problem = f"the line is longer than {_LONGEST >> 20} MiB"
            remedy = "This is not a file with one sentence per line"
            raise DataError(name, problem, line=n_lines + 1, remedy=remedy)
    if rest:
        yield from _decode(rest, name, n_lines)


def read_parallel(
    source: tuple[IO[bytes], Path | str], target: tuple[IO[bytes], Path | str]
) -> Iterator[SentencePair]:
    """Pair line k of one file with line k of the other; each is a stream with its name.

    Raises `DataError` for different line counts (it names both) and where both files are empty.
    """
    sides = zip_longest(read_lines(*source), read_lines(*target))
    n = 0
    for n, (src, tgt) in enumerate(sides, 1):
        if src is None or tgt is None:
            longer = n + sum(1 for _ in sides)
            counts = (n - 1, longer) if src is None else (longer, n - 1)
            raise unequal(source[1], target[1], counts)
        yield SentencePair(n - 1, src, tgt)
    if n == 0:
        raise DataError(source[1], f"the corpus is empty: neither it nor {target[1]} has a line")


def _refuse_other_files(block: bytes, name: Path | str) -> None:
    """Raise `DataError` where a file begins as one that is not text by lines."""
    for start, kind in _PACKED.items():
        if block.startswith(start) and (kind != "bzip2" or b"1AY&SY" in block[:10]):
            raise DataError(name, f"is a packed file ({kind}), not text", remedy="Decompress it")
    if block.startswith(_UTF16):
        remedy = "Convert it, for example with iconv -f UTF-16 -t UTF-8"
        raise DataError(name, "is UTF-16, not UTF-8", line=1, remedy=remedy)
    if block.removeprefix(_BOM).lstrip().startswith(_XML):
        remedy = "Write each side to a file of its own, with one sentence per line"
        remedy += " (docs/how-to/own-text.md has a program for TMX)"
        fault = "is XML, as translation memories (TMX) are, which is not read"
        raise DataError(name, fault, line=1, remedy=remedy)


def _decode(block: bytes, name: Path | str, n_before: int) -> list[str]:
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        line = n_before + block.count(b"\n", 0, error.start) + 1
        wrong = block[error.start]
        fault = f"invalid UTF-8 (byte 0x{wrong:02x})"
        remedy = "Convert the file to UTF-8, for example with iconv -f LATIN1 -t UTF-8"
        raise DataError(name, fault, line=line, remedy=remedy) from error
    if "\0" in text:
        line = n_before + text.count("\n", 0, text.index("\0")) + 1
        remedy = "This is not plain text, or it was damaged"
        raise DataError(name, "has a NUL byte", line=line, remedy=remedy)
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines
