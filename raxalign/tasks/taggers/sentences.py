"""Tagged sentences: read from a source, or as files with the pieces of their words."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from raxalign.arrays import Ints
from raxalign.corpora.text.dataset import DatasetWriter
from raxalign.corpora.text.sentences import cells, sentence_columns
from raxalign.encoders.models.flat_pieces import map_array, write_pieces
from raxalign.encoders.models.pieces import PieceRow
from raxalign.encoders.models.transformer import TransformerEncoder
from raxalign.lazy import np, pa
from raxalign.running import Sentence
from raxalign.tasks.transfer.lazy_lists import (
    ARRAYS,
    LazyList,
    PreparedTexts,
    compact_rows,
    prepared_rows,
)
from raxalign.tasks.transfer.rows import TaskRows

_RECORD, _COLUMN = "sentences.json", "words"
_CHUNK = 8192


@dataclass(frozen=True, slots=True)
class Tagged:
    """A sentence with one tag per word; `line` is where it begins (1-based line of the file, or
    row), and `running` has its words in the running text, where the file has it.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int
    running: Sentence | None = None
    id: ClassVar[None] = None

    def texts(self) -> tuple[str, ...]:
        """Return the text by which a copy is recognised."""
        return ("".join(self.words),)


@dataclass(frozen=True)
class TaggedSentences(TaskRows[Tagged]):
    """The tagged sentences of one language and split; `left_out` counts the rows of the source
    that had other numbers of words and of tags.
    """

    noun: ClassVar[str] = "sentences"

    def words(self) -> list[Sequence[str]]:
        """Return the words of every sentence, in their running text where it is known."""
        return [row.running or row.words for row in self.rows]

    def piece_rows(self, encoder: TransformerEncoder, lang: str) -> LazyList[PieceRow]:
        """Return the rows that an encoder reads."""
        return compact_rows(encoder, self.words(), lang)

    def tags(self) -> set[str]:
        """Return all tags that a word has."""
        return {tag for row in self.rows for tag in row.tags}

    def n_words(self) -> int:
        """Return the number of words."""
        return sum(len(row.words) for row in self.rows)

    def numbers(self, labels: Sequence[str]) -> Iterator[Ints]:
        """Yield the places of each sentence's tags among `labels`."""
        number = {label: i for i, label in enumerate(labels)}
        for row in self.rows:
            yield np.array([number[tag] for tag in row.tags], dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class PreparedSentences(TaggedSentences):
    """The sentences that a tagger is trained on, without their texts: their pieces, all tags by
    `names`, and the places of the words' tags among these, sentence after sentence.
    """

    pieces: PreparedTexts
    names: Sequence[str]
    tags_W: np.ndarray

    def __len__(self) -> int:
        return len(self.fingerprints())

    def piece_rows(self, encoder: TransformerEncoder, lang: str) -> LazyList[PieceRow]:  # noqa: ARG002
        """Return the rows that an encoder reads, by whose tokenizer the pieces were made."""
        return prepared_rows(encoder, [self.pieces])

    def tags(self) -> set[str]:
        """Return all tags that a word has."""
        return set(self.names)

    def n_words(self) -> int:
        """Return the number of words."""
        return len(self.tags_W)

    def numbers(self, labels: Sequence[str]) -> Iterator[Ints]:
        """Yield the places of each sentence's tags among `labels`."""
        place = np.array([labels.index(name) for name in self.names], np.int64)
        offsets = self.pieces.word_offsets
        for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            yield place[self.tags_W[start:stop]]


def write_sentences(
    rows: TaggedSentences, lang: str, tokenizer: Any, threads: int, folder: Path
) -> dict[str, Any]:
    """Write training sentences (see `Head.write_prepared`) as pieces and tags."""
    names = sorted(rows.tags())
    tags = [np.zeros(0, np.int64), *rows.numbers(names)]
    np.save(folder / "tags.npy", np.concatenate(tags).astype(np.int32))
    np.save(folder / "fingerprints.npy", rows.fingerprints())
    record = {"source": rows.source, "tags": names, "left_out": rows.left_out}
    record |= {"remarks": rows.remarks}
    (folder / _RECORD).write_text(json.dumps(record), encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="texts-", dir=folder) as work:
        schema, words = pa.schema(sentence_columns(_COLUMN)), rows.words()
        with DatasetWriter(Path(work), schema, {}) as writer:
            for start in range(0, len(words), _CHUNK):
                part = [cells(_COLUMN, sentence) for sentence in words[start : start + _CHUNK]]
                writer.write({name: [row[name] for row in part] for name in schema.names})
        return write_pieces(tokenizer, Path(work), {_COLUMN: lang}, threads, folder, ARRAYS)


def read_sentences(folder: Path, lang: str, source: str | None) -> PreparedSentences:
    """Return the sentences that `write_sentences` wrote, mapped (see `Head.read_prepared`)."""
    pieces = PreparedTexts.mapped(folder / _COLUMN, lang)
    record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    tags_W, hashes = (map_array(folder, name) for name in ("tags", "fingerprints"))
    return PreparedSentences(
        source or record["source"],
        (),
        record.get("left_out", 0),
        hashes,
        remarks=tuple(record.get("remarks", ())),
        pieces=pieces,
        names=record["tags"],
        tags_W=tags_W,
    )
