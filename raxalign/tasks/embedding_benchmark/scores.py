"""What mteb finds for the subsets of a task, with scores per example where it gives them."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mteb
from mteb.models.model_meta import ModelMeta
from mteb.similarity_functions import cos_sim, pairwise_cos_sim

from raxalign.arrays import Floats
from raxalign.corpora.readers.hub import hub_error
from raxalign.corpora.readers.repository import first_line
from raxalign.corpora.text.words import tokenize, within_text
from raxalign.errors import RaxalignError, TransientError
from raxalign.lazy import np
from raxalign.tasks.embedding_benchmark.registry import BITEXT, SIDES
from raxalign.tasks.vectors.sentences import SentenceReading, sentence_vectors

if TYPE_CHECKING:
    import torch
    from mteb.abstasks import AbsTask

    from raxalign.encoders.models.aligned import AlignedEncoder


class EncoderForMteb:
    """mteb's `EncoderProtocol`. Similarity is the cosine.

    Args:
        aligned: the encoder, in its view toward the other language of the pivot.
        reading: how sentences become vectors.
        task: the task that is evaluated, whose data are loaded.
        spoken: the languages of a subset's sides, or of a column, by its name.
    """

    similarity = staticmethod(cos_sim)
    similarity_pairwise = staticmethod(pairwise_cos_sim)

    def __init__(
        self,
        aligned: AlignedEncoder,
        reading: SentenceReading,
        task: AbsTask,
        spoken: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._aligned, self._reading, self._task, self._spoken = aligned, reading, task, spoken
        self.unread = 0
        self.mteb_model_meta = ModelMeta.create_empty({"name": "raxalign/aligned", "revision": "1"})

    def encode(self, inputs: Any, *, hf_split: str, hf_subset: str, **_: Any) -> torch.Tensor:
        """Return the vectors (texts, H) of the texts that the batches hold."""
        texts = [text for batch in inputs for text in batch["text"]]
        lang = self._language(texts, hf_split, hf_subset)
        divide = tokenize(lang)
        words = [within_text(divide, text) for text in texts]
        vectors_SH, read = sentence_vectors(self._aligned, words, lang, self._reading)
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


def loaded(kind: type[AbsTask], subsets: list[str], folder: Path | None) -> Any:
    """Return a task with the data of some subsets, from a local folder where there is one. Training
    splits are left out where there are others.

    Raises `DataError` or `TransientError` where the data cannot be had.
    """
    task: Any = kind()
    if folder is not None:
        dataset = {"path": str(folder), "revision": "local"}
        task.metadata = task.metadata.model_copy(update={"dataset": dataset})
    task.hf_subsets = subsets
    task.filter_eval_splits([s for s in task.eval_splits if s != "train"] or task.eval_splits)
    try:
        with _quiet():
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
