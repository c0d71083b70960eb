"""What a classifier is trained on: the examples of one language or of many, in pure or in mixed
languages.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from raxalign.errors import DataError
from raxalign.tasks.classification.examples import Example, Examples
from raxalign.tasks.classification.spooled import Texts, has_seconds

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
    units: Sequence[int]


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
        units = range(begin, begin + len(labels))
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
    firsts = [Texts(side.rows, places) for side, places in zip(sides, index, strict=True)]
    seconds = [
        Texts(side.rows, places, second=True) if has_seconds(side.rows) else None
        for side, places in zip(sides, index, strict=True)
    ]
    labels = [row.label for row in sides[0].rows]
    return firsts, seconds, labels if index[0] is None else [labels[i] for i in index[0].tolist()]


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
    by_line = {row.line: (place, row) for place, row in enumerate(pivot.rows)}
    own, others = array("q"), array("q")
    if whole and len(examples) != len(pivot):
        told = f"{len(examples)} labelled rows, but {pivot.source} has {len(pivot)}"
        raise DataError(examples.source, told, remedy=_REMEDY)
    for place, row in enumerate(examples.rows):
        found = by_line.get(row.line)
        if found is not None:
            _refuse_different(examples, row, found[1], pivot)
            own.append(place)
            others.append(found[0])
        elif whole:
            told = f"{pivot.source} has no row in this line"
            raise DataError(examples.source, told, line=row.line, remedy=_REMEDY)
    if not own:
        told = f"no row has a counterpart in {pivot.source}"
        raise DataError(examples.source, told, remedy=_REMEDY)
    return np.array(own, np.int64), np.array(others, np.int64)


def _refuse_different(examples: Examples, row: Example, other: Example, pivot: Examples) -> None:
    """Raises `DataError` where two rows of one line are not one example."""
    told = ""
    if row.label != other.label:
        told = f"the label is {row.label}, but {other.label} in {pivot.source}"
    elif row.id is not None and other.id is not None and row.id != other.id:
        told = f"the id is {row.id}, but {other.id} in {pivot.source}"
    if told:
        raise DataError(examples.source, told, line=row.line, remedy=_REMEDY)
