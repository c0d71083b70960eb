"""What a tracking store records of a grid, a trial, a cell or a comparison: names, params, metrics
and tags; and the page of an experiment as MLflow opens it: its kind, its description, and named
views of its runs with their charts, all of them tags of the experiment.
"""

from __future__ import annotations

import json
import time
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from colorsys import hls_to_rgb
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from raxalign.analysis.cells import MEANS, Cell, Name
from raxalign.grid.plan import Plan
from raxalign.grid.trial import Trial
from raxalign.measured import spoken
from raxalign.options.axes import Axis
from raxalign.provenance import commit
from raxalign.store.key import digest
from raxalign.tracking.client import Page
from raxalign.values.results import metric_name, trial_rows
from raxalign.values.scoreboard import Scoreboard, TableKey

_VIEWS = {
    Page.LANGUAGES: ("Best by language", "comparison"),
    Page.CELLS: ("By size", "cell"),
    Page.TRIALS: ("Trials", "trial"),
}
"""The names of the views, and the kinds of runs that they show."""
_ORDER, _VERDICT = "raxalign.order", "verdict"
_MAIN = "mlflow.experiment.primaryMetric."
_PREFERRED = (Cell.ALL_TARGETS, "avg_zero_shot", "avg", "avg_unseen")
_MEAN = "mean"  # in the place of a language
_COLUMNS = 24
_MOST_METRICS = _MOST_CHARTS = 12
_MOST_COMPARISONS = 300  # runs: where there are more, those of means alone are made
_ENDS = ("_low", "_high")
_SECTION = "raxalign"  # the key of that of the charts
_PAIRS = " pairs"  # how the tags of values at a size end


def experiment_tags(board: Scoreboard) -> dict[str, str]:
    """Return the tags of an experiment: that it is one of model training and, where there are
    values, the main metric, and views of its comparisons, its cells and its trials.
    """
    tags = dict(Page.KIND)
    if not (metrics := main_metrics(board)):
        return tags
    shown = _Shown(board)
    tags |= {f"{_MAIN}name": metrics[0], f"{_MAIN}greaterIsBetter": str(not shown.lower)}
    return tags | {Page.VIEW + key: view for key, view in shown.views().items()}


def main_metrics(board: Scoreboard) -> list[str]:
    """Return the metric that stands for each task, as runs have it: that of its leading table over
    all languages, or what there is of it.
    """
    found = []
    for task, metric, split in _tables(board):
        langs = board.by_table[task, metric, split]
        lang = next((mean for mean in _PREFERRED if mean in langs), langs[0])
        found.append(metric_name(task, lang, metric, split))
    return found


def _tables(board: Scoreboard) -> list[TableKey]:
    """The table that stands for each task."""
    return list(filter(None, map(board.leading, board.tasks)))


@dataclass(frozen=True)
class _Shown:
    """The results of a grid as runs of cells and comparisons, and views of them, show them."""

    board: Scoreboard

    @cached_property
    def tables(self) -> list[TableKey]:
        """The table that stands for each task; the first one is that of the verdict."""
        return _tables(self.board)

    @property
    def lower(self) -> bool:
        """Whether lower values of the first task are better."""
        return self.board.plan.measured(*self.tables[0][:2]).better == "lower"

    @cached_property
    def languages(self) -> list[str]:
        """The languages of comparisons, the mean first; the pivot where no other one is there."""
        plan, by_table = self.board.plan, self.board.by_table
        every = (lang for t in self.tables for lang in by_table[t] if lang not in MEANS)
        single = plan.ordered({lang.removesuffix(f"-{plan.pivot}") for lang in every})
        homes = {plan.home_of(task) for task, *_ in self.tables}
        others = [lang for lang in single if homes != {lang}] or single
        return [_MEAN, *others] if len(others) > 1 else others

    def names(self, cell: Cell, lang: str) -> list[Name]:
        """The names of a cell's values in a language, or of its mean, task by task."""
        found = list[Name | None]()
        for task, metric, split in self.tables:
            both = (lang, f"{lang}-{self.board.plan.pivot}")
            own = [(task, name, metric, split) for name in both]
            mean = cell.compared_mean(task, metric, split)
            found += [mean] if lang == _MEAN else [name for name in own if name in cell.values][:1]
        return [name for name in found if name is not None]

    def numbers(self, cell: Cell, name: Name) -> dict[str, float]:
        """A value, the ends of its 95 % interval, and its difference to the baseline, by what
        follows the name of a metric; with the digits that their intervals carry.
        """
        unit, entry = self.board.unit(name[0], name[2]), self.board.at(cell, name)
        around = self.board.interval(cell, name)
        found = {"": unit.rounded(cell.values[name].mean, around)}
        if around is not None:
            low, high = around
            found |= {"_low": unit.rounded(low, around), "_high": unit.rounded(high, around)}
        if entry is not None and entry.difference is not None:
            start, end = (getattr(entry.comparison, name, None) for name in ("low", "high"))
            ends = None if start is None or end is None else (start, end)
            found["_difference"] = unit.rounded(entry.difference, ends)
        return found

    def verdicts(self, cell: Cell, names: Iterable[Name]) -> dict[str, str]:
        """What tests say of some values of a cell, by the names of tags."""
        return {self._verdict(name[0]): self.board.verdict(cell, name) for name in names}

    def _verdict(self, task: str) -> str:
        return _VERDICT if task == self.tables[0][0] else f"{_VERDICT}_{task}"

    def told(self, cell: Cell, name: Name) -> str:
        """A value in a line: ``retrieval, 300 sentence pairs: 17.1 [16.2, 18.0] % contextual
        accuracy, +6.8 against none (better)``.
        """
        board, (task, _, metric, split) = self.board, name
        unit, entry = board.unit(task, metric), board.at(cell, name)
        size = f", {cell.sentences:,} sentence pairs" if cell.sentences is not None else ""
        dev = "" if split == "test" else f" ({split})"
        value = [unit.show(cell.values[name].mean), board.shown(cell, name, unit), unit.sign]
        text = f"{task}{size}: {' '.join(filter(None, value))} {spoken(metric)}{dev}"
        if entry is not None and entry.baseline is not None and entry.difference is not None:
            against = board.plan.cell_name(entry.baseline)
            text += f", {unit.show_difference(entry.difference)} against {against}"
        return f"{text} ({board.verdict(cell, name)})"

    def of_cell(self, cell: Cell) -> dict[str, float]:
        """The metrics of a cell, at most a dozen: the mean of each task and its difference to the
        baseline, and then the languages of those tasks of which all of them find room.
        """
        found: dict[str, float] = {}
        for name in self.names(cell, _MEAN):
            numbers = self.numbers(cell, name).items()
            found |= {metric_name(*name) + end: v for end, v in numbers if end not in _ENDS}
        for table in self.tables:
            names = [name for name in cell.names_of(table) if name[1] not in MEANS]
            own = {metric_name(*name): self.numbers(cell, name)[""] for name in names}
            found |= own if len(found | own) <= _MOST_METRICS else {}
        return dict(list(found.items())[:_MOST_METRICS])

    def lines(self) -> Iterator[tuple[str, list[Cell], str]]:
        """Yield the language, the cells and the colour of each comparison: of one configuration,
        the smallest training set first; language by language, the best configuration first.
        """
        every: dict[str, list[Cell]] = {}
        for cell in sorted(self.board.cells, key=lambda cell: cell.sentences or 0):
            every.setdefault(digest([cell.method, cell.params, cell.encoder]), []).append(cell)
        few = len(every) * len(self.languages) <= _MOST_COMPARISONS
        for lang in self.languages if few else self.languages[:1]:
            found = [
                ([cell for cell in cells if self.names(cell, lang)], _colour(place))
                for place, cells in enumerate(every.values())
            ]
            there = [entry for entry in found if entry[0]]
            for cells, colour in sorted(there, key=lambda entry: self._place(entry[0][-1], lang)):
                yield lang, cells, colour

    def _place(self, cell: Cell, lang: str) -> tuple[bool, float]:
        name = self.names(cell, lang)[0]
        sign = self.board.plan.measured(name[0], name[2]).sign
        return name[0] != self.tables[0][0], -sign * cell.values[name].mean

    def change(self, place: int, lang: str, cells: Sequence[Cell]) -> Change:
        """What the run of a comparison is to have, of which all values are at the step of their
        number of sentence pairs; those of a method without one are at all sizes of the grid. The
        verdict is that at the largest size.
        """
        plan, now = self.board.plan, int(time.time() * 1000)
        points, tags = list[tuple[str, float, int, int]](), {_ORDER: f"{place:05}"}
        told = list[str]()
        for cell in cells:
            steps = sorted(plan.sizes) or [0] if cell.sentences is None else [cell.sentences]
            names = self.names(cell, lang)
            for name in names:
                numbers, metric = self.numbers(cell, name), _metric(name)
                values = {metric + end: number for end, number in numbers.items()}
                values[metric_name(*name)] = numbers[""]
                points += [(n, v, step, now) for n, v in values.items() for step in steps]
                told.append(f"- {self.told(cell, name)}")
            own = self.verdicts(cell, names)
            several = len(plan.sizes) > 1 and cell.sentences is not None
            tags |= own | ({f"{n}_{steps[0]}": said for n, said in own.items()} if several else {})
            tags |= {size: self._at(cell, names[0]) for size, step in self._sizes if step in steps}
        return Change(points=points, tags=tags, note="\n".join(told), status="FINISHED")

    @cached_property
    def _sizes(self) -> list[tuple[str, int]]:
        """The tags of the sizes of the grid, where it has several, and these."""
        sizes = sorted(self.board.plan.sizes)
        return [(f"{size}{_PAIRS}", size) for size in sizes] if len(sizes) > 1 else []

    def _at(self, cell: Cell, name: Name) -> str:
        """A value and what tests say of it: ``17.1 % better``."""
        unit, verdict = self.board.unit(name[0], name[2]), self.board.verdict(cell, name)
        return " ".join(f"{unit.show(cell.values[name].mean)} {unit.sign} {verdict}".split())

    def views(self) -> dict[str, str]:
        """The views, by their keys."""
        board, plan, metrics = self.board, self.board.plan, main_metrics(self.board)
        own = (axis for axes in plan.axes.values() for axis in axes)
        axes = [Axis.METHOD, *([Axis.ENCODER] if len(plan.encoders) > 1 else []), *own]
        size = [Axis.SENTENCES] if len(plan.sizes) > 1 else []
        apart = [Axis.LANGUAGES] if len({t.languages for t in plan.trials}) > 1 else []
        apart += [Axis.SEED] if len(board.seeds) > 1 else []
        short = [_metric((task, "", metric, split)) for task, metric, split in self.tables]
        names = [n for lang in self.languages for c in board.cells for n in self.names(c, lang)]
        lined = [metric_name(*name) for name in names if name[0] == self.tables[0][0]] + metrics
        best, by_place = (f"metrics.`{metrics[0]}`", self.lower), (f"tags.`{_ORDER}`", True)
        more = [f"metrics.`{name}`" for cell in board.cells for name in self.of_cell(cell)]
        no_charts: dict[str, Any] = {}
        bars, lines = _charts(metrics, "BAR"), _charts(lined, "LINE" if size else "BAR")
        by_size = [f"tags.`{size}`" for size, _ in self._sizes]
        by_size += self._columns(short)[bool(by_size) :]  # a size has its own verdict
        views = {
            Page.LANGUAGES: ([Axis.LANGUAGE, *axes], by_size, by_place, lines),
            Page.CELLS: ([*size, *axes], self._columns(metrics) + more, best, bars),
            Page.TRIALS: (
                [*size, *axes, *apart],
                [f"metrics.`{m}`" for m in metrics],
                best,
                no_charts,
            ),
        }
        return {
            key: _view(*_VIEWS[key], [f"params.`{name}`" for name in params] + others, order, drawn)
            for key, (params, others, order, drawn) in views.items()
        }

    def _columns(self, metrics: Iterable[str]) -> list[str]:
        """Verdict, value and difference of each task."""
        heads = [f"tags.`{self._verdict(table[0])}`" for table in self.tables]
        pairs = zip(heads, metrics, strict=True)
        return [c for tag, n in pairs for c in (tag, f"metrics.`{n}`", f"metrics.`{n}_difference`")]


def _charts(metrics: Iterable[str], kind: str) -> dict[str, Any]:
    """The state of a view that draws some metrics first, as bars or as lines over steps."""
    card: dict[str, Any] = {"metricSectionId": _SECTION, "type": kind}
    if kind == "LINE":  # MLflow smooths lines unless told otherwise
        card |= {"xAxisKey": "step", "xAxisScaleType": "log", "lineSmoothness": 0}
    shown = list(dict.fromkeys(metrics))[:_MOST_CHARTS]
    return {
        "compareRunCharts": [{"uuid": f"{_SECTION}/{m}", "metricKey": m, **card} for m in shown],
        "compareRunSections": [{"uuid": _SECTION, "name": "Main metrics", "display": True}],
        "isAccordionReordered": True,  # else MLflow puts its own sections first
        "runsHiddenMode": "SHOW_ALL",
    }


def _metric(name: Name) -> str:
    """The metric of a comparison that has the value, whatever its language is."""
    return metric_name(name[0], "", *name[2:]).replace("//", "/")


def _view(
    name: str, kind: str, shown: Iterable[str], order: tuple[str, bool], charts: Mapping[str, Any]
) -> str:
    """A view of the runs of one kind, as MLflow keeps those that its users save; `order` is what
    they are ordered by, and whether from the smallest on.
    """
    columns = list(dict.fromkeys(shown))[:_COLUMNS]
    state = {
        "searchFilter": f"tags.`raxalign.kind` = '{kind}'",
        "orderByKey": order[0],
        "orderByAsc": order[1],
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": {column: _width(column) for column in columns},
        **charts,
    }
    text = f"deflate;{b64encode(zlib.compress(json.dumps(state).encode())).decode()}"
    return json.dumps({"name": name, "createdAt": 0, "updatedAt": 0, "state": text})


def _width(column: str) -> int:
    """Pixels in which neither the name of a metric nor a verdict is cut."""
    room = 165 if column.endswith(f"{_PAIRS}`") else 85 if column.startswith("params") else 110
    return max(room, 7 * (len(column) - 4))


_LONGEST_TAG = 5000  # MLflow takes 8,000 characters
_LONGEST_NAME = 250
_ALWAYS = ("lambda", "learning_rate")  # params that runs have where they are not axes, too


@dataclass(frozen=True)
class Run:
    """A run to be made.

    Attributes:
        key: What the run is found by, together with `made`.
        kind: ``grid``, ``trial``, ``cell`` or ``comparison``.
        name: Its name.
        params: The axes of the grid, flat, with a method's λ and learning rate.
        tags: Its tags besides those that every run has.
        made: What its values are computed from, part by part (digest -> digest): a run with
            another digest of the same part is another one; parts may be added.
    """

    key: str
    kind: str
    name: str
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    made: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """What a run is to have; what it has already is not written again.

    `points` are those of curves: (name, value, step, milliseconds). `tags` are written last, so
    that they can mark what is there. `without` names tags to delete. A `note` describes the run,
    unless a person has done so.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    points: Sequence[tuple[str, float, int, int]] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    without: Sequence[str] = ()
    note: str = ""
    status: str | None = None


class PlanRuns:
    """What a tracking store records of a plan: its runs, and their params, metrics and tags."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @cached_property
    def _origins(self) -> dict[str, Mapping[str, str]]:
        """What the values of each cell (`Trial.cell`) are computed from, as `Run.made` has it: a
        cell with more seeds is the same one.
        """
        found = dict[str, dict[tuple[str, ...], str]]()
        for trial in self._plan.trials:
            own = found.setdefault(trial.cell, self._added())
            for task, key in trial.evaluations.items():
                own[task, *trial.languages, str(trial.seed)] = key
        return {cell: _parts(own) for cell, own in found.items()}

    def grid(self, storage: str) -> Run:
        """Describe the run that drivers sign on at, with the files of the grid as artifacts: that
        of a `storage` (its identity) and of all cells.
        """
        name = self._plan.name
        of_cells: dict[tuple[str, ...], str]
        of_cells = {(c, part): v for c, made in self._origins.items() for part, v in made.items()}
        made = _parts({("storage",): storage, **of_cells})
        return Run(f"grid:{name}", "grid", f"{name} (files, report)", tags=_source(), made=made)

    def trial(self, trial: Trial) -> Run:
        """Describe the run of a trial."""
        plan = self._plan
        params = self._axes(trial.method, trial.params, trial.encoder)
        name = _name(params)
        of_set = str(trial.params.get(Axis.LANGUAGES, ""))
        params[Axis.LANGUAGES] = of_set or " ".join(trial.languages)
        if trial.sentences is not None:
            params[Axis.SENTENCES] = str(trial.sentences)
            name += f" sentences={trial.sentences}" if len(plan.sizes) > 1 else ""
        if trial.seed is not None:
            params[Axis.SEED] = str(trial.seed)
        each = not of_set and len(trial.languages) < len(plan.languages) - 1
        seed = [] if trial.seed is None else [f"seed {trial.seed}"]
        name = " ".join([name, *(trial.languages if each else ()), *seed])[:_LONGEST_NAME]
        tags = {
            **_source(),
            "raxalign.trial_key": trial.key,
        }
        if of_set:
            tags["raxalign.languages"] = " ".join(trial.languages)
        if trial.untouched:
            tags["raxalign.untouched"] = " ".join(trial.untouched)
        if trial.searched is not None:
            tags["raxalign.study"] = trial.searched.study
            tags["raxalign.study_trial"] = str(trial.searched.number)
            tags["raxalign.searched"] = "confirmed" if trial.searched.confirmed else "suggested"
        made = _parts({(task,): key for task, key in trial.evaluations.items()} | self._added())
        return Run(f"trial:{trial.key}", "trial", name, _always(trial.params) | params, tags, made)

    def cell(self, of: Cell | Trial) -> Run:
        """Describe the run of a cell, or of the cell that a trial belongs to: all seeds (and, in an
        `each` grid, all languages) of one configuration.
        """
        made = self._origins.get(of.cell if isinstance(of, Trial) else of.key, {})
        key = "cell:" + digest([of.method, of.params, of.encoder, of.sentences])
        params = self._axes(of.method, of.params, of.encoder)
        name = _name(params)
        if of.sentences is not None:
            params[Axis.SENTENCES] = str(of.sentences)
            name = _name(params) if len(self._plan.sizes) > 1 else name
        return Run(key, "cell", name, _always(of.params) | params, _source(), made)

    def cell_of(self, trial: Trial) -> Run | None:
        """Describe the run of the cell that a trial belongs to; None for a trial that a search
        suggested.
        """
        return self.cell(trial) if _has_cell(trial) else None

    def cells(self) -> list[Run]:
        """Describe the runs of all cells."""
        found = {trial.cell: trial for trial in self._plan.trials if _has_cell(trial)}
        return list(map(self.cell, found.values()))

    def claimed(
        self, verdicts: Sequence[tuple[str, Sequence[str]]]
    ) -> Iterator[tuple[Run, Change]]:
        """Yield the run of each cell that claims are about, and what it is to have: the verdicts of
        planned looks on them in words, each of which comes with the cells (`Trial.cell`).
        """
        for cell, trial in {trial.cell: trial for trial in self._plan.trials}.items():
            if told := [words for words, cells in verdicts if cell in cells]:
                yield self.cell(trial), Change(tags={"claims": "\n".join(told)[:_LONGEST_TAG]})

    def _added(self) -> dict[tuple[str, ...], str]:
        """The metrics that a grid adds, by task and name."""
        return {("", e.task, e.name): digest(asdict(e)) for e in self._plan.metrics}

    def _axes(self, method: str, params: Mapping[str, Any], encoder: str) -> dict[str, str]:
        """Return the axes of the grid; other params would only crowd the comparison."""
        several = {Axis.ENCODER.value: encoder} if len(self._plan.encoders) > 1 else {}
        varied = self._plan.varying(method, params).items()
        shown = {Axis.METHOD.value: method, **several}
        return shown | {name: str(value) for name, value in varied}

    def trial_metrics(
        self, trial: Trial, records: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, float]:
        """Return metric name -> value, of the evaluations that have a record."""
        return {
            metric_name(row["task"], row["lang"], row["metric"], row["split"]): row["value"]
            for row in trial_rows(trial, records, self._plan.pivot)
        }

    def of_cell(self, cell: Cell, board: Scoreboard) -> Change:
        """Return what the run of a cell is to have: at most a dozen metrics, of which the mean over
        languages (or the value of the only language) of each task is the first, with its difference
        to the baseline (``_difference``); what tests say of them, as tags; and its description.
        """
        shown = _Shown(board)
        means = shown.names(cell, _MEAN)
        return Change(
            shown.of_cell(cell),
            params=self.cell(cell).params,
            tags=shown.verdicts(cell, means),
            note="\n".join(f"- {shown.told(cell, name)}" for name in means),
            status="FINISHED",
        )

    def comparisons(self, board: Scoreboard) -> Iterator[tuple[Run, Change]]:
        """Yield the run of each configuration in each language, and in their mean, and what it is
        to have: its values at all numbers of sentence pairs.
        """
        shown = _Shown(board)
        for place, (lang, cells, colour) in enumerate(shown.lines()):
            method, params, encoder = cells[0].method, cells[0].params, cells[0].encoder
            axes = self._axes(method, params, encoder)
            origins = {cell.key: self._origins.get(cell.key, {}) for cell in cells}
            yield (
                Run(
                    f"comparison:{digest([method, params, encoder, lang])}",
                    "comparison",
                    f"{lang}: {_name(axes)}"[:_LONGEST_NAME],
                    axes | {Axis.LANGUAGE: lang},
                    {**_source(), "mlflow.runColor": colour},
                    _parts({(c, p): v for c, made in origins.items() for p, v in made.items()}),
                ),
                shown.change(place, lang, cells),
            )

    def data(self) -> dict[str, str]:
        """Return name, digest and source (all corpora) of the parallel data, as MLflow's datasets
        have them; none where the grid has none.
        """
        stages = [stage for stage in self._plan.stages.values() if stage.kind == "bitext"]
        held = [stage for stage in stages if stage.params.get("part") == "heldout"]
        corpora: dict[str, list[object]] = {}
        for stage in held:
            known = corpora.setdefault(stage.maker, [])
            known += [own for own in [stage.params.get("corpus")] if own not in known]
        found = {"name": " and ".join(corpora), "source_type": "raxalign"}
        found["digest"] = digest(sorted(stage.key for stage in held))[:36]
        return {**found, "source": json.dumps(corpora, sort_keys=True)} if held else {}

    def results_mark(self, evaluations: Iterable[str]) -> str:
        """Return a digest of what a trial's run shows: evaluations, and metrics that the grid
        adds.
        """
        added = [asdict(entry) for entry in self._plan.metrics]
        return digest([*sorted(evaluations), *added])

    @staticmethod
    def provenance_tags(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        """Return the tags on what devices, with what versions and from what links results were
        made: all of them, where they differ.
        """
        found: dict[tuple[str, str], dict[str, None]] = {}  # (tag, name) -> its distinct values
        for record in records:
            notes: Mapping[str, Any] = record.get("notes", {})
            facts = {("device", ""): record.get("device", "")}
            facts["precision", ""] = record.get("precision", "fp32")
            facts |= {("versions", name): own for name, own in record.get("versions", {}).items()}
            facts |= {("links", name): own for name, own in notes.get("links", {}).items()}
            for fact, value in facts.items():
                found.setdefault(fact, {})[str(value)] = None
        said = {fact: ", ".join(values) for fact, values in found.items()}
        tags = {name: said.get((name, ""), "") for name in ("device", "precision")}
        for tag in ("versions", "links"):
            tags[tag] = _json({name: text for (of, name), text in said.items() if of == tag})
        return {f"raxalign.{tag}": text for tag, text in tags.items() if said}


def _json(found: Mapping[str, object]) -> str:
    """Return JSON of as many entries as a tag has room for, and how many more there are."""
    for count in range(len(found), -1, -1):
        some = dict(sorted(found.items())[:count])
        left = {"...": f"{len(found) - count} more"} if count < len(found) else {}
        if len(text := json.dumps({**some, **left})) <= _LONGEST_TAG:
            return text
    return ""


def _has_cell(trial: Trial) -> bool:
    return trial.searched is None or trial.searched.confirmed


def _parts(made: Mapping[tuple[str, ...], str]) -> dict[str, str]:
    return {digest(part)[:8]: digest(value)[:8] for part, value in made.items()}


def _source() -> dict[str, str]:
    """The tags that say what made a run: raxalign, at a commit where it is known."""
    names = {"commit": "mlflow.source.git.commit", "dirty": "raxalign.dirty"}
    known = {names[name]: value for name, value in commit().items()}
    return {"mlflow.source.name": "raxalign", **known}


def _colour(place: int) -> str:
    """A colour of a configuration, the same in all languages and far from those before."""
    parts = hls_to_rgb((0.58 + place * 0.618034) % 1, (0.42, 0.6)[place // 5 % 2], 0.62)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def _always(params: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(params[name]) for name in _ALWAYS if params.get(name) is not None}


def _name(params: Mapping[str, str]) -> str:
    rest = (f"{name}={value}" for name, value in params.items() if name != Axis.METHOD)
    return " ".join([params[Axis.METHOD], *rest])[:_LONGEST_NAME]
