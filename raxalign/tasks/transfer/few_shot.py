"""Few examples of the target languages, and averages of weights: the options, what they refuse,
and the metrics that they add.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from raxalign.config.params import SEVERAL
from raxalign.errors import DataError
from raxalign.measured import Measured
from raxalign.tasks.transfer.rows import TaskRows

SHOT_OPTIONS = ("shots", "draws", "shot_epochs", "shot_learning_rate")
"""What evaluations read and the training on the pivot does not."""
PAPERS = (
    *("shots=, lauscher2020", "shots=, zhao2021shots"),  # a comma: there are more than 0
    *("average=last schmidt2023", "average=runs schmidt2023", "average=runs wortsman2022"),
)
_NAME = "shots{k}_"


def _ascending(shots: tuple[int, ...]) -> tuple[int, ...]:
    twice = [n for n in shots if shots.count(n) > 1]
    if twice:
        raise ValueError(f"{twice[0]} is there twice; write each number once")
    return tuple(sorted({0, *shots}))


Shots = Annotated[tuple[Annotated[int, Field(ge=0)], ...], SEVERAL, AfterValidator(_ascending)]


@dataclass(frozen=True)
class Average:
    """What weights are a mean of: the last epochs of a training, of several runs of it."""

    last: int = 1
    runs: int = 1

    @classmethod
    def of(cls, text: str | None) -> Average:
        """Read `last 3`, `runs 3` or `last 3 runs 3`. Raises `ValueError` for any other text.

        >>> Average.of("last 3 runs 2"), Average.of(None)
        (Average(last=3, runs=2), Average(last=1, runs=1))
        """
        if text is None:
            return cls()
        found = re.fullmatch(r"(?:last (\d+))? ?(?:runs (\d+))?", " ".join(text.split()))
        last, runs = (int(part or 1) for part in found.groups()) if found else (0, 0)
        if found is None or (last, runs) == (1, 1) or 0 in (last, runs):
            raise ValueError(f"{text!r}: write `last 3`, `runs 3` or `last 3 runs 3`")
        return cls(last, runs)


def _in_one_form(text: str) -> str:
    return " ".join(f"{name} {n}" for name, n in vars(Average.of(text)).items() if n > 1)


Averaged = Annotated[str, AfterValidator(_in_one_form)]


def faults_of(options: Any, *, tunes: bool) -> list[str]:
    """Return what is wrong with the options of a task, every default filled in; `tunes` says
    whether it fine-tunes an encoder.
    """
    found, average = list[str](), Average.of(options.average)
    if average != Average() and options.selection != "last":
        found.append(
            f"average: a mean of the last weights leaves nothing to `selection:"
            f" {options.selection}`; write `selection: last`"
        )
    if average.last > options.epochs:
        found.append(
            f"average: last {average.last} is more than the {options.epochs} epochs of the"
            " training; ask for fewer, or for more `epochs`"
        )
    if average.runs > 1 and not tunes:
        found.append(
            "average: runs are averaged where an encoder is fine-tuned, and a BiLSTM begins at"
            " random; write `tagger: linear`, or `average: last N`"
        )
    most = options.shots[-1]
    return [*found, *(_shot_faults(options, most) if most else ())]


def _shot_faults(options: Any, most: int) -> list[str]:
    found, setting = list[str](), getattr(options, "setting", "zero-shot")
    if setting != "zero-shot":
        found.append(f"shots: need `setting: zero-shot`, not {setting}; leave one of them out")
    if options.selection not in ("pivot-dev", "last"):
        found.append(
            f"shots: `selection: {options.selection}` reads whole development sets of the target"
            " languages, which is more than few examples; write `selection: pivot-dev` or `last`"
        )
    limits = {"max_train": options.max_train}
    if options.data == "phrasebook":
        limits["phrasebook.train"] = options.phrasebook.train
    return found + [
        f"shots: {most} is more than the {rows} training rows of a language; ask for fewer shots,"
        f" or raise `{name}`"
        for name, rows in limits.items()
        if rows is not None and most > rows
    ]


def refuse_too_few(rows: TaskRows[Any], usable: int, shots: int) -> None:
    """Raise `DataError` where fewer training rows of a language can be drawn than are asked for."""
    if usable < shots:
        less = " with labels that the pivot has too" if usable < len(rows) else ""
        told = f"has {usable} {rows.noun}{less}, fewer than `shots: {shots}`"
        remedy = "Ask for fewer shots, or name a training file with more"
        raise DataError(rows.source, told, remedy=remedy)


def with_shots(metrics: Sequence[Measured], main: str) -> tuple[Measured, ...]:
    """Return metrics of a model as it is, and the same ones after few examples; of these the main
    one is worth a table.
    """
    own = [entry for entry in metrics if not entry.name.startswith(_NAME)]
    few = [
        replace(
            entry,
            name=f"{_NAME}{entry.name}",
            about=f"Further trained on k examples: {entry.about[0].lower()}{entry.about[1:]}",
            role="score" if entry.name == main else "part",
        )
        for entry in own
    ]
    return (*own, *few)
