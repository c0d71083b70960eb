"""What a classifier is trained on: the examples of one language or of many, in pure or in mixed
languages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from raxalign.errors import DataError
from raxalign.running import Sentence
from raxalign.tasks.classification.examples import Example, Examples, seconds

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
        if lang == pivot or code_switching == "none":
            pairs = [(row, row) for row in examples.rows]
            mixes = [(lang, lang)]
        else:
            pairs = counterparts(examples, given[pivot], whole=whole)
            mixes = [(lang, pivot), (pivot, lang)]
        units = range(begin, begin + len(pairs))
        parts += [_part(pairs, lang, mix, units) for mix in mixes]
        begin += len(pairs)
    return parts


def _part(
    pairs: Sequence[tuple[Example, Example]], lang: str, langs: tuple[str, str], units: range
) -> Part:
    """The examples of one mix: each text is the own one where its language is `lang`, and the
    pivot's where it is not.
    """
    first, second = (0 if of_text == lang else 1 for of_text in langs)
    return Part(
        langs,
        [Sentence.of_text(pair[first].first) for pair in pairs],
        seconds([pair[second] for pair in pairs]),
        [own.label for own, _ in pairs],
        units,
    )


_REMEDY = (
    "Sentence-level code-switching needs training files that are translations of the pivot's,"
    " line by line"
)


def counterparts(
    examples: Examples, pivot: Examples, *, whole: bool
) -> list[tuple[Example, Example]]:
    """Pairs each example with the pivot's example of the same line: their labels agree, and their
    ids where both have one. Raises `DataError` with file and line.
    """
    by_line, pairs = {row.line: row for row in pivot.rows}, []
    if whole and len(examples) != len(pivot):
        told = f"{len(examples)} labelled rows, but {pivot.source} has {len(pivot)}"
        raise DataError(examples.source, told, remedy=_REMEDY)
    for row in examples.rows:
        other = by_line.get(row.line)
        if other is not None:
            _refuse_different(examples, row, other, pivot)
            pairs.append((row, other))
        elif whole:
            told = f"{pivot.source} has no row in this line"
            raise DataError(examples.source, told, line=row.line, remedy=_REMEDY)
    if not pairs:
        told = f"no row has a counterpart in {pivot.source}"
        raise DataError(examples.source, told, remedy=_REMEDY)
    return pairs


def _refuse_different(examples: Examples, row: Example, other: Example, pivot: Examples) -> None:
    """Raises `DataError` where two rows of one line are not one example."""
    told = ""
    if row.label != other.label:
        told = f"the label is {row.label}, but {other.label} in {pivot.source}"
    elif row.id is not None and other.id is not None and row.id != other.id:
        told = f"the id is {row.id}, but {other.id} in {pivot.source}"
    if told:
        raise DataError(examples.source, told, line=row.line, remedy=_REMEDY)
