"""What a classifier is trained on: the examples of one language or of many, in pure or in mixed
languages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow.compute as pc

from raxalign.errors import DataError
from raxalign.tasks.classification.examples import Examples
from raxalign.tasks.classification.spooled import Texts, column, has_seconds, labels
from raxalign.tasks.transfer.divided_rows import ChosenTexts

CodeSwitching = Literal["none", "sentence"]


@dataclass(frozen=True)
class Part:
    """Examples whose first texts share a language, and second ones too (None where there are none);
    `units` numbers what must be in one batch (one example or two).
    """

    langs: tuple[str, str]
    firsts: Sequence[Sequence[str]]
    seconds: Sequence[Sequence[str]] | None
    labels: Sequence[str]
    units: np.ndarray


def training_parts(
    given: Mapping[str, Examples], pivot: str, code_switching: CodeSwitching, *, whole: bool = True
) -> list[Part]:
    """Collects the training examples of all languages, one unit per original example.

    With `sentence` switching (Pan et al. 2021, 3.3) each (p_xx, h_xx) of another language than the
    pivot becomes the two examples (p_xx, h_en) and (p_en, h_xx) of one unit, and is not used
    itself; the pivot's own stay.

    Args:
        given: language -> training examples; where languages are mixed, parallel to the pivot's.
        pivot: the language that others are mixed with.
        code_switching: whether languages are mixed.
        whole: whether every example needs a counterpart in the pivot; otherwise those without one
            are left out.

    Returns:
        the parts, language by language.

    Raises:
        DataError: examples are not parallel; it names file and line.
    """
    parts, begin = [], 0
    for lang, examples in given.items():
        index: tuple[np.ndarray | None, np.ndarray | None] = (None, None)
        sides, mixes = (examples, examples), [(lang, lang)]
        if lang != pivot and code_switching != "none":
            index = counterparts(examples, given[pivot], whole=whole)
            sides, mixes = (examples, given[pivot]), [(lang, pivot), (pivot, lang)]
        firsts, seconds, labels = _columns(sides, index)
        units = np.arange(begin, begin + len(labels))
        for mix in mixes:  # each text is the own one where its language is `lang`, else the pivot's
            first, second = (0 if of_text == lang else 1 for of_text in mix)
            parts.append(Part(mix, firsts[first], seconds[second], labels, units))
        begin += len(labels)
    return parts


def _columns(
    sides: tuple[Examples, Examples], index: tuple[np.ndarray | None, np.ndarray | None]
) -> tuple[list[Texts], list[Texts | None], list[str]]:
    """The first and the second texts of some examples and of their counterparts, and the labels of
    these examples.
    """
    firsts, seconds = [], list[Texts | None]()
    for side, places in zip(sides, index, strict=True):
        first, second = _texts(side, places)
        firsts.append(first)
        seconds.append(second)
    found = labels(sides[0].rows)
    return firsts, seconds, found if index[0] is None else [found[i] for i in index[0].tolist()]


def _texts(side: Examples, places: np.ndarray | None) -> tuple[Texts, Texts | None]:
    """The first and the second texts (None: there are none) of some examples, with their pieces
    where these were made before.
    """
    made = side.divided
    if made is None:
        second = Texts(side.rows, places, second=True) if has_seconds(side.rows) else None
        return Texts(side.rows, places), second
    first = Texts(side.rows, places, divided=ChosenTexts(made.firsts, places))
    if made.seconds is None:
        return first, None
    others = ChosenTexts(made.seconds, places)
    return first, Texts(side.rows, places, second=True, divided=others)


_REMEDY = (
    "Sentence-level code-switching needs training files that are translations of the pivot's,"
    " line by line"
)


def counterparts(
    examples: Examples, pivot: Examples, *, whole: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of examples, and those of the pivot's examples of the same lines: their
    labels agree, and their ids where both have one. Raises `DataError` with file and line.
    """
    if whole and len(examples) != len(pivot):
        told = f"{len(examples)} labelled rows, but {pivot.source} has {len(pivot)}"
        raise DataError(examples.source, told, remedy=_REMEDY)
    lines, others = (column(side.rows, "line").to_numpy() for side in (examples, pivot))
    order = np.argsort(others, kind="stable")
    at = np.searchsorted(others[order], lines, side="right") - 1
    there = (at >= 0) & (others[order][at] == lines)
    own, theirs = np.flatnonzero(there), order[at[there]]
    missing = len(lines) if not whole or there.all() else int(np.argmin(there))
    _refuse_different((examples, own), (pivot, theirs), missing)
    if missing < len(lines):
        told = f"{pivot.source} has no row in this line"
        raise DataError(examples.source, told, line=int(lines[missing]), remedy=_REMEDY)
    if not len(own):
        told = f"no row has a counterpart in {pivot.source}"
        raise DataError(examples.source, told, remedy=_REMEDY)
    return own, theirs


def _refuse_different(
    own: tuple[Examples, np.ndarray], others: tuple[Examples, np.ndarray], upto: int
) -> None:
    """Raises `DataError` where two rows of one line are not one example; only rows before `upto`
    count. The arrays are the places of the rows.
    """
    (examples, places), (pivot, _) = own, others
    found: list[tuple[int, str]] = []
    for name, told in (
        ("label", "the label is {}, but {} in {}"),
        ("id", "the id is {}, but {} in {}"),
    ):
        mine, other = (column(side.rows, name).take(chosen) for side, chosen in (own, others))
        differs = pc.fill_null(pc.not_equal(mine, other), False).to_numpy()
        if differs.any():
            i = int(np.argmax(differs))
            values = (mine[i].as_py(), other[i].as_py(), pivot.source)
            found.append((int(places[i]), told.format(*values)))
    if found:
        place, told = min(found, key=lambda entry: entry[0])
        if place < upto:
            line = int(column(examples.rows, "line")[place].as_py())
            raise DataError(examples.source, told, line=line, remedy=_REMEDY)
