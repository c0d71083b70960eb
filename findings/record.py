"""What was found, as data: the page is made from it, so that grids of hours are not run again for a
word on the page.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter

from raxalign.analysis.cells import Cell
from raxalign.grid.estimates import Times
from raxalign.grid.load import Opened
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.report.answer import stored_answer
from raxalign.values.claims import ClaimTest, JudgedClaim
from raxalign.values.comparisons import Compared, comparisons
from raxalign.values.results import rows
from raxalign.version import VERSION

MARGIN = 5.0
"""The smallest difference that matters, in percent of how far the second value is from chance."""


@dataclass(frozen=True)
class Difference:
    """Two values with what guessing gets, and their difference with its 95 % confidence interval,
    as tables show them. `epochs` is how often a training read its sentences (None: nothing is
    trained), `look` which look at the comparison this is.
    """

    first: str
    second: str
    task: str
    metric: str
    lang: str
    encoder: str
    sentences: int | None
    value: float
    against: float
    verdict: str
    chance: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    margin: float | None = None
    detectable: float | None = None
    runs: tuple[int, ...] = ()
    look: int = 1
    epochs: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Answer:
    """What became of a claim of a grid: a difference per encoder and number of sentences."""

    written: str
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Ran:
    """How far a grid is: its trials and those that are done, the machine time of all stages, the
    precision of the encoder's products (`run.precision`), the methods that are `left`, the `answer`
    that the others give, and the machine `times` of what claims were made from together, by their
    texts. `grid` is the digest of what its file had.
    """

    day: str
    version: str
    precision: str
    trials: int
    done: int
    seconds: float
    answers: Mapping[str, Answer] = field(default_factory=dict)
    means: tuple[Difference, ...] = ()
    answer: str = ""
    left: tuple[str, ...] = ()
    times: Mapping[str, float] = field(default_factory=dict)
    grid: str = ""

    @classmethod
    def of(
        cls, opened: Opened, grid: str = "", asked: Iterable[tuple[str, ...]] = ()
    ) -> Ran | None:
        """Return what a grid has; None where no trial is done. Cells of which some trials are left
        are not looked at. Each of `asked` are claims whose machine time is counted together.
        """
        plan, ledger = opened.plan, opened.storage.ledger
        there = ledger.keys()
        left = {t.cell for t in plan.trials if not there >= set(t.evaluations.values())}
        asking = [t for t in plan.trials if t.evaluations]
        done = [t for t in asking if there >= set(t.evaluations.values())]
        if not done:
            return None
        keys = {key for trial in done for key in trial.evaluations.values()}
        latest = max(record["created"] for record in ledger.read_many(sorted(keys)).values())
        took = Times(plan, opened.storage).by_key()
        whole = replace(opened, plan=plan.only(t for t in plan.trials if t.cell not in left))
        judged = list(_judged(whole))
        return cls(
            datetime.fromtimestamp(latest, UTC).date().isoformat(),
            VERSION,
            opened.run.precision,
            len(plan.trials),
            len(done),
            round(math.fsum(took.values())),
            {found.claim.text: _answer(found, whole.plan) for found in judged},
            tuple(_means(whole)),
            stored_answer(whole.plan, ledger),
            tuple(dict.fromkeys(_named(t) for t in asking if t.cell in left)),
            {" ".join(texts): _seconds(plan, judged, texts, took) for texts in asked},
            grid,
        )


@dataclass(frozen=True)
class Record:
    """What is known of each grid, by its name."""

    grids: Mapping[str, Ran] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read what `write` wrote."""
        return TypeAdapter(cls).validate_json(path.read_bytes())

    def write(self, path: Path) -> None:
        """Write the record as JSON."""
        path.write_bytes(TypeAdapter(Record).dump_json(self, indent=1) + b"\n")


def _judged(opened: Opened) -> Iterable[JudgedClaim]:
    """The claims that have a size in which all runs of both sides are there."""
    return [found for found in JudgedClaim.all_in(opened, MARGIN, relative=True) if found.tests]


def _named(trial: Trial) -> str:
    return f"{trial.method} with {trial.sentences:,} pairs" if trial.sentences else trial.method


def _answer(found: JudgedClaim, plan: Plan) -> Answer:
    return Answer(found.written, tuple(_of_test(plan, test) for test in found.tests))


def _of_test(plan: Plan, test: ClaimTest) -> Difference:
    entry, scale = test.entry, test.entry.measured.scale
    return replace(
        _of(plan, entry),
        chance=_scaled(test.chance, scale),
        low=_scaled(test.low, scale),
        high=_scaled(test.high, scale),
        p=test.p,
        detectable=_scaled(entry.detectable_among(test.among), scale),
        margin=_scaled(test.margin, scale),
        verdict=test.verdict,
    )


def _means(opened: Opened) -> Iterable[Difference]:
    """Yield the means over languages of each task's main metric against the encoder as it is,
    those over aligned languages and over others apart.
    """
    plan, ledger = opened.plan, opened.storage.ledger
    cells = Cell.grouped(rows(plan, ledger), plan.pivot, plan.measured)
    for entry in comparisons(cells, plan, ledger):
        task, lang, metric, _ = entry.name
        main = metric == plan.main_metric(task) and entry.baseline is not None
        mean = entry.cell.mean_name(*entry.table)
        if main and lang in (mean and mean[1], "avg_unseen"):
            yield _of(plan, entry)


def _of(plan: Plan, entry: Compared) -> Difference:
    """Return a comparison with the verdict of its table."""
    scale, test, base = entry.measured.scale, entry.comparison, entry.baseline
    assert base is not None
    against = entry.baseline_value
    assert against is not None
    task, lang, metric, _ = entry.name
    return Difference(
        plan.cell_name(entry.cell),
        plan.cell_name(base),
        task,
        metric,
        lang,
        entry.cell.encoder,
        entry.cell.sentences,
        round(scale * entry.value.mean, 4),
        round(scale * against.mean, 4),
        entry.verdict or "",
        difference=_scaled(entry.difference, scale),
        low=_scaled(test.low if test else None, scale),
        high=_scaled(test.high if test else None, scale),
        p=entry.p_adjusted,
        detectable=_scaled(entry.detectable, scale),
        runs=tuple(dict.fromkeys((test.runs, test.baseline_runs))) if test else (),
        look=1 + len(entry.earlier),
        epochs=_epochs(plan, entry.cell),
        why=entry.untested,
    )


def _scaled(value: float | None, scale: int) -> float | None:
    return None if value is None else round(scale * value, 4)


def _epochs(plan: Plan, cell: Cell) -> float | None:
    """How often the training of a cell's method read its sentences; None where nothing is trained
    by epochs.
    """
    method = plan.stages[plan.by_key[cell.trials[0]].aligned].params.get("method", {})
    epochs = method.get("epochs") if isinstance(method, dict) else None
    return float(epochs) if epochs else None


def _seconds(
    plan: Plan, judged: Iterable[JudgedClaim], texts: Collection[str], took: Mapping[str, float]
) -> float:
    """The machine time of all that the values of some claims were made from, each thing once."""
    entries = [test.entry for one in judged if one.claim.text in texts for test in one.tests]
    keys = {
        plan.by_key[key].evaluations[entry.name[0]]
        for entry in entries
        for cell in (entry.cell, entry.baseline)
        if cell is not None
        for key in cell.trials
    }
    return round(math.fsum(took.get(key, 0.0) for key in plan.closure(sorted(keys))))
