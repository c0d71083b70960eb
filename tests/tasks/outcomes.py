"""What the tests of tasks share: planted encoders, trainings, and outcomes by metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa

from raxalign.catalog import catalog
from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.encoders.models.aligned import AlignedEncoder
from raxalign.encoders.models.static import Floats, Lookup, StaticEncoder, VectorSpace
from raxalign.encoders.models.transforms import Transform
from raxalign.tasks.base import Outcome, Task, TaskInputs
from raxalign.train.runtime import Runtime

_TYPES = {"id": pa.int64(), **dict.fromkeys(("src_links", "tgt_links"), pa.list_(pa.int32()))}


def write_dataset(folder: Path, **columns: Sequence[Any]) -> Path:
    """Write a dataset whose columns are ids, links, or else sentences."""
    words = pa.list_(pa.string())
    schema = pa.schema([(name, _TYPES.get(name, words)) for name in columns])
    with DatasetWriter(folder, schema, {}) as writer:
        writer.write(columns)
    return folder


def write_heldout(folder: Path, dev: int = 0, **columns: Sequence[Any]) -> Path:
    """Write rows as the test side of held-out sentences, and the first `dev` as the other one."""
    write_dataset(folder / "data", **columns)
    write_dataset(folder / "dev", **{name: rows[:dev] for name, rows in columns.items()})
    return folder


def write_parquet(path: Path, **columns: Sequence[Any]) -> None:
    """Write a file of a data set, and the folders that it is in."""
    datasets.Dataset.from_dict(columns).to_parquet(path)


def write_hub(
    folder: Path, config: str, split: str, columns: Mapping[str, Any], types: Mapping[str, Any]
) -> None:
    """Write a split of a data set as the hub's branch of converted files has it."""
    table = datasets.Dataset.from_dict(dict(columns), features=datasets.Features(types))
    table.to_parquet(folder / config / split / "0000.parquet")


def static(
    spaces: Mapping[str, Mapping[str, Sequence[float] | Floats]],
    transforms: Sequence[Transform] = (),
) -> AlignedEncoder:
    """An encoder of these vectors by language and word; French is as German if it is not given."""
    tables = {
        lang: VectorSpace(list(words), np.array(list(words.values()), np.float32))
        for lang, words in spaces.items()
    }
    size = tables["de"].vectors_VH.shape[1]
    encoder = StaticEncoder({"fr": tables["de"], **tables}, size, Lookup("keep", "none"))
    return AlignedEncoder(encoder, tuple(transforms))


def made(kind: str, **options: Any) -> Any:
    """A task of the catalogue with these options."""
    task = catalog("tasks")[kind]
    return task(task.Params.model_validate(options))


def evaluated(
    task: Task, aligned: AlignedEncoder, languages: Sequence[str] = ("de",), **inputs: Any
) -> Outcome:
    """The outcome of a task with English as the pivot."""
    given = TaskInputs("en", **inputs)
    return task.evaluate(aligned, tuple(languages), given, Runtime(), None)


def trained(
    task: Any,
    aligned: AlignedEncoder,
    folder: Path,
    languages: tuple[str, ...] = ("de",),
    *,
    start: AlignedEncoder | None = None,
    runtime: Runtime | None = None,
    **inputs: Any,
) -> tuple[Outcome, Any]:
    """The outcome and the notes of a training with English as the pivot, in a new folder; `start`
    is the encoder that it begins with, where that is another one.
    """
    folder.mkdir()
    given, spoken = TaskInputs("en", **inputs), task.training().languages(languages, "en")
    notes = task.train(start or aligned, spoken, given, runtime or Runtime(), folder)
    spoken = task.languages(languages, "en")
    return task.evaluate(aligned, spoken, given, Runtime(), folder), notes


def values(outcome: Outcome, lang: str = "de-en", split: str = "test") -> dict[str, float]:
    """The values by metric."""
    chosen = [score for score in outcome.scores if (score.lang, score.split) == (lang, split)]
    return {score.metric: score.value for score in chosen}


def scores(outcome: Outcome, metric: str) -> dict[tuple[str, str], float]:
    """The values of a metric by language and split."""
    return {(s.lang, s.split): s.value for s in outcome.scores if s.metric == metric}
