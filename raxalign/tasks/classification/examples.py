"""What an XNLI classifier is trained on: the examples of one language or of many, in pure or in
mixed languages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from raxalign.errors import DataError
from raxalign.tasks.classification.rows import LABELS, Row, Rows

CodeSwitching = Literal["none", "sentence"]


@dataclass(frozen=True)
class Part:
    """Examples whose premises share a language, and hypotheses too; `units` numbers what must stand
    in one batch (one example or two).
    """

    langs: tuple[str, str]
    premises: Sequence[Sequence[str]]
    hypotheses: Sequence[Sequence[str]]
    labels: Sequence[int]
    units: Sequence[int]


def training_parts(
    rows: Mapping[str, Rows], pivot: str, code_switching: CodeSwitching, *, whole: bool = True
) -> list[Part]:
    """The training examples of all languages, one unit an original example.

    With `sentence` switching (Pan et al. 2021, 3.3) each (p_xx, h_xx) of another language than the
    pivot becomes the two examples (p_xx, h_en) and (p_en, h_xx) of one unit, and is not used
    itself; the pivot's own stay. Rows must then be parallel to the pivot's (`whole`: all of them;
    otherwise those that have no counterpart are left out): a fault is a `DataError` with file and
    line.
    """
    parts, begin = [], 0
    for lang, of_lang in rows.items():
        if lang == pivot or code_switching == "none":
            pairs = [(row, row) for row in of_lang.rows]
            mixes = [(lang, lang)]
        else:
            pairs = counterparts(of_lang, rows[pivot], whole=whole)
            mixes = [(lang, pivot), (pivot, lang)]
        for premise_lang, hypothesis_lang in mixes:
            premises = [
                (own if premise_lang == lang else other).premise.split() for own, other in pairs
            ]
            hypotheses = [
                (own if hypothesis_lang == lang else other).hypothesis.split()
                for own, other in pairs
            ]
            labels, units = [own.label for own, _ in pairs], range(begin, begin + len(pairs))
            parts.append(Part((premise_lang, hypothesis_lang), premises, hypotheses, labels, units))
        begin += len(pairs)
    return parts


def counterparts(rows: Rows, pivot: Rows, *, whole: bool) -> list[tuple[Row, Row]]:
    """Each row with the pivot's row of the same line: their labels agree, and their ids where both
    have one.
    """
    remedy = (
        "Sentence-level code-switching needs training files that are translations of the pivot's,"
        " line by line"
    )
    by_line, pairs = {row.line: row for row in pivot.rows}, []
    if whole and len(rows) != len(pivot):
        raise DataError(
            rows.source,
            f"{len(rows)} labelled rows, but {pivot.source} has {len(pivot)}",
            remedy=remedy,
        )
    for row in rows.rows:
        other = by_line.get(row.line)
        if other is None:
            if whole:
                raise DataError(
                    rows.source,
                    f"{pivot.source} has no row in this line",
                    line=row.line,
                    remedy=remedy,
                )
            continue
        if row.label != other.label:
            told = f"the label is {LABELS[row.label]}, but {LABELS[other.label]} in {pivot.source}"
            raise DataError(rows.source, told, line=row.line, remedy=remedy)
        if row.id is not None and other.id is not None and row.id != other.id:
            raise DataError(
                rows.source,
                f"the id is {row.id}, but {other.id} in {pivot.source}",
                line=row.line,
                remedy=remedy,
            )
        pairs.append((row, other))
    if not pairs:
        raise DataError(rows.source, f"no row has a counterpart in {pivot.source}", remedy=remedy)
    return pairs
