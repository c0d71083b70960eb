"""The tasks of mteb, the Massive Text Embedding Benchmark (Muennighoff et al. 2023; Enevoldsen et
al. 2025), on an aligned encoder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from pydantic import Field

from raxalign.config.trust import require_trust
from raxalign.encoders.models.vectors import Layers, parse_layers
from raxalign.extras import missing, require
from raxalign.lazy import np, pa
from raxalign.measured import share
from raxalign.options.params import Removed
from raxalign.options.sources import DataPath, Source
from raxalign.sample import Sample, column, numbered
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs, TaskNeeds, means
from raxalign.tasks.embedding_benchmark import registry
from raxalign.tasks.vectors import frame
from raxalign.tasks.vectors.frame import (
    DIRECTIONS,
    SearchDirection,
    direction_of,
    with_directions,
)
from raxalign.tasks.vectors.sentences import SentenceReading

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.tasks.embedding_benchmark.scores import SubsetScore
    from raxalign.train.runtime import Runtime

_OF = "main_score_of_"
_COLUMNS = {
    **dict.fromkeys(("lang", "split", "task", "subset", "direction"), "string"),
    **dict.fromkeys(("id", "unit"), "int64"),
    "score": "double",
}


def _of_means(rows: pa.Table, metric: str) -> Sample | None:
    """Return the sample of a mean over tasks of means over subsets with scores per example."""
    name, direction = direction_of(metric)
    asked = np.ones(len(rows), dtype=bool)
    if name != "main_score":
        asked = column(rows, "task") == name.removeprefix(_OF)
    if direction is not None:
        asked = asked & (column(rows, "direction") == direction)
    gains = column(rows, "score").astype(float)[asked]
    if not len(gains) or np.isnan(gains).any():
        return None
    tasks, subsets, units = (column(rows, key)[asked] for key in ("task", "subset", "unit"))
    many = {task: len({*subsets[tasks == task]}) for task in {*tasks}}
    # each task weighs the same: its parts are repeated where another has more of them
    times = np.array([math.lcm(*many.values()) // many[task] for task in tasks])
    row = np.repeat(np.arange(len(tasks)), times)
    copy = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times)
    parts = [f"{tasks[r]}/{subsets[r]}/{k}" for r, k in zip(row, copy, strict=True)]
    return Sample.summed(units[row], np.array(parts), gains[row], np.ones(len(row)))


@final
class Mteb(Task):
    """Tasks of mteb as mteb runs them, by its names; texts are read with the transforms of their
    language, which mteb's subsets name.

    The score of a language is the mean over the tasks of their main scores, each the mean over the
    task's subsets. A bitext has two subsets with the pivot where mteb has both directions, and
    counts under the other language; other tasks have the subset of the language. Splits called
    `validation` are `dev`, those for training are left out, all others are `test`.

    Types of tasks: bitext mining, classification with one label or several, clustering, pair
    classification, reranking, retrieval. Bitext mining has scores per example, and classification
    has those of its accuracy, so that differences are tested; the other values stand alone.

    Data: that of mteb's tasks, from the hub or from local folders (`data`).

    Reference: Muennighoff et al. (2023), Enevoldsen et al. (2025).

    Relations: The tasks of this package read transforms and statistics in their own manner and have
    predictions for tests; choose this one to compare with figures of mteb's leaderboards.

    Example:
        tasks:
          mteb: {tasks: [Tatoeba, SIB200Classification], pooling: mean}
    """

    VERSION = 1
    papers = ("muennighoff2023mteb", "enevoldsen2025mmteb")
    accepts = frozenset({"transformer", "static"})
    metrics = (
        *with_directions(
            share(
                "main_score",
                "Mean over the tasks of the score that mteb names the main one.",
                sample=_of_means,
            )
        ),
        share(_OF + "{...}", "Main score of one of several tasks.", role="part", sample=_of_means),
    )
    main_metric = "main_score"
    predicts = frozenset({"id", "unit", "task", "subset", "direction", "score"})

    class Params(Task.Params):
        """Which tasks, where their data are, and how texts become vectors."""

        removed: ClassVar[Mapping[str, Removed]] = {
            "specials": Removed("leave it out: special pieces are part of means", keyed="include"),
        }
        tasks: tuple[str, ...] = Field(min_length=1)
        """Names of mteb's tasks, such as `NTREXBitextMining`."""
        data: dict[str, DataPath] = Field(default_factory=dict)
        """Local folders of data sets, by the names of their tasks; mteb reads the others on the
        hub.
        """
        definitions: DataPath | None = None
        """Python file with tasks of your own, classes that are derived from mteb's."""
        layers: Layers = Field("last", description=frame.LAYERS)
        pooling: frame.OwnPooling = Field("mean", description=frame.SENTENCE_POOLING)

    params: Params

    def needs(self) -> TaskNeeds:
        """Return nothing of the grid's corpus."""
        return TaskNeeds(pooling=f"pooling: {self.params.pooling}")

    def canonical(self) -> dict[str, Any]:
        """Return the params with the version of mteb; `specials` only where there is a mean."""
        found = self.params.identity()
        if self.params.pooling not in ("mean", "weighted"):
            del found["specials"]
        try:
            return {**found, "mteb": version("mteb")}
        except PackageNotFoundError:
            return found

    def reads(self, n_layers: int) -> Reads:
        """Return `layers`."""
        return Reads(frozenset(parse_layers(self.params.layers, n_layers)))

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Report a missing library, unknown tasks, and tasks without the languages."""
        params = self.params
        if absent := missing("mteb", "tasks"):
            return absent
        if params.definitions is not None:
            own = Path(params.definitions)
            if not own.is_file():
                return [f"definitions: there is no file {own}"]
            require_trust(own, [own])
        unused = [
            f"data.{name}: is not among `tasks`" for name in params.data if name not in params.tasks
        ]
        return [*registry.faults(self._known(), params.tasks, languages, pivot), *unused]

    def _known(self) -> Mapping[str, Any]:
        return registry.known_tasks(self.params.definitions)

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:  # noqa: ARG002
        """Return the data of the tasks: files of local folders, or mteb's revisions."""
        return registry.sources(self._known(), self.params.tasks, self.params)

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,  # noqa: ARG002
    ) -> Outcome:
        """Run every task in every language. Raises `DependencyError` without mteb."""
        require("mteb", "task mteb")
        scores: list[Score] = []
        tables: list[pa.Table] = []
        notes: dict[str, Any] = {"mteb": version("mteb")}
        for lang in languages:
            found: list[_Found] = []
            view, notes[lang] = aligned.toward(lang), {}
            for name in self.params.tasks:
                own, notes[lang][name] = self._of_task(view, name, lang, inputs.pivot)
                found += own
            tables += [_examples(lang, way, entry) for way, entry in found]
            for split in dict.fromkeys(entry.split for _, entry in found):
                values = self._values([part for part in found if part[1].split == split])
                scores += [Score(lang, metric, split, value) for metric, value in values.items()]
        if len(languages) > 1:
            scores += means(scores, languages, unseen=inputs.unseen)
        return Outcome(scores, pa.concat_tables(tables), notes)

    def _of_task(
        self, aligned: AlignedEncoder, name: str, lang: str, pivot: str
    ) -> tuple[list[_Found], dict[str, Any]]:
        """Return what is found for the subsets of one task in one language, and notes."""
        from raxalign.tasks.embedding_benchmark.scores import EncoderForMteb, loaded, scores_of

        params, kind = self.params, self._known()[name]
        sides = registry.subsets_of(kind, lang, pivot)
        task = loaded(kind, list(sides), registry.folder_of(kind, params.data))
        reading = SentenceReading(params.layers, params.pooling)
        encoder = EncoderForMteb(aligned, reading, task, sides)
        found = list(scores_of(task, encoder))
        notes = {
            "main_score": task.metadata.main_score,
            "unread": encoder.unread,
            **{entry.part: dict(entry.reported) for entry in found},
        }
        return [(_direction(sides[entry.subset], lang), entry) for entry in found], notes

    def _values(self, found: Sequence[_Found]) -> dict[str, float]:
        """Return the values by metric of one language and split. There is no mean where one of the
        tasks lacks the split.
        """
        values, names = dict[str, float](), self.params.tasks
        for way in (None, *DIRECTIONS):
            asked = [entry for own, entry in found if way in (None, own)]
            by_task = {
                name: float(np.mean([entry.value for entry in asked if entry.task == name]))
                for name in dict.fromkeys(entry.task for entry in asked)
            }
            if len(by_task) == len(names):
                values[f"main_score_{way}" if way else "main_score"] = float(
                    np.mean(list(by_task.values()))
                )
            if way is None and len(names) > 1:
                values |= {_OF + name: value for name, value in by_task.items()}
        return values


_Found = tuple[SearchDirection | None, "SubsetScore"]
"""The direction of a subset (None: it has one language), and its score."""


def _direction(sides: tuple[str, ...], lang: str) -> SearchDirection | None:
    """Return the direction of a search whose queries are the first side."""
    if len(sides) == 1:
        return None
    return "to_pivot" if sides[0] == lang else "from_pivot"


def _examples(lang: str, way: SearchDirection | None, entry: SubsetScore) -> pa.Table:
    """Return the predictions of a subset; one row without a score stands for a subset that has
    none per example. The same row of a task is one unit in all its languages and directions.
    """
    scores = [None] if entry.each is None else entry.each.tolist()
    n = len(scores)
    names = np.array([f"{entry.task}/{entry.part.split()[-1]}/{row}" for row in range(n)])
    columns: dict[str, Any] = {"id": range(n), "unit": numbered(names), "score": scores}
    columns |= {"lang": [lang] * n, "split": [entry.split] * n, "task": [entry.task] * n}
    columns |= {"subset": [entry.part] * n, "direction": [way] * n}
    types = [(name, pa.type_for_alias(kind)) for name, kind in _COLUMNS.items()]
    return pa.table(columns, schema=pa.schema(types))
