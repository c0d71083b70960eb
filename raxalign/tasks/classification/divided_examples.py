"""The training examples of a language as files, made once for all trainings that read them: their
pieces and fingerprints, and their columns without the texts.
"""

from __future__ import annotations

import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from raxalign.corpora.text.dataset import DatasetWriter, read_metadata, read_table
from raxalign.encoders.models.flat_pieces import write_pieces
from raxalign.tasks.classification.examples import Divided, Example, Examples
from raxalign.tasks.classification.spooled import SpooledExamples, has_seconds
from raxalign.tasks.transfer.divided_rows import ARRAYS, DividedTexts

_COLUMNS, _FINGERPRINTS = "examples", "fingerprints.npy"
_FIRST, _SECOND = "first", "second"


def write_examples(
    examples: Examples, lang: str, tokenizer: Any, threads: int, folder: Path
) -> dict[str, Any]:
    """Write what `read_examples` reads.

    Args:
        examples: The training examples.
        lang: Their language.
        tokenizer: The tokenizer that makes the pieces.
        threads: The largest number of processes at once.
        folder: Takes the files.

    Returns:
        For the first and the second texts the numbers of texts, words and pieces, and of unknown
        ones among these.
    """
    np.save(folder / _FINGERPRINTS, examples.fingerprints())
    table = SpooledExamples.over(examples.rows).table
    texts = [_FIRST, _SECOND] if has_seconds(examples.rows) else [_FIRST]
    others = [entry.name for entry in fields(Example) if entry.name not in (_FIRST, _SECOND)]
    notes = {"source": examples.source, "unlabelled": examples.unlabelled}
    _write(table.select(others), folder / _COLUMNS, notes)
    with tempfile.TemporaryDirectory(prefix="texts-", dir=folder) as work:
        _write(table.select(texts), Path(work), {})
        columns = dict.fromkeys(texts, lang)
        return write_pieces(tokenizer, Path(work), columns, threads, folder, ARRAYS)


def _write(table: pa.Table, folder: Path, metadata: dict[str, Any]) -> None:
    with DatasetWriter(folder, table.schema, metadata) as writer:
        for batch in table.to_batches():
            writer.write(batch)


def read_examples(folder: Path, lang: str, source: str | None) -> Examples:
    """Return the examples that `write_examples` wrote, mapped: their columns, pieces and
    fingerprints, without the texts.

    Args:
        folder: The folder that was written.
        lang: The language of the examples.
        source: The name of their source in messages (None: that which was written).

    Raises:
        DataError: A part cannot be read.
    """
    notes = read_metadata(folder / _COLUMNS)
    firsts = DividedTexts.mapped(folder / _FIRST, lang)
    paired = (folder / _SECOND).exists()
    seconds = DividedTexts.mapped(folder / _SECOND, lang) if paired else None
    fingerprints = np.load(folder / _FINGERPRINTS, mmap_mode="r")
    rows = SpooledExamples(read_table(folder / _COLUMNS))
    divided = Divided(fingerprints, firsts, seconds)
    return Examples(source or notes["source"], rows, notes["unlabelled"], divided)
