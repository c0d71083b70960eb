"""The curves of a grid's methods over the number of sentence pairs, fitted to its results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.analysis.curve import Curve, Estimate, FittedCurves
from raxalign.analysis.significance import Runs
from raxalign.errors import GridError
from raxalign.grid.load import Opened
from raxalign.grid.plan import Plan
from raxalign.grid.stage import Stage
from raxalign.printing import counted
from raxalign.store.ledger import Ledger
from raxalign.values.numbers import NumberFormat
from raxalign.values.predictions import MOST_EVALUATIONS, Predictions
from raxalign.values.results import rows
from raxalign.values.scoreboard import Scoreboard, TableKey


class Crossing(NamedTuple):
    """The methods of two curves that cross, the one first that is lower with more pairs, the size
    at which they do, and whether that is extrapolated: not within the sizes of both.
    """

    lower: str
    upper: str
    at: Estimate
    extrapolated: bool


@dataclass(frozen=True, repr=False)
class SizeCurves:
    """The curves of the methods of one encoder in one table, over the means of languages: `sizes`
    has the names of the methods, as tables have them, with the cells of each size. `refused`
    names those without a curve, and why.
    """

    table: TableKey
    sizes: Mapping[str, Mapping[int, Cell]]
    curves: FittedCurves
    refused: Mapping[str, str] = field(default_factory=dict)

    AHEAD: ClassVar = 4
    """How many times the largest size is the one that a curve is extrapolated to."""
    NAMED: ClassVar = 3
    """Methods that a line names."""

    @classmethod
    def of(cls, results: Scoreboard, ledger: Ledger, table: TableKey) -> SizeCurves | None:
        """Fit the curves of a table; None where no method has enough sizes and predictions."""
        sizes, refused = dict[str, Mapping[int, Cell]](), dict[str, str]()
        found, shared = dict[str, Mapping[int, Runs]](), list[str]()
        parts: dict[str, dict[int, dict[str, Runs]]] = {}
        predictions = Predictions(results.plan, ledger)
        for method, cells in cls._lines(results, table).items():
            names = {size: cell.compared_mean(*table) for size, cell in cells.items()}
            read = names if len(cells) >= Curve.FEWEST else {}  # of too few nothing is read
            runs = {s: cls._runs(predictions, cells[s], n) for s, n in read.items() if n}
            there = {size: mean for size, (mean, _) in runs.items() if mean is not None}
            if len(there) < Curve.FEWEST:
                refused[method] = f"fewer than {Curve.FEWEST} of its sizes have predictions yet"
                continue
            if not all(own.testable for own in there.values()):
                refused[method] = "a single training run does not show how runs differ"
                continue
            pairs = [
                (a, b, n) for a, b in combinations(cells.values(), 2) if (n := names[min(names)])
            ]
            if any(predictions.pairs_up(*pair) for pair in pairs):
                common = set.intersection(*(set(own.seeds) for own in there.values()))
                if len(common) < 2:
                    refused[method] = "its sizes have no two training runs in common yet"
                    continue
                shared.append(method)
            found[method] = there
            parts[method] = {size: runs[size][1] for size in there}
            sizes[method] = {size: cells[size] for size in sorted(there)}
        try:
            curves = FittedCurves(found, shared, parts)
        except ValueError:  # no method, or a single example
            return None
        refused |= {method: why for method in found if (why := curves.misfit(method))}
        return cls(table, sizes, curves, refused)

    @classmethod
    def of_main(cls, results: Scoreboard, ledger: Ledger | None) -> SizeCurves | None:
        """Fit those of the main task's leading table, if it is compared with a baseline."""
        tables = results.compared_tables()
        return cls.of(results, ledger, tables[0]) if tables and ledger is not None else None

    @staticmethod
    def _runs(
        predictions: Predictions, cell: Cell, name: Name
    ) -> tuple[Runs | None, dict[str, Runs]]:
        """The runs of a value, and of a mean those in each of its languages."""
        task, mean, metric, split = name
        langs = cell.languages_of(name, predictions.plan.pivot) if mean in MEANS else []
        names = {lang: (task, lang, metric, split) for lang in langs}
        found = predictions.runs(cell, [name, *names.values()])
        return found.get(name), {lang: found[n] for lang, n in names.items() if n in found}

    @staticmethod
    def _lines(results: Scoreboard, table: TableKey) -> Mapping[str, dict[int, Cell]]:
        """The cells of each configuration of the first encoder by size; none if none has enough."""
        lines: dict[str, dict[int, Cell]] = defaultdict(dict)
        there = results.measured_cells(*table[:2])
        for cell in there:
            if cell.sentences is not None and cell.encoder == there[0].encoder:
                lines[results.named(cell)][cell.sentences] = cell
        return lines if any(len(cells) >= Curve.FEWEST for cells in lines.values()) else {}

    def __repr__(self) -> str:
        """Say what there is: all cells with their runs would fill screens."""
        methods = (f"{name} {sorted(self.sizes[name])}" for name in self.shown)
        where = f"{' '.join(self.table)} on {self.encoder}"
        return f"<curves of {where}: {', '.join(methods) or 'none'}>"

    @property
    def encoder(self) -> str:
        """The encoder that all of them are of."""
        return next(cell.encoder for cells in self.sizes.values() for cell in cells.values())

    def on(self, results: Scoreboard) -> str:
        """Return what names the encoder where results are of several: `` on mini``."""
        return f" on {self.encoder}" if results.several_encoders else ""

    @property
    def shown(self) -> list[str]:
        """The methods whose curves describe their values."""
        return [method for method in self.sizes if method not in self.refused]

    def ahead(self, method: str) -> tuple[int, Estimate | None]:
        """Return `AHEAD` times the largest size of a method, and the value of its curve there; None
        where that leaves the range of the metric before.
        """
        size = self.AHEAD * max(self.sizes[method])
        return size, self.curves.at(method, size)

    def told_at(self, unit: NumberFormat, method: str, size: float) -> str:
        """Say the value of a method's curve at a size, with its intervals, or why it has none."""
        found = self.curves.at(method, size)
        if found is None:
            return f"no value ({self.curves.curves[method].leaves(size)})"
        spans = [(found.low, found.high), *filter(None, [found.wide])]
        shown = [unit.show_interval(*ends).strip("[]").replace(", ", "–") for ends in spans]
        sign = " %" if unit.sign else ""
        return f"{unit.show(found.value)}{sign} (95 % CI {', new languages '.join(shown)})"

    @classmethod
    def next_size(cls, opened: Opened, plan: Plan) -> str:
        """Say which size continues the row of a finished grid, as far as the corpus has pairs for
        it, what the curves of the first task expect there, and what of the grid is then made again;
        nothing where trials are left, or too many to be read for a line.
        """
        storage, count = opened.storage, len(plan.trials)
        ledger = storage.ledger
        if count > MOST_EVALUATIONS or storage.is_remote or plan.cached(ledger.keys()) < count:
            return ""
        results = Scoreboard.of(rows(plan, ledger), plan, ledger)
        tables = results.leading_tables()
        found = cls.of(results, ledger, tables[0]) if tables else None
        if found is None or not found.shown:
            return ""
        there = _training_pairs(opened, plan)
        size = found._within(there)
        if not size:
            return f"no next size: the corpus has about {there:,} sentence pairs for training"
        return f"{found.told_next(results, size)}; {_made_again(opened, plan, size)}"

    @property
    def following(self) -> int:
        """The size that continues the row, at most `AHEAD` times the largest one."""
        *_, before, last = sorted({size for sizes in self.sizes.values() for size in sizes})
        return int(float(f"{min(max(last / before, 2), self.AHEAD) * last:.2g}"))

    def _within(self, there: int | None) -> int:
        """The size that continues the row where the corpus has so many pairs for training (None:
        not known); 0 where hardly any are left.
        """
        if there is None or self.following <= there:
            return self.following
        last = max(max(sizes) for sizes in self.sizes.values())
        unit = 10 ** max(len(str(there)) - 2, 0)  # two digits
        return there // unit * unit if 2 * there >= 3 * last else 0

    def told_next(self, results: Scoreboard, size: int) -> str:
        """Say which size continues the row, and what the curves of some results expect there."""
        task, metric, _ = self.table
        unit, where = results.unit(task, metric), f"{task} ({metric}){self.on(results)}"
        told = [f"{one} {self.told_at(unit, one, size)}" for one in self.shown[: self.NAMED]]
        return f"next size: {size:,} in `sentences`; by the curves at {where} {', '.join(told)}"

    def worths(self, other: str) -> Iterator[tuple[str, int, Estimate]]:
        """Yield the methods, with their largest sizes, that a number of sentence pairs of another
        one is worth, and that number.
        """
        for method in self.shown:
            size = max(self.sizes[method])
            if method != other and (found := self.curves.worth(method, size, other)) is not None:
                yield method, size, found

    def crossings(self, among: Collection[str] | None = None) -> Iterator[Crossing]:
        """Yield where curves of some methods, or of all, cross, without those that never differ."""
        own = [method for method in self.shown if among is None or method in among]
        for pair in combinations(own, 2):
            found = self.curves.crossing(*pair)
            if found is None or (found.low is None and found.high is None):
                continue
            both = [self.curves.curves[method] for method in pair]
            low, high = max(one.sizes[0] for one in both), min(one.sizes[-1] for one in both)
            shown = found.high or found.low or found.value  # a size at which they differ
            ascending = sorted(pair, key=lambda m: self.curves.curves[m].at(shown))
            lower, upper = ascending if found.high else reversed(ascending)
            yield Crossing(lower, upper, found, not low <= found.value <= high)


def _training_pairs(opened: Opened, plan: Plan) -> int | None:
    """The sentence pairs that the corpus has for training, of the language that has the fewest, or
    with ``shortage: use-all`` the most; as far as its lines were not read yet, by the part of the
    others that was kept. None where none is recorded.
    """
    stages = [stage for stage in plan.stages.values() if stage.kind == "bitext"]
    stages = [stage for stage in stages if stage.params["part"] == "training"]
    sizes = {stage.key: int(str(stage.params["sentences"])) for stage in stages}
    asked = max((size for size in sizes.values() if size != Stage.EVERYTHING), default=0)
    wanted = [(stage.kind, stage.key) for stage in stages if sizes[stage.key] == asked]
    manifests, found = opened.storage.artifacts.manifests(wanted), list[int]()
    for stage in (stage for stage in stages if stage.key in manifests):
        with suppress(LookupError, TypeError):  # an older version made it
            counts: Any = manifests[stage.key].notes["counts"]
            split: Any = stage.params["split"]
            read, kept = counts["training"]["read"], counts["training"]["kept"]
            left = counts["corpus_lines"] - read - (0 if split == "files" else sum(split.values()))
            found.append(kept + left * kept // read)
    most = max if opened.grid.corpus.shortage == "use-all" else min
    return most(found, default=None)


def _made_again(opened: Opened, plan: Plan, size: int) -> str:
    """Say how many trials of a plan are made again where its grid gets one more size."""
    sentences = (*opened.grid.sentences, size)
    grid = replace(opened.grid, sentences=sentences, stop=None)  # `stop` has fewer trials at first
    try:
        there = replace(opened, grid=grid, cells=None).again().plan.stages.keys()
    except GridError as error:
        return f"the grid would be refused with it: {error.faults[0]}"
    count = sum(not there >= set(trial.evaluations.values()) for trial in plan.trials)
    if not count:
        return "what is there stays"
    why = "what they read depends on the largest size"
    if opened.grid.pairs.align_on == "largest":
        why = "`align_on: largest` aligns the words of all sizes in one run"
    return f"{count:,} of {counted(len(plan.trials), 'trial')} are then made again: {why}"
