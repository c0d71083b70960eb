"""The head of answers: how questions are read, the model of spans, and its scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import nn

from raxalign.arrays import Ints, offsets_of
from raxalign.corpora.readers.inspection import FileRead, Remark, Report, read_through, refuse
from raxalign.encoders.models.pieces import token_batches
from raxalign.encoders.models.rows import Packed, RowSource
from raxalign.encoders.models.transformer import evaluating
from raxalign.errors import DataError
from raxalign.lazy import pa
from raxalign.tasks.answers.rows import Questions, WindowRows, Windows
from raxalign.tasks.base import TaskInputs
from raxalign.tasks.transfer.head import Batches, FineTuned, Head, HeldOut
from raxalign.tasks.transfer.params import HubSet, Split
from raxalign.train.devices import on_device
from raxalign.train.group import shared

_Span = tuple[float, int, int]
"""(score, first, last): a span of pieces of a context."""


@dataclass(frozen=True)
class SpanRows:
    """Rows as the encoder reads them, the places of their pieces, and which there are."""

    layout: Packed
    places_BT: np.ndarray
    there_BT: np.ndarray


class SpanModel(FineTuned):
    """Transforms apply by the language of each piece: the question's or the context's."""

    def lay_out(self, rows: RowSource, chosen: np.ndarray | None = None) -> SpanRows:
        """Some rows as the model reads them. The device has no part in it."""
        found = self.packed(rows.take(chosen))
        places_T = np.arange(int(found.lengths_S.max(initial=0)))
        there_BT = places_T < found.lengths_S[:, None]
        return SpanRows(found, found.starts_S[:, None] + np.where(there_BT, places_T, 0), there_BT)

    def logits(self, rows: SpanRows) -> torch.Tensor:
        """Logits (rows, pieces, 2) of starts and ends, -inf at padding, with gradient."""
        logits_F2: torch.Tensor = self.head(self.dropout(self.aligned.packed_hidden(rows.layout)))
        places_BT, there_BT = (
            on_device(part, logits_F2.device) for part in (rows.places_BT, rows.there_BT)
        )
        return logits_F2[places_BT].masked_fill(~there_BT[..., None], -torch.inf)

    def loss(self, rows: SpanRows, targets: np.ndarray) -> torch.Tensor:
        """Return the loss of windows, whose answers have these first and last positions."""
        logits = self.logits(rows)
        return span_loss(logits, on_device(targets, logits.device))

    @torch.no_grad()
    def answers(self, windows: Windows, longest: int) -> list[str]:
        """The best span over all windows of each question, as the context's own characters."""

        def of_batch(chosen: np.ndarray) -> list[_Span | None]:
            logits_BT2 = self(windows.windows.rows, chosen).float().cpu().numpy()
            places = zip(begins[chosen].tolist(), cuts_S3[chosen].tolist(), logits_BT2, strict=True)
            return [_best_of(begin, cut, logits, longest) for begin, cut, logits in places]

        begins, cuts_S3 = windows.windows.begins(), windows.windows.cuts_S5[:, :3]
        best: list[_Span | None] = [None] * len(windows.questions)
        batches = token_batches(windows.windows.rows.lengths, self.encoder.batch_tokens)
        with evaluating(self):
            for chosen, spans in shared(batches, of_batch):
                for i, span in zip(chosen, spans, strict=True):
                    question = int(cuts_S3[i, 0])
                    known = best[question]
                    # of equals the first in the context
                    if span and (known is None or (span[0], -span[1]) > (known[0], -known[1])):
                        best[question] = span
        return [windows.text(number, *span[1:]) if span else "" for number, span in enumerate(best)]


def _best_of(begin: int, cut: list[int], logits_T2: np.ndarray, longest: int) -> _Span | None:
    """The best span of a window by the logits (T, 2) of a row in which the context begins at
    `begin`; None without a piece of the context.
    """
    _, start, size = cut
    if size == 0:
        return None
    inside = logits_T2[begin : begin + size]
    score, first, last = best_span(inside[:, 0], inside[:, 1], longest)
    return score, start + first, start + last


def best_span(starts: np.ndarray, ends: np.ndarray, longest: int) -> tuple[float, int, int]:
    """(score, first, last): the span of 1 to `longest` pieces with the largest sum of its start's
    and its end's logit, over all spans.

    Of equals the first one, then the shortest. `starts` and `ends` are (n,), n at least 1.

    >>> best_span(np.array([0.0, 5.0, 1.0]), np.array([4.0, 0.0, 3.0]), 2)
    (8.0, 1, 2)
    >>> best_span(np.array([3.0, 2.0, 0.0]), np.array([0.0, 0.0, 4.0]), 2)
    (6.0, 1, 2)
    """
    padded = np.concatenate([ends, np.full(longest - 1, -np.inf, dtype=ends.dtype)])
    sums = starts[:, None] + np.lib.stride_tricks.sliding_window_view(padded, longest)
    first, more = divmod(int(sums.argmax()), longest)
    return float(sums[first, more]), first, first + more


def _counted(given: Mapping[str, Questions], why: str) -> dict[str, int]:
    """How many questions of each language are left out for a reason, where there are any."""
    return {lang: n for lang, rows in given.items() if (n := rows.left_out[why])}


def span_loss(logits_BT2: torch.Tensor, targets_B2: torch.Tensor) -> torch.Tensor:
    """The sum over rows of the mean of the cross-entropies of start and end over their pieces."""
    # The pieces are the classes, both logits the positions.
    return nn.functional.cross_entropy(logits_BT2, targets_B2, reduction="sum") / 2


class SpanHead(Head):
    """Questions, a model that answers them, and its answers as texts."""

    rows = Questions
    distinct = False
    model, n_outputs = SpanModel, 2  # a logit of starts and one of ends

    def __init__(self, task: Any, inputs: TaskInputs) -> None:
        super().__init__(task, inputs)
        self.crosses = task.params.setting == "g-xlt"
        self.sizes = task.sizes

    def _named(self, split: Split) -> bool:
        """Whether each question has to have an id of its own: training needs none but to find a
        question in another language.
        """
        return split != "train" or self.task.mixing != "none"

    def read_local(self, split: Split, lang: str, report: Report = refuse) -> Questions:
        """Read a local file."""
        return Questions.of_file(self.data.path(split, lang), report, named=self._named(split))

    def read_hub(self, found: HubSet, split: Split) -> Questions:
        """Read a split of a data set of the hub."""
        name = split if split == "train" else getattr(self.task.sets, split)
        return Questions.of_hub(found, name, self.inputs.downloads, named=self._named(split))

    def read_phrasebook(self, split: Split, lang: str, source: str) -> Questions:
        """Read questions of the phrasebook."""
        n: int = self.params.identity()["phrasebook"][split]
        return Questions.of_phrasebook(n, lang, split, source)

    def check(self, rows: Questions, *, trained: bool) -> Questions:
        """Return the questions; to train on, those with an answer that stands where it says."""
        return rows.answered() if trained else rows.scored()

    def evaluated(self, languages: Sequence[str], trained: Ints) -> list[HeldOut]:
        """Return each language, or with `g-xlt` each pair (question, then context), split by
        split.
        """
        if not self.crosses:
            held_out = self.data.held_out(languages, trained)
            return sorted(held_out, key=lambda held: held.split)
        read = self.data.evaluated(languages)
        found = []
        for split in self.data.names():
            there = [lang for lang in languages if (lang, split) in read]
            for asked, told in ((asked, told) for asked in there for told in there):
                rows = read[asked, split]
                if asked != told:
                    rows = rows.crossed(read[told, split])
                seen = rows.seen_in(trained)
                found.append(HeldOut(f"{asked}-{told}", split, rows, seen, (asked, told)))
        return found

    def compare(
        self,
        trained: Sequence[str],  # noqa: ARG002
        read: Mapping[tuple[Split, str], Questions],
    ) -> Iterator[FileRead]:
        """Compare the ids of each language's questions with those of all others."""
        for (split, lang), own in read.items():

            def shared(report: Report, split: Split = split, own: Questions = own) -> int:
                apart = [
                    f"{n:,} with {other_lang}"
                    for (other_split, other_lang), other in read.items()
                    if other_split == split
                    and (n := own.crossed(other).left_out[Questions.NOT_IN_BOTH])
                ]
                if apart:
                    told = f"questions {Questions.NOT_IN_BOTH} are left out: {', '.join(apart)}"
                    report(Remark(own.source, told))
                return 0

            yield read_through(self.data.path(split, lang), shared)

    def batches(self, model: SpanModel, given: Mapping[str, Questions]) -> Batches:
        """Return the training questions as the model reads them."""
        parts, members = list[WindowRows](), list[list[int]]()
        for lang, questions in given.items():
            begin = sum(map(len, parts))
            if lang != self.pivot and self.task.mixing != "none":
                both = (lang, questions), (self.pivot, given[self.pivot])
                mixes, units = self._mixed(model, *both)
                parts += mixes
            else:
                parts.append(questions.training_windows(model.encoder, lang, self.sizes))
                units = [[number] for number in range(len(parts[-1]))]
            members += [[begin + number for number in unit] for unit in units]
        rows, targets = RowSource.join([p.rows for p in parts]), [p.cuts_S5[:, 3:] for p in parts]
        gold = np.concatenate(targets).astype(np.int64)
        of_units = np.array([number for unit in members for number in unit], np.int64)
        offsets = offsets_of([len(unit) for unit in members])
        answered_windows = sum(part.answered() for part in parts)
        counts = {"windows": len(rows), "windows_with_answer": answered_windows}
        counts["questions_unanswered"] = sum(part.unanswered() for part in parts)
        return Batches(model, rows, gold, of_units, offsets, counts)

    def _mixed(
        self, model: SpanModel, own: tuple[str, Questions], pivot: tuple[str, Questions]
    ) -> tuple[list[WindowRows], list[list[int]]]:
        """Make the two mixes of each question of a language (Pan et al. 2021, 3.3); return their
        windows, and the numbers of those that go together, counted on through both mixes.
        """
        rows, source = own[1].rows, pivot[1].source
        missing = {str(row.id) for row in rows} - {str(row.id) for row in pivot[1].rows}
        if missing:
            told = f"{len(missing)} of {len(rows)} questions are not in {source}, as {min(missing)}"
            remedy = (
                "Sentence-level code-switching needs translations of the pivot's questions, under"
                " their ids"
            )
            raise DataError(own[1].source, told, remedy=remedy)
        units: dict[str | None, tuple[list[int], list[int]]] = {row.id: ([], []) for row in rows}
        mixes = list[WindowRows]()
        for place, ((lang, asked), (other, there)) in enumerate([(own, pivot), (pivot, own)]):
            questions, begin = asked.crossed(there), sum(map(len, mixes))
            windows = questions.windows(model.encoder, (lang, other), self.sizes).windows
            mixes.append(windows)
            for number, question in enumerate(windows.cuts_S5[:, 0].tolist(), begin):
                units[questions.rows[question].id][place].append(number)
        return mixes, [
            [number for number in pair if number is not None]
            for both in units.values()
            for pair in zip_longest(*both)
        ]

    def notes_of_training(
        self, given: Mapping[str, Questions], counts: Sequence[Mapping[str, int]]
    ) -> dict[str, object]:
        """Return the numbers of questions that are trained on, and of those that are not."""
        return {
            "rows": {lang: len(rows) for lang, rows in given.items()},
            "misplaced": _counted(given, Questions.MISPLACED),
            "unanswerable": _counted(given, Questions.UNANSWERED),
            **counts[-1],
        }

    def inputs_of(self, model: SpanModel, held: HeldOut) -> Windows:
        """Return held-out questions as the model reads them."""
        windows: Windows = held.rows.windows(model.encoder, held.langs, self.sizes)
        windows.report_long(held.label, self.sizes.answer)
        return windows

    def predict(self, model: SpanModel, inputs: Windows) -> list[str]:
        """Return the answers."""
        return model.answers(inputs, self.sizes.answer)

    def measure(self, held: HeldOut, predicted: Sequence[str]) -> dict[str, float]:
        """Return F1 and exact match, by the task's rules."""
        found = self._values(held, predicted, self.task.rules)
        return {metric: float(np.mean(values)) for metric, values in found.items()}

    def choosing_score(self, held: HeldOut, predicted: Sequence[str]) -> float:
        """Return F1 by MLQA's rules, so that evaluations by other rules share the training."""
        return float(np.mean(self._values(held, predicted, "mlqa")["f1"]))

    def columns(self, held: HeldOut, predicted: Sequence[str]) -> dict[str, Any]:
        """Return what was answered, the first gold answer, and the metrics over all gold answers.
        The column `context` numbers the contexts of a set: questions on one context are not
        independent.
        """
        rows, n = held.rows.rows, len(held.rows)
        texts = {
            "question_lang": [held.langs[0]] * n,
            "context_lang": [held.langs[1]] * n,
            "answer": [row.answers[0].text for row in rows],
            "prediction": list(predicted),
        }
        found = self._values(held, predicted, self.task.rules)
        return {
            "id": pa.array([row.id for row in rows], pa.string()),
            "context": pa.array([row.context_number for row in rows], pa.int64()),
            **{name: pa.array(column, pa.string()) for name, column in texts.items()},
            **{metric: pa.array(values, pa.float64()) for metric, values in found.items()},
        }

    def notes(self, held_out: Sequence[HeldOut], chosen: Mapping[str, object]) -> dict[str, object]:
        """Return the notes of an evaluation."""
        notes = {**super().notes(held_out, chosen), "rules": self.task.rules}
        if self.crosses:
            notes["not_in_both"] = HeldOut.noted(
                held_out, lambda held: held.rows.left_out[Questions.NOT_IN_BOTH]
            )
        return notes

    def _values(self, held: HeldOut, answers: Sequence[str], rules: str) -> dict[str, list[float]]:
        """The metrics of each answer, the best over all gold answers."""
        golds = [[answer.text for answer in row.answers] for row in held.rows.rows]
        found: dict[str, list[float]] = self.task.compared(answers, golds, held.langs[1], rules)
        return found
