"""From stored results to answers: each question as a contrast with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from findings.claims import CLAIMS
from findings.questions import Claim, Pick, Question
from raxalign.analysis.cells import MEANS, Cell, Name, cells
from raxalign.analysis.runs import Runs, links_of, over, union
from raxalign.analysis.significance import LEVEL, Contrast, contrast, holm
from raxalign.config.grid import EncoderSpec
from raxalign.plan.load import Opened
from raxalign.plan.stage import Stage
from raxalign.plan.values.predictions import Predictions
from raxalign.plan.values.results import rows
from raxalign.store.ledger import Ledger


@dataclass(frozen=True)
class Answer:
    """A question with its contrast; `p_adjusted` is Holm's over all questions of the page. The
    contrast is None where results are missing. `keys` are those of the stages and evaluations that
    it rests on.
    """

    question: Question
    contrast: Contrast | None
    p_adjusted: float | None = None
    keys: frozenset[str] = frozenset()

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
    found = [readers[claim.grid].answer(question) for _, claim, question in asked]
    tested = [entry.p for entry, _ in found if entry is not None and entry.p is not None]
    adjusted = iter(holm(tested))
    answers: list[list[Answer]] = [[] for _ in CLAIMS]
    for (number, _, question), (entry, keys) in zip(asked, found, strict=True):
        p = next(adjusted) if entry is not None and entry.p is not None else None
        answers[number].append(Answer(question, entry, p, keys))
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
        self._plan = opened.plan
        self._cells = cells(rows(opened.plan, ledger), opened.plan.pivot)
        self._predictions = Predictions(opened.plan, ledger)
        self._encoders = opened.grid.encoders

    def answer(self, question: Question) -> tuple[Contrast | None, frozenset[str]]:
        """Return the contrast of a question, or None where a value is missing, and the keys of all
        that its values were made from.
        """
        weighted: list[tuple[float, Runs]] = []
        evaluations: set[str] = set()
        for weight, pick in question.parts:
            metric = pick.metric or question.metric
            runs, keys = self._runs(pick, (question.task, pick.lang, metric, "test"))
            if runs is None:
                return None, frozenset()
            weighted.append((weight, runs))
            evaluations |= keys
        return contrast(weighted), with_inputs(self._plan.stages, evaluations)

    def _runs(self, pick: Pick, name: Name) -> tuple[Runs | None, set[str]]:
        """The runs of a value and its evaluations; None where one of its cells has no value."""
        labels = encoders_of(self._encoders, pick.encoder)
        found: list[Runs] = []
        keys: set[str] = set()
        for label in labels:
            cell = next((c for c in self._cells if c.encoder == label and _is(c, pick)), None)
            if cell is None or name not in cell.values:
                return None, set()
            runs = self._predictions.runs(cell, [name]).get(name)
            if runs is None:
                return None, set()
            found.append(runs)
            keys |= evaluations_of(cell, name)
        return (found[0] if len(found) == 1 else pooled(found)), keys


def encoders_of(specs: Sequence[EncoderSpec], options: Mapping[str, object]) -> list[str]:
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
    return [spec.label for spec in found]


def pooled(several: Sequence[Runs]) -> Runs:
    """Return the runs of encoders that differ in their seed as runs of one value."""
    units = union([runs.units for runs in several])
    return Runs(
        seeds=tuple((n, seed) for n, runs in enumerate(several) for seed in runs.seeds),
        values=np.concatenate([runs.values for runs in several]),
        units=units,
        influences=np.concatenate([over(units, runs) for runs in several]),
        chance=True,
        share=all(runs.share for runs in several),
        links=links_of(several),
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
