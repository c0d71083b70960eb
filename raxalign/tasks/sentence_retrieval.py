"""Sentence retrieval in the manner of Tatoeba in XTREME (Hu et al. 2020): is a sentence's
translation its nearest neighbour?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
import pyarrow as pa
from pydantic import Field

from raxalign.corpora.text.dataset import read_table
from raxalign.encoders.models.vectors import Layers, parse_layers
from raxalign.sample import Sample
from raxalign.similarity import nearest_neighbors
from raxalign.tasks.base import Outcome, Reads, Score, Task, TaskInputs, TaskNeeds
from raxalign.tasks.transfer.fingerprints import unit
from raxalign.tasks.transfer.outcome import means
from raxalign.tasks.vectors.accuracy import accuracy, mean_accuracy
from raxalign.tasks.vectors.linked_words import Bools, Ints
from raxalign.tasks.vectors.samples import directed

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime

Queries = Literal["both", "pivot", "other"]

_DIRECTIONS: Mapping[Queries, tuple[str, ...]] = {
    "both": ("to_pivot", "from_pivot"),
    "pivot": ("from_pivot",),
    "other": ("to_pivot",),
}
_SETTING = {
    "layers": "last",
    "pooling": "mean",
    "specials": "include",
    "measure": "cosine",
    "queries": "both",
}
_PROFILES: Mapping[str, Mapping[str, Any]] = {
    "none": _SETTING,
    "xtreme": {**_SETTING, "layers": "8", "queries": "pivot"},
}


@final
class SentenceRetrieval(Task):
    """Retrieval of translations among the held-out sentence pairs of the grid's own corpus, dev and
    test side, both directions.

    Candidates are all sentences of the other side. A sentence is found when its nearest neighbour
    is its translation, or a sentence of just the same words; one that has no vector (no word that
    the encoder reads) counts as not found. Metrics: `accuracy`, the mean of both directions, which
    are also given alone as `accuracy_to_pivot` and `accuracy_from_pivot`; `accuracy_pairs`, the
    number of sentence pairs; `accuracy_stderr`, the standard error of the mean. With `queries` of
    one side alone there is its direction alone.

    `profile: xtreme` is how XTREME scores Tatoeba with encoders of 12 blocks: the mean over all
    pieces after block 8, the cosine, and the pivot's sentences as queries. (XTREME calls it layer
    7: its script leaves out the embeddings and counts the blocks from 0. With 24 blocks it takes
    its layer 13, which is `layers: 14` here.)

    Reference: Hu et al. (2020, XTREME).
    """

    VERSION = 2
    accepts = frozenset({"transformer", "static"})
    main_metric = "accuracy"
    predicts = frozenset({"correct", "direction", "found_id", "id", "unit"})

    class Params(Task.Params):
        """`pooling: mean` is over all pieces, or without the special ones (`specials: exclude`),
        `cls` the first; of static vectors the mean of the words. `layers` are added up. `k` is the
        neighbourhood of CSLS. `queries` are the sentences of `both` sides in turn, of the `pivot`
        or of the `other` language. Options left at `none` take the profile's value; of the profile
        `none` these are `last`, `mean`, `include`, `cosine` and `both`.
        """

        profile: Literal["none", "xtreme"] = "none"
        layers: Layers | None = None
        pooling: Literal["cls", "mean"] | None = None
        specials: Literal["include", "exclude"] | None = None
        measure: Literal["cosine", "csls"] | None = None
        queries: Queries | None = None
        k: int = Field(10, ge=1)

    params: Params

    def needs(self) -> TaskNeeds:
        """The held-out sentences."""
        return TaskNeeds(bitext=True)

    def resolved(self) -> dict[str, Any]:
        """The params with the profile's values where none is given, without the profile's name."""
        given = self.params.identity()
        profile = _PROFILES[given.pop("profile")]
        return {name: profile[name] if value is None else value for name, value in given.items()}

    def reads(self, n_layers: int) -> Reads:
        """`layers`."""
        return Reads(frozenset(parse_layers(self.resolved()["layers"], n_layers)))

    def canonical(self) -> dict[str, object]:
        """The resolved params without `k` where no neighbourhood is looked at, and `specials` where
        only the first piece is read.
        """
        resolved = self.resolved()
        idle = ({"k"} if resolved["measure"] == "cosine" else set()) | (
            {"specials"} if resolved["pooling"] == "cls" else set()
        )
        return {name: value for name, value in resolved.items() if name not in idle}

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """The accuracies, a part per direction."""
        return directed(rows, metric)

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,  # noqa: ARG002
    ) -> Outcome:
        """Retrieval on the dev and the test side of every language."""
        scores: list[Score] = []
        tables: list[pa.Table] = []
        notes: dict[str, dict[str, object]] = {}
        for lang in languages:
            label = f"{lang}-{inputs.pivot}"
            for split, folder in (
                ("dev", inputs.bitext[lang] / "dev"),
                ("test", inputs.bitext[lang] / "data"),
            ):
                if not folder.is_dir():
                    continue
                answers, counts = self._answer(
                    aligned.toward(lang), _Pairs.read(folder), lang, inputs.pivot
                )
                scores += [
                    Score(label, metric, split, value)
                    for metric, value in answers.metrics().items()
                ]
                tables.append(answers.table(label, split))
                notes.setdefault(label, {})[split] = counts
        scores += means(scores, metrics=["accuracy"]) if len(languages) > 1 else []
        return Outcome(scores, pa.concat_tables(tables) if tables else _SCHEMA.empty_table(), notes)

    def _answer(
        self, aligned: AlignedEncoder, pairs: _Pairs, lang: str, pivot: str
    ) -> tuple[_Answers, dict[str, object]]:
        from raxalign.tasks.vectors.sentences import sentence_vectors

        params = self.resolved()
        how: dict[str, Any] = {
            "layers": params["layers"],
            "pooling": params["pooling"],
            "specials": params["specials"] == "include",
        }
        (src, src_read), (tgt, tgt_read) = (
            sentence_vectors(aligned, sentences, code, **how)
            for sentences, code in ((pairs.src, lang), (pairs.tgt, pivot))
        )
        ahead = back = np.zeros(0, np.int64)
        if len(pairs.ids):
            ahead, back = (
                found.cpu().numpy()
                for found in nearest_neighbors(src, tgt, measure=params["measure"], k=params["k"])
            )
        counts: dict[str, object] = {
            "sentences": len(pairs.ids),
            "unread_src": int((~src_read).sum()),
            "unread_tgt": int((~tgt_read).sum()),
        }
        return (
            _Answers(pairs, ahead, back, src_read & tgt_read, _DIRECTIONS[params["queries"]]),
            counts,
        )


@dataclass(frozen=True)
class _Pairs:
    """Sentence pairs, as words."""

    ids: Ints
    src: Sequence[Sequence[str]]
    tgt: Sequence[Sequence[str]]

    @classmethod
    def read(cls, folder: Path) -> _Pairs:
        table = read_table(folder)
        return cls(
            np.asarray(table["id"], dtype=np.int64),
            table["src"].to_pylist(),
            table["tgt"].to_pylist(),
        )


@dataclass(frozen=True)
class _Answers:
    """The row found for each row, in both directions; `read`: both sentences have vectors; `asked`
    are the directions that count.
    """

    pairs: _Pairs
    to_pivot: Ints
    from_pivot: Ints
    read: Bools
    asked: Sequence[str]

    def directions(self) -> Iterator[tuple[str, Ints, Bools]]:
        """(direction, rows found, which are right)."""
        found_in = {
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
        """Values by metric; none where there are no pairs."""
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
        """Makes one row per sentence pair and direction; `unit` is the same wherever the pivot's
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
                    schema=_SCHEMA,
                )
            )
        return pa.concat_tables(parts)


_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("lang", "split", "direction")),
        *((name, pa.int64()) for name in ("id", "unit", "found_id")),
        ("correct", pa.bool_()),
    ]
)
