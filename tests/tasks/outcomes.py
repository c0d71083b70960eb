"""What the tests of tasks on vectors share: planted encoders, and outcomes by metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.encoders.models.aligned import AlignedEncoder, Transform
from raxalign.encoders.models.static import Lookup, StaticEncoder, VectorSpace
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


def static(
    spaces: Mapping[str, Mapping[str, Sequence[float]]], transforms: Sequence[Transform] = ()
) -> AlignedEncoder:
    """An encoder of these vectors by language and word; French is as German."""
    tables = {
        lang: VectorSpace(list(words), np.array(list(words.values()), np.float32))
        for lang, words in spaces.items()
    }
    encoder = StaticEncoder({**tables, "fr": tables["de"]}, 2, Lookup("keep", "none"))
    return AlignedEncoder(encoder, tuple(transforms))


def evaluated(
    task: Task, aligned: AlignedEncoder, languages: Sequence[str] = ("de",), **inputs: Any
) -> Outcome:
    """The outcome of a task with English as the pivot."""
    given = TaskInputs("en", **inputs)
    return task.evaluate(aligned, tuple(languages), given, Runtime(), None)


def values(outcome: Outcome, lang: str = "de-en", split: str = "test") -> dict[str, float]:
    """The values by metric."""
    chosen = [score for score in outcome.scores if (score.lang, score.split) == (lang, split)]
    return {score.metric: score.value for score in chosen}
