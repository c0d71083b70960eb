"""The sentences that sentence retrieval finds: held-out pairs, answers, predictions and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from raxalign.corpora.text.dataset import read_table
from raxalign.corpora.text.sentences import read_sentences
from raxalign.measured import count, share, standard_error
from raxalign.tasks.transfer.fingerprints import unit
from raxalign.tasks.vectors.accuracy import (
    SearchDirection,
    accuracy,
    mean_accuracy,
    with_directions,
)
from raxalign.tasks.vectors.linked_words import Bools, Ints


@dataclass(frozen=True)
class SentencePairs:
    """Sentence pairs, as words."""

    ids: Ints
    src: Sequence[Sequence[str]]
    tgt: Sequence[Sequence[str]]

    @classmethod
    def read(cls, folder: Path) -> SentencePairs:
        """Read a dataset of sentence pairs."""
        table = read_table(folder)
        return cls(
            np.asarray(table["id"], dtype=np.int64),
            read_sentences(table, "src"),
            read_sentences(table, "tgt"),
        )


@dataclass(frozen=True)
class FoundSentences:
    """The row found for each row, in both directions; `read` marks pairs both of whose sentences
    have vectors, `asked` are the directions that count.
    """

    pairs: SentencePairs
    to_pivot: Ints
    from_pivot: Ints
    read: Bools
    asked: Sequence[SearchDirection]

    def directions(self) -> Iterator[tuple[SearchDirection, Ints, Bools]]:
        """Yield (direction, rows found, which are right)."""
        found_in: dict[SearchDirection, tuple[Ints, Sequence[Sequence[str]]]] = {
            "to_pivot": (self.to_pivot, self.pairs.tgt),
            "from_pivot": (self.from_pivot, self.pairs.src),
        }
        for direction in self.asked:
            found, side = found_in[direction]
            right = [
                place == row or side[place] == side[row] for row, place in enumerate(found.tolist())
            ]
            yield direction, found, np.array(right, dtype=np.bool_) & self.read

    def metrics(self) -> dict[str, float]:
        """Return values by metric; none where there are no pairs."""
        if not len(self.pairs.ids):
            return {}
        rows = np.arange(len(self.pairs.ids))
        right = {direction: correct for direction, _, correct in self.directions()}
        value, error = mean_accuracy([(correct, rows) for correct in right.values()])
        values = {
            "accuracy": value,
            **{f"accuracy_{direction}": accuracy(correct) for direction, correct in right.items()},
        }
        return {
            **values,
            "accuracy_pairs": float(len(rows)),
            **({} if error is None else {"accuracy_stderr": error}),
        }

    def table(self, label: str, split: str) -> pa.Table:
        """Make one row per sentence pair and direction; `unit` is the same wherever the pivot's
        sentence is.
        """
        ids = self.pairs.ids
        units = np.array([unit(sentence) for sentence in self.pairs.tgt], dtype=np.int64)
        parts = []
        for direction, found, correct in self.directions():
            fixed = {
                "lang": [label] * len(ids),
                "split": [split] * len(ids),
                "direction": [direction] * len(ids),
            }
            parts.append(
                pa.table(
                    {**fixed, "id": ids, "unit": units, "found_id": ids[found], "correct": correct},
                    schema=predictions_schema(),
                )
            )
        return pa.concat_tables(parts)


def predictions_schema() -> pa.Schema:
    """Return the columns of the predictions."""
    return pa.schema(
        [
            *((name, pa.string()) for name in ("lang", "split", "direction")),
            *((name, pa.int64()) for name in ("id", "unit", "found_id")),
            ("correct", pa.bool_()),
        ]
    )


MEASURED = (
    *with_directions(
        share(
            "accuracy",
            "Share of sentences whose nearest neighbour is their translation, the mean of the"
            " directions that `queries` names.",
        )
    ),
    count("accuracy_pairs", "Number of sentence pairs."),
    standard_error("accuracy_stderr", "Standard error of the accuracy, by sentence pair."),
)
"""What sentence retrieval reports."""
