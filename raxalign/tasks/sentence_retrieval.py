"""Sentence retrieval in the manner of Tatoeba in XTREME (Hu et al. 2020): is a sentence's translation its nearest neighbour?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

import numpy as np
import pyarrow as pa
from pydantic import Field

from raxalign.corpora._dataset import read_table
from raxalign.encoders.base import Layers, parse_layers
from raxalign.similarity import nearest_neighbors
from raxalign.tasks._accuracy import accuracy, mean_accuracy
from raxalign.tasks._linked_words import Bools, Ints
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs, TaskNeeds

if TYPE_CHECKING:
    from raxalign.encoders._aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime


@final
class SentenceRetrieval(Task):
    """Retrieval of translations among the held-out sentence pairs of the grid's own corpus, dev and test side, both directions.

    Candidates are all sentences of the other side. A sentence is found when its nearest neighbour is its translation, or a sentence of just the
    same words; one that has no vector (no word that the encoder reads) counts as not found. Metrics: `accuracy`, the mean of
    both directions, which are also given alone as `accuracy_to_pivot` and `accuracy_from_pivot`; `accuracy_pairs`, the number of sentence pairs;
    `accuracy_stderr`, the standard error of the mean.
    """

    VERSION = 1
    accepts = frozenset({"transformer", "static"})
    main_metric = "accuracy"

    class Params(Task.Params):
        """`pooling: mean` is over all pieces, or without the special ones (`specials: exclude`), `cls` the first; of static vectors the mean of
        the words. `layers` are added up: XTREME takes layer 7 of 12 (`layers: 7`), and `measure: cosine`; `k` is the neighbourhood of CSLS.
        """

        layers: Layers = "last"
        pooling: Literal["cls", "mean"] = "mean"
        specials: Literal["include", "exclude"] = "include"
        measure: Literal["cosine", "csls"] = "cosine"
        k: int = Field(10, ge=1)

    params: Params

    def needs(self) -> TaskNeeds:
        """The held-out sentences."""
        return TaskNeeds(bitext=True)

    def reads(self, n_layers: int) -> Reads:
        """`layers`."""
        return Reads(frozenset(parse_layers(self.params.layers, n_layers)))

    def canonical(self) -> dict[str, object]:
        """Without `k` where no neighbourhood is looked at, and `specials` where only the first piece is read."""
        idle = ({"k"} if self.params.measure == "cosine" else set()) | ({"specials"} if self.params.pooling == "cls" else set())
        return {name: value for name, value in self.params.identity().items() if name not in idle}

    def evaluate(self, aligned: AlignedEncoder, languages: tuple[str, ...], inputs: TaskInputs, runtime: Runtime, trained: Path | None) -> Outcome:  # noqa: ARG002
        """Retrieval on the dev and the test side of every language."""
        scores: list[Score] = []
        tables: list[pa.Table] = []
        notes: dict[str, dict[str, object]] = {}
        for lang in languages:
            label = f"{lang}-{inputs.pivot}"
            for split, folder in (("dev", inputs.bitext[lang] / "dev"), ("test", inputs.bitext[lang] / "data")):
                if not folder.is_dir():
                    continue
                answers, counts = self._answer(aligned.toward(lang), _Pairs.read(folder), lang, inputs.pivot)
                scores += [Score(label, metric, split, value) for metric, value in answers.metrics().items()]
                tables.append(answers.table(label, split))
                notes.setdefault(label, {})[split] = counts
        scores += _averages(scores) if len(languages) > 1 else []
        return Outcome(scores, pa.concat_tables(tables) if tables else _SCHEMA.empty_table(), notes)

    def _answer(self, aligned: AlignedEncoder, pairs: _Pairs, lang: str, pivot: str) -> tuple[_Answers, dict[str, object]]:
        from raxalign.tasks._sentence_vectors import sentence_vectors

        params = self.params
        (src, src_read), (tgt, tgt_read) = (
            sentence_vectors(aligned, sentences, code, layers=params.layers, pooling=params.pooling, specials=params.specials == "include")
            for sentences, code in ((pairs.src, lang), (pairs.tgt, pivot))
        )
        ahead = back = np.zeros(0, np.int64)
        if len(pairs.ids):
            ahead, back = (found.cpu().numpy() for found in nearest_neighbors(src, tgt, measure=params.measure, k=params.k))
        counts: dict[str, object] = {"sentences": len(pairs.ids), "unread_src": int((~src_read).sum()), "unread_tgt": int((~tgt_read).sum())}
        return _Answers(pairs, ahead, back, src_read & tgt_read), counts


@dataclass(frozen=True)
class _Pairs:
    """Sentence pairs, as words."""

    ids: Ints
    src: Sequence[Sequence[str]]
    tgt: Sequence[Sequence[str]]

    @classmethod
    def read(cls, folder: Path) -> _Pairs:
        table = read_table(folder)
        return cls(np.asarray(table["id"], dtype=np.int64), table["src"].to_pylist(), table["tgt"].to_pylist())


@dataclass(frozen=True)
class _Answers:
    """The row found for each row, in both directions; `read`: both sentences have vectors."""

    pairs: _Pairs
    to_pivot: Ints
    from_pivot: Ints
    read: Bools

    def directions(self) -> Iterator[tuple[str, Ints, Bools]]:
        """(direction, rows found, which are right)."""
        for direction, found, side in (("to_pivot", self.to_pivot, self.pairs.tgt), ("from_pivot", self.from_pivot, self.pairs.src)):
            right = [place == row or side[place] == side[row] for row, place in enumerate(found.tolist())]
            yield direction, found, np.array(right, dtype=np.bool_) & self.read

    def metrics(self) -> dict[str, float]:
        """Values by metric; none where there are no pairs."""
        if not len(self.pairs.ids):
            return {}
        rows = np.arange(len(self.pairs.ids))
        right = {direction: correct for direction, _, correct in self.directions()}
        value, error = mean_accuracy([(correct, rows) for correct in right.values()])
        values = {"accuracy": value, **{f"accuracy_{direction}": accuracy(correct) for direction, correct in right.items()}}
        return {**values, "accuracy_pairs": float(len(rows)), **({} if error is None else {"accuracy_stderr": error})}

    def table(self, label: str, split: str) -> pa.Table:
        """A row for every sentence pair and direction."""
        ids = self.pairs.ids
        parts = []
        for direction, found, correct in self.directions():
            fixed = {"lang": [label] * len(ids), "split": [split] * len(ids), "direction": [direction] * len(ids)}
            parts.append(pa.table({**fixed, "id": ids, "found_id": ids[found], "correct": correct}, schema=_SCHEMA))
        return pa.concat_tables(parts)


_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("lang", "split", "direction")),
        ("id", pa.int64()),
        ("found_id", pa.int64()),
        ("correct", pa.bool_()),
    ]
)


def _averages(scores: Sequence[Score]) -> Iterator[Score]:
    """The mean over language pairs of the accuracy, where all of them have one."""
    languages = {score.lang for score in scores}
    for split in ("dev", "test"):
        values = [score.value for score in scores if (score.split, score.metric) == (split, "accuracy")]
        if len(values) == len(languages):
            yield Score("avg", "accuracy", split, float(np.mean(values)))
