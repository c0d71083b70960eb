"""Which results a user asked for: tasks, metrics, languages and splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.errors import RaxalignError
from raxalign.plan.plan import Plan


@dataclass(frozen=True)
class Selection:
    """The tasks, metrics, languages and splits to show; an empty one stands for the usual choice:
    all tasks and languages, what is worth a table (`every`: all metrics), and dev only where there
    is no test.

    A language means its pair with the pivot as well (`de` also `de-en`).
    """

    tasks: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    langs: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    every: bool = False

    @property
    def narrows(self) -> bool:
        """Whether anything is left out that is usually shown."""
        return bool(self.tasks or self.metrics or self.langs or self.splits)

    def names(self, found: Iterable[Name], plan: Plan) -> list[Name]:
        """Return those of the names of values that are shown, in their order."""
        names = list(dict.fromkeys(found))
        tested = {task for task, _, _, split in names if split == "test"}
        return [
            (task, lang, metric, split)
            for task, lang, metric, split in names
            if self._takes((task, lang, metric, split), plan.pivot)
            and (self.every or self.splits or split == "test" or task not in tested)
            and (self.every or self.metrics or plan.measured(task, metric).role == "score")
        ]

    def rows(self, rows: Sequence[Mapping[str, Any]], pivot: str) -> list[Mapping[str, Any]]:
        """Return those result rows that were asked for: without any wish all of them."""
        names = [(row["task"], row["lang"], row["metric"], row["split"]) for row in rows]
        return [row for row, name in zip(rows, names, strict=True) if self._takes(name, pivot)]

    def cells(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return the cells with the values of the wanted tasks, metrics and splits alone; all their
        languages stay, so that means are those over all of them.
        """
        whole = replace(self, langs=())
        return [
            replace(cell, values={n: v for n, v in cell.values.items() if whole._takes(n, "")})
            for cell in cells
        ]

    def takes_lang(self, lang: str, pivot: str) -> bool:
        """Return whether a language, or a pair with the pivot, was asked for."""
        return not self.langs or lang in self.langs or lang.removesuffix(f"-{pivot}") in self.langs

    def refuse_unknown(self, rows: Sequence[Mapping[str, Any]], pivot: str) -> None:
        """Raise `RaxalignError` where no result is what was asked for, with what there is."""
        asked = {"task": self.tasks, "metric": self.metrics, "lang": self.langs}
        for column, every in {**asked, "split": self.splits}.items():
            there = dict.fromkeys(row[column] for row in rows)
            if column == "lang":
                alone = (lang.removesuffix(f"-{pivot}") for lang in there)
                there |= dict.fromkeys([*alone, *MEANS])
            for wanted in every:
                if wanted not in there:
                    near = get_close_matches(wanted, there, n=1)
                    hint = f"did you mean {near[0]}? " if near else ""
                    known = f"{hint}there are: {', '.join(there)}"
                    raise RaxalignError(f"--{column} {wanted}: no result has it; {known}")

    def _takes(self, name: Name, pivot: str) -> bool:
        task, lang, metric, split = name
        return (
            (not self.tasks or task in self.tasks)
            and (not self.metrics or metric in self.metrics)
            and self.takes_lang(lang, pivot)
            and (not self.splits or split in self.splits)
        )
