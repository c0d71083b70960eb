"""The tasks of mteb, the Massive Text Embedding Benchmark (Muennighoff et al. 2023; Enevoldsen et
al. 2025), on an aligned encoder.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from pydantic import Field

from raxalign.arrays import Floats
from raxalign.catalog import PluginFile
from raxalign.corpora.readers.hub import dataset_revision, hub_error
from raxalign.corpora.readers.repository import first_line
from raxalign.corpora.text.words import tokenize, within_text
from raxalign.encoders.models.folder import is_hub_name
from raxalign.encoders.models.vectors import Layers, parse_layers
from raxalign.errors import DataError, RaxalignError, TransientError
from raxalign.extras import missing, require
from raxalign.languages import spelled
from raxalign.lazy import np, pa
from raxalign.measured import share
from raxalign.options.params import Removed
from raxalign.options.sources import DataPath, LocalFile, RemoteData, Source
from raxalign.sample import Sample, column, numbered
from raxalign.store.key import digest, file_digest
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs, TaskNeeds, means
from raxalign.tasks.vectors import frame
from raxalign.tasks.vectors.frame import (
    DIRECTIONS,
    SearchDirection,
    SentenceReading,
    direction_of,
    with_directions,
)
from raxalign.trust import require_trust

if TYPE_CHECKING:
    import torch
    from mteb.abstasks import AbsTask

    from raxalign.encoders.models.aligned import AlignedEncoder
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


BITEXT = "BitextMining"
SIDES = ("sentence1", "sentence2")
"""The columns that mteb documents for the data of bitext mining."""
TYPES = (
    BITEXT,
    "Classification",
    "MultilabelClassification",
    "Clustering",
    "PairClassification",
    "Reranking",
    "Retrieval",
)
"""The types of mteb's tasks that are evaluated: their scores are shares."""
_SHOWN = 8


def known_tasks(definitions: str | None) -> Mapping[str, type[AbsTask]]:
    """Return the tasks of mteb, and those of a user's file (None: there is none), by name. Raises
    `DataError` for a file that has no task, and `PluginFault` for one that does not run.
    """
    from mteb.get_tasks import TASK_LIST

    own = _defined(definitions, file_digest(Path(definitions))) if definitions else {}
    return {**{task.metadata.name: task for task in TASK_LIST}, **own}


@cache
def _defined(path: str, digest: str) -> Mapping[str, type[AbsTask]]:
    """Execute a file, once per content, and return the tasks that it defines."""
    from mteb.abstasks import AbsTask

    file = Path(path)
    module = PluginFile.executed(file, file.read_bytes(), f"raxalign_outside.mteb_{digest[:16]}")
    found: dict[str, type[AbsTask]] = {
        entry.metadata.name: entry
        for entry in vars(module).values()
        if isinstance(entry, type)
        and issubclass(entry, AbsTask)
        and entry.__module__ == module.__name__
        and hasattr(entry, "metadata")
    }
    if not found:
        told = "defines no task: no class with `metadata` that is derived from one of mteb's"
        raise DataError(path, told)
    return found


def faults(
    known: Mapping[str, type[AbsTask]],
    names: tuple[str, ...],
    languages: tuple[str, ...],
    pivot: str,
) -> Iterator[str]:
    """Yield what is wrong with tasks by these names in these languages; each begins with the option
    that is at fault.
    """
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield f"tasks: {name}: mteb {version('mteb')} has no task of this name{hint}"
            continue
        metadata = known[name].metadata
        whole = not hasattr(metadata, "tasks")
        if metadata.type not in TYPES or list(metadata.modalities) != ["text"] or not whole:
            sort = f"of mteb's type {metadata.type}" if whole else "a collection of tasks"
            types = f"{', '.join(TYPES)}, of text alone"
            yield f"tasks: {name} is {sort}; the types that are evaluated are {types}"
            continue
        subsets = list(metadata.hf_subsets_to_langscripts)
        more = f" and {len(subsets) - _SHOWN:,} more" if len(subsets) > _SHOWN else ""
        for lang in languages:
            if not subsets_of(known[name], lang, pivot):
                pair = f"{lang} with {pivot}" if metadata.type == BITEXT else lang
                yield (
                    f"tasks: {name} has no subset of {pair}; its subsets are"
                    f" {', '.join(subsets[:_SHOWN])}{more}. Give the task its own `languages`"
                )


def subsets_of(task: type[AbsTask], lang: str, pivot: str) -> dict[str, tuple[str, ...]]:
    """Return the subsets of a language, with the languages of their sides in the order in which
    mteb names them: pairs with the pivot of a bitext, else subsets of the language alone.
    """
    wanted = {lang, pivot} if task.metadata.type == BITEXT else {lang}
    found = {}
    for subset, codes in task.metadata.hf_subsets_to_langscripts.items():
        sides = tuple(spelled(code, (lang, pivot)) or code for code in codes)
        if set(sides) == wanted and len(sides) == len(wanted):
            found[subset] = sides
    return found


def folder_of(task: type[AbsTask], given: Mapping[str, str]) -> Path | None:
    """Return the local folder of a task's data: the given one, or that of its metadata; None where
    it is on the hub.
    """
    if (name := task.metadata.name) in given:
        return Path(given[name])
    path = Path(str(task.metadata.dataset["path"]))
    return path if path.is_absolute() else None


def _commit(path: str, revision: str, downloads: Path) -> str:  # noqa: ARG001
    return dataset_revision(path, revision)


def sources(
    known: Mapping[str, type[AbsTask]], names: tuple[str, ...], params: Any
) -> dict[str, Source]:
    """Return the data of some tasks: each file of a local folder, the user's file, or a data set on
    the hub at the revision that mteb names.
    """
    found: dict[str, Source] = {}
    for name in names:
        folder = folder_of(known[name], params.data)
        if folder is None:
            dataset = known[name].metadata.dataset
            path, revision = str(dataset["path"]), str(dataset.get("revision") or "main")
            if is_hub_name(path):  # else the data are in the user's file, which is a source itself
                look_up = partial(_commit, path, revision)
                found[name] = RemoteData(f"hub:{path}", revision, look_up)
        else:
            found |= LocalFile.within(folder, name)
    if params.definitions is not None:
        found["definitions"] = LocalFile(Path(params.definitions))
    return found


class EncoderForMteb:
    """mteb's `EncoderProtocol`. Similarity is the cosine.

    Args:
        aligned: the encoder, in its view toward the other language of the pivot.
        reading: how sentences become vectors.
        task: the task that is evaluated, whose data are loaded.
        spoken: the languages of a subset's sides, or of a column, by its name.
    """

    def __init__(
        self,
        aligned: AlignedEncoder,
        reading: SentenceReading,
        task: AbsTask,
        spoken: Mapping[str, tuple[str, ...]],
    ) -> None:
        from mteb.models.model_meta import ModelMeta
        from mteb.similarity_functions import cos_sim, pairwise_cos_sim

        self._aligned, self._reading, self._task, self._spoken = aligned, reading, task, spoken
        self.unread = 0
        self.similarity, self.similarity_pairwise = cos_sim, pairwise_cos_sim
        self.mteb_model_meta = ModelMeta.create_empty({"name": "raxalign/aligned", "revision": "1"})

    def encode(self, inputs: Any, *, hf_split: str, hf_subset: str, **_: Any) -> torch.Tensor:
        """Return the vectors (texts, H) of the texts that the batches hold."""
        texts = [text for batch in inputs for text in batch["text"]]
        lang = self._language(texts, hf_split, hf_subset)
        divide = tokenize(lang)
        words = [within_text(divide, text) for text in texts]
        vectors_SH, read = self._reading.vectors(self._aligned, words, lang)
        self.unread += int((~read).sum())
        return vectors_SH.float().cpu()

    def _language(self, texts: list[str], split: str, subset: str) -> str:
        """Return the language of texts. For a parallel data set mteb names the column. For a pair
        it does not say which side it asks for: that is the column that has these texts.
        """
        task: Any = self._task
        if getattr(task, "parallel_subsets", False):
            for pair, sides in self._spoken.items():
                if subset in (names := pair.split("-")):
                    return sides[names.index(subset)]
        sides = self._spoken[subset]
        if len(sides) == 1:
            return sides[0]
        rows = task.dataset.get(subset, task.dataset)[split]
        columns = zip(SIDES, sides, strict=True)
        same = [lang for column, lang in columns if list(rows[column]) == texts]
        if len(same) == 1:
            return same[0]
        raise RaxalignError(
            f"mteb: {task.metadata.name}: both sides of {subset} ({split}) have the same texts, so"
            " that their languages are not known: leave the task out"
            if same
            else f"mteb: {task.metadata.name}: mteb changes the texts of {subset} ({split}) before"
            " they are read, so that their language is not known: leave the task out"
        )


_DEV = ("validation", "dev")
_SAME = 1e-6


@dataclass(frozen=True)
class SubsetScore:
    """The main score of a task on one subset and split (`dev` or `test`; `part` names both as mteb
    does), what each example adds to it (None where mteb's predictions do not give that), and all
    numbers that mteb reports.
    """

    task: str
    subset: str
    part: str
    split: str
    value: float
    each: Floats | None
    reported: Mapping[str, float]


def loaded(
    kind: type[AbsTask],
    subsets: list[str],
    folder: Path | None,
    state: str | None,
    cache: Path | None,
) -> Any:
    """Return a task with the data of some subsets, from a local folder where there is one, else
    from the hub, at its `state`: the digest of the folder's files, by which `cache` has its rows,
    or a commit (None: what mteb names). Training splits are left out where there are others.

    Raises `DataError` or `TransientError` where the data cannot be had.
    """
    task: Any = kind()
    dataset = {**task.metadata.dataset, **({"revision": state} if state else {})}
    if folder is not None:
        dataset = {"path": str(folder), "revision": "local"}
    task.metadata = task.metadata.model_copy(update={"dataset": dataset})
    task.hf_subsets = subsets
    task.filter_eval_splits([s for s in task.eval_splits if s != "train"] or task.eval_splits)
    try:
        with _quiet(), _rows_kept(cache and folder and cache / "hub" / "copies" / str(state)):
            task.load_data()
    except Exception as error:
        name, found = task.metadata.name, hub_error(f"{task.metadata.name} (mteb)", error)
        if isinstance(found, TransientError):
            remedy = f"Go online, or name a local copy: `data: {{{name}: FOLDER}}`"
            found = TransientError(f"mteb: {name}: no data ({first_line(error)}). {remedy}")
        raise found from error
    return task


def scores_of(task: AbsTask, encoder: EncoderForMteb) -> Iterator[SubsetScore]:
    """Evaluate an encoder on a task that is loaded, by `mteb.evaluate`, and yield what it finds."""
    import mteb

    with tempfile.TemporaryDirectory(prefix="raxalign-") as folder:
        with _quiet():
            result: Any = mteb.evaluate(
                encoder,
                task,
                cache=None,
                co2_tracker=False,
                encode_kwargs={"batch_size": 1024, "show_progress_bar": False},
                prediction_folder=folder,
                show_progress_bar=False,
            )
        file = Path(folder) / task.prediction_file_name
        predicted = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    name, metric = task.metadata.name, task.metadata.main_score
    for split, entries in result.task_results[0].scores.items():
        for entry in entries:
            subset, value = entry["hf_subset"], float(entry["main_score"])
            each = _each(task, split, subset, predicted).get(metric)
            if each is not None and abs(each.mean() - value) > _SAME:
                each = None
            numbers = {key: float(v) for key, v in entry.items() if isinstance(v, int | float)}
            part, ours = f"{subset} {split}", "dev" if split in _DEV else "test"
            yield SubsetScore(name, subset, part, ours, value, each, numbers)


def _each(task: Any, split: str, subset: str, predicted: Mapping[str, Any]) -> dict[str, Floats]:
    """Return scores per example by metric, whose means are mteb's values; none where its
    predictions do not give them.

    The F1 that mteb has for bitexts is the mean over labels, and a label is the place of a
    sentence. So that of an example is 2 / (1 + n) where its translation is found, n being the
    number of sentences for which that one is found, and 0 elsewhere.
    """
    bitext, parallel = task.metadata.type == BITEXT, getattr(task, "parallel_subsets", False)
    found = predicted.get("parallel" if parallel else subset, {}).get(split)
    rows: Any = task.dataset if parallel else task.dataset.get(subset, task.dataset)
    if found is None:
        return {}
    if bitext:
        pair = subset if parallel else "-".join(SIDES)
        places = np.array([answer["corpus_id"] for answer in found[pair]])
        right = (places == np.arange(len(places))).astype(float)
        return {"accuracy": right, "f1": right * 2 / (1 + np.bincount(places)[places])}
    if task.metadata.type != "Classification" or task.is_cross_validation:
        return {}
    labels = np.array(rows[split][task.label_column_name])
    return {"accuracy": (np.array(found) == labels).mean(0)}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the progress bars and warnings of mteb off the terminal; its errors are exceptions."""
    with (
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _rows_kept(cache: Path | None) -> Iterator[None]:
    """Have the datasets library keep rows in a folder (None: its own). By itself it takes those of
    a file of the same path and time for those of another one.
    """
    from datasets import config as settings

    own = settings.HF_DATASETS_CACHE
    settings.HF_DATASETS_CACHE = own if cache is None else cache
    try:
        yield
    finally:
        settings.HF_DATASETS_CACHE = own


_Found = tuple[SearchDirection | None, SubsetScore]
"""The direction of a subset (None: it has one language), and its score."""


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
            "specials": Removed("leave it out: special tokens are part of means", keyed="include"),
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
        return [*faults(self._known(), params.tasks, languages, pivot), *unused]

    def _known(self) -> Mapping[str, Any]:
        return known_tasks(self.params.definitions)

    def sources(self, lang: str, pivot: str) -> Mapping[str, Source]:  # noqa: ARG002
        """Return the data of the tasks: files of local folders, or mteb's revisions."""
        return sources(self._known(), self.params.tasks, self.params)

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
                own, notes[lang][name] = self._of_task(view, name, lang, inputs)
                found += own
            tables += [_examples(lang, way, entry) for way, entry in found]
            for split in dict.fromkeys(entry.split for _, entry in found):
                values = self._values([part for part in found if part[1].split == split])
                scores += [Score(lang, metric, split, value) for metric, value in values.items()]
        if len(languages) > 1:
            scores += means(scores, languages, unseen=inputs.unseen)
        return Outcome(scores, pa.concat_tables(tables), notes)

    def _of_task(
        self, aligned: AlignedEncoder, name: str, lang: str, inputs: TaskInputs
    ) -> tuple[list[_Found], dict[str, Any]]:
        """Return what is found for the subsets of one task in one language, and notes."""
        params, kind = self.params, self._known()[name]
        sides, folder = subsets_of(kind, lang, inputs.pivot), folder_of(kind, params.data)
        state = inputs.digests.get(f"{name}/{lang}")
        if folder is not None:
            state = digest({n: d for n, d in inputs.digests.items() if n.startswith(f"{name}/")})
        task = loaded(kind, list(sides), folder, state, inputs.downloads)
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
