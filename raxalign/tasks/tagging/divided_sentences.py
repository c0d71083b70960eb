"""The training sentences of a tagger as files, made once for all trainings that read them: their
pieces, tags and fingerprints.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.corpora.text.sentences import cells, sentence_columns
from raxalign.encoders.models.flat_pieces import map_array, write_pieces
from raxalign.tasks.tagging.sentences import Sentences
from raxalign.tasks.transfer.divided_rows import ARRAYS, DividedTexts

_RECORD, _COLUMN = "sentences.json", "words"
_CHUNK = 8192


@dataclass(frozen=True)
class DividedSentences:
    """The sentences that a tagger is trained on, without their texts.

    Attributes:
        source: The name of their source in messages.
        texts: Their pieces.
        names: All tags.
        tags_W: The places of the words' tags among `names`, sentence after sentence.
        hashes: The fingerprints of the sentences.
        left_out: How many rows of the source were left out.
    """

    source: str
    texts: DividedTexts
    names: Sequence[str]
    tags_W: np.ndarray
    hashes: npt.NDArray[np.int64]
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.hashes)

    def tags(self) -> set[str]:
        """Return all tags that a word has."""
        return set(self.names)

    def n_words(self) -> int:
        """Return the number of words."""
        return len(self.tags_W)

    def numbers(self, labels: Sequence[str]) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the places of each sentence's tags among `labels`."""
        place = np.array([labels.index(name) for name in self.names], np.int64)
        offsets = self.texts.word_offsets
        for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            yield place[self.tags_W[start:stop]]

    def fingerprints(self) -> npt.NDArray[np.int64]:
        """Return a hash of each sentence's text."""
        return self.hashes


def write_sentences(
    sentences: Sentences, lang: str, tokenizer: Any, threads: int, folder: Path
) -> dict[str, Any]:
    """Write what `read_sentences` reads.

    Args:
        sentences: The training sentences.
        lang: Their language.
        tokenizer: The tokenizer that makes the pieces.
        threads: The largest number of processes at once.
        folder: Takes the files.

    Returns:
        The numbers of sentences, words and pieces, and of unknown ones among these.
    """
    names = sorted(sentences.tags())
    tags = [np.zeros(0, np.int64), *sentences.numbers(names)]
    np.save(folder / "tags.npy", np.concatenate(tags).astype(np.int32))
    np.save(folder / "fingerprints.npy", sentences.fingerprints())
    record = {"source": sentences.source, "tags": names, "left_out": sentences.left_out}
    (folder / _RECORD).write_text(json.dumps(record), encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="texts-", dir=folder) as work:
        _write(sentences.words(), Path(work))
        return write_pieces(tokenizer, Path(work), {_COLUMN: lang}, threads, folder, ARRAYS)


def _write(sentences: Sequence[Sequence[str]], folder: Path) -> None:
    """Write the words of sentences, with their running text where it is known."""
    schema = pa.schema(sentence_columns(_COLUMN))
    with DatasetWriter(folder, schema, {}) as writer:
        for start in range(0, len(sentences), _CHUNK):
            rows = [cells(_COLUMN, words) for words in sentences[start : start + _CHUNK]]
            writer.write({name: [row[name] for row in rows] for name in schema.names})


def read_sentences(folder: Path, lang: str, source: str | None) -> DividedSentences:
    """Return the sentences that `write_sentences` wrote, mapped.

    Args:
        folder: The folder that was written.
        lang: Their language.
        source: The name of their source in messages (None: that which was written).

    Raises:
        DataError: The folder does not have the pieces of the language.
    """
    texts = DividedTexts.mapped(folder / _COLUMN, lang)
    record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    tags_W, hashes = (map_array(folder, name) for name in ("tags", "fingerprints"))
    return DividedSentences(
        source or record["source"], texts, record["tags"], tags_W, hashes, record.get("left_out", 0)
    )
