"""Monolingual text that encoders are trained on."""

from __future__ import annotations

from pathlib import Path

from raxalign.errors import DataError


def read_words(folder: Path, limit: int) -> list[list[str]]:
    """The first `limit` sentences (column ``words``) of a dataset folder. Raises `DataError` where
    it is not a dataset of text.
    """
    from raxalign.corpora.text.dataset import read_table
    from raxalign.corpora.text.sentences import read_sentences

    table = read_table(folder)
    if "words" not in table.column_names:
        raise DataError(
            folder,
            f"has no column `words`, so it is not text (columns: {', '.join(table.column_names)})",
        )
    return read_sentences(table.slice(0, limit), "words")
