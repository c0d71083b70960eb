"""Metrics that a grid adds to its tasks: computed from the predictions that the ledger keeps,
whenever results are read.

They enter no key. An added metric costs a reading of predictions, and never a training or an
evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from raxalign.catalog import Catalog, PluginFault, catalog
from raxalign.errors import RaxalignError
from raxalign.grid.specs import Spec
from raxalign.lazy import pa, pc
from raxalign.measured import Measured
from raxalign.metrics.base import Metric
from raxalign.sample import Sample, of_layers
from raxalign.store.key import digest
from raxalign.tasks.base import Score, Task, means

_DERIVED = ("_difference", "_low", "_high")
"""How the names of metrics in MLflow end that come with another one; those of dev begin with
``dev_`` (`values.results.metric_name`).
"""


@dataclass(frozen=True)
class Added:
    """A metric of a task of a grid: its name in results, its kind, and its options as JSON."""

    task: str
    name: str
    kind: str
    version: int
    params: str

    @classmethod
    def of(cls, task: str, spec: Spec) -> Added:
        """Return the metric that a grid file gives a task."""
        version = catalog("metrics")[spec.kind].VERSION
        return cls(task, spec.name, spec.kind, version, spec.params.model_dump_json(by_alias=True))

    @staticmethod
    def marks(metrics: Iterable[Added], task: str, name: str | None = None) -> list[str]:
        """Return digests of those metrics that are added to a task (of that of a `name` alone):
        with the key of an evaluation, what the values of the task are computed from.
        """
        of = (one for one in metrics if one.task == task and name in (None, one.name))
        return sorted(digest(asdict(one)) for one in of)

    @property
    def metric(self) -> Metric:
        """The plug-in with its options; not kept here, as plans are sent to other processes."""
        return _made(self.kind, self.params)

    def sample(self, rows: pa.Table) -> Sample | None:
        """Return what the predictions of one language and split contribute."""
        return self.metric.sample(rows)

    def value(self, rows: pa.Table) -> float:
        """Return the metric over the predictions of one language and split.

        Raises `RaxalignError` where the predictions lack a column that the metric reads, where the
        metric fails, and where the value is not a finite number.
        """
        lacking = sorted(self.metric.reads - set(rows.column_names))
        if lacking:
            there = f"the predictions have {', '.join(rows.column_names)}"
            raise self._error(f"reads {', '.join(lacking)}, but {there}")
        where = f"for {rows['lang'][0]} ({rows['split'][0]})"
        try:
            value = float(self.metric.of(rows))
        except Exception as error:
            raise self._error(f"{PluginFault.in_words(error)} {where}") from error
        fault = self.metric.measured(self.name).fault(value)
        if fault or not math.isfinite(value):
            raise self._error(f"{fault or f'is {value}'} {where}")
        return value

    @staticmethod
    def scores(
        metrics: Iterable[Added],
        predictions: pa.Table,
        own: Iterable[Mapping[str, Any]],
        pivot: str,
    ) -> list[dict[str, Any]]:
        """Compute the scores of the added metrics of one task from the predictions of an
        evaluation.

        Args:
            metrics: those of the task.
            predictions: of all its languages and splits.
            own: the scores that the task reports itself.
            pivot: the language without which `avg_zero_shot` is formed.

        Returns:
            One score per metric, language and split, then the means over languages.
        """
        taken = {score["metric"] for score in own}
        found: list[Score] = []
        for added in metrics:
            if added.name in taken:
                raise added._error(
                    f"{added.name!r} is the name of a metric of the task's own; choose another"
                    f" name, as {{my_{added.name}: {{kind: {Catalog.name_of(added.kind)}}}}}"
                )
            found += [
                Score(lang, added.name, split, added.value(rows))
                for lang, split, rows in by_language(predictions)
            ]
        langs = list(dict.fromkeys(score.lang for score in found))
        several = means(found, langs, pivot if pivot in langs else None) if len(langs) > 1 else []
        return [asdict(score) for score in (*found, *several)]

    @staticmethod
    def faults(task: Task, metrics: Sequence[Spec]) -> Iterator[tuple[str, str]]:
        """Yield what can be seen to be wrong with the metrics of a task before anything runs, as
        (name of the metric, message).
        """
        named = {spec.name for spec in metrics}
        for spec in metrics:
            lacking = sorted(catalog("metrics")[spec.kind].reads - (task.predicts or set()))
            bases = {spec.name.removeprefix("dev_"), *map(spec.name.removesuffix, _DERIVED)}
            others = sorted(bases - {spec.name})
            base = [n for n in others if n in named or Measured.find(task.metrics, n) is not None]
            if spec.name == task.main_metric:
                yield spec.name, "is the name of the task's main metric; choose another name"
            elif Measured.find(task.metrics, spec.name) is not None:
                yield spec.name, "is the name of a metric of the task's own; choose another name"
            elif base:
                yield spec.name, f"is a value of {base[0]} in MLflow; choose another name"
            elif task.predicts is not None and not task.predicts:
                yield (
                    spec.name,
                    "cannot be computed: this task's predictions are not one per example",
                )
            elif task.predicts is not None and lacking:
                there = f"the task's predictions have {', '.join(sorted(task.predicts))}"
                yield spec.name, f"reads {', '.join(lacking)}, but {there}"

    def _error(self, message: str) -> RaxalignError:
        return RaxalignError(
            f"tasks.{self.task}.metrics.{self.name}: {message}; take the metric out of the grid"
            " file, or change it: nothing has to run again"
        )


@cache
def _made(kind: str, params: str) -> Metric:
    plugin = catalog("metrics")[kind]
    made: Metric = plugin(plugin.Params.stored(params))
    return made


def by_language(predictions: pa.Table) -> Iterator[tuple[str, str, pa.Table]]:
    """Yield the languages and splits of predictions with their rows, in the order of the table."""
    predictions = of_layers(predictions)
    for lang in predictions["lang"].unique().to_pylist():
        of_lang = predictions.filter(pc.equal(predictions["lang"], lang))
        for split in of_lang["split"].unique().to_pylist():
            yield lang, split, of_lang.filter(pc.equal(of_lang["split"], split))
