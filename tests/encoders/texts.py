"""Datasets of words for tests."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from raxalign.corpora.text.dataset import DatasetWriter


def write_words(folder: Path, sentences: list[list[str]], column: str = "words") -> Path:
    """Write a text into a folder, which is returned."""
    with DatasetWriter(folder, pa.schema([(column, pa.list_(pa.string()))]), {}) as writer:
        writer.write({column: sentences})
    return folder
