"""Tagged requests from MultiATIS++'s files: tab-separated, a request per line, with a header (Xu et
al. 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from raxalign.corpora.readers.inspection import Refusals, Report, refuse
from raxalign.errors import DataError
from raxalign.tasks.tagging.columns import numbered_lines
from raxalign.tasks.tagging.scheme import ENTITIES, TagScheme
from raxalign.tasks.tagging.sentences import Sentences, Tagged


def is_atis(path: Path, encoding: str = "utf-8", scheme: TagScheme = ENTITIES) -> bool:
    """Whether the first line of a file is a header that names the columns of words and tags, as
    MultiATIS++ has it: ``id``, ``utterance``, ``slot_labels`` and ``intent``.
    """
    _, first = next(numbered_lines(path, encoding), (0, ""))
    return {*_header(scheme)} <= set(_names(first))


def read_atis(
    path: Path, encoding: str = "utf-8", report: Report = refuse, scheme: TagScheme = ENTITIES
) -> Sentences:
    """Reads a file that `is_atis`: one request per line, words and labels divided by blanks.

    Args:
        path: the file.
        encoding: its encoding, in which a byte of ASCII is itself.
        report: gets the faults of lines, with file and line; by default it raises them.
        scheme: the names of the columns, and the tags that there are.

    Returns:
        the requests without faults, entities in IOB2, and how many were left out.

    Raises:
        DataError: the file is missing, or has no requests.
    """
    refused, rows, left_out = Refusals(report), list[Tagged](), 0
    lines = numbered_lines(path, encoding)
    names = _names(next(lines, (0, ""))[1])
    for number, line in lines:
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != len(names):
            told = f"{len(cells)} columns, the header has {len(names)}"
            refused(DataError(path, told, line=number))
            continue
        words, tags = (_divided(cells[names.index(name)]) for name in _header(scheme))
        if len(words) != len(tags) and scheme.mismatched == "drop":
            left_out += 1
        elif fault := _fault(words, tags, scheme):
            told, remedy = fault
            refused(DataError(path, told, line=number, remedy=remedy))
        else:
            rows.append(Tagged(words, scheme.final(tags), number))
    if not rows and not refused.count:
        raise DataError(path, "has no requests after its header")
    return Sentences(str(path), rows, left_out)


def _fault(words: Sequence[str], tags: Sequence[str], scheme: TagScheme) -> tuple[str, str] | None:
    """What is wrong with a request, and the remedy; None for a good one."""
    if len(words) != len(tags):
        told = f"{len(words)} words, but {len(tags)} labels"
        remedy = "Each word of `{}` has one label in `{}`, both divided by blanks".format(
            *scheme.columns.header
        )
        return told, f"{remedy}; `mismatched: drop` leaves such rows out"
    if not words:
        return "the request is empty", ""
    wrong = next((tag for tag in tags if not scheme.knows(tag)), None)
    return None if wrong is None else (f"unknown label {wrong!r}", scheme.known())


def _divided(cell: str) -> tuple[str, ...]:
    return tuple(part for part in cell.split(" ") if part)


def _header(scheme: TagScheme) -> list[str]:
    return [name.lower() for name in scheme.columns.header]


def _names(header: str) -> list[str]:
    return [name.strip().lower() for name in header.split("\t")]
