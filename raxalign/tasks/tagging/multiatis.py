"""Tagged requests from MultiATIS++'s files: tab-separated, a request per line, with a header (Xu et
al. 2020).
"""

from __future__ import annotations

from pathlib import Path

from raxalign.corpora.readers.inspection import Refusals, Report, refuse
from raxalign.errors import DataError
from raxalign.tasks.tagging.rows import TAGS, Sentences, Tagged, iob2, is_tag, numbered_lines

_WORDS, _LABELS = "utterance", "slot_labels"


def is_atis(path: Path, encoding: str = "utf-8") -> bool:
    """Whether the first line of a file is a header with the columns of MultiATIS++, ``id``,
    ``utterance``, ``slot_labels`` and ``intent``.
    """
    _, first = next(numbered_lines(path, encoding), (0, ""))
    return {_WORDS, _LABELS} <= set(_names(first))


def read_atis(path: Path, encoding: str = "utf-8", report: Report = refuse) -> Sentences:
    """The requests of a file that `is_atis`: words and labels are divided by blanks, labels are O,
    B-type and I-type and come back in IOB2.

    Another number of columns than the header has, other numbers of labels than of words, other
    labels, and a file without requests are a `DataError` with file and line, which `report` raises.
    """
    refused, rows = Refusals(report), []
    lines = numbered_lines(path, encoding)
    names = _names(next(lines, (0, ""))[1])
    for number, line in lines:
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != len(names):
            refused(
                DataError(path, f"{len(cells)} columns, the header has {len(names)}", line=number)
            )
            continue
        words, tags = (
            tuple(part for part in cells[names.index(name)].split(" ") if part)
            for name in (_WORDS, _LABELS)
        )
        if len(words) != len(tags):
            remedy = f"Each word of `{_WORDS}` has one label in `{_LABELS}`, both divided by blanks"
            refused(
                DataError(
                    path, f"{len(words)} words, but {len(tags)} labels", line=number, remedy=remedy
                )
            )
        elif not words:
            refused(DataError(path, "the request is empty", line=number))
        elif wrong := [tag for tag in tags if not is_tag(tag)]:
            refused(DataError(path, f"unknown label {wrong[0]!r}", line=number, remedy=TAGS))
        else:
            rows.append(Tagged(words, iob2(tags), number))
    if not rows and not refused.count:
        raise DataError(path, "has no requests after its header")
    return Sentences(str(path), rows)


def _names(header: str) -> list[str]:
    return [name.strip().lower() for name in header.split("\t")]
