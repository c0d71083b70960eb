"""Links made by hand, as the shared tasks publish them, in Pharaoh or NAACL format, and how good
links are by them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from raxalign.arrays import Bools, Ints
from raxalign.caveats import LeftOut
from raxalign.corpora.readers.lines import opened, read_lines
from raxalign.errors import DataError
from raxalign.lazy import np
from raxalign.pairing.links import Links

GoldFormat = Literal["pharaoh", "naacl"]
_NAACL = re.compile(
    r"(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})"
    r"(?:\s+(?:([SP])(?:\s+[\d.eE+-]+)?|[\d.eE+-]+(?:\s+([SP]))?))?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class GoldLinks:
    """The links of the annotated sentence pairs `rows` (their lines in the text, 0-based): sure
    ones, and possible ones, sure ones among them; `left_out` counts others.
    """

    path: Path
    rows: Ints
    sure: Links
    possible: Links
    left_out: LeftOut = field(default_factory=LeftOut)

    @classmethod
    def read(
        cls, path: Path, written: GoldFormat, *, first: int = 0, swap: bool = False
    ) -> GoldLinks:
        """Read links made by hand.

        `pharaoh` has one line per sentence pair, sure links as ``i-j`` and possible ones as
        ``ipj``, counted from `first`. `naacl` has one line per link, ``sentence i j [S|P]
        [confidence]``, counted from 1; links without a letter are sure, and links with position 0,
        the null word, are passed over. There only the sentence pairs that the file names are
        annotated. `swap` exchanges the sides.

        Raises `DataError` with the line of what is not a link, and for a file without any.
        """
        found = _read_naacl(path) if written == "naacl" else _read_pharaoh(path, first)
        if not len(found.possible.src):
            raise DataError(path, "has no links")
        if not swap:
            return found
        return replace(found, sure=found.sure.swapped(), possible=found.possible.swapped())

    def __len__(self) -> int:
        return len(self.rows)

    def counted(self, links: Links) -> LinkCounts:
        """Count links of the annotated sentence pairs by these."""
        return LinkCounts.of(links, self.sure, self.possible)

    def keep(self, chosen: Bools) -> GoldLinks:
        """Those of some of the annotated sentence pairs."""
        at = np.flatnonzero(chosen)
        sure, possible = self.sure.take(at), self.possible.take(at)
        return replace(self, rows=self.rows[at], sure=sure, possible=possible)

    def require_inside(self, src_lengths: Ints, tgt_lengths: Ints) -> None:
        """Raise `DataError` for a link outside its sentences, of so many words (len(self),)."""
        k = self.possible.outside(src_lengths, tgt_lengths)
        if k is None:
            return
        row, src, tgt = self.possible.rows(), self.possible.src, self.possible.tgt
        fault = (
            f"sentence pair {int(self.rows[row[k]]) + 1} has a link of word {src[k] + 1} with word"
            f" {tgt[k] + 1}, and the text has {src_lengths[row[k]]} and {tgt_lengths[row[k]]} words"
        )
        remedy = (
            "Look at which word is numbered first, which side comes first, and whether the words"
            " are those of the gold text"
        )
        raise DataError(self.path, fault, remedy=remedy)


def _read_pharaoh(path: Path, first: int) -> GoldLinks:
    try:
        links, marks = Links.read_marked(path)
    except DataError as error:
        begin = path.read_bytes()[:200].decode("utf-8-sig", "replace") if path.is_file() else ""
        if _NAACL.match(begin.lstrip()):
            fault = "has one line per link, as in NAACL format"
            raise DataError(path, fault, line=1, remedy="Read it as `naacl`") from error
        raise
    src, tgt = links.src - np.int32(first), links.tgt - np.int32(first)
    below = np.flatnonzero((src < 0) | (tgt < 0))
    if len(below):
        line = int(links.rows()[below[0]]) + 1
        fault = "a link has position 0, although words are declared to count from 1"
        raise DataError(path, fault, line=line, remedy="Count from 0 here")
    possible = Links(links.offsets, src, tgt)
    return GoldLinks(path, np.arange(len(possible)), possible.where(~marks), possible)


def _read_naacl(path: Path) -> GoldLinks:
    sure: dict[int, set[tuple[int, int]]] = {}
    possible: dict[int, set[tuple[int, int]]] = {}
    left = LeftOut()
    with opened(path) as file:
        for number, line in enumerate(read_lines(file, path), 1):
            if not line.strip():
                continue
            match = _NAACL.fullmatch(line.strip())
            if match is None or int(match[1]) == 0:
                fault = f"{line.strip()[:40]!r} is not a link in NAACL format"
                remedy = (
                    "A line is `sentence i j`, and S or P where links are sure or possible, counted"
                    " from 1; i-j is `pharaoh`"
                )
                raise DataError(path, fault, line=number, remedy=remedy)
            row, src, tgt = (int(match[k]) - 1 for k in (1, 2, 3))
            links = possible.setdefault(row, set())
            certain = sure.setdefault(row, set())
            if left.keep(src >= 0 and tgt >= 0, "of a word with the null word"):
                links.add((src, tgt))
                certain |= {(src, tgt)} if "P" not in match[0].upper() else set()
    rows = sorted(possible)
    return GoldLinks(
        path,
        np.array(rows, np.int64),
        Links.of(sure[row] for row in rows),
        Links.of(possible[row] for row in rows),
        left,
    )


@dataclass(frozen=True)
class LinkCounts:
    """Numbers of links of each sentence pair, int64 (n,): `found`, those of them that are possible
    (`right`) and sure (`right_sure`), and `sure`.
    """

    found: Ints
    right: Ints
    right_sure: Ints
    sure: Ints

    @classmethod
    def of(cls, links: Links, sure: Links, possible: Links | None = None) -> LinkCounts:
        """Count by sentence pair. Sure links count as possible ones too, whether or not `possible`
        repeats them.

        Raises `ValueError` where the three are of different numbers of sentence pairs.

        >>> found, sure, possible = (Links.of([p]) for p in ({(0, 0), (1, 1)}, {(0, 0)}, {(1, 1)}))
        >>> LinkCounts.of(found, sure, possible).scores()["alignment_error_rate"]
        0.0
        """
        found, certain = np.unique(links.codes()), np.unique(sure.codes())
        allowed = certain if possible is None else np.union1d(certain, possible.codes())
        if not len(links) == len(sure) == (len(sure) if possible is None else len(possible)):
            raise ValueError(
                "links, sure links and possible links are of different numbers of sentence pairs"
            )
        right_sure = np.intersect1d(found, certain, assume_unique=True)
        right = np.intersect1d(found, allowed, assume_unique=True)
        counted = (
            np.diff(Links.from_codes(codes, len(links)).offsets)
            for codes in (found, right, right_sure, certain)
        )
        return cls(*counted)

    @property
    def wrong(self) -> Ints:
        """The numerator of the alignment error rate, whose denominator is `found` and `sure`
        together.
        """
        return self.found + self.sure - self.right - self.right_sure

    def scores(self) -> dict[str, float]:
        """Return the scores over all sentence pairs together, from 0 to 1 (Och & Ney 2003,
        section 5): `f1`, precision against the possible links, recall of the sure ones, and error
        rate ``1 - (|A & S| + |A & P|) / (|A| + |S|)``.

        Nothing found where nothing was to be found has error rate 0.
        """
        found, right, right_sure, sure = (
            int(part.sum()) for part in (self.found, self.right, self.right_sure, self.sure)
        )
        precision = right / found if found else 1.0
        recall = right_sure / sure if sure else 1.0
        both, total = precision + recall, found + sure
        return {
            "f1": 2 * precision * recall / both if both else 0.0,
            "precision": precision,
            "recall": recall,
            "alignment_error_rate": 1 - (right_sure + right) / total if total else 0.0,
        }
