"""From stored results to answers: each question as a contrast with its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from findings.claims import CLAIMS, LOOKS
from findings.questions import Claim, Pick, Question
from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.analysis.power import Design
from raxalign.analysis.significance import (
    LEVEL,
    ContrastTest,
    Runs,
    at_look,
    holm,
    lies_within,
    union,
)
from raxalign.grid.estimates import Times
from raxalign.grid.load import Opened
from raxalign.grid.specs import Spec
from raxalign.grid.stage import Stage
from raxalign.values.predictions import Predictions
from raxalign.values.results import rows

OTHER = "measured by another quantity"
"""What is printed in place of a verdict where the paper measured something else."""
MARGIN = 0.01
"""The smallest difference that matters: one point."""
NONE_ABOVE = "no difference above 1"


@dataclass(frozen=True)
class Answer:
    """A question with its contrast; `p_adjusted` is Holm's over all questions of the page. The
    contrast is None where results are missing.
    """

    question: Question
    contrast: ContrastTest | None
    p_adjusted: float | None = None

    @property
    def sign(self) -> str:
        """Return held, refuted, no difference above 1, cannot tell, or not run."""
        found = self.contrast
        if found is None:
            return "not run"
        if self.p_adjusted is None or self.p_adjusted >= LEVEL:
            return NONE_ABOVE if lies_within(found.low, found.high, MARGIN) else "cannot tell"
        return "held" if found.value > 0 else "refuted"

    @property
    def detectable(self) -> float | None:
        """The minimum detectable effect; None where the variances are not known, or fewer than five
        runs show too little of them.
        """
        spread = self.contrast.spread if self.contrast is not None else None
        return None if spread is None else Design.detectable(spread)

    @property
    def more_runs(self) -> int | None:
        """How many more runs of each trained value find a difference of `MARGIN`; None where no
        number does, or where `detectable` is None.
        """
        spread = self.contrast.spread if self.contrast and self.detectable is not None else None
        needed = None if spread is None else Design.runs_for(spread, MARGIN, measured=True)
        there = max((side.runs for side in spread.trained), default=1) if spread else 0
        return None if needed is None else max(0, needed - there)


@dataclass(frozen=True)
class Answered:
    """A claim with its answers, and the seconds that all stages and evaluations took that these
    rest on (None: not known).
    """

    claim: Claim
    answers: tuple[Answer, ...]
    seconds: float | None = None

    def verdict_of(self, answer: Answer) -> str:
        """Return what an answer says about the claim: nothing where it is about another quantity
        than the paper's.
        """
        return answer.sign if self.claim.decided_by(answer.question) else OTHER

    @property
    def verdict(self) -> str:
        """Return the verdict on the claim, from the answers about the paper's own quantity."""
        verdicts = {self.verdict_of(entry) for entry in self.answers} - {OTHER}
        for one in ("not run", "refuted", "cannot tell", NONE_ABOVE, "held"):
            if one in verdicts:
                return one
        return OTHER


def answer(opened: Mapping[str, Opened], kept: Sequence[Answered] = ()) -> list[Answered]:
    """Return the answers to every claim.

    Args:
        opened: The grids whose results the ledgers have.
        kept: Answers of earlier runs, for the claims of other grids. Their p-values stay as they
            were corrected, and count as tests in the correction of the new ones.
    """
    readers = {name: _Reader(grid) for name, grid in opened.items()}
    earlier = {found.claim.text: found for found in kept}
    answered = [
        readers[claim.grid].answered(claim)
        if claim.grid in readers
        else earlier.get(claim.text, _unanswered(claim))
        for claim in CLAIMS
    ]
    tested = {
        id(entry): p
        for found in answered
        for entry in found.answers
        if (p := _p(entry, LOOKS.get(found.claim.grid, 1))) is not None
    }
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    return [
        replace(
            found,
            answers=tuple(
                replace(entry, p_adjusted=adjusted.get(id(entry))) for entry in found.answers
            ),
        )
        if found.claim.grid in readers
        else found
        for found in answered
    ]


def _p(entry: Answer, look: int) -> float | None:
    """Return the p-value of an answer at a look, or the corrected one where only that was kept."""
    if entry.contrast is None:
        return None
    return entry.p_adjusted if entry.contrast.p is None else at_look(entry.contrast.p, look)


def _unanswered(claim: Claim) -> Answered:
    return Answered(claim, tuple(Answer(question, None) for question in claim.questions))


class _Reader:
    """The cells of one grid, and the runs behind their values."""

    def __init__(self, opened: Opened) -> None:
        ledger, plan = opened.storage.ledger, opened.plan
        self._plan = plan
        self._cells = Cell.grouped(rows(plan, ledger), plan.pivot, plan.measured)
        self._predictions = Predictions(opened.plan, ledger)
        self._encoders = opened.grid.encoders
        self._seconds = Times(opened.plan, opened.storage).by_key()

    def answered(self, claim: Claim) -> Answered:
        """Return the answers to a claim, without a correction, and what they took."""
        found = [(question, *self.answer(question)) for question in claim.questions]
        keys = frozenset[str]().union(*(keys for _, _, keys in found))
        seconds = math.fsum(self._seconds.get(key, 0.0) for key in keys) if keys else None
        return Answered(claim, tuple(Answer(q, entry) for q, entry, _ in found), seconds)

    def answer(self, question: Question) -> tuple[ContrastTest | None, frozenset[str]]:
        """Return the contrast of a question, or None where a value is missing, and the keys of all
        that its values were made from. Two values whose runs share their task's training are
        compared run by run.
        """
        weighted: list[tuple[float, Runs]] = []
        sides: list[tuple[Cell, Name]] = []
        evaluations: set[str] = set()
        for weight, pick in question.parts:
            quantity = question.quantity
            name = (quantity.task, pick.lang, pick.metric or quantity.metric, "test")
            chosen = self._chosen(pick)
            runs = [self._predictions.runs(cell, [name]).get(name) for cell in chosen]
            if not runs or None in runs:
                return None, frozenset()
            there = [each for each in runs if each is not None]
            weighted.append((weight, there[0] if len(there) == 1 else pooled(there)))
            sides += [(cell, name) for cell in chosen]
            evaluations |= {key for cell in chosen for key in evaluations_of(cell, name)}
        if [weight for weight, _ in weighted] == [1.0, -1.0] and self._share_trainings(sides):
            weighted = [(1.0, weighted[0][1].minus(weighted[1][1]))]
        return ContrastTest.of(weighted), with_inputs(self._plan.stages, evaluations)

    def _chosen(self, pick: Pick) -> list[Cell]:
        """The cells of a value, one per encoder; none where one of them is not there."""
        labels = encoders_of(self._encoders, pick.encoder)
        found = [c for c in self._cells if c.encoder in labels and _is(c, pick)]
        return found if len(found) == len(labels) else []

    def _share_trainings(self, sides: Sequence[tuple[Cell, Name]]) -> bool:
        """Whether two sides are a cell each, of one metric, and share their task's trainings."""
        cells_of, names = [cell for cell, _ in sides], {name for _, name in sides}
        if len(cells_of) != 2 or len(names) != 1:
            return False
        return self._predictions.pairs_up(cells_of[1], cells_of[0], names.pop())


def encoders_of(specs: Sequence[Spec], options: Mapping[str, object]) -> list[str]:
    """Return the labels of the encoders that have the options; they differ in their seed alone.

    Raises ValueError where no encoder has the options, or where the options leave more open than
    the seed.
    """
    found = [
        spec
        for spec in specs
        if all(getattr(spec.params, name, None) == value for name, value in options.items())
    ]
    rest = {(spec.kind, spec.params.model_copy(update={"seed": None})) for spec in found}
    if len({repr(entry) for entry in rest}) != 1:
        raise ValueError(f"{dict(options)} must choose one encoder and its seeds: {found}")
    return [spec.name for spec in found]


def pooled(several: Sequence[Runs]) -> Runs:
    """Return the runs of encoders that differ in their seed as runs of one value."""
    units = union([runs.units for runs in several])
    return Runs(
        seeds=tuple((n, seed) for n, runs in enumerate(several) for seed in runs.seeds),
        values=np.concatenate([runs.values for runs in several]),
        units=units,
        influences=np.concatenate([runs.over(units) for runs in several]),
        chance=True,
        share=all(runs.share for runs in several),
        links=Runs.links_of(several),
    )


def evaluations_of(cell: Cell, name: Name) -> set[str]:
    """Return the keys of the evaluations that a value, or a mean over languages, comes from."""
    task, lang, metric, split = name
    langs = {
        entry[1] for entry in cell.evaluations if (entry[0], *entry[2:]) == (task, metric, split)
    }
    wanted = langs if lang in MEANS else {lang}
    return {
        key
        for each in wanted
        for keys in cell.evaluations.get((task, each, metric, split), {}).values()
        for key in keys
    }


def with_inputs(stages: Mapping[str, Stage], keys: Iterable[str]) -> frozenset[str]:
    """Return some stages and all that they are made from, by key."""
    found: set[str] = set()
    open_ = list(keys)
    while open_:
        key = open_.pop()
        if key not in found:
            found.add(key)
            open_ += stages[key].inputs.values()
    return frozenset(found)


def _is(cell: Cell, pick: Pick) -> bool:
    return (
        cell.method == pick.method
        and (pick.sentences is None or cell.sentences in (None, pick.sentences))
        and all(cell.params.get(name) == value for name, value in pick.params.items())
    )
