"""From stored results to answers: each question as a contrast with its interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from findings.claims import CLAIMS, Claim, Pick, Question
from raxalign.analysis.cells import Cell, Name, cells
from raxalign.analysis.runs import Runs
from raxalign.analysis.significance import LEVEL, Contrast, contrast, holm
from raxalign.plan.load import Opened
from raxalign.plan.predictions import Predictions
from raxalign.plan.results import rows
from raxalign.store.ledger import Ledger


@dataclass(frozen=True)
class Answer:
    """A question with its contrast; `p_adjusted` is Holm's over all questions of the page. The
    contrast is None where results are missing.
    """

    question: Question
    contrast: Contrast | None
    p_adjusted: float | None = None

    @property
    def verdict(self) -> str:
        """Return held, refuted, cannot tell, or not run."""
        if self.contrast is None:
            return "not run"
        if self.p_adjusted is None or self.p_adjusted >= LEVEL:
            return "cannot tell"
        return "held" if self.contrast.value > 0 else "refuted"


def answer(opened: Mapping[str, Opened]) -> list[tuple[Claim, list[Answer]]]:
    """Return the answers to every claim, from the results that the ledgers of the grids have."""
    readers = {name: _Reader(grid) for name, grid in opened.items()}
    asked = [(n, claim, q) for n, claim in enumerate(CLAIMS) for q in claim.questions]
    found = [readers[claim.grid].contrast(question) for _, claim, question in asked]
    tested = [entry.p for entry in found if entry is not None and entry.p is not None]
    adjusted = iter(holm(tested))
    answers: list[list[Answer]] = [[] for _ in CLAIMS]
    for (number, _, question), entry in zip(asked, found, strict=True):
        p = next(adjusted) if entry is not None and entry.p is not None else None
        answers[number].append(Answer(question, entry, p))
    return list(zip(CLAIMS, answers, strict=True))


def verdict(answers: list[Answer]) -> str:
    """Return the verdict on a claim from those on its questions."""
    verdicts = {entry.verdict for entry in answers}
    for one in ("not run", "refuted", "cannot tell"):
        if one in verdicts:
            return one
    return "held"


class _Reader:
    """The cells of one grid, and the runs behind their values."""

    def __init__(self, opened: Opened) -> None:
        ledger = Ledger(opened.root)
        self._cells = cells(rows(opened.plan, ledger), opened.plan.pivot)
        self._predictions = Predictions(opened.plan, ledger)

    def contrast(self, question: Question) -> Contrast | None:
        """Return the contrast of a question, or None where a value is missing."""
        found = [
            (weight, self._runs(pick, (question.task, pick.lang, question.metric, "test")))
            for weight, pick in question.parts
        ]
        given = [(weight, runs) for weight, runs in found if runs is not None]
        return contrast(given) if len(given) == len(found) else None

    def _runs(self, pick: Pick, name: Name) -> Runs | None:
        cell = next((cell for cell in self._cells if _is(cell, pick)), None)
        if cell is None or name not in cell.values:
            return None
        return self._predictions.runs(cell, [name]).get(name)


def _is(cell: Cell, pick: Pick) -> bool:
    return (
        cell.method == pick.method
        and (pick.sentences is None or cell.sentences in (None, pick.sentences))
        and all(cell.params.get(name) == value for name, value in pick.params.items())
    )
